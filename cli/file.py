"""`tailrace file`: the history of a file: its names, versions, writers and readers, and where its data came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace import hashed_names
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.cli.lines import command_text, lasted, put, put_json, put_left_out, since
from tailrace.cli.opening import open_run, say_store_problems, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node, Version
    from tailrace.analyzer.insights.present_files import Copy
    from tailrace.analyzer.runstore.lineage import Stale

MOST = 20
"""Accesses of a version are listed up to it, files of a name and nodes of a tree up to twice it; JSON has all."""
_STATES = {
    "same": "still there as the run left it",
    "changed": "still there, but changed since the run",
    "gone": "no longer there under this name",
    "another": "replaced by another file of this name",
    "unreadable": "there, but it can't be read",
}


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
    history = run.file(_recorded(words[1], run.meta, key), up=up, down=down, hashed=hashed)
    if form == "json":
        put_json(history.to_json())
        return
    _print(history)


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
    _print(history.file)
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
    put(f"made by {one.by}, {since(one.made_ns, 0)}, {one.run}", 2)
    if one.command:
        put(command_text(one.command), 4)
    for cause in one.causes:
        put(f"{cause.read} was read {since(cause.read_ns, 0)}", 2)
        put(f"{cause.newer} was written {since(cause.changed_ns, 0)} by {cause.changed_by}, {cause.run}", 2)
        if cause.command:
            put(command_text(cause.command), 4)


def _print(history: FileHistory) -> None:
    if not history.files:
        put(f"{history.name}: programs looked for it, and it was never there")
    for number, file in enumerate(history.files[:MOST]):
        if number:
            put()
        _file(file, history.t0_ns)
    hidden = len(history.files) - MOST
    put_left_out(hidden, f"and {count_text(hidden, 'file')}")
    for title, nodes, mark in (("Made from", history.up, "<-"), ("Used for", history.down, "->")):
        if nodes:
            put()
            put(f"{title}:")
            _tree(nodes, mark)


def _file(file: File, first_ns: int | None) -> None:
    put(file.path or file.identity)
    put(
        f"{file.kind or 'no data'}, {file.type or 'unknown type'}, {bytes_text(file.size)}, identity {file.identity}", 2
    )
    if file.block_bytes is not None:
        sides = " and ".join(
            f"{crossing:,} of {count_text(placed, way)}" for way, (placed, crossing) in file.unaligned.items()
        )
        put(f"block of {bytes_text(file.block_bytes)}: {sides} touch one more than they need", 2)
    if others := [name for name in file.names if name != file.path]:
        put(f"also called {', '.join(others)}", 2)
    if file.born_ns is not None:
        made = "first written" if file.written_bytes or any(v.writers for v in file.versions) else "first read"
        put(
            f"{made} at {since(file.born_ns, first_ns)}, last used at {since(file.last_use_ns, first_ns)}: in use for"
            f" {lasted(file.lived_ns)}",
            2,
        )
    if file.gone_ns is not None:
        put(f"removed at {since(file.gone_ns, first_ns)}", 2)
    if file.now is not None:
        put(_now(file.now), 2)
    for version in file.versions:
        put()
        _version(version, any(later.continues == version.number for later in file.versions), first_ns)


def _now(copy: Copy) -> str:
    size = "" if copy.size is None else f", {bytes_text(copy.size)}"
    return f"{_STATES[copy.state]}{size}" + ("" if copy.sha256 is None else f", sha256 {copy.sha256}")


def _version(version: Version, continued: bool, first_ns: int | None) -> None:
    before = "" if version.continues is None else f", continues version {version.continues}"
    emptied = ", emptied first" if version.truncated and version.number > 1 else ""
    before_run = "as it was before the run" if first_ns != 0 else "as it was before all runs"
    before_run += ", or as another host wrote it" if version.undecided else ""
    state = before_run if version.number == 0 else f"written until {since(version.end_ns, first_ns)}"
    put(f"version {version.number}: {state}{before}{emptied}", 2)
    for title, accesses in (("written by", version.writers), ("read by", version.readers)):
        for access in accesses[:MOST]:
            _access(title, access, first_ns)
        hidden = len(accesses) - MOST
        put_left_out(hidden, f"{title} {count_text(hidden, 'process', 'es')}", 4)
    if not version.readers and not continued:
        put("not read", 4)


def _access(title: str, access: Access, first_ns: int | None) -> None:
    process = f"{access.host}:{access.pid}" if access.task else ""
    where = f" ({process})" if process else ""
    begin, end = since(access.begin_ns, first_ns), since(access.end_ns, first_ns)
    put(f"{title} {access.who}{where}, {begin}" + (f" to {end}" if end != begin else ""), 4)
    if access.run:
        put(f"in {access.run}" + (f" of {access.user}" if access.user else ""), 6)
    if access.command:
        put(command_text(access.command), 6)
    if not access.calls and access.pattern != "mapped":
        put("created or emptied it, and wrote nothing", 6)
        return
    what = f"{bytes_text(access.bytes)} in {count_text(access.calls, 'call')}"
    mean = f" of {bytes_text(access.mean_bytes)} on average" if access.calls > 1 else ""
    put(f"{what}{mean}" + (f", {access.pattern}{_ranges(access)}" if access.pattern else ""), 6)


def _ranges(access: Access) -> str:
    if not access.ranges:
        return ""
    shown = ", ".join(f"{start}-{end}" for start, end in access.ranges[:3])
    more = f" and {len(access.ranges) - 3} more" if len(access.ranges) > 3 else ""
    return f", bytes {shown}{more}" + ("" if access.exact else " at most")


def _tree(nodes: list[Node], mark: str) -> None:
    for node in nodes[: 2 * MOST]:
        size = "" if node.bytes is None or not node.depth else f", {bytes_text(node.bytes)}"
        end = f" ({node.end})" if node.end else ""
        digest = f", sha256 {node.sha256}" if node.sha256 else ""
        lead = f"{mark} " if node.depth else ""
        indent = 2 + 2 * min(node.depth, 12)
        put(f"{lead}{node.name}{size}{digest}{end}" + (f", {node.run}" if node.run else ""), indent)
        if node.kind != "file" and node.command and node.end != "above":
            put(command_text(node.command), indent + 3)
    hidden = len(nodes) - 2 * MOST
    put_left_out(hidden, f"and {hidden} lines", 2)
