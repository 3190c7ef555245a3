"""`tailrace host`: one host of a run in short (group.py), with its mounts, cost of tracing, losses and clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.cli.group import MOST, put_profile
from tailrace.cli.lines import put, put_json, put_left_out
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

if TYPE_CHECKING:
    from tailrace.analyzer.insights.host_facts import HostFacts, MountUse


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("name", metavar="[HOST]", required=False)
@format_option
@strict_option
@scheduler_option
def command(directory: Path, name: str | None, form: str, strict: bool) -> None:
    """Show the host HOST of the run DIR, or its hosts.

    Printed are the mounts and how fast data files on them were read and written, the processor time that sealing took,
    what was lost and why, and the clock; of HOST also its tasks and how they ended, where its time went, its files,
    and what its I/O is like. Of a run on one host, HOST is that one.
    """
    run = open_run(directory, strict)
    facts = run.hosts()
    if name is None and len(facts) == 1:
        name = facts[0].host
    if name is None:
        if form == "json":
            put_json({"hosts": [one.to_json() for one in facts]})
            return
        for number, one in enumerate(facts):
            if number:
                put()
            put(f"host {one.host}")
            put(count_text(one.processes, "process", "es"), 2)
            put_facts(one, 2)
        return
    profile = run.host(name)
    if form == "json":
        put_json(profile.to_json())
        return
    put_profile(profile)
    if profile.facts is not None:
        put()
        put_facts(profile.facts)


def put_facts(facts: HostFacts, indent: int = 0) -> None:
    """Prints what is known of a host beside what its processes did."""
    if facts.mounts:
        put("Mounts, by bytes of data files (bandwidth while calls ran, page cache included):", indent)
    for one in facts.mounts[:MOST]:
        put(_mount(one), indent + 2)
    put_left_out(len(facts.mounts) - MOST, f"and {count_text(len(facts.mounts) - MOST, 'mount')}", indent + 2)
    if facts.sealing_ns or facts.self_sealing_ns:
        put(
            f"Cost of tracing: sealing took {time_text(facts.sealing_ns + facts.self_sealing_ns)} of processor time,"
            f" {time_text(facts.self_sealing_ns)} of it in the traced processes; what recording takes is not measured",
            indent,
        )
    put(f"Lost: {'; '.join(map(_loss, facts.losses)) or 'nothing that is known'}", indent)
    clock = []
    if facts.clock_ahead_ns:
        word = "ahead of" if facts.clock_ahead_ns > 0 else "behind"
        clock.append(f"{time_text(abs(facts.clock_ahead_ns))} {word} the other hosts, by files that passed; corrected")
    if facts.clock_set:
        clock.append(f"set during the run by {facts.clock_set}; corrected")
    put(f"Clock: {'; '.join(clock) or 'nothing contradicts it'}", indent)


def _mount(one: MountUse) -> str:
    where = f"{one.point} ({one.fstype}{f', {one.source}' if one.source not in ('', one.fstype) else ''})"
    ways = (("read", one.read_bytes, one.read_ns), ("written", one.written_bytes, one.written_ns))
    parts = [
        f"{bytes_text(moved)} {word} in {time_text(ns)}" + (f" ({bytes_text(moved / ns * 1e9)}/s)" if ns else "")
        for word, moved, ns in ways
        if moved
    ]
    return f"{where if one.point else '(not known)'}: {count_text(one.files, 'file')}, {', '.join(parts) or 'no bytes'}"


def _loss(row: dict[str, object]) -> str:
    count = f"{row['count']:,}" if isinstance(row["count"], int) else str(row["count"])
    words = f"{count} {row['unit']} ({str(row['cause']).replace('_', ' ')})"
    return f"{words}, {row['problem']}" if row["problem"] else words
