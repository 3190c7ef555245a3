"""`tailrace rank`: one rank of a run (group.py), or its parallel programs and what differs between their ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.cli.group import MOST, put_profile
from tailrace.cli.lines import put, put_json, put_left_out, render, since
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

if TYPE_CHECKING:
    from tailrace.analyzer.insights.rank_groups import RankGroup

_WORDS: dict[str, tuple[str, Callable[[int], str]]] = {
    "read_bytes": ("data read", bytes_text),
    "written_bytes": ("data written", bytes_text),
    "io_ns": ("file I/O", time_text),
    "lasted_ns": ("first to last call", time_text),
    "begin_ns": ("began after the first", time_text),
}


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("name", metavar="[RANK]", required=False)
@format_option
@strict_option
@scheduler_option
def command(directory: Path, name: str | None, form: str, strict: bool) -> None:
    """Show the rank RANK of the run DIR, or its parallel programs.

    Printed are, of RANK, its tasks and how they ended, where its time went, its files, and what its I/O is like.
    Without RANK, of each program: how many ranks were started and which are not in the trace, on which hosts they ran,
    what differs between them, and each rank's bytes of data and times.
    """
    run = open_run(directory, strict)
    if name is None:
        groups = run.ranks()
        if form == "json":
            put_json({"programs": [group.to_json() for group in groups]})
        else:
            _put_groups(groups, run.insights().inputs.start_ns)
        return
    profile = run.rank(name)
    together = run.collectives.of_rank(name)
    if form == "json":
        put_json({**profile.to_json(), "collectives": together})
        return
    put_profile(profile, together)


def _put_groups(groups: Sequence[RankGroup], start_ns: int) -> None:
    several = [group for group in groups if group.ranks > 1 or (group.world_size or 1) > 1]
    if not groups:
        put("No process has a rank.")
    for group in several[:MOST]:
        _put_group(group, start_ns)
    put_left_out(len(several) - MOST, f"and {count_text(len(several) - MOST, 'program')}")
    if single := len(groups) - len(several):
        put(f"{count_text(single, 'program')} of one rank")


def _put_group(group: RankGroup, start_ns: int) -> None:
    tags = [f"{key} {value}" for key, value in (("stage", group.stage), ("task", group.task)) if value]
    put(": ".join([", ".join(tags), group.program]) if tags else group.program)
    size = "" if group.world_size is None else f" of {group.world_size:,}"
    count = count_text(group.ranks, "rank") if not size else f"{group.ranks:,}{size} ranks"
    hosts = count_text(len(group.hosts), "host")
    put(f"{count}, {count_text(group.processes, 'process', 'es')} on {hosts}", 2)
    if group.cores is not None or group.nodes:
        cores = count_text(group.cores, "core") if group.cores is not None else ""
        nodes = f"on {', '.join(group.nodes[:MOST])}" if group.nodes else ""
        more = f" and {len(group.nodes) - MOST:,} more" if len(group.nodes) > MOST else ""
        put(f"Given by the manager: {cores} {nodes}{more}".rstrip(), 2)
    if group.missing:
        put(f"Not in the trace: {_ranges(group.missing)}", 2)
    _put_spreads(group)
    _put_ranks(group, start_ns)


def _ranges(missing: Sequence[Sequence[int]]) -> str:
    words = [str(first) if first == last else f"{first}-{last}" for first, last in missing[:MOST]]
    more = f" and {len(missing) - MOST:,} more ranges" if len(missing) > MOST else ""
    return f"rank{'s' if len(words) > 1 or '-' in words[0] else ''} {', '.join(words)}{more}"


def _put_spreads(group: RankGroup) -> None:
    rows = []
    far: dict[str, list[str]] = {}
    for spread in group.spreads:
        word, text = _WORDS[spread.figure]
        if spread.most:
            rows.append(
                [
                    word,
                    f"{text(spread.least)} ({spread.least_rank})",
                    text(spread.median),
                    f"{text(spread.most)} ({spread.most_rank})",
                    f"{spread.gini:.2f}",
                ]
            )
        for rank in spread.far:
            far.setdefault(rank, []).append(word)
    if rows:
        render(["of each rank", "least (rank)", "median", "most (rank)", "Gini"], rows, numbers=False)
    alike: dict[str, list[str]] = {}
    for rank, words in far.items():
        alike.setdefault(", ".join(words), []).append(rank)
    for figures, ranks in alike.items():
        more = f" and {len(ranks) - MOST:,} more" if len(ranks) > MOST else ""
        put(f"Far above the others in {figures}: rank{'s' * (len(ranks) > 1)} {', '.join(ranks[:MOST])}{more}", 2)


def _put_ranks(group: RankGroup, start_ns: int) -> None:
    """The ranks by number; of many, those longest in calls on files."""
    shown, title = group.rows, None
    if len(shown) > MOST:
        longest = {row["rank"] for row in sorted(shown, key=lambda row: -row["io_ns"])[:MOST]}
        shown, title = [row for row in shown if row["rank"] in longest], f"The {MOST} ranks with the longest file I/O"
    heads = ["rank", "data read", "written", "file I/O", "begin", "lasted", "cpus", "host"]
    cells = [_cells(row, start_ns) for row in shown]
    kept = [at for at, head in enumerate(heads) if head != "cpus" or any(row[at] for row in cells)]
    names, rows = [heads[at] for at in kept], [[row[at] for at in kept] for row in cells]
    render(names, rows, title, numbers=False, spare=["lasted", "begin"])
    hidden = len(group.rows) - len(shown)
    put_left_out(hidden, f"and {count_text(hidden, 'rank')}", 2)


def _cells(row: dict[str, Any], start_ns: int) -> list[str]:
    hosts = row["hosts"]
    return [
        str(row["rank"]),
        bytes_text(row["read_bytes"]),
        bytes_text(row["written_bytes"]),
        time_text(row["io_ns"]),
        since(row["begin_ns"], start_ns),
        time_text(row["end_ns"] - row["begin_ns"]),
        row["cpus"],
        hosts[0] if len(hosts) == 1 else f"{len(hosts):,} hosts",
    ]
