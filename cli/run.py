"""`tailrace run [-o DIR] [--tag k=v]... [--] CMD...`: runs CMD traced; exits with its exit code; one line on stderr."""

import json
import os
from pathlib import Path

import click

from tailrace import context
from tailrace.analyzer.util import no_journal
from tailrace.analyzer.util.exit_codes import ended
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.cli.options import canonical_tags, tag_option
from tailrace.errors import UsageError
from tailrace.integrations import environment, launcher, rundir
from tailrace.integrations.indexing import index_at_end
from tailrace.integrations.messages import say


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The run directory: new, empty, or of an earlier run, which is extended. Default: a new one under "
    "tailrace-runs/, or that of the surrounding traced run.",
)
@tag_option
@click.option(
    "--detail",
    metavar="full|totals|auto[:BYTES]",
    help="full: a line of the trace for each call. totals: one for the calls of a function on a file; graphs, sums and "
    "findings are the same. auto: full until a process's trace file has BYTES (64M), then totals. Default: full.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print faults only, no summary line.")
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
def command(output: Path | None, tags: tuple[str, ...], detail: str | None, quiet: bool, cmd: tuple[str, ...]) -> int:
    """Run CMD and trace its I/O and that of all processes it starts.

    Exits with the exit code of CMD: 128+n when signal n ended it, 127 when it is not found, 126 when it can't be
    executed.
    """
    canonical = canonical_tags(tags)
    environment.check_journal_directory()
    if detail is not None:
        # As if the user had set it: it is one of the settings that a traced process gets from this environment.
        os.environ["TAILRACE_DETAIL"] = environment.checked_detail(detail)
    surrounding = context.run_directory() if context.active() else None
    wanted = output or rundir.default_run_directory(cmd)
    if surrounding is not None:
        if output is not None and output.absolute().resolve() != Path(surrounding):
            say(f"already traced into {surrounding}: recording there, not in {output}")
        wanted = Path(surrounding)
    try:
        run_dir = rundir.open_run_directory(wanted, cmd, canonical)
    except UsageError as error:
        if output is not None:
            raise
        # The user did not choose the directory, so the command runs without it.
        say(f"not traced: {error}")
        return launcher.run_command(cmd, os.environ)
    code, summary = launcher.run_traced(cmd, run_dir, canonical)
    if surrounding is None:
        index_at_end(run_dir)
    if summary.fault is not None:
        say(" ".join(summary.fault.split()))
    if not quiet:
        say(f"{_end_words(code)}{describe(summary)}; {run_dir}")
    return code


def _end_words(code: int) -> str:
    """How a command ended that did not succeed: its exit code, and the signal that it stands for."""
    status, reason = ended(code)
    return f"exit code {code} ({reason}), " if status == "killed" else f"{reason}, " if reason else ""


def describe(summary: launcher.Summary) -> str:
    """A summary in one line: events, processes, bytes, losses."""
    parts = [
        f"{count_text(summary.events, 'event')} of {count_text(summary.processes, 'process', 'es')}",
        f"{bytes_text(summary.read_bytes)} read",
        f"{bytes_text(summary.written_bytes)} written",
    ]
    if summary.alive:
        parts.append(f"{count_text(summary.alive, 'process', 'es')} still running")
    for fact, count in summary.without_journal.items():
        reason = no_journal.reason({"no_journal": json.loads(fact)})
        parts.append(f"{count_text(count, 'process', 'es')} recorded nothing ({reason})")
    lost = sum(summary.lost.values())
    if lost:
        causes = ", ".join(f"{count} {cause}" for cause, count in summary.lost.most_common())
        parts.append(f"{count_text(lost, 'event')} LOST ({causes})")
    elif not summary.without_journal:
        parts.append("nothing lost" if summary.processes else "nothing recorded")
    if summary.torn_bytes:
        parts.append(f"{bytes_text(summary.torn_bytes)} of torn blocks")
    return ", ".join(parts)
