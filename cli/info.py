"""`tailrace info`: prints what a run contains, what was lost, and how this tailrace was built."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.cli.opening import open_run
from tailrace.cli.options import PATH, format_option, scheduler_option
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.run import Run
    from tailrace.analyzer.store.ledger import CauseGroup
    from tailrace.analyzer.summary.io_summary import Function, Summary

FEW_JOBS = 3
"""So many jobs that share a run are named."""


@click.command()
@click.argument("directory", type=PATH, metavar="DIR", required=False)
@click.option("--build", is_flag=True, help="Print how tailrace was built, as JSON, and exit.")
@click.option(
    "--summary",
    is_flag=True,
    help="Print the I/O in figures instead: what ran, on what data, where the time went, and"
    " each function's calls, sizes (least, quartiles, largest) and bandwidth.",
)
@format_option
@scheduler_option
def command(directory: Path | None, build: bool, summary: bool, form: str) -> None:
    """Print what the run DIR contains: events, processes, times, bytes, stages, coverage and losses."""
    if build:
        from tailrace import _native

        click.echo(_native.build_info())
        return
    if directory is None:
        raise UsageError("the run directory is missing: write tailrace info DIR")
    run = open_run(directory)
    if summary:
        _summary(run, form)
        return
    info = run.info()
    if form == "json":
        click.echo(json.dumps(info, indent=2))
        return
    from tailrace.cli.lines import render

    render(["", str(directory)], _lines(info), numbers=False)
    if info["stages"]:
        render(*_stages(run), title="Stages")
    if below := cause_rows(run.coverage_causes()):
        heads = ["processes", "accounted", "missing", "coverage", "most of it", "cause"]
        render(heads, below, title=f"Coverage below {_LIMIT}, by cause")
    if losses := run.loss_rows():
        rows = [[file, cause, count, unit, problem] for file, cause, unit, count, problem in losses]
        render(["file", "cause", "count", "unit", "problem"], rows, title="Losses")
    if problems := run.declared_problem_rows():
        render(["file", "line", "problem"], problems, title="Invalid declared lines")


def _summary(run: Run, form: str) -> None:
    from tailrace.cli.lines import put_json, render

    found = run.io_summary()
    if form == "json":
        put_json(found.to_json())
        return
    render(["", str(run.path)], _figures(found), numbers=False)
    heads = ["layer", "function", "calls", "time", "bytes", "least", "25%", "median", "75%", "largest", "bandwidth"]
    rows = [_function(one) for one in found.functions]
    render(
        heads, rows, title="Functions, by time in calls", spare=["25%", "75%", "least", "layer", "largest", "bandwidth"]
    )


def _figures(found: Summary) -> list[list[str]]:
    from tailrace.analyzer.insights.views import collective_text
    from tailrace.analyzer.util.formatting import time_text

    ran = [(found.hosts, "host"), (found.jobs, "job"), (found.stages, "stage"), (found.tasks, "task")]
    parts = [count_text(number, word) for number, word in ran if number]
    parts += [count_text(found.processes, "process", "es"), count_text(found.threads, "thread")]
    span = max(found.span_ns, 1)
    io = {"reading": found.read_ns, "writing": found.write_ns, "metadata": found.metadata_ns}
    rows = {
        "allocation": ", ".join(parts),
        "data": f"{count_text(found.files, 'file')}, {found.data_files:,} of them data; {bytes_text(found.read_bytes)}"
        f" read, {bytes_text(found.written_bytes)} written",
        "time": f"{time_text(found.span_ns)}; at least one call on a file was running for {time_text(found.io_ns)}"
        f" ({found.io_ns / span:.1%})",
        "I/O": ", ".join(f"{name} {time_text(ns)} ({ns / span:.1%})" for name, ns in io.items()),
        "bandwidth": f"{bytes_text((found.read_bytes + found.written_bytes) / (found.io_ns / 1e9))}/s while calls ran"
        if found.io_ns
        else "",
        "collective calls": collective_text(found.collectives) if found.collectives else "",
        "processor": "" if found.processor_ns is None else f"{time_text(found.processor_ns)} in all processes",
    }
    return [[name, text] for name, text in rows.items() if text]


def _function(one: Function) -> list[object]:
    from tailrace.analyzer.util.formatting import time_text

    sizes = [one.min, one.p25, one.median, one.p75, one.max]
    shown = [bytes_text(size) if size is not None else "" for size in sizes]
    total = bytes_text(one.bytes) if one.bytes else ""
    rate = "" if one.bandwidth is None else f"{bytes_text(one.bandwidth)}/s"
    return [one.layer, one.name, one.calls, time_text(one.time_ns), total, *shown, rate]


def _jobs(jobs: list[str]) -> str:
    """The batch jobs that share the run."""
    named = [*jobs[:FEW_JOBS], *(["..."] if len(jobs) > FEW_JOBS else [])]
    return f"{len(jobs)}, which share the run: {', '.join(named)}" if jobs else ""


def _lines(info: dict[str, Any]) -> list[list[str]]:
    seconds = (info["t1_ns"] - info["t0_ns"]) / 1e9 if info["events"] else 0.0
    lost = ", ".join(_loss(**loss) for loss in info["losses"])
    command = info["command"]
    rows = {
        "outcome": info["outcome"] or _all_done(info["outcomes"]),
        "run": info["run_id"],
        "recorded as": "; ".join([info["foreign"]["title"], *info["foreign"]["notes"]]) if info["foreign"] else None,
        "names": f"hashed, by the key {info['hashed_names']}" if info["hashed_names"] else None,
        "command": " ".join(map(str, command)) if isinstance(command, list) else command,
        "jobs": _jobs(info["jobs"]),
        "created": info["created"],
        "hosts": ", ".join(info["hosts"]),
        "processes": info["processes"],
        "events": info["events"],
        "detail": _detail(info),
        "first event": _time(info["t0_ns"]),
        "last event": _time(info["t1_ns"]),
        "duration": f"{seconds:.3f} s",
        "read": _bytes(info["read_bytes"]),
        "written": _bytes(info["written_bytes"]),
        "coverage": _coverage(info["coverage"]),
        "stages": info["stages"],
        "tasks": info["tasks"],
        "declared tasks": info["declared_tasks"],
        "contexts": info["contexts"],
        "trace": f"{info['trace_files']} files, {info['blocks']} blocks",
        "size": f"{_bytes(info['compressed_bytes'])}, {_bytes(info['raw_bytes'])} raw",
        "sealing": _sealing(info),
        "lost": lost or ("no recorded event" if info["coverage"]["causes"] else "nothing"),
    }
    optional: tuple[str, ...] = ("outcome", "recorded as", "names", "jobs", "detail", "sealing")
    if info["jobs"]:
        optional += ("command",)
    rows = {name: value for name, value in rows.items() if name not in optional or value}
    return [[name, "" if value is None else str(value)] for name, value in rows.items()]


def _all_done(outcomes: dict[str, int]) -> str:
    """The outcome of a run in which nothing failed; "" where no task was declared."""
    return f"{count_text(outcomes['done'], 'task')} done" if outcomes else ""


def _loss(cause: str, unit: str, count: int) -> str:
    if unit != "processes":
        return f"{count} {unit} {cause}"
    return f"{count_text(count, 'process', 'es')} recorded {'in part' if cause == 'gave_way' else 'nothing'}"


def _detail(info: dict[str, Any]) -> str:
    """From when on lines of totals stand for calls; "" under full detail."""
    if not info["totals"]:
        return ""
    return (
        f"totals from {_time(info['totals_since_ns'])} on, {count_text(info['totals'], 'line')} for several calls each"
    )


def _sealing(info: dict[str, Any]) -> str:
    """The processor time of sealing; "" where the trace does not say."""
    if not (total := info["sealing_ns"] + info["self_sealing_ns"]):
        return ""
    return f"{total / 1e9:.3f} s of processor time, {info['self_sealing_ns'] / 1e9:.3f} s of it in the processes"


def _coverage(coverage: dict[str, Any]) -> str:
    """The share of the accounted bytes that the trace contains, and what is not accounted."""
    from tailrace.analyzer.util.formatting import percent_text

    if coverage["share"] is None:
        return "unknown: no process has byte accounting"
    kernel = coverage["kernel_read"] + coverage["kernel_written"]
    share = percent_text(coverage["captured_read"] + coverage["captured_written"], kernel)
    notes = [f"{share} of {_bytes(kernel)} in the kernel's byte accounting"]
    if coverage["ahead"] > _SOME_AHEAD * kernel:
        notes.append(f"{bytes_text(coverage['ahead'])} of them read ahead by libc, and used by nobody")
    if missing := coverage["processes"] - coverage["accounted"]:
        notes.append(f"{missing} of {coverage['processes']} processes without accounting")
    if coverage["untraced"]:
        notes.append(f"{coverage['untraced']} not traced")
    if coverage["left_out"]:
        notes.append(f"{coverage['left_out']} excluded by TAILRACE_UNTRACED")
    if coverage["below"]:
        notes.append(f"{coverage['below']} below {_LIMIT}")
    return ", ".join(notes)


_LIMIT = "99.9%"
_SOME_AHEAD = 0.01
"""From this share of the kernel's bytes on, those that libc read ahead of the program are told."""


