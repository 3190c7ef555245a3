"""Findings about what failed: tasks, programs, and what they left half-written."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from signal import SIGPIPE
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes, identities
from tailrace.analyzer.insights import cut_short, failures
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.cut_short import End
from tailrace.analyzer.insights.failures import Failure
from tailrace.analyzer.insights.finding import EVIDENCE, FAILURE, Evidence, Match, Rule, more, rows_of
from tailrace.analyzer.insights.findings.files import bytes_by_process
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.model import calls
from tailrace.analyzer.model.outcomes import WORDS
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.base import exit_codes
from tailrace.base.exit_codes import signal_text

TABLE = "tailrace.open({run}).outcomes"


def failed_tasks(found: Analyses) -> Iterator[Match]:
    """A match for the tasks of a stage that ended in the same way with the same error; in the end one for the rest."""
    for failure in found.failures:
        first = failure.tasks.iloc[0]
        yield Match(
            title=_title(found, failure) if failure.ways == 1 else _rest(found, failure),
            names={"task": str(first["task"])},
            query="" if first["seen"] and failure.ways == 1 else TABLE,
            count=len(failure.tasks) + failure.blocked,
            evidence=_failed_tasks_evidence(found, failure.tasks),
            advice=exit_codes.PIPE_ADVICE if failure.ways == 1 and _failed_tasks_ended_by_pipe(failure) else "",
        )


def _title(found: Analyses, failure: Failure) -> str:
    first = failure.tasks.iloc[0]
    others = len(failure.tasks) - 1
    who = found.called(first) + (f" and {count_text(others, 'more task')} of its stage" if others else "")
    passive = first["status"] in ("killed", "canceled")
    were = ("were " if others else "was ") if passive else ""
    tries = f" in each of {first['tries']} tries" if first["tries"] > 1 else ""
    parts = [f"{who} {were}{WORDS[str(first['status'])]}{tries}"]
    if failure.error and not str(first["status"]).startswith(failure.error):  # "canceled: cancel"
        parts.append(f": {failure.error}")
        reason = exit_codes.cause(exit_codes.code_in(failure.error))
        parts.append(f", {reason}" if reason and "SIG" not in failure.error else "")
    if failure.blocked:
        parts.append(f"; {count_text(failure.blocked, 'task')} never ran for it")
    if first["files"]:
        parts.append(f"; last files: {', '.join(first['files'])}")
    return "".join(parts)


def _failed_tasks_ended_by_pipe(failure: Failure) -> bool:
    return exit_codes.is_pipe_end(exit_codes.code_in(failure.error))


def _rest(found: Analyses, failure: Failure) -> str:
    """The title of what failed in several ways: how many ended how, and a task of each of the largest groups."""
    number = failure.tasks["status"].map(WORDS).value_counts(sort=False)
    kinds = ", ".join(f"{n:,} {words}" for words, n in number.items())
    groups = failure.tasks.drop_duplicates(["workflow", "stage", "status", "kind"])
    first = [found.called(row) for _, row in groups.head(EVIDENCE).iterrows()] + ["..."] * (len(groups) > EVIDENCE)
    never = f"; {count_text(failure.blocked, 'task')} never ran for them" if failure.blocked else ""
    tasks = count_text(len(failure.tasks), "more task")
    return f"{tasks} ended in {failure.ways} other ways ({kinds}): {', '.join(first)}{never}"


def _failed_tasks_evidence(found: Analyses, tasks: pd.DataFrame) -> list[Evidence]:
    return [
        {
            "task": found.called(row),
            "status": WORDS[str(row["status"])],
            "tries": int(row["tries"]),
            "lost_ns": int(row["lost_ns"]),
            "error": str(row["error"])[:400],
            "last files": ", ".join(row["files"]),
        }
        for _, row in tasks.head(EVIDENCE).iterrows()
    ]


FAILED_TASKS = Rule(
    kind="failed tasks",
    about=FAILURE,
    title="Tasks that failed, were killed, timed out or were canceled",
    definition=(
        "The workflow manager declared that a task ended without a result. Tasks of a stage that ended in the same way,"
        " with errors that differ only in numbers, are one finding; with it are counted the tasks that never ran"
        " because they depend on one of them, directly or over others. Beyond the three largest ones the others are one"
        " finding together. The last files are those that the task read or wrote last."
    ),
    advice="Look at the task's last calls, mend the cause, and run it again with the tasks that depend on it.",
    source="The workflow manager's own word (docs/declared-dag.md), and the trace",
    query="tailrace query {run} --task {task} --columns ts,dur,name,path,size,errno --sort ts --limit 20",
    find=failed_tasks,
)


SHELL = re.compile(r"(ba|da|z|k|c|tc|fi)?sh|busybox")


def failed_command(found: Analyses) -> Iterator[Match]:
    """The command, and the processes that crashed, as one match."""
    faults, ends = found.command_faults, failures.process_faults(found.inputs)
    if not faults and not ends["crashed"].any():
        return
    parts = [f"The command {fault}" for fault in faults[-1:]]
    if len(ends):
        last = ends.iloc[0]
        if not (faults and last["root"]):
            number = int((~ends["root"]).sum()) - 1 if faults else len(ends) - 1
            others = f" (and {count_text(number, 'other process', 'es')} failed)" if number else ""
            parts.append(f"{_called(last)} {_end(last)}{others}")
        if last["files"]:
            parts.append(f"its last files: {', '.join(last['files'])}")
    yield Match(
        title="; ".join(parts),
        names={"process": _filters(ends.iloc[0])} if len(ends) else {},
        query="" if len(ends) else "tailrace.open({run}).command_ends",
        count=max(len(ends), 1),
        evidence=_failed_command_evidence(ends),
        advice=exit_codes.PIPE_ADVICE if len(ends) and _row_ended_by_pipe(ends.iloc[0]) else "",
    )


def _called(row: pd.Series) -> str:
    return f"{PurePosixPath(str(row['exe'] or '?')).name} {row['host']}:{row['pid']}"


def _end(row: pd.Series) -> str:
    if row["crashed"]:
        return f"was killed by {signal_text(int(row['signal']))}"
    # Codes above 128 are what a shell returns; another program may mean anything by them.
    reason = exit_codes.cause(int(row["exit"])) if _is_shell(row) else ""
    return f"ended with exit code {row['exit']}{reason and ', '}{reason}"


def _is_shell(row: pd.Series) -> bool:
    return SHELL.fullmatch(file_classes.program(str(row["exe"] or ""))) is not None


def _row_ended_by_pipe(row: pd.Series) -> bool:
    return not row["crashed"] and _is_shell(row) and exit_codes.is_pipe_end(int(row["exit"]))


def _filters(row: pd.Series) -> list[str]:
    return ["--host", str(row["host"]), "--pid", str(row["pid"]), "--start", str(row["start"])]


def _failed_command_evidence(rows: pd.DataFrame) -> list[Evidence]:
    return [
        {
            "process": _called(row),
            "end": _end(row),
            "command": " ".join(map(str, row["argv"]))[:400] if isinstance(row["argv"], list) else "",
            "last files": ", ".join(row["files"]),
        }
        for _, row in rows.head(EVIDENCE).iterrows()
    ]


FAILED_COMMAND = Rule(
    kind="failed command",
    about=FAILURE,
    title="The traced command failed, or a process in it crashed",
    definition=(
        "The command of `tailrace run` ended with another exit code than 0 or by a signal, or a traced process was"
        " ended by a signal for a fault of its own (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), or, in"
        " a run without declared tasks, by SIGKILL. Shown is the process in which it began: of those that crashed, or"
        " without a crash ended with an exit code other than 0, the one that ended last, without the command itself; of"
        " its children the one that failed last, and so on."
    ),
    advice="Look at the last calls of that process: what it opened, read or wrote before it ended.",
    source="waitpid(2), signal(7)",
    query="tailrace query {run} {process} --columns ts,dur,name,path,size,errno --sort ts --limit 20",
    find=failed_command,
)


@dataclass(frozen=True)
class _Failed:
    """A process (position in `Inputs.lives`) that failed: its task, command, exit code, whether a program that wrote to
    it ended by SIGPIPE, the largest file that its output went to (-1: none), and the tasks that read that."""

    task: int
    command: str
    code: int
    cut: bool
    file: int
    bytes: int
    readers: list[int]


def failed_in_pipe(found: Analyses) -> Iterator[Match]:
    """All such programs, as one match; those whose results others read come first."""
    rows = sorted(_failed(found), key=lambda row: (not row.readers, not row.cut, -row.bytes))
    if not rows:
        return
    inputs, top = found.inputs, rows[0]
    name = inputs.called(top.task)
    path = str(inputs.m.paths[top.file]) if top.file >= 0 else ""
    early = " before it had read all that was written to it" if top.cut else ""
    made = f": {path} ({bytes_text(top.bytes)}) may lack what it should have passed on" if path else ""
    read = f", and {', '.join(inputs.called(task) for task in top.readers[:EVIDENCE])} read it" if top.readers else ""
    yield Match(
        title=f"`{top.command}` of {name} ended with exit code {top.code}{early}, in a pipeline that went on{made}"
        f"{read}{more(len(rows))}",
        names={"task": found.task_id(top.task)},
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(one.task),
                command=one.command,
                exit=one.code,
                path=str(inputs.m.paths[one.file]) if one.file >= 0 else "",
                readers=", ".join(inputs.called(task) for task in one.readers),
            )
            for one in rows[:EVIDENCE]
        ],
        tasks={one.task for one in rows},
    )


def _failed(found: Analyses) -> Iterator[_Failed]:
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    if "signal" not in m.processes or not (m.processes["exit"].fillna(0) != 0).any():
        return
    below, above = _pipes(found)
    if not below:
        return
    ends, lines, keys = inputs.ends, m.command_lines, processes.keys(m.who)
    command = [" ".join(lines.get(keys[actors[0]], [])) for actors in lives.actors]
    went_well: dict[str, set[int]] = {}
    for process in np.flatnonzero(ends.known & (ends.code == 0)).tolist():
        went_well.setdefault(command[process], set()).add(int(inputs.of_who[lives.actors[process][-1]]))
    results = _Results(found)
    for process in np.flatnonzero(ends.code != 0).tolist():
        actors, to, into = lives.actors[process], [*below.get(process, ())], [*above.get(process, ())]
        if not to or ends.signal[to].any() or ends.code[to].any() or not ends.known[to].all():
            continue
        task, code = int(inputs.of_who[actors[-1]]), int(ends.code[process])
        program = m.program(lives.last(process))
        if m.of_manager[actors].any() or not inputs.works[task] or failures.is_answer(program, code):
            continue
        cut = bool((ends.signal[into] == SIGPIPE).any())
        elsewhere = went_well.get(command[process], set()) - {task} if command[process] else set()
        if not cut and len(elsewhere) < 2:
            continue
        file, size, readers = results.of(task, _reached(below, process))
        yield _Failed(task, found.command(process), code, cut, file, size, readers)


def _pipes(found: Analyses) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Process (position in `Inputs.lives`) -> those of its task that read what it wrote to a pipe; and the other way
    around."""
    m, inputs = found.inputs.m, found.inputs
    rows = m.bursts.loc[m.of_type("fifo") & (m.bursts["bytes"] > 0).to_numpy(), ["who", "file", "dir"]]
    who = rows["who"].to_numpy(dtype=np.int64)
    rows = rows.assign(process=inputs.lives.process[who], task=inputs.of_who[who])
    ends = [rows.loc[rows["dir"] == way, ["file", "task", "process"]] for way in (edge_table.WRITE, edge_table.READ)]
    both = ends[0].merge(ends[1], on=["file", "task"], suffixes=("_w", "_r"))[["process_w", "process_r"]]
    below: dict[int, set[int]] = {}
    above: dict[int, set[int]] = {}
    for writer, reader in both.drop_duplicates().itertuples(index=False):
        if writer != reader:
            below.setdefault(int(writer), set()).add(int(reader))
            above.setdefault(int(reader), set()).add(int(writer))
    return below, above


