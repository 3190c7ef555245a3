"""Connections that a program began, waited for until its patience was over, and never got.

    events (connect, poll, select) of the actors that wait in such calls --unanswered()--> Unanswered

A connect that does not block says EINPROGRESS; the program then waits until the socket is writable. Where that wait
ends by its timeout, nobody accepted, and nothing refused either. A connect that blocks fails with ETIMEDOUT.

Invariant: a connection over which bytes ever passed was answered, however late.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import channels, edge_table
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.waits import CONNECT, MOST_EVENTS, had_bytes
from tailrace.analyzer.model import calls
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.types import Ints

WAITS = ("poll", "ppoll", "__poll_chk", "select", "pselect")
"""What a program calls that waits for a connection; of one descriptor they tell whose it is."""
_COLUMNS = ["name", "path", "ts", "dur", "ret", "errno"]


class Unanswered(NamedTuple):
    """A task (position in `Inputs.tasks`), the address with which it wanted to connect, and when it waited for that,
    (n, 2); connections: how many."""

    task: int
    address: str
    times: Ints
    connections: int

    @property
    def waited_ns(self) -> int:
        """How long it waited."""
        return intervals.total(self.times)


def unanswered(inputs: Inputs) -> list[Unanswered]:
    """The connections that nobody accepted and for which tasks waited, the longest first. Reads the events of actors
    of which a connect failed."""
    rows = _read(inputs)
    if not len(rows):
        return []
    found = []
    for _, of_both in rows.groupby(["task", "address"]):
        times = of_both[["first_ns", "last_ns"]].to_numpy(dtype=np.int64)
        task, address = of_both["task"].tolist()[0], str(of_both["address"].iat[0])
        found.append(Unanswered(task, address, intervals.united(times), of_both["key"].nunique()))
    return sorted(found, key=lambda one: -one.waited_ns)


def _read(inputs: Inputs) -> pd.DataFrame:
    """key (actor and connection), task, address, first_ns, last_ns of each such wait."""
    none: pd.DataFrame = pd.DataFrame()
    functions, mine = inputs.m.table.functions, np.zeros(len(inputs.m.who), dtype=np.bool_)
    failed = functions[((functions["name"] == CONNECT) & (functions["failed"] > 0)).to_numpy(dtype=np.bool_)]
    mine[failed["who"].to_numpy(dtype=np.int64)] = True
    mine &= inputs.works[inputs.of_who] & ~inputs.of_manager[inputs.of_who]
    counts = inputs.m.table.counts
    if inputs.run is None or counts["calls"][mine[counts["who"].to_numpy()]].sum() > MOST_EVENTS or not mine.any():
        return none
    rows = calls.events(inputs.run, inputs.m, mine, _COLUMNS, _of_part, name=[CONNECT, *WAITS])
    if not len(rows):
        return none
    first = rows["ts"].to_numpy(dtype=np.int64) - calls.ahead_ns(inputs.run, inputs.m)[rows["who"].to_numpy()]
    key = pd.Series([*zip(rows["who"], rows["path"], strict=True)], index=rows.index)
    connects = rows["name"] == CONNECT
    begun = set(key[connects & (rows["errno"] == errno.EINPROGRESS)])
    # What a wait returned says that nothing had come; that nothing came later, the bytes.
    over = (~connects & (rows["ret"] == 0) & key.isin(begun)) | (connects & (rows["errno"] == errno.ETIMEDOUT))
    told = over.to_numpy(dtype=np.bool_) & ~had_bytes(inputs, rows["path"])
    made: pd.DataFrame = pd.DataFrame(
        {
            "key": key,
            "task": inputs.of_who[rows["who"].to_numpy(dtype=np.int64)],
            "address": [channels.peer_address(path) for path in rows["path"]],
            "first_ns": first,
            "last_ns": first + rows["dur"].to_numpy(dtype=np.int64),
        }
    )
    picked: pd.DataFrame = made[told]
    return picked


def _of_part(part: Part) -> pd.DataFrame:
    frame = part()
    rows = frame[frame["path"].notna().to_numpy(dtype=np.bool_)]
    texts = (*edge_table.WHO, "name", "path")
    plain = {name: rows[name].astype(object).where(rows[name].notna(), "") for name in texts if name != "pid"}
    made: pd.DataFrame = rows.assign(
        **plain, errno=rows["errno"].fillna(0).astype(np.int64), ret=rows["ret"].fillna(-1)
    )
    return made
