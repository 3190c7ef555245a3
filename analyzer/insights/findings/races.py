"""Findings about unordered accesses of the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import BEFORE, DURING, WRITERS
from tailrace.analyzer.insights.early_reads import EarlyRead
from tailrace.analyzer.insights.finding import NOTE, ORDER, RACE, Match, Rule, more, rows_of
from tailrace.analyzer.insights.shared_scratch import of_pair
from tailrace.analyzer.model.declared_vs_observed import WORKFLOW_OF
from tailrace.analyzer.model.order import NONE
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Row

Words = Callable[[str, str, str, str, bool], str]
"""(first task, second task, path, bytes, whether they overlapped in time) -> the sentence."""

RACE_SOURCE = "Lamport 1978 (happens-before); POSIX.1-2017, write(), rationale: concurrent writes are not specified"
RACE_QUERY = "tailrace query {run} --path {path} --columns ts,dur,name,dir,task,host,pid,offset,size,flags"


EARLY = (
    "Declare the dependency: what was written later is missing from the reader's result. Where the reader itself waits"
    " for the file, write it to a temporary name, and rename it when it is complete."
)
"""What to do about an early read (early_reads.py)."""


SCRATCH = (
    "Give each task a file of its own (mktemp, or the task's name in the path). Each makes it anew, so declaring a"
    " dependency would only run them one after the other."
)
"""What to do about a file that several tasks write anew and read (shared_scratch.py)."""


def conflict_matches(found: Analyses, kind: str, words: Words) -> Iterator[Match]:
    """One match for all conflicts of a kind that overlapped, or could have, and one for those at scratch files that
    tasks share; each tells of the largest."""
    rows = found.conflicts.rows
    rows = rows[(rows["kind"] == kind) & ~(rows["in_time"] | rows["ranks"]).astype(bool)]
    ends = zip(rows["first"].tolist(), rows["second"].tolist(), rows["path"].tolist(), strict=True)
    shared = np.array([of_pair(found.shared_scratch, *end) is not None for end in ends], dtype=np.bool_)

    def title(top: Row) -> str:
        amount = bytes_text(int(top["bytes"]))
        return words(str(top["first"]), str(top["second"]), str(top["path"]), amount, bool(top["overlap"]))

    yield from of_rows(found, rows[shared], title, SCRATCH)
    yield from _other_conflicts(found, kind, rows[~shared], title)


def _other_conflicts(found: Analyses, kind: str, rows: pd.DataFrame, title: Callable[[Row], str]) -> Iterator[Match]:
    """It tells of early reads where there are any, else by the title. Early reads that are undeclared dependencies are
    told as such."""
    early = {read[:3]: read for read in found.early_reads} if len(rows) and kind != WRITERS else {}
    told = undeclared_pairs(found) if early else set()
    keys = list(zip(*(rows[name].tolist() for name in ("first", "second", "file")), strict=True))
    places = [at for at, key in enumerate(keys) if key not in early or key[:2] not in told]
    if kind == BEFORE:
        places.sort(key=lambda at: keys[at] not in early)
    read = early.get(keys[places[0]]) if kind == BEFORE and places else None

    if read is None:
        yield from of_rows(found, rows.iloc[places], title)
    else:
        told_of = f"{early_words(found, read)}, and nothing orders the two"
        yield from of_rows(found, rows.iloc[places], lambda _: told_of, EARLY)


def undeclared_pairs(found: Analyses) -> set[tuple[int, int]]:
    """(consumer, producer) of the undeclared dependencies that nothing orders."""
    rows = found.declared.undeclared
    return set(pairs_of(found, rows[rows["order"] == NONE])) if len(rows) else set()


def pairs_of(found: Analyses, rows: pd.DataFrame) -> list[tuple[int, int]]:
    """(consumer, producer) of rows of `compare_declared`, as tasks; -1: without events."""
    place = found.inputs.order.place
    names = (zip(rows[WORKFLOW_OF[end]], rows[end], strict=True) for end in ("consumer", "producer"))
    ends = ([place.get((str(workflow), str(task)), -1) for workflow, task in of] for of in names)
    return list(zip(*ends, strict=True))


def early_words(found: Analyses, read: EarlyRead) -> str:
    """What was read of a file that its writer had not completed."""
    inputs, amounts = found.inputs, map(bytes_text, (read.read_bytes, read.of_bytes))
    reader, writer = (inputs.called(task) for task in (read.reader, read.writer))
    return (
        f"{reader} read the first {' of '.join(amounts)} of {inputs.m.paths[read.file]} while {writer} still wrote it"
    )


def of_rows(found: Analyses, rows: pd.DataFrame, title: Callable[[Row], str], advice: str = "") -> Iterator[Match]:
    """One match for rows of `Conflicts.rows`. title: of the first one, as `with_names` has it; advice: as in
    `Match`."""
    if len(rows) == 0:
        return
    named = with_names(found, rows)
    top: Row = named.iloc[0].to_dict()
    yield Match(
        title=title(top) + more(len(rows)),
        advice=advice,
        names={"path": str(top["path"])},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(named),
        tasks={*rows["first"], *rows["second"]},
    )


def with_names(found: Analyses, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `Conflicts.rows` as evidence: tasks by name, times in s of the run."""
    inputs = found.inputs
    named: pd.DataFrame = rows.drop(columns=["file", "first_ns", "second_ns", "in_time", "ranks"])
    for end in ("first", "second"):
        named[end] = [inputs.called(int(task)) for task in rows[end]]
    for end in ("first", "second"):
        named[f"{end}_began_s"] = (rows[f"{end}_ns"] - inputs.start_ns) / 1e9
    return named