def _reached(below: dict[int, set[int]], process: int) -> set[int]:
    """The processes that the output of one may have reached through pipes."""
    reached, new = {process}, [process]
    while new:
        more_of = below.get(new.pop(), set()) - reached
        reached |= more_of
        new += more_of
    return reached - {process}


class _Results:
    """Who wrote and who read the files of data."""

    def __init__(self, found: Analyses) -> None:
        m, inputs = found.inputs.m, found.inputs
        rows = m.bursts.loc[m.classed(("data",)) & (m.bursts["bytes"] > 0).to_numpy(), ["who", "file", "dir", "bytes"]]
        who = rows["who"].to_numpy(dtype=np.int64)
        rows = rows.assign(process=inputs.lives.process[who], task=inputs.of_who[who])
        self._written = bytes_by_process(rows[rows["dir"] == edge_table.WRITE])
        read = rows.loc[rows["dir"] == edge_table.READ, ["file", "task"]].drop_duplicates()
        self._readers: dict[int, list[int]] = {}
        for file, task in read.itertuples(index=False):
            self._readers.setdefault(int(file), []).append(int(task))

    def of(self, task: int, writers: set[int]) -> tuple[int, int, list[int]]:
        """The file of which these processes wrote most (-1: none), its bytes, and which other tasks read it."""
        sums: dict[int, int] = {}
        for process in writers:
            for file, moved in self._written.get(process, {}).items():
                sums[file] = sums.get(file, 0) + moved
        if not sums:
            return -1, 0, []
        file = min(sums, key=lambda one: (-sums[one], one))
        return file, sums[file], sorted({*self._readers.get(file, ())} - {task})


