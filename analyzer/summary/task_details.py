"""What a task's panel shows beside the timeline's figures: its processes with their commands, its files, its waits.

    bursts -> what each task read and wrote;  processes -> commands, exit codes, memory;  declared times -> waits

Invariants: everything is cut at limits, since a page carries it all; what is of failed tasks and of the longest ones
stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, outcomes, requests, task_arguments, waits
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms
from tailrace.analyzer.util import shell
from tailrace.analyzer.util.types import Ints, Row

LOG = re.compile(r"\.(out|err|log|stdout|stderr)$|(^|/)(stdout|stderr|slurm-[^/]*\.out)$")
"""The name of a file that holds what a program printed."""
FACTS = ("t0_ns", "t1_ns", "exit", "signal", "maxrss_kib", "utime_ns", "stime_ns")
_ASKED = {"cores": ("cores", 1), "memory_bytes": ("memory", 1), "time_s": ("time", 1000)}
"""Resource -> its name on the page, and how many of the page's units one is."""
WAITS = ("data_ns", "upstream_ns", "order_ns", "queue_ns", "start_ns", "run_ns", "stop_ns")


def add_files(m: Model, rows: Sequence[JsonObject], files: JsonObject, task_row: Ints) -> None:
    """Adds to the rows of `tasks` reads and writes: [row of `files`, bytes, ...], the most bytes first, cut at
    `LIMITS`; n_reads, n_writes: how many there are; logs: paths of what programs printed, of a task whose status was
    said.

    Args:
        files: the result of `files.files`; task_row: the row of each task in `tasks`, -1: cut.
    """
    place = np.full(len(m.table.files), -1, dtype=np.int64)
    place[files["codes"]] = np.arange(len(files["codes"]))
    task_code, _ = dataflow.activities(m, "task")
    bursts = pd.DataFrame(
        {
            "task": task_row[task_code[m.bursts["who"].to_numpy()]],
            "dir": m.bursts["dir"].to_numpy(),
            "file": m.bursts["file"].to_numpy(),
            "bytes": m.bursts["bytes"].to_numpy(),
        }
    )[m.classed(dataflow.DEFAULT_CLASSES)]
    streams = np.isin(m.table.files["ftype"].to_numpy(dtype=object), list(edge_table.STREAM_TYPES))
    users = bursts[["file", "task"]].drop_duplicates()["file"].value_counts()
    own_pipe = streams[bursts["file"].to_numpy()] & (users.reindex(bursts["file"]).to_numpy() == 1)
    sums = bursts[(bursts["task"] >= 0) & ~own_pipe].groupby(["task", "dir", "file"], as_index=False)["bytes"].sum()
    sums = sums.sort_values(["task", "dir", "bytes"], ascending=[True, True, False], kind="stable")
    for way, name in ((edge_table.READ, "reads"), (edge_table.WRITE, "writes")):
        mine = sums[sums["dir"] == way]
        number = mine["task"].value_counts()
        for task, count in zip(number.index.tolist(), number.tolist(), strict=True):
            rows[task][f"n_{name}"] = count
        shown = mine[(place[mine["file"].to_numpy()] >= 0)]
        shown = shown[shown.groupby("task").cumcount() < LIMITS["files_of_task"]]
        columns = (shown["task"].tolist(), place[shown["file"].to_numpy()].tolist(), shown["bytes"].tolist())
        for task, file, amount in zip(*columns, strict=True):
            rows[task].setdefault(name, []).extend((file, amount))
    wrote = sums[sums["dir"] == edge_table.WRITE]
    for task, file in zip(wrote["task"].tolist(), wrote["file"].tolist(), strict=True):
        if "status" in rows[task] and LOG.search(path := str(m.paths[file])):
            rows[task].setdefault("logs", []).append(path)


def add_waits(run: AnalyzedRun, m: Model, rows: Sequence[JsonObject], row_of: Mapping[tuple[str, str], int]) -> None:
    """Adds to the rows of declared tasks `waits`: the times `WAITS` in ms, null where unknown; and `asked`: what the
    task asked its manager for, where it says so: cores, memory (bytes), time (ms)."""
    table = waits.table(run, m)
    columns = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in WAITS]
    for key, *times in zip(outcomes.task_keys(table), *columns, strict=True):
        if row_of.get(key, -1) >= 0 and any(time is not None for time in times):
            rows[row_of[key]]["waits"] = [None if time is None else ms(time) for time in times]
    for key, asked in requests.of(run).items():
        shown = {ours: asked[name] * scale for name, (ours, scale) in _ASKED.items() if name in asked}
        if shown and row_of.get(key, -1) >= 0:
            rows[row_of[key]]["asked"] = shown