def two_writers(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return conflict_matches(found, WRITERS, _two_writers_words)


def _two_writers_words(first: str, second: str, path: str, amount: str, overlap: bool) -> str:
    when = "at the same time" if overlap else "one after the other"
    return f"{first} and {second} wrote the same {amount} of {path} {when}, and nothing orders them"


TWO_WRITERS = Rule(
    kind=WRITERS,
    about=RACE,
    title="Unordered writes of the same bytes",
    definition=(
        "Two tasks wrote the same bytes of a file and nothing orders them. Which of the two stays depends on the"
        " schedule, also where they ran one after the other in this run. Writes that each lie in a hold of the same"
        " lock (fcntl, flock, a lock file) are kept apart by it. A file that both have open to append, or from a common"
        " ancestor, as a log that is their standard output, is none of these: the kernel gives each write bytes of its"
        " own. Where several tasks of a stage each write the file anew before they read it, it is their scratch file:"
        " each needs one of its own."
    ),
    advice="Write to separate files or byte ranges, lock them, or declare which of the two comes first.",
    source=RACE_SOURCE,
    query=RACE_QUERY,
    find=two_writers,
    absence=True,
)


def read_before_write(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return conflict_matches(found, BEFORE, _read_before_write_words)


def _read_before_write_words(reader: str, writer: str, path: str, amount: str, overlap: bool) -> str:
    return f"{reader} read {path} before {writer} wrote {amount} there, and nothing orders the two"


READ_BEFORE_WRITE = Rule(
    kind=BEFORE,
    about=RACE,
    title="A read before an unordered write of the same bytes",
    definition=(
        "A task had read bytes of a file, or found the end of one that another task wrote, before that other task wrote"
        " them or cut them off, and nothing orders the two. With another schedule the read would have returned other"
        " bytes. Of a task that read the first bytes of a file that another one wrote in order, it says of how many;"
        " where a manager declared the tasks, that is an undeclared dependency."
    ),
    advice="Declare which of the two comes first, or give the two states of the file different names.",
    source=RACE_SOURCE,
    query=RACE_QUERY,
    find=read_before_write,
    absence=True,
)


def read_during_write(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return conflict_matches(found, DURING, _read_during_write_words)


def _read_during_write_words(reader: str, writer: str, path: str, amount: str, overlap: bool) -> str:
    return f"{reader} read {amount} of {path} while {writer} wrote the same bytes"


READ_DURING_WRITE = Rule(
    kind=DURING,
    about=RACE,
    title="A read during a write of the same bytes",
    definition=(
        "A task read bytes of a file while another task wrote them or cut them off, and no fork, exit, wait, pipe or"
        " declared dependency orders the two. What the read returned depends on the moment."
    ),
    advice="Declare the dependency, or write to a temporary name and rename the file when it is complete.",
    source=RACE_SOURCE,
    query=RACE_QUERY,
    find=read_during_write,
    absence=True,
)


def conflicts_in_order(found: Analyses) -> Iterator[Match]:
    """All such conflicts, as one match."""
    rows = found.conflicts.rows
    return of_rows(found, rows[rows["in_time"].astype(bool) & ~rows["ranks"].astype(bool)], _conflicts_in_order_title)


def _conflicts_in_order_title(top: Row) -> str:
    amount, path = bytes_text(int(top["bytes"])), str(top["path"])
    did = (
        "and {second} wrote the same {amount} of {path}"
        if top["kind"] == WRITERS
        else ("read {amount} of {path} that {second} wrote later")
    )
    words = did.format(second=top["second"], amount=amount, path=path)
    return f"{top['first']} {words}; in order this time: one was submitted after the other had ended"


CONFLICTS_IN_ORDER = Rule(
    kind="same bytes, in order this time",
    about=ORDER,
    title="Accesses of the same bytes that only the tasks' times order",
    definition=(
        "Two tasks wrote the same bytes of a file, or one had read them before the other wrote them, and nothing"
        " orders the two but that the second was submitted when the first was over, by the workflow manager's clock."
    ),
    advice="Declare which of the two comes first, or write to separate files.",
    source=RACE_SOURCE,
    query=RACE_QUERY,
    find=conflicts_in_order,
    absence=True,
)


def conflicts_of_ranks(found: Analyses) -> Iterator[Match]:
    """All such pairs, as one match."""
    rows = found.conflicts.rows
    return of_rows(found, rows[rows["ranks"].astype(bool)], _conflicts_of_ranks_title)


def _conflicts_of_ranks_title(top: Row) -> str:
    amount, path = bytes_text(int(top["bytes"])), str(top["path"])
    did = (
        f"and {top['second']} wrote the same {amount} of {path}"
        if top["kind"] == WRITERS
        else f"read {amount} of {path} that {top['second']} wrote"
    )
    return f"{top['first']} {did}, two ranks; whether messages between them order that is not recorded"


CONFLICTS_OF_RANKS = Rule(
    kind="same bytes, by ranks",
    about=ORDER,
    title="Accesses of the same bytes by ranks of a parallel program",
    definition=(
        "Two ranks outside of a task wrote the same bytes of a file, or one read what the other wrote before, at the"
        " same time or later, and nothing in the trace orders the two. The messages of MPI, which may, are not"
        " recorded. A rank that writes for others (collective calls) does so in their place. Ranks inside of a task are"
        " taken to be ordered."
    ),
    advice=(
        "See that a message, a barrier or a collective call stands between the two (MPI-4.1, 14.6, file consistency:"
        " MPI_File_sync, MPI_Barrier, MPI_File_sync), or use separate byte ranges."
    ),
    source="MPI-4.1, section 14.6.1 (consistency semantics); " + RACE_SOURCE,
    query=RACE_QUERY,
    find=conflicts_of_ranks,
    absence=True,
)


def interleaved_appends(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows, called = found.conflicts.appended, found.inputs.called
    if len(rows) == 0:
        return
    files = rows.drop_duplicates("file")
    top = rows.iloc[0]
    first, second, path = called(int(top["first"])), called(int(top["second"])), str(top["path"])
    yield Match(
        title=f"{first} and {second} appended to {path} at the same time: no byte is lost, but lines of the two may"
        f" stand between each other{more(len(files))}",
        names={"path": path},
        count=len(files),
        evidence=[{"path": str(row["path"]), "first": called(int(row["first"]))} for row in files.to_dict("records")],
        tasks={*rows["first"].tolist(), *rows["second"].tolist()},
    )


INTERLEAVED_APPENDS = Rule(
    kind="interleaved appends",
    about=NOTE,
    title="Tasks that append to one file at the same time",
    definition=(
        "Two tasks that nothing orders wrote to a file that both had opened to append (O_APPEND), during the same time,"
        " and not each under a lock. The kernel gives each write bytes of its own behind the end of the file, so"
        " nothing is overwritten. In which order the parts stand depends on the schedule, and a line that is written in"
        " several calls may be torn apart."
    ),
    advice=(
        "It is as it should be for a log whose lines tell who wrote them, each in one call; else let each task write a"
        " file of its own."
    ),
    source="POSIX.1-2017, write(): O_APPEND",
    query="tailrace query {run} --path {path} --where dir=w --by task --agg count --agg sum:size",
    find=interleaved_appends,
)


RULES = (
    TWO_WRITERS,
    READ_BEFORE_WRITE,
    READ_DURING_WRITE,
    CONFLICTS_IN_ORDER,
    CONFLICTS_OF_RANKS,
    INTERLEAVED_APPENDS,
)