FAILED_IN_PIPE = Rule(
    kind="failed in a pipeline",
    about=FAILURE,
    title="Programs that failed in a pipeline that went on",
    definition=(
        "A program of a task ended with another exit code than 0, what it wrote to a pipe was read by one that ended"
        " with 0, and a program that wrote to it was ended by SIGPIPE, since it stopped reading; or the same command"
        " ended with 0 in two other tasks. Exit code 1 of grep, cmp, diff and the like is an answer."
    ),
    advice="Let the shell tell of it (`set -o pipefail`), mend what fails, and make again what was made of its output.",
    source="bash(1): the exit status of a pipeline is that of its last command, without pipefail",
    query="tailrace task {run} {task}",
    find=failed_in_pipe,
)


class _Used(NamedTuple):
    """A process (position in `Inputs.lives`) that failed: its task and command, exit code, the file of which it wrote
    most, and a task that read it then."""

    task: int
    command: str
    code: int
    file: int
    bytes: int
    reader: int


def unnoticed_failure(found: Analyses) -> Iterator[Match]:
    """All such programs, as one match, by what they wrote."""
    rows = sorted(_used(found), key=lambda row: -row.bytes)
    if not rows:
        return
    inputs, top = found.inputs, rows[0]
    path = str(inputs.m.paths[top.file])
    yield Match(
        title=f"`{top.command}` ended with exit code {top.code} after it had written {bytes_text(top.bytes)} of {path},"
        f" which may lack the rest; {inputs.called(top.reader)} read it, and nothing failed for it{more(len(rows))}",
        names={"path": path},
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(one.task),
                command=one.command,
                exit=one.code,
                path=str(inputs.m.paths[one.file]),
                reader=inputs.called(one.reader),
            )
            for one in rows[:EVIDENCE]
        ],
        tasks={task for one in rows for task in (one.task, one.reader)},
    )


