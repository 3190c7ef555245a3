"""Tasks that wait for a server outside of the run."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape as literal

import numpy as np

from tailrace.analyzer.edges import channels, edge_table
from tailrace.analyzer.insights import whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import OWN_PARTS
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, more
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.formatting import bytes_text, time_text
from tailrace.analyzer.util.types import Bools


def find(found: Analyses) -> Iterator[Match]:
    """All servers, as one match."""
    inputs, path = found.inputs, found.critical.path
    pieces = path[path["task"] >= 0]
    task, high = (pieces[name].to_numpy(dtype=np.int64) for name in ("task", "end_ns"))
    low = high - pieces[list(OWN_PARTS)].sum(axis=1).to_numpy(dtype=np.int64)
    bursts = inputs.m.bursts
    rows: list[Row] = []
    tasks: set[int] = set()
    for address, pick in _servers(found).items():
        waits = grouping.sums(task, whatif.io_cover(inputs, pick).inside(task, low, high), len(inputs.tasks))
        users = np.flatnonzero(waits).tolist()
        if users:
            top = int(waits.argmax())
            mine = pick & (inputs.of_who[bursts["who"].to_numpy()] == top)
            rows.append(
                Row(
                    task=inputs.called(top),
                    server=address,
                    waited_ns=int(waits.sum()),
                    longest_ns=int(waits[top]),
                    bytes=int(bursts["bytes"].to_numpy()[mine].sum()),
                    tasks=len(users),
                    code=top,
                )
            )
            tasks |= set(users)
    rows.sort(key=lambda row: -int(str(row["waited_ns"])))
    waited = min(sum(int(str(row["waited_ns"])) for row in rows), inputs.makespan_ns)
    if not rows or not LEAST.reached(waited, inputs.makespan_ns):
        return
    first = rows[0]
    several, most, every, got = (int(str(first[name])) for name in ("tasks", "longest_ns", "waited_ns", "bytes"))
    others = (
        f"; {several:,} {inputs.units} of the critical path waited {time_text(every)} for it" if several > 1 else ""
    )
    yield Match(
        title=f"{first['task']} waited {time_text(most)} for {first['server']}, a server outside"
        f" of the run, and got {bytes_text(got)}{others}{more(len(rows))}",
        names={"task": found.of_task(int(str(first["code"]))), "server": [f"*->{literal(str(first['server']))}"]},
        cost_ns=waited,
        estimate=True,
        count=len(rows),
        evidence=[{key: value for key, value in row.items() if key != "code"} for row in rows[:EVIDENCE]],
        tasks=tasks,
        where=f"from {first['server']}",
    )


def _servers(found: Analyses) -> dict[str, Bools]:
    """Address -> the bursts of tasks that read of connections to it, whose other end nobody in the run has."""
    inputs, m = found.inputs, found.inputs.m
    file, way = m.bursts["file"].to_numpy(), m.bursts["dir"].to_numpy()
    sent = np.zeros(len(m.table.files), dtype=np.bool_)
    sent[file[way == edge_table.WRITE]] = True
    mine = (way == edge_table.READ) & inputs.works[inputs.of_who[m.bursts["who"].to_numpy()]]
    mine &= (m.table.files["ftype"] == "sock").to_numpy()[file] & ~sent[file]
    out: dict[str, Bools] = {}
    for code in np.unique(file[mine]).tolist():
        name = channels.ADDRESSES.fullmatch(str(m.paths[code]))
        if name is not None:
            out[name[3]] = out.get(name[3], np.zeros(len(file), dtype=np.bool_)) | (mine & (file == code))
    return out


RULE = Rule(
    kind="waiting for a server",
    about=TIME,
    title="Tasks that wait for a server outside of the run",
    definition=(
        "A task of the critical path was inside reads of a connection whose other end is no process of the run: an"
        " object store, a database, a web server. The estimate is that time: an upper bound of what could be saved"
        " by having the data there before."
    ),
    advice=(
        "Fetch the data before the task or beside other work, over several connections, or keep a copy near; ask"
        " whether the server or the network limits."
    ),
    source="recv(2): it returns when data has come",
    query="tailrace query {run} {task} --where dir=r --path {server} --by path --agg sum:size --agg sum:dur",
    find=find,
    thresholds=(LEAST,),
    change="data fetched ahead",
)
