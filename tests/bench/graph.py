"""What the dataflow graph costs at the size of real campaigns: algorithms on arrays, NetworkX beside them.

    PYTHONPATH=tests python tests/bench/graph.py [--only graph edges report] [--instance FILE.json ...] [--json FILE]

    graph    100,000 tasks and 500,000 files with 970,000 edges: building, critical path and slack, the stage graph; the
             same with NetworkX. 10,000,000 edges under a limit of 4 GiB of address space.
    edges    10,000,000 events to the edge table, and a plain group-by over the same frames; events scattered over tasks
             and files, and in the order of real traces.
    report   a run of 100,000 tasks and 500,000 files, written as trace files and shown by `tailrace report`. With
             `--instance`, its tasks are those of WfFormat instances, repeated; else a made-up Montage.

Each figure is of the least of `--rounds`; every result is checked against what was put in, so that a step that drops
rows is seen.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import replay
from rich.console import Console
from rich.table import Table

from tailrace.analyzer.edges import edge_table, event_fold
from tailrace.analyzer.model import dataflow, graphs
from tailrace.analyzer.util import csr, intervals
from tailrace.integrations import wfformat

TASKS, FILES, STAGES = 100_000, 500_000, 10
READS = 470_000
GIB = 1 << 30
T0_NS = 1_763_600_000_000_000_000


def layered(tasks: int, files: int, reads: int, seed: int = 1) -> tuple[Any, Any]:
    """Who wrote each file, and (task, file) of each read: a task reads what tasks of the stages before it wrote."""
    r = np.random.default_rng(seed)
    writer = np.sort(r.integers(0, tasks, files))
    reader = r.integers(tasks // STAGES, tasks, reads)
    before = reader // (tasks // STAGES) * (tasks // STAGES)
    limit = np.searchsorted(writer, before)
    file = (r.random(reads) * limit).astype(np.int64)
    return writer, np.column_stack((reader, file))


def made_table(tasks: int, writer: Any, reads: Any) -> edge_table.EdgeTable:
    """The edge table that such a run has: one burst an edge, one extent a burst."""
    files, size = len(writer), 4096
    who = pd.DataFrame({"workflow": "w", "stage": [f"s{t * STAGES // tasks}" for t in range(tasks)]})
    who["task"] = [f"t{t}" for t in range(tasks)]
    who["host"], who["pid"] = "n1", np.arange(tasks)
    who["start"] = [f"{T0_NS + t:x}" for t in range(tasks)]
    start = T0_NS + (np.arange(tasks) * STAGES // tasks) * 10**9
    pairs = np.concatenate([np.column_stack((writer, np.arange(files))), reads])
    pairs = np.unique(pairs, axis=0) if len(pairs) < 2_000_000 else pairs
    wrote = writer[pairs[:, 1]] == pairs[:, 0]
    first = start[pairs[:, 0]] + np.where(wrote, 5 * 10**8, 10**8)
    bursts = pd.DataFrame({"who": pairs[:, 0], "file": pairs[:, 1], "dir": wrote.astype(np.int64)})
    bursts["first_ns"], bursts["last_ns"] = first, first + 1000
    bursts["fresh"], bursts["exact"] = wrote, True
    for name, value in {
        "bytes": size,
        "calls": 1,
        "loose_bytes": 0,
        "mapped_bytes": 0,
        **edge_table.BURST_ORDER,
    }.items():
        bursts[name] = np.int64(value)
    every, zero = np.arange(len(bursts)), np.zeros(len(bursts), dtype=np.int64)
    names = np.array([f"n1:8:1:{i}:{T0_NS}" for i in range(files)], dtype=object)
    paths = np.array([f"/d/{i % 1000}/{i}" for i in range(files)], dtype=object)
    times = {"first_ns": np.int64(T0_NS), "last_ns": np.int64(T0_NS)}
    actor = np.arange(tasks)
    counts = pd.DataFrame({"who": actor, "kind": edge_table.READ, "calls": 1, "failed": 0, "read_bytes": size})
    counts = counts.assign(
        written_bytes=size, unnamed_bytes=0, buffered_calls=0, first_ns=start, last_ns=start + 9 * 10**8
    )
    patterns = bursts[[*edge_table.BURST_KEY, "calls"]].assign(**dict.fromkeys(edge_table.PATTERN_SUMS[1:], 0))
    sizes = bursts[edge_table.BURST_KEY].assign(bits=size.bit_length(), calls=np.int64(1))
    read = {"kind": edge_table.READ, "cat": "POSIX", "name": "read"}
    functions = pd.DataFrame({"who": actor, **read, "calls": 1, "failed": 0, "bytes": size, "time_ns": 1000})
    lengths = pd.DataFrame([{**read, "range": size, "calls": tasks, "least": size, "most": size}])
    facts = pd.DataFrame({"who": writer, "file": np.arange(files), "what": "create", "path": "", "path2": "", **times})
    return edge_table.Partial(
        who=who,
        files=pd.DataFrame({"file": names, "ftype": "reg"}),
        aliases=pd.DataFrame({"file": np.arange(files), "path": paths, **times}),
        bursts=bursts,
        extents=intervals.make(every, zero, zero + size),
        times=intervals.make(every, first, first + 1000),
        thread_calls=intervals.make(edge_table.keyed(actor, edge_table.READ), start, start + 1000),
        counts=counts,
        patterns=patterns,
        sizes=sizes,
        functions=functions,
        lengths=lengths,
        threads=pd.DataFrame({"who": actor, "tid": actor, "first_ns": start, "last_ns": start + 9 * 10**8}).assign(
            **{name: np.int64(-1 if name.startswith("life") else 0) for name in edge_table.ACCOUNT}
        ),
        facts=facts,
        process_events=pd.DataFrame(
            {"who": actor[:0], "what": np.empty(0, dtype=object), "pid": actor[:0], "ns": actor[:0]}
        ),
    )


def least(rounds: int, step: Callable[[], Any]) -> tuple[float, Any]:
    """The least wall time of `rounds`, and what the last one returned."""
    times = []
    result = None
    for _ in range(rounds):
        begin = time.perf_counter()
        result = step()
        times.append(time.perf_counter() - begin)
    return min(times), result


# --- the graph -------------------------------------------------------------------------------------------------------


def graph(rounds: int) -> dict[str, Any]:
    writer, reads = layered(TASKS, FILES, READS)
    source = np.concatenate([writer, TASKS + reads[:, 1]])
    target = np.concatenate([TASKS + np.arange(FILES), reads[:, 0]])
    weight = np.concatenate([np.random.default_rng(2).integers(1, 10**9, TASKS), np.zeros(FILES, dtype=np.int64)])
    nodes = TASKS + FILES
    out: dict[str, Any] = {"nodes": nodes, "edges": len(source)}
    out["build_s"], g = least(rounds, lambda: csr.build(nodes, source, target))
    out["critical_s"], found = least(rounds, lambda: csr.longest(g, weight))
    out["slack_s"], _ = least(rounds, lambda: csr.slack(g, weight, found))
    out["model_s"], m = least(1, lambda: dataflow.build(made_table(TASKS, writer, reads)))
    out["stage_graph_s"], stage = least(rounds, lambda: graphs.graph(_anew(m), "stage"))
    passed = sum(d["bytes"] for _, _, d in stage.edges(data=True))
    assert passed == 4096 * len(np.unique(reads, axis=0)), "every read is in a flow"

    begin = time.perf_counter()
    peer: nx.DiGraph[int] = nx.DiGraph()
    peer.add_nodes_from(range(nodes))
    lengths = weight[source].tolist()
    peer.add_weighted_edges_from(zip(source.tolist(), target.tolist(), lengths, strict=True))
    out["networkx_build_s"] = time.perf_counter() - begin
    begin = time.perf_counter()
    longest = nx.dag_longest_path_length(peer)
    out["networkx_critical_s"] = time.perf_counter() - begin
    ends = found.length - weight
    assert int(ends.max()) == longest, "the same path, but for the last node's own weight"
    return out


def _anew(m: dataflow.Model) -> dataflow.Model:
    """The model without what it remembers."""
    from dataclasses import replace

    return replace(m, _flows={}, _activities={})


LARGE = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import numpy as np
from tailrace.analyzer.util import csr
r = np.random.default_rng(1)
nodes, edges = 6_000_000, 10_000_000
source = r.integers(0, nodes - 1, edges)
target = source + 1 + (r.random(edges) * (nodes - 1 - source)).astype(np.int64)
begin = time.perf_counter()
g = csr.build(nodes, source, target)
found = csr.longest(g, np.ones(nodes, dtype=np.int64))
assert found.reached.all()
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def large() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    return {"edges": 10_000_000, "build_and_critical_s": float(seconds), "peak_gib": float(peak) / GIB}


# --- the edge table --------------------------------------------------------------------------------------------------

PART = 350_000
"""Events of a partition, as the loader cuts them."""
EVENT_TASKS, EVENT_FILES = 2000, 5000


def scattered(begin: int, count: int, _total: int) -> tuple[Any, Any, Any, Any]:
    """Nothing of an event follows from the one before: nearly every (task, file) of a partition is a new one."""
    r = np.random.default_rng(begin)
    task = r.integers(0, EVENT_TASKS, count)
    return task, r.integers(0, EVENT_FILES, count), task % 2, r.integers(0, 1000, count) * 4096


def streams(begin: int, count: int, total: int) -> tuple[Any, Any, Any, Any]:
    """As traces are: one process's events after the other's, a hundred calls in a row on one file."""
    at, each = np.arange(begin, begin + count), total // EVENT_TASKS
    task, run, call = at // each, at % each // 100, at % each % 100
    writes = run % 4 == 3
    file = np.where(writes, task, (task * 7919 + run * 104_729)) % EVENT_FILES
    return task % EVENT_TASKS, file, writes.astype(np.int64), (run * writes * 100 + call) * 4096


def events(order: Callable[..., tuple[Any, Any, Any, Any]], begin: int, count: int, total: int) -> pd.DataFrame:
    """Reads and writes as the loader gives them: text in categories."""
    task, file, way, offset = order(begin, count, total)

    def text(codes: Any, names: list[str]) -> Any:
        return pd.Categorical.from_codes(codes, pd.Index(names, dtype="str"))

    nothing = pd.array(np.zeros(count, dtype=np.int64), dtype="Int64")
    nothing[:] = pd.NA
    paths = [f"/d/{i}" for i in range(EVENT_FILES)]
    identities = [f"n1:8:1:{i}:5" for i in range(EVENT_FILES)]
    zero = np.zeros(count, dtype=np.int64)
    columns = {
        "name": text(way, ["read", "write"]),
        "cat": text(zero, ["POSIX"]),
        "ts": T0_NS + np.arange(begin, begin + count) * 10_000,
        "dur": np.full(count, 1000),
        "host": text(zero, ["n1"]),
        "pid": (task + 1).astype(np.int32),
        "start": text(task, [f"{T0_NS + i:x}" for i in range(EVENT_TASKS)]),
        "path": text(file, paths),
        "file": text(file, identities),
        "ftype": text(zero, ["reg"]),
        "path2": text(zero - 1, ["x"]),
        "file2": text(zero - 1, ["x"]),
        "offset": pd.array(offset, dtype="Int64"),
        "size": pd.array(np.full(count, 4096), dtype="Int64"),
        "count": pd.array(np.full(count, 4096), dtype="Int64"),
        "ret": pd.array(np.full(count, 4096), dtype="Int64"),
        "errno": nothing.astype("Int32"),
        "dir": text(way, ["r", "w"]),
        "flags": nothing.astype("Int32"),
        "calls": np.ones(count, dtype=np.int32),
        "workflow": text(zero, ["w"]),
        "stage": text(task % STAGES, [f"s{i}" for i in range(STAGES)]),
        "task": text(task, [f"t{i}" for i in range(EVENT_TASKS)]),
    }
    return pd.DataFrame(columns)


def in_a_child(step: Callable[[], int]) -> dict[str, float]:
    """What `step` costs in a process that has what this one has: wall and processor seconds, memory on top; its result.

    So neither side runs in memory that the other one left behind.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin, used = time.perf_counter(), time.process_time()
        result = step()
        cost = {"wall_s": time.perf_counter() - begin, "cpu_s": time.process_time() - used, "result": result}
        cost["peak_gib"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / GIB
        os.write(write, json.dumps(cost).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, "the measured step failed"
    cost = json.loads(text)
    assert isinstance(cost, dict)
    return cost


def table_of_events(rounds: int, count: int, order: Callable[..., tuple[Any, Any, Any, Any]]) -> dict[str, Any]:
    """As the analyzer does it, partitions folded one after the other and combined; and a group-by over the same frames,
    by partition and over the results, as Dask does it. Both find (task, file, direction) -> bytes, calls, first, last;
    ours finds byte ranges, times and pauses besides."""
    parts = [events(order, at, min(PART, count - at), count) for at in range(0, count, PART)]
    keys = ["workflow", "stage", "task", "host", "pid", "file", "dir"]
    sums = {"bytes": ("size", "sum"), "first": ("ts", "min"), "last": ("ts", "max"), "calls": ("calls", "sum")}
    whole = {name: (name, how) for name, (_, how) in sums.items()}

    def group() -> int:
        tables = [p.groupby(keys, observed=True).agg(**sums) for p in parts]
        table = pd.concat(tables).groupby(level=keys, observed=True).agg(**whole)
        assert int(table["bytes"].sum()) == 4096 * count
        return len(table)

    def ours() -> int:
        table = edge_table.combine([event_fold.chunk(p) for p in parts])
        assert int(table.bursts["bytes"].sum()) == 4096 * count
        return len(table.bursts[edge_table.BURST_KEY].drop_duplicates())

    event_fold.chunk(parts[-1])
    parts[-1].groupby(keys, observed=True).agg(**sums)
    runs: dict[str, list[dict[str, float]]] = {"group_by": [], "edge_table": []}
    for _ in range(rounds):
        for name, step in (("group_by", group), ("edge_table", ours)):
            runs[name].append(in_a_child(step))
    assert runs["group_by"][0]["result"] == runs["edge_table"][0]["result"], "the same edges"
    out: dict[str, Any] = {"events": count, "edges": int(runs["group_by"][0]["result"])}
    for figure in ("cpu_s", "wall_s", "peak_gib"):
        best = {name: min(run[figure] for run in costs) for name, costs in runs.items()}
        out.update({f"{name}_{figure}": value for name, value in best.items()})
        out[f"{figure.split('_')[0]}_ratio"] = best["edge_table"] / best["group_by"]
    return out


# --- a report --------------------------------------------------------------------------------------------------------


def report(instances: list[Path], tasks: int, files: int, directory: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tailrace-graph-", dir=directory) as made:
        run = Path(made) / "run"
        workflows = [wfformat.read(path) for path in instances] or [replay.montage(2000)]
        written = replay.write_many(run, workflows, tasks, files)
        times = {}
        for step in ("first", "again"):
            begin = time.perf_counter()
            done = subprocess.run(["tailrace", "report", str(run)], capture_output=True, text=True, check=True)
            times[f"report_{step}_s"] = time.perf_counter() - begin
            assert f"{written['tasks']} tasks" in " ".join(done.stdout.replace(",", "").split())
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / GIB
        return {**written, **times, "peak_gib": peak}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the dataflow graph at the size of a campaign.")
    parser.add_argument("--only", nargs="+", choices=["graph", "edges", "report"], default=["graph", "edges", "report"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--tasks", type=int, default=TASKS, help="tasks of the run that is reported")
    parser.add_argument("--files", type=int, default=FILES, help="its files")
    parser.add_argument("--instance", type=Path, action="append", default=[], help="a WfFormat instance to replay")
    parser.add_argument("--dir", type=Path, help="where the run lies meanwhile (default: $TMPDIR)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if "graph" in options.only:
        results["graph"] = graph(options.rounds)
        results["10M edges"] = large()
    if "edges" in options.only:
        for order in (scattered, streams):
            results[f"edge table, {order.__name__}"] = table_of_events(options.rounds, options.events, order)
    if "report" in options.only:
        results["report"] = report(options.instance, options.tasks, options.files, options.dir)
    table = Table(title="the dataflow graph", title_justify="left")
    for heading in ("part", "figure", "value"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for part, numbers in results.items():
        for name, value in numbers.items():
            table.add_row(part, name, f"{value:.3f}" if isinstance(value, float) else f"{value:,}")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
