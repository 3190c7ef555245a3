"""`tailrace compact RUN`: rewrites the trace files of a finished run to fewer and smaller ones."""

from pathlib import Path

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, percent_text
from tailrace.base.text import visible
from tailrace.cli.opening import lines
from tailrace.cli.options import PATH
from tailrace.errors import RunError
from tailrace.integrations.messages import say
from tailrace.integrations.recovery import recover


@click.command()
@click.argument("directory", type=PATH, metavar="RUN")
@click.option(
    "--level",
    type=click.IntRange(1, 12),
    default=12,
    show_default=True,
    help="How hard to compress: 9 takes a seventh of the time of 12, for files some percent larger.",
)
@click.option(
    "--offsets",
    "keep_offsets",
    is_flag=True,
    help="Keep the offset on each line, also where an access begins at the end of the one before on its file.",
)
def command(directory: Path, level: int, keep_offsets: bool) -> None:
    """Rewrite the trace files of a finished run to fewer and smaller ones.

    All commands answer as before. The files stay gzip'd JSON lines; a line of an access that begins where the one
    before on its file ended has "follows":1 in the place of its offset. The old files are removed when the new ones
    have been read and compared with them. Compact a run when its processes on all nodes have ended and are sealed.
    """
    from tailrace.analyzer.store.compaction import compact

    found = recover(directory)
    if found is not None:
        for line in lines(found):
            say(line)
        if found.alive or found.failed or found.unreadable or found.refused or found.waiting or found.fault:
            raise RunError(f"{directory} is not compacted, since not all of it is sealed")
    account = compact(directory, level, keep_offsets)
    for text in account.kept:
        say(f"kept as it is: {text}")
    if not account.merged:
        say("the files are not merged, since this file system can't exchange two directories")
    saved = percent_text(account.bytes - account.new_bytes, account.bytes) if account.bytes else "0%"
    each = f", {account.new_bytes / account.events:.2f} bytes an event" if account.events else ""
    click.echo(
        visible(
            f"{directory}: {_size(account.files, account.blocks, account.bytes)} to"
            f" {_size(account.new_files, account.new_blocks, account.new_bytes)}, {saved} less{each}"
        )
    )


def _size(files: int, blocks: int, size: int) -> str:
    return f"{count_text(files, 'file')} with {count_text(blocks, 'block')}, {bytes_text(size)}"