def _used(found: Analyses) -> Iterator[_Used]:
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    ends = inputs.ends
    if found.command_faults or not ends.code.any():
        return
    told = found.failed_tasks
    short = {one.process for one in found.lost_writes}
    exe = m.who["exe"].astype(str).tolist()
    programs = [file_classes.program(exe[lives.last(process)]) for process in range(len(lives.actors))]
    worked = {programs[process] for process in np.flatnonzero(ends.known & (ends.code == 0)).tolist()}
    rows = m.bursts.loc[
        m.classed(("data",)) & m.of_type("reg") & (m.bursts["bytes"] > 0).to_numpy(),
        ["who", "file", "dir", "bytes", "first_ns", "last_ns"],
    ]
    rows = rows.assign(process=lives.process[rows["who"].to_numpy()])
    written = bytes_by_process(rows[rows["dir"] == edge_table.WRITE])
    for process in np.flatnonzero(ends.code != 0).tolist():
        actors, code, program = lives.actors[process], int(ends.code[process]), programs[process]
        task = int(inputs.of_who[lives.last(process)])
        if m.of_manager[actors].any() or task in told or process in short or program not in worked:
            continue
        if not written.get(process) or failures.is_answer(program, code):
            continue
        file, size = max(written[process].items(), key=lambda row: row[1])
        if size < FLOOR_BYTES:
            continue
        later = rows[((rows["file"] == file) & (rows["process"] != process)).to_numpy()]
        later = later[(later["last_ns"] > int(lives.over[process])).to_numpy()]
        readers = later[(later["dir"] == edge_table.READ).to_numpy()]
        if len(readers) < len(later) or not len(readers):
            continue
        by = readers["process"].to_numpy(dtype=np.int64)
        if not (ends.known[by] & (ends.code[by] == 0)).all():
            continue
        reader = int(inputs.of_who[int(readers["who"].iat[0])])
        yield _Used(task, found.command(process), code, file, size, reader)


