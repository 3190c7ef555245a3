"""The same program over the same data, by several tasks: an input that each expands, an index that each builds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import command_lines
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _files
from tailrace.analyzer.insights.lifetime import COPIER, COPIERS, KERNEL
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Ints

TASKS = Threshold(3, "tasks that do the same")
READ = Threshold(128, "KiB of data")
_SMALL = 0.01
"""Of a process's largest input or output: a smaller one (a log, a list of options) doesn't tell its work."""
_INPUT, _OUTPUT = "(input)", "(output)"


class _Work(NamedTuple):
    """What two processes have in common that did the same, beside their arguments: the program, what they read and how
    much of it, and how much they wrote to each output."""

    program: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]


def find(found: Analyses) -> Iterator[Match]:
    """All such work, as one match."""
    makespan = found.inputs.makespan_ns
    shown: list[Row] = []
    tasks: set[int] = set()
    for work, doers in _repeated(found):
        users = _tasks(found, doers)
        gain, most = (int(ns * (1 - 1 / len(doers))) for ns in _took(found, np.array(doers, dtype=np.int64)))
        file, size = max(work.inputs, key=lambda row: row[1])
        name = str(found.inputs.m.paths[file])
        shown.append(Row(program=work.program, path=name, bytes=size, tasks=len(users), gain_ns=gain, most_ns=most))
        tasks |= users
    shown.sort(key=lambda row: -int(str(row["gain_ns"])))
    cost = min(sum(int(str(row["gain_ns"])) for row in shown), makespan)
    if not LEAST.reached(cost, makespan):
        return
    top, path = shown[0], str(shown[0]["path"])
    yield Match(
        title=f"{top['tasks']:,} tasks each ran {top['program']} over {path} ({bytes_text(int(str(top['bytes'])))})"
        f" with the same arguments, and it wrote as much every time{more(len(shown))}",
        names={"path": path},
        cost_ns=cost,
        most_ns=min(sum(int(str(row["most_ns"])) for row in shown), makespan),
        estimate=True,
        count=len(shown),
        evidence=shown[:EVIDENCE],
        tasks=tasks,
        where=f"{top['program']} once",
    )


def _repeated(found: Analyses) -> Iterator[tuple[_Work, list[int]]]:
    """Work that processes (positions in `Inputs.lives`) of so many tasks did with the same arguments."""
    m, lives = found.inputs.m, found.inputs.lives
    lines, keys = command_lines.commands(m), processes.keys(m.who)
    accesses = _Accesses(found)
    of_work: dict[_Work, list[int]] = {}
    for process, work in _works(found, accesses):
        of_work.setdefault(work, []).append(process)
    for work, doers in of_work.items():
        if len(_tasks(found, doers)) < TASKS.value:
            continue
        same: dict[tuple[str, ...], list[int]] = {}
        for process in doers:
            words = lines.get(keys[lives.first(process)])
            if words is not None:
                same.setdefault(_arguments(m, words, accesses, process), []).append(process)
        yield from ((work, alike) for alike in same.values() if len(_tasks(found, alike)) >= TASKS.value)


def _tasks(found: Analyses, doers: Collection[int]) -> set[int]:
    lives = found.inputs.lives
    return {int(found.inputs.of_who[lives.first(process)]) for process in doers}


def _works(found: Analyses, accesses: _Accesses) -> Iterator[tuple[int, _Work]]:
    """Position in `Inputs.lives` and work of each process that worked for one task alone, not as one of its ranks, and
    read files of data and nothing from another process."""
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    table, keys = inputs.tables.get("ranks"), processes.keys(m.who)
    ranks = set() if table is None or not len(table) else set(processes.keys(table))
    copies = found.lifetime.copies
    copies = copies[copies["evidence"].isin((KERNEL, COPIER))]
    source = dict(zip(copies["target"].tolist(), copies["source"].tolist(), strict=True))
    for process, wrote in accesses.writes.items():
        actors, taken = lives.actors[process], accesses.taken(process)
        if process in accesses.fed or sum(taken.values()) < 1024 * READ.value:
            continue
        if keys[actors[0]] in ranks or m.of_manager[actors].any() or len(set(inputs.of_who[actors].tolist())) > 1:
            continue
        program = file_classes.program(str(m.who["exe"].iat[lives.last(process)]))
        if program not in COPIERS:  # file_copies.py tells of these
            inputs_of = tuple(sorted((_origin(file, source), moved) for file, moved in _large(taken).items()))
            yield process, _Work(program, inputs_of, tuple(sorted(_large(wrote).values())))


class _Accesses:
    """The bytes that each process read of each file of data (reads), and that it wrote to each file and channel
    (writes); fed: the processes that read from a channel."""

    def __init__(self, found: Analyses) -> None:
        m = found.inputs.m
        some = m.classed(("data", "stream")) & (m.bursts["bytes"] > 0).to_numpy()
        rows = m.bursts.loc[some, ["who", "file", "dir", "bytes"]]
        rows = rows.assign(process=found.inputs.lives.process[rows["who"].to_numpy()])
        channel = m.class_of_file[rows["file"].to_numpy()] == file_classes.STREAM
        way = rows["dir"].to_numpy()
        self.fed: set[int] = set(rows["process"].to_numpy()[channel & (way == edge_table.READ)].tolist())
        self._reads = _files.bytes_by_process(rows[~channel & (way == edge_table.READ)])
        self.writes = _files.bytes_by_process(rows[way == edge_table.WRITE])

    def taken(self, process: int) -> dict[int, int]:
        """What a process read that it had not written itself."""
        mine = self.writes.get(process, {})
        return {file: moved for file, moved in self._reads.get(process, {}).items() if file not in mine}


def _large(of_file: dict[int, int]) -> dict[int, int]:
    least = _SMALL * max(of_file.values())
    return {file: moved for file, moved in of_file.items() if moved >= least}


def _origin(file: int, source: dict[int, int]) -> int:
    """What a file is a plain copy of, and that of, and so on; itself, where it is none."""
    for _ in range(len(source)):
        if file not in source:
            break
        file = source[file]
    return file


def _arguments(m: Model, words: Sequence[str], accesses: _Accesses, process: int) -> tuple[str, ...]:
    """The arguments of a process; `_INPUT` or `_OUTPUT` for one that names such a file, or what the names of outputs
    begin with. A word without a slash or a dot may be a parameter that is also a part of a name."""
    inputs = {str(m.paths[file]) for file in accesses.taken(process)}
    outputs = [str(m.paths[file]) for file in accesses.writes[process]]
    by_name: dict[str, list[str]] = {}
    for path in inputs:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def named(word: str) -> str:
        part = "/" + word.removeprefix("./").lstrip("/")
        if len(part) < 2 or not ("/" in word or "." in word):
            return word
        if any(path.endswith(part) for path in by_name.get(part.rpartition("/")[2], ())):
            return _INPUT
        return _OUTPUT if any(part in path for path in outputs) else word

    return tuple(named(word) for word in words[1:])


def _took(found: Analyses, process: Ints) -> tuple[int, int]:
    """For how long these processes were on a processor, and at least one of them lived, ns."""
    lives, used = found.inputs.lives, found.processors.of_process
    none = np.zeros(len(process), dtype=np.int64)
    times = intervals.union(intervals.make(none, lives.begun[process], lives.over[process]))
    together = int(intervals.length(times, 1)[0])
    known = used[process]
    return together if (known < 0).any() else min(together, int(known.sum())), together


RULE = Rule(
    kind="repeated work",
    about=TIME,
    title="The same program over the same data, by several tasks",
    definition=(
        f"In {TASKS}, a process was started by the same program with the same arguments (but for the names of its"
        f" files), read the same bytes of the same files or of plain copies of them, {READ} or more, nothing from"
        f" other processes, and wrote as much to each output. Files and outputs below {_SMALL:.0%} of the largest do"
        " not count, nor do the ranks of a parallel program. The estimate is the processor time of these processes,"
        " less the share of one of them, at most the time in which at least one of them ran, less that share."
    ),
    advice=(
        "If nothing else decides the result (an environment variable, random numbers), do it once, in a task of its own"
        " on which these depend, and let them read what it wrote: the expanded file, the index."
    ),
    source="Reasoning: the same input gives the same output each time",
    query="tailrace query {run} --path {path} --where dir=r --by task,host,pid --agg count --agg sum:size",
    find=find,
    thresholds=(TASKS, READ, LEAST),
    change="running",
)