def cause_rows(groups: list[CauseGroup]) -> list[list[object]]:
    """The processes with a coverage below 99.9% by cause (ledger.by_cause); `most of it`: the one that misses most."""
    from tailrace.analyzer.util.formatting import percent_text

    return [
        [
            group.processes,
            bytes_text(group.kernel_bytes),
            bytes_text(group.missing_bytes),
            percent_text(group.kernel_bytes - group.missing_bytes, group.kernel_bytes),
            f"{group.rows[0]['host']}:{group.rows[0]['pid']} {Path(group.rows[0]['exe'] or '').name or '?'}",
            group.sentence(),
        ]
        for group in groups
    ]


def _stages(run: Any) -> tuple[list[str], list[list[Any]]]:
    from tailrace.analyzer.util.formatting import bytes_text

    rows = [
        [
            row.workflow,
            row.stage or "(untagged)",
            row.tasks,
            row.processes,
            row.events,
            bytes_text(row.read_bytes),
            bytes_text(row.written_bytes),
        ]
        for row in run.stage_rows()
    ]
    return ["workflow", "stage", "tasks", "processes", "events", "read", "written"], rows


def _time(ns: int | None) -> str | None:
    if ns is None:
        return None
    try:
        whole = datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns since the epoch"
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ns % 1_000_000_000:09d} UTC"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit} ({count} B)"
