"""How long programs took to load themselves, their libraries and modules before they touched data.

    bursts on software and system files, first burst on data or a pipe (edge table) --> StartUps, by actor

A start-up begins with an actor's first event and ends with the last file of software that it reads before any data.
Sockets and the like are no data: libraries talk over them while they load; nor are a pipe's first `ANSWER_BYTES`, the
answers of commands that a script asks while it starts its program.
A pause of more than `PAUSE_NS` between two such files ends it, and so does a wait of `WAIT_NS` for a process or sleep:
the program works by then, and loads what it needs next.

Reads no events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, packages
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.types import Bools, Ints

PAUSE_NS = 500_000_000
WAIT_NS = 20_000_000
ANSWER_BYTES = 4096
SOFTWARE = ("software", "system")


@dataclass(frozen=True)
class StartUps:
    """begin_ns, end_ns: of each actor's start-up; equal where it read nothing before data. work_ns: when it first
    touched data or waited, or its last event: what it loaded may go on to set itself up until then."""

    begin_ns: Ints
    end_ns: Ints
    work_ns: Ints

    @property
    def length_ns(self) -> Ints:
        return self.end_ns - self.begin_ns

    def in_calls(self, m: Model, kinds: Collection[int]) -> tuple[Ints, Ints]:
        """For how long each actor was in calls of these kinds (codes of `edge_table.KINDS`), ns: in its start-up, and
        in all."""
        every = np.arange(len(m.who), dtype=np.int64)
        calls = intervals.cover(edge_table.spent(m.table.busy, kinds), len(every))
        return calls.inside(every, self.begin_ns, self.end_ns), calls.length()


def start_ups(inputs: Inputs) -> StartUps:
    """The start-up of each actor."""
    m, begin = inputs.m, inputs.lives.start
    size = len(m.who)
    moved = ((m.bursts["bytes"] > 0) | (m.bursts["mapped_bytes"] > 0)).to_numpy()
    who, first, last = (m.bursts[name].to_numpy() for name in ("who", "first_ns", "last_ns"))
    pipes = (m.table.files["ftype"] == "fifo").to_numpy()[m.bursts["file"].to_numpy()]
    data = (m.classed(("data", "manager")) | _past_answers(m, pipes)) & moved
    until = grouping.least(who[data], first[data], size, np.iinfo(np.int64).max)
    waits = edge_table.spent(m.table.busy, (edge_table.CHILD, edge_table.SLEEP))
    long = waits.weight >= WAIT_NS
    np.minimum.at(until, waits.group[long], waits.start[long])
    loads = m.classed(SOFTWARE) & (m.bursts["dir"] == edge_table.READ).to_numpy() & (first < until[who])
    order = np.flatnonzero(loads)[np.lexsort((first[loads], who[loads]))]
    rows = pd.DataFrame({"who": who[order], "first": first[order], "last": last[order]})
    rows["over"] = rows.groupby("who")["last"].cummax()
    before = rows.groupby("who")["over"].shift()
    before = before.where(before.notna(), pd.Series(begin[rows["who"].to_numpy()], index=rows.index)).astype(np.int64)
    paused = (rows["first"] - before > PAUSE_NS).groupby(rows["who"]).cummax()
    kept = rows[~paused.to_numpy(dtype=np.bool_)]
    end = np.maximum(grouping.most(kept["who"].to_numpy(), kept["last"].to_numpy(), size, 0), begin)
    end = np.minimum(end, np.maximum(until, begin))
    return StartUps(begin, end, np.maximum(np.minimum(until, inputs.lives.end), end))


def _past_answers(m: Model, pipes: Bools) -> Bools:
    """The bursts on pipes by whose end their actor had moved `ANSWER_BYTES` or more through them."""
    rows = m.bursts.loc[pipes, ["who", "first_ns", "bytes"]].sort_values("first_ns", kind="stable")
    far = rows.groupby("who")["bytes"].cumsum() >= ANSWER_BYTES
    return pipes & np.isin(m.bursts.index.to_numpy(), far.index[far].to_numpy())


def most_loaded(inputs: Inputs, actors: Ints) -> str:
    """The package of which these actors read most files as software; "" where it is no more than their libraries."""
    m = inputs.m
    mine = m.classed(("software",)) & np.isin(m.bursts["who"].to_numpy(), actors)
    paths = [str(m.paths[file]) for file in np.unique(m.bursts["file"].to_numpy()[mine])]
    # What only says where packages are is none.
    names = Counter(packages.package(path) for path in paths if "-packages/" in path and not path.endswith(".pth"))
    names = Counter({name: count for name, count in names.items() if not name.startswith("_")})
    return names.most_common(1)[0][0] if names else ""
