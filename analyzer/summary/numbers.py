"""The numbers of a run, and the query behind each: what the overview and the headline show.

Invariants: `OVERVIEW` has every number of the overview as an expression over the open run, and the page shows that
expression, so that each number can be computed again; a test does so for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import tailrace
from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import Insights
from tailrace.analyzer.model import collectives, dataflow, stages
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.summary import io_summary
from tailrace.analyzer.summary.limits import JsonObject, ms
from tailrace.analyzer.summary.title import shared_title, title
from tailrace.hashed_names import fingerprint_in

TRACED_READS = "tailrace query {run} --where dir=r --where dir=rw --by cat --agg sum:size"
TRACED_WRITES = "tailrace query {run} --where dir=w --where dir=rw --by cat --agg sum:size"
BELOW = "One row a layer; bytes of MPIIO and HDF5 are counted in the layers below them and left out of the sum."
IMPORTS = """\
import tailrace
from tailrace.analyzer import summary
from tailrace.analyzer.insights import insights
from tailrace.analyzer.model import dataflow, declared_vs_observed, histories, stages, waits
from tailrace.analyzer.store import ledger
"""
PRELUDE = IMPORTS + "\nrun = tailrace.open({run})\n"
"""What an expression of `OVERVIEW` needs before it."""


@dataclass(frozen=True)
class Number:
    """A number of the overview: `key` of `numbers`, its title, unit (ns, bytes, share or count), what it means, the
    Python expression over `run` that gives it, and, where there is one, the shell command."""

    key: str
    title: str
    unit: str
    meaning: str
    python: str
    shell: str = ""


OVERVIEW = (
    Number(
        "span_ns",
        "Wall time",
        "ns",
        "From the first traced event to the end of the last one.",
        "(t := stages.table(run))['last_ns'].max() - t['first_ns'].min()",
    ),
    Number(
        "bound_ns",
        "Longest chain of work",
        "ns",
        "The critical path's lower bound: with any number of processors and no delay between tasks, the run could not"
        " have been shorter. Time blocked on pipes and sockets or waiting for a child does not count as work.",
        "insights(run).critical.bound_ns",
    ),
    Number(
        "tasks",
        "Tasks",
        "count",
        "Distinct task tags, each counted in its stage.",
        "stages.table(run)['tasks'].sum()",
        "tailrace query {run} --by workflow,stage --agg nunique:task",
    ),
    Number(
        "processes",
        "Processes",
        "count",
        "Distinct processes that recorded a call on a file, a pipe or a socket.",
        "len(dataflow.model(run).who[['host', 'pid', 'start']].drop_duplicates())",
        "tailrace query {run} --by host,pid,start",
    ),
    Number(
        "read_bytes",
        "Read",
        "bytes",
        "Bytes that reading calls moved, pipes and sockets included, each counted once. " + BELOW,
        "stages.table(run)['read_bytes'].sum()",
        TRACED_READS,
    ),
    Number(
        "written_bytes",
        "Written",
        "bytes",
        "Bytes that writing calls moved, pipes and sockets included, each counted once. " + BELOW,
        "stages.table(run)['written_bytes'].sum()",
        TRACED_WRITES,
    ),
    Number(
        "passed_bytes",
        "Passed on",
        "bytes",
        "Bytes that a task read of what another one wrote in this run, through files, pipes and sockets.",
        "(f := dataflow.flow_table(dataflow.model(run), 'task'))['bytes'][f['producer'] >= 0].sum()",
        "tailrace graph {run} --level task --files none --format json",
    ),
    Number(
        "io_share",
        "I/O running",
        "share",
        "The share of the wall time with at least one read, write or metadata call running in any process.",
        "stages.io_ns(dataflow.model(run)) / ((t := stages.table(run))['last_ns'].max() - t['first_ns'].min())",
    ),
    Number(
        "peak_bytes",
        "Live data at most",
        "bytes",
        "The largest amount of data in files in use at one time: written or first read, and still to be read.",
        "insights(run).lifetime.peak['live_bytes']",
    ),
    Number(
        "seen_share",
        "Captured",
        "share",
        "Bytes in recorded calls, as a share of those that the kernel counted for the same processes.",
        "(c := ledger.totals(run.coverage)) and (c['captured_read'] + c['captured_written'])"
        " / max(c['kernel_read'] + c['kernel_written'], 1)",
        "tailrace info {run}",
    ),
)


def about(run: AnalyzedRun, m: Model, start_ns: int) -> JsonObject:
    """What was run, by run.json; everything may be absent. `title`: the workflow and its program; `command`: all of it;
    `cwd`: where it was started; `hashed_names`: the fingerprint of their key, where names are hashed; `version`: of the
    tailrace that makes the report.

    `lead_ms` is how long the first I/O, from which the page's times count, came after the run's first event, from which
    those of `tailrace query --since` do.
    """
    info, known = run.meta, run.info()
    command = known.get("command")
    argv = [str(part) for part in command] if isinstance(command, list) else [str(command)] if command else []
    begun = pd.Timestamp(start_ns, unit="ns", tz="UTC").isoformat() if start_ns else ""
    return {
        "title": _title(run, m, argv),
        "command": " ".join(argv),
        "cwd": str(info.get("cwd") or ""),
        "directory": str(run.path),
        "lead_ms": ms(start_ns - first_event_ns(run, start_ns)),
        "run_id": str(info.get("run_id") or ""),
        "created": str(info.get("created") or begun),
        "host": str(info.get("host") or ""),
        "user": str(info.get("user") or ""),
        "hashed_names": fingerprint_in(info) or "",
        "version": tailrace.__version__,
    }


def _title(run: AnalyzedRun, m: Model, argv: list[str]) -> str:
    jobs, directory = run.info().get("jobs"), str(run.meta.get("cwd") or "") or str(run.path)
    if isinstance(jobs, list) and jobs:
        return shared_title(len(jobs), _workflows(run, m), str(run.path.absolute()))
    return title(argv, [name for name in _workflows(run, m) if name], directory)


def _workflows(run: AnalyzedRun, m: Model) -> list[str]:
    """The workflow tags, also those of declared tasks that left no events; "" where something has none."""
    declared = run.declared_tasks["workflow"].fillna("").tolist() if len(run.declared_tasks) else []
    return sorted({*map(str, m.who["workflow"]), *map(str, declared)})


def first_event_ns(run: AnalyzedRun, start_ns: int) -> int:
    """When the run's first event began, ns since the epoch; `start_ns` where the run doesn't say."""
    first = run.info().get("t0_ns")
    return first if isinstance(first, int) else start_ns


def numbers(run: AnalyzedRun, m: Model, table: pd.DataFrame, found: Insights, coverage: JsonObject) -> JsonObject:
    """Counts, bytes and ns (all int), shares of one; seen_share is None without the kernel's account, processor_ns
    where no process told it, collectives where there was no such call. Those of `io_summary.Summary`
    have its names."""
    counts = m.table.counts
    span_ns = int(table["last_ns"].max() - table["first_ns"].min()) if len(table) else 0
    io_ns = stages.io_ns(m)
    flows = dataflow.flow_table(m, "task")
    kernel = coverage["kernel_bytes"]
    return {
        "stages": int((table["stage"] != dataflow.UNTAGGED).sum()),
        "tasks": int(table["tasks"].sum()),
        "processes": processes.count(m.who),
        "threads": io_summary.threads(m),
        "hosts": int(m.who["host"].nunique()),
        "files": int(np.unique(m.bursts["file"][m.classed(("data",))]).size),
        "all_files": int((m.table.files["ftype"] == "reg").to_numpy()[np.unique(m.bursts["file"].to_numpy())].sum()),
        "read_bytes": int(counts["read_bytes"].sum()),
        "written_bytes": int(counts["written_bytes"].sum()),
        "unnamed_bytes": int(counts["unnamed_bytes"].sum()),
        "passed_bytes": int(flows["bytes"][flows["producer"] >= 0].sum()),
        "peak_bytes": int(found.lifetime.peak["live_bytes"]),
        "calls": int(counts["calls"].sum()),
        "span_ns": span_ns,
        "bound_ns": found.critical.bound_ns,
        "io_ns": io_ns,
        "read_ns": stages.running_ns(m, (edge_table.READ,)),
        "write_ns": stages.running_ns(m, (edge_table.WRITE,)),
        "metadata_ns": stages.running_ns(m, stages.NAMES),
        "processor_ns": io_summary.processor_ns(run),
        "collectives": collectives.of_model(run, m).total(),
        "io_share": io_ns / span_ns if span_ns else 0.0,
        "seen_share": coverage["captured_bytes"] / kernel if kernel else None,
    }


def overview() -> list[dict[str, str]]:
    """`OVERVIEW` for the page."""
    names = ("key", "title", "unit", "meaning", "python", "shell")
    return [{name: getattr(number, name) for name in names} for number in OVERVIEW]
