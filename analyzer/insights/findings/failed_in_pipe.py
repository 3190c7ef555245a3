"""Programs that failed in a pipeline whose last command did not: a shell without pipefail goes on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from signal import SIGPIPE

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import command_lines
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, FAILURE, Match, Row, Rule, more
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.formatting import bytes_text, clean
from tailrace.analyzer.util.types import Bools

ANSWERS = re.compile(r"([efz]|bz|xz)?grep|rg|[zx]?cmp|[zx]?diff|test|expr")
"""Programs whose exit code 1 is an answer."""
LONGEST = 60


@dataclass(frozen=True)
class _Failed:
    """A process (position in `Inputs.lives`) that failed: its task, command, exit code, whether a program that wrote to
    it ended by SIGPIPE, the largest file that its task wrote (-1: none), and the tasks that read that."""

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
    name, row = inputs.called(top.task), inputs.tasks.iloc[top.task]
    path = str(inputs.m.paths[top.file]) if top.file >= 0 else ""
    early = " before it had read all that was written to it" if top.cut else ""
    made = f": {path} ({bytes_text(top.bytes)}) may lack what it should have passed on" if path else ""
    read = f", and {', '.join(inputs.called(task) for task in top.readers[:EVIDENCE])} read it" if top.readers else ""
    yield Match(
        title=f"`{top.command}` of {name} ended with exit code {top.code}{early}, in a pipeline that went on{made}"
        f"{read}{more(len(rows))}",
        names={"task": "/".join(filter(None, (str(row["workflow"]), str(row["task"])))) or inputs.name(top.task)},
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
    table = m.processes
    if "signal" not in table or not (table["exit"].fillna(0) != 0).any():
        return
    keys, lines = processes.keys(m.who), command_lines.commands(m)
    ends = {
        key: (code, signal)
        for key, code, signal in zip(processes.keys(table), table["exit"], table["signal"], strict=True)
    }
    end_of = [ends.get(keys[actors[0]], (pd.NA, pd.NA)) for actors in lives.actors]
    code = np.array([0 if pd.isna(end[0]) else int(end[0]) for end in end_of], dtype=np.int64)
    signal = np.array([0 if pd.isna(end[1]) else int(end[1]) for end in end_of], dtype=np.int64)
    known = np.array([not (pd.isna(end[0]) and pd.isna(end[1])) for end in end_of], dtype=np.bool_)
    channels = _channels(found)
    command = [" ".join(lines.get(keys[actors[0]], [])) for actors in lives.actors]
    for process in np.flatnonzero(code != 0).tolist():
        actors = lives.actors[process]
        last, task = lives.last(process), int(inputs.of_who[actors[-1]])
        program = file_classes.program(str(m.who["exe"].iat[last]))
        if m.of_manager[actors].any() or not inputs.works[task] or (ANSWERS.fullmatch(program) and code[process] == 1):
            continue
        into, out = (channels[channels[side] == process] for side in ("reader", "writer"))
        to = out["reader"].to_numpy(dtype=np.int64)
        if not len(to) or (signal[to] != 0).any() or (code[to] != 0).any() or not known[to].all():
            continue
        cut = bool((signal[into["writer"].to_numpy(dtype=np.int64)] == SIGPIPE).any())
        like = np.array([bool(one) and one == command[process] for one in command], dtype=np.bool_)
        if not cut and not _others_did(inputs.of_who[[of[-1] for of in lives.actors]], like & known, code, task):
            continue
        file, size, readers = _result(found, task, _below(channels, process))
        words = clean(shlex.join(lines.get(keys[actors[0]], [program])))
        words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1].rstrip()}\u2026"
        yield _Failed(task, words, int(code[process]), cut, file, size, readers)


def _others_did(task_of: np.ndarray, like: Bools, code: np.ndarray, task: int) -> bool:
    """Whether the same command ended with 0 in two other tasks or more."""
    return len(set(task_of[like & (code == 0)].tolist()) - {task}) > 1


def _channels(found: Analyses) -> pd.DataFrame:
    """writer, reader: processes (positions in `Inputs.lives`) of one task, through the same pipe."""
    m, inputs = found.inputs.m, found.inputs
    pipe = (m.table.files["ftype"] == "fifo").to_numpy()[m.bursts["file"].to_numpy()]
    rows = m.bursts.loc[pipe & (m.bursts["bytes"] > 0).to_numpy(), ["who", "file", "dir"]]
    who = rows["who"].to_numpy(dtype=np.int64)
    rows = rows.assign(process=inputs.lives.process[who], task=inputs.of_who[who])
    ends = [rows.loc[rows["dir"] == way, ["file", "task", "process"]] for way in (edge_table.WRITE, edge_table.READ)]
    both = ends[0].merge(ends[1], on=["file", "task"], suffixes=("_w", "_r")).drop_duplicates()
    both = both[both["process_w"] != both["process_r"]]
    result: pd.DataFrame = both.rename(columns={"process_w": "writer", "process_r": "reader"})
    return result


def _below(channels: pd.DataFrame, process: int) -> set[int]:
    """The processes that the output of one may have reached through pipes."""
    below, new = {process}, {process}
    while new:
        new = set(channels["reader"][channels["writer"].isin(new)].tolist()) - below
        below |= new
    return below - {process}


def _result(found: Analyses, task: int, writers: set[int]) -> tuple[int, int, list[int]]:
    """The largest file of data that these processes wrote (-1: none), its bytes, and which other tasks read it."""
    m, inputs = found.inputs.m, found.inputs
    rows = m.bursts[m.classed(("data",)) & (m.bursts["bytes"] > 0).to_numpy()]
    of_task = inputs.of_who[rows["who"].to_numpy()]
    mine = np.isin(inputs.lives.process[rows["who"].to_numpy()], [*writers])
    sums = rows[mine & (rows["dir"] == edge_table.WRITE).to_numpy()].groupby("file")["bytes"].sum()
    if not len(sums):
        return -1, 0, []
    file = int(sums.idxmax())
    readers = of_task[((rows["file"] == file) & (rows["dir"] == edge_table.READ)).to_numpy()]
    return file, int(sums.max()), sorted(set(readers.tolist()) - {task})


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
