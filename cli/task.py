"""`tailrace task`: one task: how it ended, where its time went, its processes, data and neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.cli.lines import command_text, put, put_json, put_left_out, since
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

if TYPE_CHECKING:
    from tailrace.analyzer.insights.task_profile import Data, Process, TaskProfile

MOST = 10
"""Processes, files and neighbours that are listed; --format json has all."""
_VIA = {
    "data": "data",
    "fork": "it was started",
    "exit": "the end of a process",
    "declared": "a declared dependency",
    "inside": "a task inside",
    "resource": "the same worker, nodes or slot",
    "before": "",
    "rest": "",
    "": "",
}


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("task", metavar="ID")
@format_option
@strict_option
@scheduler_option
def command(directory: Path, task: str, form: str, strict: bool) -> None:
    """Show the task ID of the run DIR.

    ID is the task's tag, its name as reports show it (with or without its stage), WORKFLOW/TASK, or HOST:PID of a
    process without a task. Printed are its status, where its time went, its processes with their command lines, its
    data and who made and used it, its place on the critical path, its slowest calls, and what sets it apart from the
    other tasks of its stage.
    """
    profile = open_run(directory, strict).task(task)
    if form == "json":
        put_json(profile.to_json())
        return
    _head(profile)
    _time(profile)
    _requests(profile)
    _differences(profile)
    _processes(profile.processes, profile.t0_ns)
    _data("Read", "written by", profile.inputs)
    _data("Wrote", "read by", profile.outputs)
    _path(profile)
    _slowest(profile)


def _head(profile: TaskProfile) -> None:
    put(profile.name or profile.task)
    ids = [f"{word} {value}" for word in ("workflow", "stage", "task") if (value := getattr(profile, word))]
    put(", ".join([*ids, *([profile.manager] if profile.manager else [])]), 2)
    if profile.status is not None:
        tries = f" after {profile.tries} tries" if (profile.tries or 0) > 1 else ""
        put(f"status: {profile.status}{tries}", 2)
    if profile.error:
        put(f"error: {profile.error.splitlines()[0]}", 2)
    if profile.arguments:
        put(f"arguments: {profile.arguments_text}", 2)
    for title, names in (("after", profile.parents), ("before", profile.children)):
        if names:
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            put(f"declared {title}: {', '.join(names[:MOST])}{more}", 2)
    if profile.begin_ns is None:
        put("no call of it was recorded", 2)


def _time(profile: TaskProfile) -> None:
    from tailrace.analyzer.insights.profile_text import WAITS

    spans = [(text, profile.waits.get(name)) for name, text in WAITS.items()]
    known = [(text, ns) for text, ns in spans if ns]
    if known:
        put()
        put("Time, by the workflow manager:")
        for text, ns in known:
            put(f"{time_text(ns):>9}  {text}", 2)
    if profile.begin_ns is None or profile.end_ns is None:
        return
    put()
    put(
        f"Time, by the trace: {since(profile.begin_ns, profile.t0_ns)} to {since(profile.end_ns, profile.t0_ns)},"
        f" {time_text(profile.end_ns - profile.begin_ns)}"
    )
    for state, ns in profile.spent_ns.items():
        calls = profile.calls.get(state, 0)
        if ns or calls:
            what = f", in {count_text(calls, 'call')}" if calls else ""
            put(f"{time_text(ns):>9}  {time_words()[state]}{what}", 2)
    moved = f"{bytes_text(profile.read_bytes)} read, {bytes_text(profile.written_bytes)} written"
    failed = f", {count_text(profile.failed_calls, 'call')} failed" if profile.failed_calls else ""
    memory = (
        "" if profile.max_rss_bytes is None else f", at most {bytes_text(profile.max_rss_bytes)} of memory a process"
    )
    put(f"{moved}{failed}{memory}", 2)


def _requests(profile: TaskProfile) -> None:
    from tailrace.analyzer.insights.profile_text import asked_and_used

    rows = asked_and_used(profile)
    if rows:
        put()
        put("Requested and used:")
    for name, asked, used in rows:
        put(f"{name}: {asked} requested, {used or 'unknown'} used", 2)


def time_words() -> Mapping[str, str]:
    """`time_model.WORDS`."""
    from tailrace.analyzer.model.time_model import WORDS

    return WORDS


_BYTES = ("read_bytes", "written_bytes")
_COUNTS = ("calls", "failed", "processes")
_FIGURES = {
    "duration": "duration",
    "calls": "calls",
    "failed": "failed calls",
    "processes": "processes",
    "read_bytes": "bytes read",
    "written_bytes": "bytes written",
}


def _differences(profile: TaskProfile) -> None:
    if not profile.siblings:
        return
    put()
    put(f"Beside the {count_text(profile.siblings, 'other task')} of its stage:")
    for one in profile.differences[:MOST]:
        words = [_figure(one.figure, value) for value in (one.value, one.median)]
        figure = _FIGURES.get(one.figure) or time_words()[one.figure]
        put(f"{figure}: {words[0]}, where the others have {words[1]} (median)", 2)
    if not profile.differences:
        put("nothing sets it apart" if profile.siblings > 2 else "too few to compare", 2)


def _figure(name: str, value: float) -> str:
    if name in _BYTES:
        return bytes_text(value)
    return f"{value:,.0f}" if name in _COUNTS else time_text(value)


def _processes(rows: list[Process], t0_ns: int) -> None:
    if not rows:
        return
    put()
    put(f"{count_text(len(rows), 'process', 'es')}:".capitalize())
    for one in rows[:MOST]:
        if one.signal is not None:
            end = f"killed by signal {one.signal}"
        else:
            end = "end not seen" if one.exit_code is None else f"exit code {one.exit_code}"
        span = f"{since(one.begin_ns, t0_ns)} to {since(one.end_ns, t0_ns)}"
        memory = "" if one.max_rss_bytes is None else f", {bytes_text(one.max_rss_bytes)}"
        shared = ", also of other tasks" if one.shared else ""
        put(f"{one.host}:{one.pid} {span}, {end}{memory}{shared}", 2)
        put(command_text(one.command) if one.command else one.program, 4)
    put_left_out(len(rows) - MOST, f"and {len(rows) - MOST}", 2)


def _data(title: str, way: str, rows: list[Data]) -> None:
    if not rows:
        return
    put()
    put(f"{title} {count_text(len(rows), 'file')}, the largest first:")
    for one in rows[:MOST]:
        others = f"; {way} {', '.join(one.others[:3])}" if one.others else ""
        more = f" and {len(one.others) - 3} more" if len(one.others) > 3 else ""
        version = f" (version {one.version})" if one.version > 1 else ""
        put(f"{one.path}{version}: {bytes_text(one.bytes)} in {count_text(one.calls, 'call')}{others}{more}", 2)
    put_left_out(len(rows) - MOST, f"and {len(rows) - MOST}", 2)


def _path(profile: TaskProfile) -> None:
    if profile.slack_ns is None:
        return
    put()
    if not profile.path_ns and not profile.before and not profile.after:
        put(f"Not on the critical path: it could have taken {time_text(profile.slack_ns)} longer.")
        return
    put(f"On the critical path with {time_text(profile.path_ns)} of its time:")
    for title, rows in (("after", profile.before), ("before", profile.after)):
        for one in rows[:MOST]:
            via = f", through {_VIA.get(one.via, one.via)}" if _VIA.get(one.via, one.via) else ""
            put(f"{title} {one.task}{via}", 2)


def _slowest(profile: TaskProfile) -> None:
    if not profile.slowest:
        return
    put()
    put("Slowest calls:")
    for one in profile.slowest:
        size = "" if one.bytes is None else f", {bytes_text(one.bytes)}"
        many = f", mean of {one.calls:,} calls" if one.calls > 1 else ""
        put(f"{time_text(one.duration_ns):>9}  {one.name} at {since(one.begin_ns, profile.t0_ns)}{size}{many}", 2)
        if one.path:
            put(one.path, 13)
