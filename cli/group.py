"""A stage, a host or a rank in short, as `tailrace stage`, `host` and `rank` print it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.cli.access import put_group
from tailrace.cli.collectives import put_collectives
from tailrace.cli.lines import put, since

if TYPE_CHECKING:
    from tailrace.analyzer.insights.group_profile import GroupProfile

MOST = 10


def put_profile(profile: GroupProfile, collectives: Sequence[Mapping[str, Any]] = ()) -> None:
    """Prints a profile; collectives: of a rank, as `Collectives.of_rank`."""
    from tailrace.analyzer.model.time_model import WORDS

    put(f"{profile.kind} {profile.name}")
    many = [count_text(profile.tasks, "task")] if profile.tasks else []
    put(", ".join([*many, count_text(profile.processes, "process", "es")]), 2)
    if profile.statuses:
        tries = f"; {profile.retried:,} after several tries" if profile.retried else ""
        put(", ".join(f"{count:,} {status}" for status, count in profile.statuses.items()) + tries, 2)
    put()
    begin, end = since(profile.begin_ns, profile.t0_ns), since(profile.end_ns, profile.t0_ns)
    put(f"Time: {begin} to {end}, {time_text(profile.end_ns - profile.begin_ns)}")
    for state, ns in profile.spent_ns.items():
        if ns:
            put(f"{time_text(ns):>9}  {WORDS[state]}", 2)
    failed = f", {count_text(profile.failed_calls, 'call')} failed" if profile.failed_calls else ""
    put(f"{bytes_text(profile.read_bytes)} read, {bytes_text(profile.written_bytes)} written{failed}", 2)
    for title, rows in (("Reads data of", profile.sources), ("Its data are read by", profile.targets)):
        if rows:
            stages = [f"{row['stage']} ({bytes_text(row['bytes'])})" for row in rows[:MOST]]
            put(f"{title} {', '.join(stages)}", 2)
    _others(profile)
    put()
    put("I/O on files:")
    put_group(profile.accesses, profile.name, 2)
    put_collectives(collectives, 2)
    if profile.files:
        put()
        put("Files, the most moved first:")
    for row in profile.files:
        put(f"{row['path']}: {bytes_text(row['read_bytes'])} read, {bytes_text(row['written_bytes'])} written", 2)


def _others(profile: GroupProfile) -> None:
    rest = [row for row in profile.others if row["name"] != profile.name]
    own = [row for row in profile.others if row["name"] == profile.name]
    if not rest or not own:
        return
    usual = {name: median(row[name] for row in rest) for name in ("time_ns", "bytes")}
    put(
        f"In calls on files: {time_text(own[0]['time_ns'])} and {bytes_text(own[0]['bytes'])}; the"
        f" {count_text(len(rest), f'other {profile.kind}')}: {time_text(usual['time_ns'])} and"
        f" {bytes_text(usual['bytes'])} (median)",
        2,
    )
