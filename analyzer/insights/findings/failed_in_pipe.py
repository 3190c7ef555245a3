"""Programs that failed in a pipeline whose last command did not: a shell without pipefail goes on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from signal import SIGPIPE

import numpy as np

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import command_lines, failures
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, FAILURE, Match, Row, Rule, more
from tailrace.analyzer.insights.findings import _files
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.formatting import bytes_text, clean

ANSWERS = re.compile(r"([efz]|bz|xz)?grep|rg|[zx]?cmp|[zx]?diff|test|expr")
"""Programs whose exit code 1 is an answer."""
LONGEST = 60


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


def find(found: Analyses) -> Iterator[Match]:
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
            Row(
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
    keys, lines, ends = processes.keys(m.who), command_lines.commands(m), failures.ends(inputs)
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
        program = file_classes.program(str(m.who["exe"].iat[lives.last(process)]))
        if m.of_manager[actors].any() or not inputs.works[task] or (ANSWERS.fullmatch(program) and code == 1):
            continue
        cut = bool((ends.signal[into] == SIGPIPE).any())
        elsewhere = went_well.get(command[process], set()) - {task} if command[process] else set()
        if not cut and len(elsewhere) < 2:
            continue
        file, size, readers = results.of(task, _reached(below, process))
        words = clean(shlex.join(lines.get(keys[actors[0]], [program])))
        words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1].rstrip()}\u2026"
        yield _Failed(task, words, code, cut, file, size, readers)


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
        self._written = _files.bytes_by_process(rows[rows["dir"] == edge_table.WRITE])
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


RULE = Rule(
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
    find=find,
)
