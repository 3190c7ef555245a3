"""What the findings about unordered accesses of the same bytes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import BEFORE, WRITERS
from tailrace.analyzer.insights.early_reads import EarlyRead
from tailrace.analyzer.insights.finding import Match, more, rows_of
from tailrace.analyzer.model.declared_vs_observed import WORKFLOW_OF
from tailrace.analyzer.model.order import NONE
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Row

Words = Callable[[str, str, str, str, bool], str]
"""(first task, second task, path, bytes, whether they overlapped in time) -> the sentence."""

SOURCE = "Lamport 1978 (happens-before); POSIX.1-2017, write(), rationale: concurrent writes are not specified"
QUERY = "tailrace query {run} --path {path} --columns ts,dur,name,dir,task,host,pid,offset,size,flags"


EARLY = (
    "Declare the dependency: what was written later is missing from the reader's result. Where the reader itself waits"
    " for the file, write it to a temporary name, and rename it when it is complete."
)
"""What to do about an early read (early_reads.py)."""


def matches(found: Analyses, kind: str, words: Words) -> Iterator[Match]:
    """One match for all conflicts of a kind that overlapped, or could have; it tells of the largest, of early reads
    where there are any. Early reads that are undeclared dependencies are told as such."""
    rows = found.conflicts.rows
    rows = rows[(rows["kind"] == kind) & ~(rows["in_time"] | rows["ranks"]).astype(bool)]
    early = {read[:3]: read for read in found.early_reads} if len(rows) and kind != WRITERS else {}
    told = undeclared_pairs(found) if early else set()
    keys = list(zip(*(rows[name].tolist() for name in ("first", "second", "file")), strict=True))
    places = [at for at, key in enumerate(keys) if key not in early or key[:2] not in told]
    if kind == BEFORE:
        places.sort(key=lambda at: keys[at] not in early)
    read = early.get(keys[places[0]]) if kind == BEFORE and places else None

    def title(top: Row) -> str:
        if read is not None:
            return f"{early_words(found, read)}, and nothing orders the two"
        amount = bytes_text(int(top["bytes"]))
        return words(str(top["first"]), str(top["second"]), str(top["path"]), amount, bool(top["overlap"]))

    yield from of_rows(found, rows.iloc[places], title, "" if read is None else EARLY)


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
