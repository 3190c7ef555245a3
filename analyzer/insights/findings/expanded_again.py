"""A compressed input that several tasks expand, each for itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import bytes_text

TASKS = Threshold(3, "tasks that expand the file")
EXPANDERS = re.compile(
    r"(un)?pigz|g(un)?zip|zcat|l?bzip2|p?bunzip2|bzcat|(un)?xz|xzcat|(un)?zstd|zstdcat|(un)?lz4|lz4cat"
)
"""Programs whose work is to expand what they read, or to compress it."""
COMPRESSED = re.compile(r"\.(gz|tgz|bgz|bz2|xz|lzma|zst|lz4|Z)$")


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    inputs, m = found.inputs, found.inputs.m
    program = [EXPANDERS.fullmatch(file_classes.program(str(exe))) is not None for exe in m.who["exe"]]
    pick = m.classed(("data",)) & (m.bursts["dir"] == edge_table.READ).to_numpy() & (m.bursts["bytes"] > 0).to_numpy()
    pick &= np.array(program, dtype=np.bool_)[m.bursts["who"].to_numpy()]
    rows = m.bursts.loc[pick, ["who", "file", "bytes"]]
    is_compressed = [COMPRESSED.search(str(m.paths[file])) is not None for file in rows["file"]]
    rows = rows[np.array(is_compressed, dtype=np.bool_)]
    shown: list[Row] = []
    tasks: set[int] = set()
    for file, mine in rows.groupby("file"):
        users = set(inputs.of_who[mine["who"].to_numpy()].tolist())
        if len(users) >= TASKS.value:
            actors = np.unique(mine["who"].to_numpy(dtype=np.int64))
            gain, most = (int(ns * (1 - 1 / len(users))) for ns in _took(found, actors))
            shown.append(Row(path=str(m.paths[int(str(file))]), tasks=len(users), gain_ns=gain, most_ns=most))
            tasks |= users
    shown.sort(key=lambda row: -int(str(row["gain_ns"])))
    cost = min(sum(int(str(row["gain_ns"])) for row in shown), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top, path = shown[0], str(shown[0]["path"])
    size = int(rows.loc[[str(m.paths[file]) == path for file in rows["file"]], "bytes"].sum()) // int(str(top["tasks"]))
    yield Match(
        title=f"{top['tasks']:,} tasks each expanded {path} ({bytes_text(size)}), the same data every time"
        f"{more(len(shown))}",
        names={"path": path},
        cost_ns=cost,
        most_ns=min(sum(int(str(row["most_ns"])) for row in shown), inputs.makespan_ns),
        estimate=True,
        count=len(shown),
        evidence=shown[:EVIDENCE],
        tasks=tasks,
        where=f"{path.rpartition('/')[2]} once",
    )


def _took(found: Analyses, actors: np.ndarray) -> tuple[int, int]:
    """For how long these actors' processes were on a processor, and at least one of them lived, ns."""
    lives, used = found.inputs.lives, found.processors.of_process
    process = np.unique(lives.process[actors])
    none = np.zeros(len(process), dtype=np.int64)
    times = intervals.union(intervals.make(none, lives.begun[process], lives.over[process]))
    together = int(intervals.length(times, 1)[0])
    known = used[process]
    return together if (known < 0).any() else min(together, int(known.sum())), together


RULE = Rule(
    kind="expanded again and again",
    about=TIME,
    title="A compressed input that several tasks expand, each for itself",
    definition=(
        f"{TASKS} read the same compressed file by a program that expands it (gzip, bzip2, xz, zstd, lz4 and the"
        " like). The estimate is the processor time of these programs, less the share of one of them, at most the time"
        " in which at least one of them ran, less that share."
    ),
    advice=(
        "Expand it once, in a task of its own on which these depend, and let them read the result; or let one task do"
        " what the several look for in it."
    ),
    source="Reasoning: the same input gives the same output each time",
    query="tailrace query {run} --path {path} --where dir=r --by task,host,pid --agg count --agg sum:size",
    find=find,
    thresholds=(TASKS, LEAST),
    change="expanding",
)
