"""`tailrace index`: adds runs to a store, keeps it small, and removes what is old."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.base.text import visible
from tailrace.cli.options import PATH, scheduler_option
from tailrace.errors import RunError, UsageError

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@click.command()
@click.argument("store", type=PATH, metavar="STORE")
@click.argument("runs", nargs=-1, type=PATH, metavar="[RUN]...")
@click.option(
    "--watch",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Look for finished runs below DIR, and index each once; until interrupted.",
)
@click.option("--every", type=click.FloatRange(min=0.1), default=60, metavar="S", help="With --watch: look every S s.")
@click.option(
    "--quiet-for",
    type=click.FloatRange(min=0),
    default=60,
    metavar="S",
    help="With --watch: a run is finished when it has not changed for S s.",
)
@click.option("--once", is_flag=True, help="With --watch: look once, and end.")
@click.option(
    "--events",
    is_flag=True,
    help="Also copy all events of the runs, 3 to 7 bytes each, for SQL and `tailrace query STORE`. A run that was"
    " indexed so before needs no further --events.",
)
@click.option("--compact", is_flag=True, help="Merge small files of the store.")
@click.option("--keep", metavar="DAYS", type=click.IntRange(min=0), help="Remove runs that began more days ago.")
@click.option(
    "--max-size", metavar="SIZE", help="Remove the oldest days until your runs in the store are as small, as in 50G."
)
@click.option(
    "--anonymous",
    type=PATH,
    metavar="OUT",
    help="Write a copy to the new store OUT in which names and paths are hashed, and arguments and texts left out.",
)
@click.option("--shared", is_flag=True, help="Make a new store, to which every user may add his runs.")
@scheduler_option
def command(
    store: Path,
    runs: tuple[Path, ...],
    watch: Path | None,
    every: float,
    quiet_for: float,
    once: bool,
    events: bool,
    compact: bool,
    keep: int | None,
    max_size: str | None,
    anonymous: Path | None,
    shared: bool,
) -> None:
    """Add runs to the store STORE, which is made where there is none.

    A run that is there already is passed over, or replaced when it has changed. Who may read a run may read its part of
    a shared store, and nobody else. With --compact, --keep and --max-size each user changes his own runs only. On a
    Dask scheduler each worker indexes runs by itself, and has to reach both the runs and the store.
    """
    from tailrace.analyzer.runstore import parts
    from tailrace.cli import indexing

    most = None if max_size is None else _size(max_size)
    if not (runs or watch or compact or shared or anonymous) and keep is None and most is None:
        raise UsageError("give runs to index, --watch, --compact, --keep, --max-size or --anonymous")
    if runs or watch is not None or shared:
        parts.create(store, shared)
    if runs:
        found = indexing.index(store, runs, events)
        click.echo(visible(f"{found.text()}; {store}"))
        if found.failed and not (found.added or found.known):
            raise RunError("no run could be indexed")
    if watch is not None:
        _watch(store, watch, every, quiet_for, once, events, compact)
    if compact:
        _compact(store)
    if keep is not None or most is not None:
        _expire(store, keep, most)
    if anonymous is not None:
        _copy(store, anonymous)


# It polls: inotify sees no change of another node on a network file system, and takes a watch for each directory.
def _watch(store: Path, tree: Path, every: float, quiet_for: float, once: bool, events: bool, compact: bool) -> None:
    from tailrace.cli import indexing

    seen: dict[Path, float] = {}
    while True:
        found = indexing.index(store, list(indexing.finished(tree, quiet_for, seen)), events)
        if found.added or found.failed:
            click.echo(visible(f"{found.text()}; {store}"))
            if compact and not once:
                _compact(store)
        if once:
            return
        time.sleep(every)


def _compact(store: Path) -> None:
    from tailrace.analyzer.runstore import compaction

    done = compaction.compact(store)
    merged = f"{count_text(done.merged, 'part')} merged into {done.into:,}" if done.merged else "nothing to merge"
    click.echo(visible(merged + (f", {done.removed:,} replaced ones removed" if done.removed else "") + f"; {store}"))


def _expire(store: Path, keep: int | None, most: int | None) -> None:
    from tailrace.analyzer.runstore import compaction

    before = None
    if keep is not None:
        before = (datetime.now(timezone.utc) - timedelta(days=keep)).strftime("%Y-%m-%d")
    runs, size = compaction.expire(store, before, most)
    click.echo(visible(f"{count_text(runs, 'run')} removed, {bytes_text(size)}; {store}"))


def _copy(place: Path, target: Path) -> None:
    from tailrace.analyzer.runstore.anonymous import copy
    from tailrace.analyzer.runstore.store import Store
    from tailrace.cli.opening import say_store_problems

    store = Store(place)
    runs = copy(store, target)
    say_store_problems(store)
    click.echo(visible(f"{count_text(runs, 'run')} without names; {target}"))


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([BKMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"--max-size {text!r}: write it as 50G")
    return round(float(match[1]) * _UNITS[match[2].upper() or "B"])
