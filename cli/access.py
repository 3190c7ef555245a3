"""`tailrace access`: what the I/O of a run is like: sizes, order, bytes used again, metadata calls, balance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, percent_text, time_text
from tailrace.cli.collectives import put_collectives
from tailrace.cli.lines import put, put_json, put_left_out
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

if TYPE_CHECKING:
    from tailrace.analyzer.insights.access_patterns import Accesses
    from tailrace.analyzer.model.collectives import Collectives

BY = ("stage", "program", "task", "rank", "host", "file")
MOST = 20
"""Groups that are listed; --format json has all."""


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--by", type=click.Choice(BY), default="stage", show_default=True, help="What calls are summed by.")
@format_option
@strict_option
@scheduler_option
def command(directory: Path, by: str, form: str, strict: bool) -> None:
    """Show what the I/O of the run DIR is like.

    Printed are, of files of data, sizes of reads and writes, the order of their offsets (consecutive, sequential,
    strided, random), bytes that were moved again or that several tasks used; then metadata calls, seeks, opens and
    flushes; and how even tasks and ranks are. By rank also what the time of collective calls of MPI-IO was: in system
    calls on the file, before the last rank came, and within MPI, which exchanges and copies data then.

    A call touches a block more than it needs where it begins inside of one and the call before ended elsewhere; the
    block is what the file's file system prefers to move at a time. All is the same under `--detail totals`.
    """
    run = open_run(directory, strict)
    found = run.accesses(by)
    collectives = run.collectives if by == "rank" else None
    if form == "json":
        rows = found.to_json()
        if collectives:
            ranks = sorted(set(collectives.calls["rank"]))
            rows["collectives"] = [{"group": rank, **row} for rank in ranks for row in collectives.of_rank(rank)]
        put_json(rows)
        return
    put_accesses(found, collectives)


def put_accesses(found: Accesses, collectives: Collectives | None = None, indent: int = 0) -> None:
    """Prints accesses, a paragraph for each group; collectives: where the groups are ranks."""
    rows = found.to_json()
    names = list(dict.fromkeys(row["group"] for name in ("data", "metadata") for row in rows[name]))
    if not names:
        whose = "No process with a rank made a call" if found.by == "rank" else "No calls"
        put(f"{whose} on files of data.", indent)
    for number, name in enumerate(names[:MOST]):
        if number:
            put()
        put(name or "(no name)", indent)
        put_group(rows, name, indent + 2)
        if collectives:
            put_collectives(collectives.of_rank(name), indent + 2)
    put_left_out(len(names) - MOST, f"and {count_text(len(names) - MOST, found.by)}", indent)


def put_group(rows: dict[str, Any], name: str, indent: int) -> None:
    """Prints the accesses of one group."""
    for row in rows["data"]:
        if row["group"] == name and row["calls"]:
            _data(row, indent)
    for row in rows["metadata"]:
        if row["group"] == name:
            _metadata(row, indent)
    for row in rows["balance"]:
        if row["group"] == name:
            _balance(row, indent)


def _data(row: dict[str, Any], indent: int) -> None:
    from tailrace.analyzer.insights.access_order import CALLS

    direction = "reads" if row["direction"] == "read" else "writes"
    put(
        f"{direction}: {count_text(row['calls'], 'call')}, {bytes_text(row['bytes'])} of"
        f" {count_text(row['files'], 'file')}, {bytes_text(row['mean_bytes'])} on average,"
        f" {time_text(row['time_ns'])}",
        indent,
    )
    put(f"sizes: {_sizes(row['sizes'])}", indent + 2)
    ordered = sum(row[name] for name in CALLS)
    if ordered:
        shares = [f"{name} {percent_text(row[name], ordered)}" for name in CALLS if row[name]]
        back = f"; {percent_text(row['backward'], ordered)} backward" if row["backward"] else ""
        put(f"order: {', '.join(shares)}{back}", indent + 2)
    if row["unlocated"]:
        share = percent_text(row["unlocated"], row["calls"])
        put(f"{share} at offsets that are not known, as through an inherited descriptor", indent + 2)
    notes = []
    if row["again_bytes"]:
        notes.append(f"{bytes_text(row['again_bytes'])} moved again by the same task")
    if row["shared_bytes"]:
        notes.append(f"{bytes_text(row['shared_bytes'])} that another task used, too")
    notes += [
        f"{percent_text(unaligned, placed)} touch a block of {bytes_text(block)} more than they need"
        for block, (placed, unaligned) in sorted(row["blocks"].items())
    ]
    if row["gap_ns"]:
        notes.append(f"{time_text(row['gap_ns'])} between two calls")
    if notes:
        put("; ".join(notes), indent + 2)


def _sizes(sizes: dict[int, int]) -> str:
    """The histogram, the most frequent sizes first."""
    total = sum(sizes.values())
    parts = []
    for bits, calls in sorted(sizes.items(), key=lambda pair: -pair[1])[:4]:
        words = "0 B (end of file)" if bits == 0 else f"{_power(bits - 1)} to {_power(bits)}"
        parts.append(f"{percent_text(calls, total)} {words}")
    return ", ".join(parts) + (", ..." if len(sizes) > len(parts) else "")


def _power(bits: int) -> str:
    """A power of two in its unit: 512 B, 4 KiB."""
    unit = min(bits // 10, 6)
    return f"{1 << (bits - 10 * unit)} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[unit]}"


def _metadata(row: dict[str, Any], indent: int) -> None:
    if "calls" not in row:  # of a file
        unused = f", {row['unused_opens']:,} of them without moving anything" if row["unused_opens"] else ""
        put(f"{count_text(row['opens'], 'open')}{unused}, {count_text(row['seeks'], 'seek')}{_ahead(row)}", indent)
        return
    seconds = row["span_ns"] / 1e9
    rates = [
        f"{row['calls'] / row[name]:,.2f} for each {word}"
        for name, word in (("data_calls", "read or write"), ("files", "file"))
        if row[name]
    ]
    rates += [f"{row['calls'] / seconds:,.0f} a second"] if seconds else []
    put(f"metadata: {count_text(row['calls'], 'call')}, {time_text(row['time_ns'])}; {', '.join(rates)}", indent)
    parts = []
    if row["opens"]:
        unused = f" ({row['unused_opens']:,} moved nothing)" if row["unused_opens"] else ""
        parts.append(f"{count_text(row['opens'], 'open')}{unused}")
    if row["seeks"]:
        useless = f" (at least {row['useless_seeks']:,} changed nothing)" if row["useless_seeks"] else ""
        parts.append(f"{count_text(row['seeks'], 'seek')}{useless}")
    if row["flushes"]:
        parts.append(f"{count_text(row['flushes'], 'flush', 'es')} in {time_text(row['flush_ns'])}")
    if parts:
        put(", ".join(parts) + _ahead(row), indent + 2)


def _ahead(row: dict[str, Any]) -> str:
    """What streams of the C library read for nobody; "" where it was nothing."""
    return f"; {bytes_text(row['ahead_bytes'])} read ahead by streams and dropped" if row["ahead_bytes"] > 0 else ""


def _balance(row: dict[str, Any], indent: int) -> None:
    figure = "bytes" if row["figure"] == "bytes" else "time in I/O"
    put(
        f"{figure} of {count_text(row['members'], row['of'])}: the largest is {row['largest_over_mean']:.2f} times the"
        f" mean, Gini {row['gini']:.2f}",
        indent,
    )
    for words, names in (("stragglers", row["stragglers"]), ("outside of the box plot", row["beyond_box"])):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            put(f"{words}: {', '.join(names[:5])}{more}", indent + 2)