UNNOTICED_FAILURE = Rule(
    kind="unnoticed failure",
    about=FAILURE,
    title="Programs that failed, and whose output was used",
    definition=(
        f"A program ended with another exit code than 0 after it had written {bytes_text(FLOOR_BYTES)} or more of a"
        " data file, which others read then, which nobody wrote anew, and all of these and the command ended with 0;"
        " the same program ended with 0 elsewhere in the run. Exit code 1 of grep, cmp, diff and the like is an answer."
    ),
    advice=(
        "Look at what it wrote to its standard error, have its exit code checked (subprocess.run(..., check=True), `set"
        " -e`), and make again what was made of its output."
    ),
    source="exit(3): another status than 0 tells the parent of a failure",
    query="tailrace file {run} {path}",
    find=unnoticed_failure,
)


def lost_data(found: Analyses) -> Iterator[Match]:
    """All such files, as one match; those that others read come first."""
    rows, inputs = found.lost_writes, found.inputs
    if not rows:
        return
    top = rows[0]
    amount = f"{bytes_text(top.bytes)} of " if top.bytes else "all of "
    task = inputs.tasks["task"].iat[top.task]
    of_task = f" of {inputs.called(top.task)}" if task else ""
    read = (
        f"; {', '.join(inputs.called(task) for task in top.readers[:EVIDENCE])} read that file" if top.readers else ""
    )
    yield Match(
        title=f"`{found.command(top.process)}`{of_task} could not write {amount}{top.path} ({os.strerror(top.errno)})"
        f"{_went_on(found, top.process)}{read}{more(len(rows))}",
        names={"path": top.path, "errno": str(top.errno)},
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(one.task),
                command=found.command(one.process),
                path=one.path,
                error=errno.errorcode.get(one.errno, str(one.errno)),
                calls=one.calls,
                bytes=one.bytes,
                readers=", ".join(inputs.called(task) for task in one.readers),
            )
            for one in rows[:EVIDENCE]
        ],
        tasks={task for one in rows for task in (one.task, *one.readers)},
    )