def add_arguments(run: AnalyzedRun, rows: Sequence[JsonObject], row_of: Mapping[tuple[str, str], int]) -> None:
    """Adds to the rows of declared tasks `args`: [name, text, ...] of their arguments, cut at `LIMITS`: those of failed
    tasks and of the longest ones stay."""
    known = {row_of[key]: told for key, told in task_arguments.of(run).items() if row_of.get(key, -1) >= 0}
    left = LIMITS["argument_text"]
    for row in sorted(known, key=lambda one: ("status" not in rows[one], -rows[one]["dur"], one)):
        words = [word for pair in known[row].items() for word in pair]
        left -= sum(map(len, words)) + 10
        if left < 0:
            break
        rows[row]["args"] = words


def add_processes(
    m: Model, rows: Sequence[JsonObject], task_row: Ints, start_ns: int, processes_shown: int | None = None
) -> JsonObject:
    """Adds to the rows of `tasks` procs: rows of the table that is returned, and of a task whose processes worked for
    it alone rss (bytes: the largest) and cpu (ms, in all).

    Returns: `total`, and rows: host, pid, program, command, start, dur (ms), exit, signal, rss (bytes), cpu (ms), null
        where unknown; tasks: for how many it worked.
    """
    task_code, _ = dataflow.activities(m, "task")
    of_who = task_row[task_code]
    keys = processes.keys(m.who)
    tasks_of: dict[processes.Process, set[int]] = {}
    tagged: dict[processes.Process, set[int]] = {}
    exes = dict(zip(keys, m.who["exe"].astype(str).tolist(), strict=True))
    for key, code, row, tag in zip(keys, task_code.tolist(), of_who.tolist(), m.who["task"].tolist(), strict=True):
        if tag:
            tagged.setdefault(key, set()).add(code)
        if row >= 0:
            tasks_of.setdefault(key, set()).add(row)
    facts = _facts(m)
    _add_sums(rows, tasks_of, tagged, facts)
    words = m.command_lines
    out: list[JsonObject] = []
    left = LIMITS["command_text"]
    for key in sorted(tasks_of, key=lambda one: (_rank(rows, tasks_of[one]), one)):
        command = shell.join(words.get(key, []))[: LIMITS["command"]]
        left -= len(command) + 40
        if left < 0 or len(out) >= (processes_shown or LIMITS["processes"]):
            break
        for row in sorted(tasks_of[key]):
            if len(rows[row].setdefault("procs", [])) < LIMITS["processes_of_task"]:
                rows[row]["procs"].append(len(out))
        out.append(_process(key, exes[key], command, len(tagged.get(key, ())), facts.get(key, {}), start_ns))
    return {"total": len(tasks_of), "rows": out}


def _rank(rows: Sequence[JsonObject], tasks: set[int]) -> tuple[bool, float]:
    return not any("status" in rows[task] for task in tasks), -max(rows[task]["dur"] for task in tasks)


def _facts(m: Model) -> dict[processes.Process, Row]:
    table = m.processes
    names = [name for name in FACTS if name in table]
    if not len(table):
        return {}
    values = table[names].astype(object).where(table[names].notna(), None)
    return dict(zip(processes.keys(table), values.to_dict("records"), strict=True))


def _cpu(row: Row) -> int | None:
    parts = [row.get(name) for name in ("utime_ns", "stime_ns")]
    return None if None in parts else sum(int(part) for part in parts if part is not None)


def _add_sums(
    rows: Sequence[JsonObject],
    tasks_of: Mapping[processes.Process, set[int]],
    tagged: Mapping[processes.Process, set[int]],
    facts: Mapping[processes.Process, Row],
) -> None:
    unknown: set[int] = set()
    for key, tasks in tasks_of.items():
        row = facts.get(key, {})
        cpu, rss = _cpu(row), row.get("maxrss_kib")
        if len(tagged.get(key, ())) > 1 or cpu is None or rss is None:
            unknown |= tasks
            continue
        for task in tasks:
            rows[task]["cpu"] = rows[task].get("cpu", 0) + ms(cpu)
            rows[task]["rss"] = max(rows[task].get("rss", 0), int(rss) * 1024)
    for task in unknown:
        rows[task].pop("cpu", None)
        rows[task].pop("rss", None)


def _process(key: processes.Process, exe: str, command: str, tasks: int, row: Row, start_ns: int) -> JsonObject:
    cpu, rss = _cpu(row), row.get("maxrss_kib")
    begin, end = row.get("t0_ns"), row.get("t1_ns")
    return {
        "host": key[0],
        "pid": key[1],
        "program": exe,
        "command": command,
        "start": None if begin is None else ms(int(begin) - start_ns),
        "dur": None if begin is None or end is None else ms(int(end) - int(begin)),
        "exit": None if row.get("exit") is None else int(row["exit"]),
        "signal": None if row.get("signal") is None else int(row["signal"]),
        "rss": None if rss is None else int(rss) * 1024,
        "cpu": None if cpu is None else ms(cpu),
        "tasks": tasks,
    }
