"""`tailrace run [-o DIR] [--tag k=v]... [--] CMD...`: runs CMD traced; exits with its exit code; one line on stderr.

The command itself takes these options in their usual spellings (core/launcher/main.cc), and comes here for the help,
the completion, and what is wrong with them. A new option belongs in both.
"""

from pathlib import Path

import click

from tailrace import _native
from tailrace.cli.options import PATH, canonical_tags, settings_options, tag_option, take_settings
from tailrace.integrations import environment, rundir
from tailrace.integrations.indexing import index_at_end


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="The run directory: new, empty, or of an earlier run, which is extended. Default: a new one under "
    "tailrace-runs/, or that of the surrounding traced run.",
)
@tag_option
@click.option(
    "--detail",
    metavar="full|totals|auto[:BYTES]",
    help="full: a line of the trace for each call. totals: one for the calls of a function on a file; graphs, sums and "
    "findings are the same. auto: full until the run's files on a node have BYTES (64M), then totals. Default: full.",
)
@click.option(
    "--unseen",
    type=click.Choice(["off", "all"]),
    metavar="off|all",
    help="Programs that can't be preloaded (static, Go, musl) and what they start: all: followed by ptrace(2), each of "
    "their system calls takes 5 us longer. off: named in the report. Default: off.",
)
@click.option(
    "--follow",
    multiple=True,
    metavar="PROGRAM",
    help="Follow PROGRAM in this way, and what it starts, though it can be preloaded: one that calls the kernel without"
    " libc (Go with cgo, bun). Its name, or its path; `*` is any text. May be repeated.",
)
@settings_options
@click.option("-q", "--quiet", is_flag=True, help="Print faults only, no summary line.")
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: Path | None,
    tags: tuple[str, ...],
    detail: str | None,
    unseen: str | None,
    follow: tuple[str, ...],
    config: Path | None,
    chosen: tuple[str, ...],
    quiet: bool,
    cmd: tuple[str, ...],
) -> int:
    """Run CMD and trace its I/O and that of all processes it starts.

    Exits with the exit code of CMD: 128+n when signal n ended it, 127 when it is not found, 126 when it can't be
    executed.
    """
    canonical = canonical_tags(tags)
    named = {"detail": detail, "unseen": unseen, "follow": ":".join(follow) or None}
    take_settings(config, (*chosen, *(f"{name}={value}" for name, value in named.items() if value is not None)))
    environment.check_journal_directory()
    directory = rundir.checked_path(output) if output is not None else None
    code, run_dir = _native.run(directory, canonical, "", quiet, cmd, environment.installed_library())
    if run_dir is not None:
        index_at_end(Path(run_dir))
    return code