def _went_on(found: Analyses, process: int) -> str:
    """How a process ended, as the end of a sentence."""
    ends = found.inputs.ends
    if not ends.known[process]:
        return ""
    if ends.signal[process]:
        return f" and was killed by {signal_text(int(ends.signal[process]))}"
    code = int(ends.code[process])
    return f" and ended with exit code {code}" if code else " and went on, exit code 0"


LOST_DATA = Rule(
    kind="lost data",
    about=FAILURE,
    title="Writes that failed for want of room, by programs that went on",
    definition=(
        "A write of a data file, or the flush or close that writes out its last bytes, failed since the file system was"
        " full (ENOSPC), a quota or size limit was reached (EDQUOT, EFBIG) or the device failed (EIO): one is enough."
        " No later write had success at that offset, and the file was not removed, cut off, made anew or replaced"
        " before another process read it: its bytes are missing. Of a program that ended with another exit code than 0"
        " or of a failed task it is told if others read the file nevertheless. Databases, which roll back, and caches"
        " are left out, as is a file that its program then wrote somewhere else. The bytes are those that the failed"
        " calls were to write; of the C library's streams they are not known."
    ),
    advice=(
        "Make room or raise the quota, check the results of writes and of close in that program, and make the file and"
        " what was made of it again."
    ),
    source="write(2), close(2), errno(3): ENOSPC, EDQUOT, EFBIG, EIO",
    query="tailrace query {run} --path {path} --where errno={errno} --by name --agg count --agg sum:count",
    find=lost_data,
    absence=True,
)


MOST_EVENTS = 1_000_000
"""Of the processes that were killed; past it those with most events are left out."""


def half_written(found: Analyses) -> Iterator[Match]:
    """All such files, as one match; those that others read come first."""
    rows = _half_written(found)
    if not len(rows):
        return
    inputs = found.inputs
    named = rows.assign(
        task=[inputs.called(int(task)) for task in rows["task"]],
        readers=[", ".join(inputs.called(int(task)) for task in tasks) for tasks in rows["readers"]],
    )
    top = named.iloc[0]
    read = f", and {top['readers']} read it" if top["readers"] else ""
    who = str(top["task"])
    by = "" if top["program"] in who else f"{top['program']} of "
    yield Match(
        title=f"{by}{who} {top['end']} while it wrote {top['path']}: the"
        f" {bytes_text(int(top['bytes']))} that are there may be half of it{read}{more(len(rows))}",
        names={"path": str(top["path"])},
        # The writers' own results are what failed tasks and commands tell of.
        count=max(len({task for tasks in rows["readers"] for task in tasks}), 1),
        evidence=rows_of(named[["task", "program", "end", "path", "bytes", "readers"]]),
        tasks={*rows["task"].tolist(), *(task for tasks in rows["readers"] for task in tasks)},
    )


def _cut_short(found: Analyses) -> dict[int, End]:
    """Actor as which a process that was cut short was seen last -> how; without managers' own processes and pools,
    which end so when all is done."""
    inputs, m = found.inputs, found.inputs.m
    out: dict[int, End] = {}
    for process, end in cut_short.ends(inputs).items():
        actors = inputs.lives.actors[process]
        served = {int(inputs.of_who[actor]) for actor in actors if inputs.works[inputs.of_who[actor]]}
        if len(served) == 1 and not m.of_manager[actors].any():
            out[inputs.lives.last(process)] = end
    return out


