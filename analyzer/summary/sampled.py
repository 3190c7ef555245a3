"""What launchers sampled (store/samples.py), for the timeline: a row for each node, with its values over time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from tailrace.analyzer.store.samples import Samples
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms

SPANS = 400
"""Spans of time of a node at most: about as many as the timeline has pixels."""


def sampled(samples: Samples, start_ns: int) -> JsonObject:
    """problems, total (nodes), nodes: host, processors, memory (bytes), from and to (ms from the run's begin, of each
    span), and of each span busy (processors), iowait (processors), run_busy (processors of the run's processes), used
    and run_used (bytes, the most of its samples), switches (a second), cpu, memory_some and io (the share of the time
    in which some task waited for it). null: not known."""
    rows = []
    hosts = list(dict.fromkeys(samples.node["host"]))
    for host in hosts[: LIMITS["sampled_nodes"]]:
        mine = samples.node[samples.node["host"] == host]
        processes = samples.processes[samples.processes["host"] == host]
        for _, file in mine.groupby("file", sort=False):
            if len(file) > 1:
                rows.append(_node(file, processes[processes["file"] == file["file"].iloc[0]], start_ns))
    return {"problems": samples.problems, "total": len(hosts), "nodes": rows}


def _node(file: pd.DataFrame, processes: pd.DataFrame, start_ns: int) -> JsonObject:
    step = max(-(-(len(file) - 1) // SPANS), 1)
    ends = np.unique(np.append(np.arange(0, len(file), step), len(file) - 1))
    span = np.searchsorted(ends, np.arange(len(file)))  # of each sample: the span that ends with it or after it
    of_ends = Samples(file.iloc[ends].reset_index(drop=True), processes.iloc[:0], []).node_rates()
    used = (file["memory_bytes"] - file["available_bytes"]).groupby(span).max().iloc[1:]
    run = _run(file, processes, span)
    found: dict[str, Iterable[object]] = {
        # Ticks may be counted later than they passed.
        "busy": (of_ends["user_ns"] + of_ends["system_ns"]).clip(upper=float(file["processors"].max())),
        "iowait": of_ends["iowait_ns"],
        "run_busy": run["busy"],
        "used": used,
        "run_used": run["memory"],
        "switches": of_ends["switches"],
        "cpu": of_ends["cpu_some_ns"],
        "memory_some": of_ends["memory_some_ns"],
        "io": of_ends["io_some_ns"],
    }
    return {
        "host": str(file["host"].iloc[0]),
        "processors": _plain(file["processors"].max()),
        "memory": _plain(file["memory_bytes"].max()),
        "from": [ms(ns - start_ns) for ns in of_ends["begin_ns"]],
        "to": [ms(ns - start_ns) for ns in of_ends["end_ns"]],
        **{name: [_plain(value) for value in values] for name, values in found.items()},
    }


def _run(file: pd.DataFrame, processes: pd.DataFrame, span: np.ndarray) -> dict[str, list[float]]:
    """By span, from the second on: processors that the run's processes used, and the most memory that they had at one
    sample. What a process did before its first and after its last sample is not in it."""
    spans = int(span.max()) + 1
    busy, memory = np.zeros(spans), np.zeros(spans)
    place = pd.Series(span, index=file["n"].to_numpy())
    if len(processes):
        rows = processes.sort_values(["pid", "start", "ts"], kind="stable")
        time = (rows["user_ns"].fillna(0) + rows["system_ns"].fillna(0)).astype("int64")
        grown = time.groupby([rows["pid"], rows["start"]]).diff().fillna(0).clip(lower=0).to_numpy(dtype=float)
        at = place.reindex(rows["n"]).fillna(0).to_numpy(dtype=np.int64)
        np.add.at(busy, at, grown)
        held = rows["memory_bytes"].fillna(0).astype("int64").groupby(rows["n"]).sum()
        np.maximum.at(memory, place.reindex(held.index).fillna(0).to_numpy(dtype=np.int64), held.to_numpy(dtype=float))
    ends = file["ts"].groupby(span).max().to_numpy()
    return {"busy": (busy[1:] / np.diff(ends)).tolist(), "memory": memory[1:].tolist()}


def _plain(value: object) -> float | int | None:
    if value is None or value is pd.NA or value != value:
        return None
    number = float(str(value))
    return int(number) if number.is_integer() else round(number, 4)
