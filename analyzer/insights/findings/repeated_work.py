"""The same program over the same data, by several tasks: an input that each expands, an index that each builds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import command_lines
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold, more
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
    """What two processes have in common that did the same: how they were started, what they read and how much of it,
    and how much they wrote to each output."""

    program: str
    arguments: tuple[str, ...]
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]


def find(found: Analyses) -> Iterator[Match]:
    """All such work, as one match."""
    of_work: dict[_Work, list[tuple[int, int]]] = {}
    for process, task, work in _works(found):
        of_work.setdefault(work, []).append((process, task))
    makespan = found.inputs.makespan_ns
    shown: list[Row] = []
    tasks: set[int] = set()
    for work, doers in of_work.items():
        users = {task for _, task in doers}
        if len(users) >= TASKS.value:
            took = _took(found, np.array([process for process, _ in doers], dtype=np.int64))
            gain, most = (int(ns * (1 - 1 / len(doers))) for ns in took)
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


def _works(found: Analyses) -> Iterator[tuple[int, int, _Work]]:
    """Position in `Inputs.lives`, task and work of each process that worked for one task alone, not as one of its
    ranks, and read files of data and nothing from another process."""
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    table = inputs.tables.get("ranks")
    ranks = set() if table is None or not len(table) else set(processes.keys(table))
    lines, keys = command_lines.commands(m), processes.keys(m.who)
    reads, writes, fed = _accesses(found)
    copies = found.lifetime.copies
    copies = copies[copies["evidence"].isin((KERNEL, COPIER))]
    source = dict(zip(copies["target"].tolist(), copies["source"].tolist(), strict=True))
    for process, actors in enumerate(lives.actors):
        line, task = lines.get(keys[actors[0]]), int(inputs.of_who[actors[0]])
        if line is None or process in fed or process not in reads or process not in writes:
            continue
        if keys[actors[0]] in ranks or m.of_manager[actors].any() or (inputs.of_who[actors] != task).any():
            continue
        taken = {file: moved for file, moved in reads[process].items() if file not in writes[process]}
        if sum(taken.values()) >= 1024 * READ.value:
            program = file_classes.program(str(m.who["exe"].iat[lives.last(process)]))
            if program in COPIERS:  # file_copies.py tells of these
                continue
            arguments = tuple(_named(m, word, taken, writes[process]) for word in line[1:])
            inputs_of = tuple(sorted((_origin(file, source), moved) for file, moved in _large(taken).items()))
            yield process, task, _Work(program, arguments, inputs_of, tuple(sorted(_large(writes[process]).values())))


def _accesses(found: Analyses) -> tuple[dict[int, dict[int, int]], dict[int, dict[int, int]], set[int]]:
    """The bytes that each process read of each file of data, and that it wrote to each file and channel; and the
    processes that read from a channel."""
    m = found.inputs.m
    rows = m.bursts.loc[
        m.classed(("data", "stream")) & (m.bursts["bytes"] > 0).to_numpy(), ["who", "file", "dir", "bytes"]
    ]
    rows = rows.assign(process=found.inputs.lives.process[rows["who"].to_numpy()])
    channel = np.isin(m.class_of_file[rows["file"].to_numpy()], [file_classes.CLASSES.index("stream")])
    way = rows["dir"].to_numpy()
    fed = set(rows["process"].to_numpy()[channel & (way == edge_table.READ)].tolist())
    return _by_process(rows[~channel & (way == edge_table.READ)]), _by_process(rows[way == edge_table.WRITE]), fed


def _by_process(rows: pd.DataFrame) -> dict[int, dict[int, int]]:
    out: dict[int, dict[int, int]] = {}
    sums = rows.groupby(["process", "file"], sort=False)["bytes"].sum()
    for (process, file), moved in zip(sums.index, sums.to_numpy(), strict=True):
        out.setdefault(int(process), {})[int(file)] = int(moved)
    return out


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


def _named(m: Model, word: str, inputs: Collection[int], outputs: Collection[int]) -> str:
    """An argument; `_INPUT` or `_OUTPUT` if it names one, or what the names of outputs begin with. A word without a
    slash or a dot may be a parameter that is also a part of a name."""
    part = "/" + word.removeprefix("./").lstrip("/")
    if len(part) < 2 or not ("/" in word or "." in word):
        return word
    if any(str(m.paths[file]).endswith(part) for file in inputs):
        return _INPUT
    return _OUTPUT if any(part in str(m.paths[file]) for file in outputs) else word


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