def _half_written(found: Analyses) -> pd.DataFrame:
    """task, program, end (in words), path, bytes, readers (tasks), of files that were open when their writer was cut
    short, are still there and were not written anew, and, where its end was not seen, were read then; those that were
    read first, then the largest."""
    inputs, m = found.inputs, found.inputs.m
    ended = _cut_short(found)
    columns = ["task", "program", "end", "path", "bytes", "readers"]
    wrote = m.classed(("data",)) & (m.bursts["dir"] == edge_table.WRITE).to_numpy()
    mine = wrote & m.bursts["who"].isin(ended).to_numpy() & (m.bursts["bytes"] > 0).to_numpy()
    pairs = m.bursts.loc[mine].groupby(["who", "file"], as_index=False)["bytes"].sum()
    still_open = _open_at_the_end(found, pairs)
    rows = []
    removed = m.table.facts[(m.table.facts["what"] == "unlink") & (m.table.facts["file"] >= 0)]
    for who, file, size in pairs[["who", "file", "bytes"]].itertuples(index=False):
        end = int(inputs.lives.end[who])
        others = m.bursts[(m.bursts["file"] == file).to_numpy() & (m.bursts["first_ns"] > end).to_numpy()]
        anew = (others["dir"] == edge_table.WRITE).any() or (removed["file"] == file).any()
        if (who, file) not in still_open or anew:
            continue
        readers = inputs.of_who[others["who"].to_numpy()[(others["dir"] == edge_table.READ).to_numpy()]]
        program = m.program(who) or "?"
        users = sorted({int(task) for task in readers} - {int(inputs.of_who[who])})
        if users or ended[who].seen:
            rows.append((int(inputs.of_who[who]), program, ended[who].words, str(m.paths[file]), int(size), users))
    out: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    unread = np.array([not readers for readers in out["readers"]], dtype=np.bool_)
    order = np.lexsort((-out["bytes"].to_numpy(dtype=np.int64), unread))
    return out.iloc[order].reset_index(drop=True)


def _open_at_the_end(found: Analyses, pairs: pd.DataFrame) -> set[tuple[int, int]]:
    """Of pairs of actors and files those that the actor opened more often than it closed them."""
    inputs, m = found.inputs, found.inputs.m
    if inputs.run is None or not len(pairs):
        return set()
    events = m.table.counts.groupby("who")["calls"].sum().reindex(pairs["who"].unique(), fill_value=0).sort_values()
    chosen = events.index[events.cumsum() <= MOST_EVENTS].to_numpy(dtype=np.int64)
    if not len(chosen):
        return set()
    processes = inputs.lives.process[chosen]
    who = np.isin(inputs.lives.process, processes)
    uses = calls.read(inputs.run, m, who, pairs["file"].to_numpy(dtype=np.int64)).uses
    step = uses["what"].map({calls.OPEN: 1, calls.CLOSE: -1}).fillna(0).astype(int)
    balance = step.groupby([inputs.lives.process[uses["who"].to_numpy(dtype=np.int64)], uses["file"]]).sum().to_dict()
    names = m.table.files["file"].astype(str).to_numpy()
    return {
        (int(actor), int(file))
        for actor, file in pairs[["who", "file"]].itertuples(index=False)
        if balance.get((int(inputs.lives.process[actor]), identities.raw(names[file])), 0) > 0
    }


HALF_WRITTEN = Rule(
    kind="half-written output",
    about=FAILURE,
    title="Files that a process had open for writing when it was cut short",
    definition=(
        "A signal ended a process (not SIGPIPE) that had written a data file and not closed it, the file is still"
        " there, and nobody wrote it anew. It may end in the middle. Or such a process has no recorded end, and did"
        " nothing any more after a signal had ended its parent, so that nobody waited for it; then the file is told"
        " if another task read it later. Processes that serve several tasks, which their manager ends when all is"
        " done, are left out."
    ),
    advice=(
        "Remove it and run the task again, with all that read it; write to a temporary name and rename the file when it"
        " is complete."
    ),
    source="signal(7); rename(2) is atomic",
    query="tailrace file {run} {path}",
    find=half_written,
)


RULES = (
    FAILED_TASKS,
    FAILED_COMMAND,
    FAILED_IN_PIPE,
    UNNOTICED_FAILURE,
    LOST_DATA,
    HALF_WRITTEN,
)
