"""`tailrace file`: the history of a file: its names, versions, writers and readers, and where its data came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace import hashed_names
from tailrace.analyzer.util.document import Command, Moment
from tailrace.analyzer.util.formatting import count_text
from tailrace.cli.lines import put, put_document, put_json, put_noun
from tailrace.cli.opening import open_run, say_store_problems, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.lineage import Stale


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[DIR] PATH")
@click.option(
    "--store",
    type=PATH,
    metavar="STORE",
    help="Follow the file through all runs of this store, without DIR: who made it, who used it since, what is stale.",
)
@click.option("--up", is_flag=True, help="Add the tree of what it was made from, to inputs that nobody made.")
@click.option("--down", is_flag=True, help="Add the tree of what was made from it, to results that nobody read.")
@click.option("--hash", "hashed", is_flag=True, help="Add the SHA-256 of what still exists on this machine.")
@click.option(
    "--key",
    type=PATH,
    metavar="FILE",
    help="Where the run's names are hashed: the file with their key (TAILRACE_REDACT_KEY), to look for PATH's hash.",
)
@format_option
@strict_option
@scheduler_option
def command(
    words: tuple[str, ...],
    store: Path | None,
    up: bool,
    down: bool,
    hashed: bool,
    key: Path | None,
    form: str,
    strict: bool,
) -> None:
    """Show the history of the file PATH in the run DIR, or in all runs of a store.

    PATH is any name of the file: absolute, relative, the end of a path, before or after a rename; a pattern with *, ?
    or [; or an identity as `tailrace query --by file` prints it. Printed are its names and versions, who wrote and read
    each version, when, how many bytes, which ranges and in which way, and how long the file lived.
    """
    if store is not None:
        if len(words) != 1 or hashed or key:
            raise UsageError("--store goes with one PATH, without DIR, --hash and --key")
        _in_store(store, words[0], form, strict)
        return
    if len(words) != 2:
        raise UsageError("give a run directory and a path, or --store STORE and a path")
    run = open_run(Path(words[0]), strict)
    put_noun(run.file(_recorded(words[1], run.meta, key), up=up, down=down, hashed=hashed), form)


def _recorded(name: str, meta: Mapping[str, object], key: Path | None) -> str:
    """The name as the run has it. One with a hash, which begins with "@", is one already. Raises UsageError."""
    is_hashed = hashed_names.fingerprint_in(meta) is not None
    if key is None and (not is_hashed or "@" in name or not os.environ.get(hashed_names.KEY_FILE)):
        return name
    names = hashed_names.of_key_file(meta, key)
    given = Path(name)
    if not given.is_absolute():
        return names.text(os.path.normpath(name))
    # As the trace: links in the folder are resolved.
    return names.path(str(given.parent.resolve() / given.name))


def _in_store(place: Path, name: str, form: str, strict: bool) -> None:
    from tailrace.analyzer.runstore.store import Store

    store = Store(place)
    history = store.file(name)
    say_store_problems(store, strict)
    if form == "json":
        put_json(history.to_json())
        return
    put_document(history.file.document())
    if history.left_out:
        put()
        put(f"{count_text(history.left_out, 'older run')} of these files not followed")
    put()
    if not history.stale:
        put("Nothing of it is stale: no run wrote an input again after it was read.")
    for one in history.stale:
        _stale(one)


def _stale(one: Stale) -> None:
    put(f"STALE: {one.version}")
    put(f"made by {one.by}, {Moment(one.made_ns, 0)}, {one.run}", 2)
    if one.command:
        put(str(Command(one.command)), 4)
    for cause in one.causes:
        put(f"{cause.read} was read {Moment(cause.read_ns, 0)}", 2)
        put(f"{cause.newer} was written {Moment(cause.changed_ns, 0)} by {cause.changed_by}, {cause.run}", 2)
        if cause.command:
            put(str(Command(cause.command)), 4)
