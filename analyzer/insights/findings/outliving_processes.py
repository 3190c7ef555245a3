"""Processes that go on when their task is over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import LEAST, ORDER, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.store.processes import keys
from tailrace.analyzer.util.formatting import time_text

LONG = Threshold(100, "ms after the end of the task")


def find(found: Analyses) -> Iterator[Match]:
    """All such processes, as one match."""
    rows = _outliving(found)
    if not len(rows):
        return
    inputs, top = found.inputs, rows.iloc[0]
    wrote = f", and wrote {top['path']}" if top["path"] else ""
    yield Match(
        title=f"{inputs.called(int(top['task']))} had ended, and its {top['program']} went on for"
        f" {time_text(int(top['after_ns']))}{wrote}{more(len(rows))}",
        names={"task": str(inputs.tasks["task"].iat[int(top["task"])])},
        cost_ns=0,
        count=len(rows),
        evidence=rows_of(rows.assign(task=[inputs.called(int(task)) for task in rows["task"]])),
        tasks=set(rows["task"].tolist()),
    )


def _outliving(found: Analyses) -> pd.DataFrame:
    """task, program, after_ns, path (of data that it wrote after the task's end, ""): the longest first."""
    inputs, lives, m = found.inputs, found.inputs.lives, found.inputs.m
    columns = ["task", "program", "after_ns", "path"]
    none: pd.DataFrame = pd.DataFrame(columns=columns)
    if "exit" not in m.processes or "ppid" not in m.processes:
        return none
    ended = m.processes[m.processes["exit"].notna()]
    has_end = set(keys(ended))
    parent = dict(zip(keys(m.processes), m.processes["ppid"].tolist(), strict=True))
    process_key = keys(m.who)
    of_task: dict[int, set[int]] = {}
    for actor in np.flatnonzero(inputs.works[inputs.of_who] & ~m.of_manager).tolist():
        of_task.setdefault(int(inputs.of_who[actor]), set()).add(int(lives.process[actor]))
    least = max(LONG.value * 1e6, LEAST.value / 100 * inputs.makespan_ns)
    rows = []
    for task, processes in of_task.items():
        if len(processes) < 2 or not inputs.tasks["task"].iat[task]:
            continue
        key_of = {process: process_key[lives.first(process)] for process in processes}
        pids = {(key[0], key[1]) for key in key_of.values()}
        roots = [p for p in processes if (key_of[p][0], parent.get(key_of[p])) not in pids]
        if len(roots) != 1 or key_of[roots[0]] not in has_end:
            continue
        over = int(lives.over[roots[0]])
        for process in processes - set(roots):
            after = int(lives.over[process]) - over
            if after >= least and int(lives.begun[process]) < over:
                actor = lives.last(process)
                program = file_classes.program(str(m.who["exe"].iat[actor])) or "process"
                rows.append((task, program, after, _written_after(found, process, over)))
    out: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    result: pd.DataFrame = out.sort_values("after_ns", ascending=False, kind="stable", ignore_index=True)
    return result


def _written_after(found: Analyses, process: int, over: int) -> str:
    m = found.inputs.m
    mine = (found.inputs.lives.process[m.bursts["who"].to_numpy()] == process) & m.classed(("data",))
    rows = m.bursts[mine & (m.bursts["dir"] == edge_table.WRITE).to_numpy() & (m.bursts["last_ns"] > over).to_numpy()]
    return str(m.paths[int(rows["file"].iat[-1])]) if len(rows) else ""


RULE = Rule(
    kind="outliving processes",
    about=ORDER,
    title="Processes that go on when their task is over",
    definition=(
        f"The first process of a task ended, and another one that it had started went on for {LONG} or more, and for"
        f" {LEAST}. What depends on the task may begin before that one has written its data, and it takes processor"
        " and memory of others. Processes that serve several tasks (workers) are no such."
    ),
    advice="Wait for it in the task (`wait`, subprocess.Popen.wait), or stop it before the task ends.",
    source="wait(2): a shell or program that ends does not wait for what it left in the background",
    query="tailrace task {run} {task}",
    find=find,
    thresholds=(LONG,),
)
