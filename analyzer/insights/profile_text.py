"""The profile of a task for consoles and notebooks; `tailrace task` prints more of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tailrace.analyzer.model import time_model
from tailrace.analyzer.util import html
from tailrace.analyzer.util.formatting import bytes_text, count_text, moment_text, time_text

if TYPE_CHECKING:
    from tailrace.analyzer.insights.task_profile import Data, TaskProfile

MOST = 10
WAITS = {
    "data_ns": "waiting for data",
    "upstream_ns": "waiting for data whose writer was queued",
    "order_ns": "waiting for predecessors",
    "queue_ns": "waiting for a worker or nodes",
    "start_ns": "starting",
    "io_ns": "running, in calls on files",
    "wait_ns": "running, waiting for a processor or others, or asleep",
    "compute_ns": "running, computing",
    "stop_ns": "stopping",
}
"""The parts of a declared task's life, in their order."""


def text(profile: TaskProfile) -> str:
    """The profile in some lines."""
    out = [f"{profile.name or profile.task}: {_status(profile)}"]
    spent = ", ".join(f"{word} {value}" for word, value in _times(profile))
    out += [f"  {spent}"] if spent else []
    moved = f"{bytes_text(profile.read_bytes)} read, {bytes_text(profile.written_bytes)} written"
    out.append(f"  {moved}; {count_text(len(profile.processes), 'process', 'es')}")
    for word, rows in (("read", profile.inputs), ("wrote", profile.outputs)):
        names = ", ".join(one.path.rpartition("/")[2] or one.path for one in rows[:3])
        more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
        out += [f"  {word} {names}{more}"] if rows else []
    return html.lines(*out)


def markup(profile: TaskProfile) -> str:
    """The profile as HTML."""
    ids = [(word, value) for word in ("workflow", "stage", "task") if (value := getattr(profile, word))]
    facts = [*ids, ("status", _status(profile))]
    facts += [("error", profile.error)] if profile.error else []
    facts += [("arguments", profile.arguments_text)] if profile.arguments else []
    facts += [(word, ", ".join(names[:MOST])) for word, names in _family(profile) if names]
    facts += [("memory of its largest process", bytes_text(profile.max_rss_bytes))] if profile.max_rss_bytes else []
    parts: list[object] = [html.table(("", ""), facts)]
    if times := _times(profile):
        parts += [html.heading("Where its time went"), html.table(("", "time"), times, ("time",))]
    if asked := asked_and_used(profile):
        head = ("", "requested", "used")
        parts += [html.heading("Requested and used"), html.table(head, asked, head[1:])]
    parts += _processes(profile)
    for title, other, rows in (("Read", "written by", profile.inputs), ("Wrote", "read by", profile.outputs)):
        if rows:
            parts += [html.heading(title), _data(rows, other)]
    if profile.slowest:
        calls = [
            (one.name, time_text(one.duration_ns), "" if one.bytes is None else bytes_text(one.bytes), one.path or "")
            for one in profile.slowest
        ]
        parts += [
            html.heading("Slowest calls"),
            html.table(("call", "time", "bytes", "file"), calls, ("time", "bytes")),
        ]
    return html.output(profile.name or profile.task, *parts)


def _status(profile: TaskProfile) -> str:
    status = profile.status or "no status declared"
    tries = f" after {profile.tries} tries" if (profile.tries or 0) > 1 else ""
    if profile.begin_ns is None or profile.end_ns is None:
        return f"{status}{tries}, no call recorded"
    begin = moment_text(profile.begin_ns, profile.t0_ns)
    return f"{status}{tries}, {time_text(profile.end_ns - profile.begin_ns)} from {begin} on"


def _times(profile: TaskProfile) -> list[tuple[str, str]]:
    declared = [(word, profile.waits.get(name)) for name, word in WAITS.items()]
    known = [(word, ns) for word, ns in declared if ns] or _by_state(profile)
    return [(word, time_text(ns)) for word, ns in known]


def _by_state(profile: TaskProfile) -> list[tuple[str, int]]:
    return [(time_model.WORDS[state], ns) for state, ns in profile.spent_ns.items() if ns]


def _family(profile: TaskProfile) -> list[tuple[str, list[str]]]:
    path = [one.task for one in profile.before], [one.task for one in profile.after]
    return [
        ("declared after", profile.parents),
        ("declared before", profile.children),
        ("on the critical path after", path[0]),
        ("on the critical path before", path[1]),
    ]


def asked_and_used(profile: TaskProfile) -> list[tuple[str, str, str]]:
    """Resource, what the task requested of it and what it used ("" where unknown), where its manager says."""
    ran = None if profile.begin_ns is None or profile.end_ns is None else profile.end_ns - profile.begin_ns
    used = {
        "cores": "" if profile.cores_used is None else f"{profile.cores_used:.3g}",
        "memory_bytes": "" if profile.max_rss_bytes is None else f"{bytes_text(profile.max_rss_bytes)} a process",
        "time_s": "" if ran is None else time_text(ran),
    }
    return [
        (name.partition("_")[0], _amount(name, value), used.get(name, "")) for name, value in profile.requested.items()
    ]


def _amount(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return bytes_text(value)
    return time_text(value * 1e9) if name.endswith("_s") else f"{value:g}"


def _processes(profile: TaskProfile) -> list[html.Html]:
    if not profile.processes:
        return []
    rows = []
    for one in profile.processes[:MOST]:
        end = f"signal {one.signal}" if one.signal is not None else "" if one.exit_code is None else str(one.exit_code)
        command = html.element("code", shlex.join(one.command) if one.command else one.program)
        memory = "" if one.max_rss_bytes is None else bytes_text(one.max_rss_bytes)
        rows.append((f"{one.host}:{one.pid}", moment_text(one.begin_ns, profile.t0_ns), end, memory, command))
    head = ("process", "begin", "exit", "memory", "command")
    shown = html.table(head, rows, ("begin", "exit", "memory"), len(profile.processes) - MOST)
    return [html.heading("Processes"), shown]


def _data(rows: list[Data], other: str) -> html.Html:
    shown = [(one.path, bytes_text(one.bytes), f"{one.calls:,}", ", ".join(one.others[:3])) for one in rows[:MOST]]
    return html.table(("file", "bytes", "calls", other), shown, ("bytes", "calls"), len(rows) - MOST)
