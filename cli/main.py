"""The `tailrace` command: the tables of its subcommands, each imported when it is called, and the form of its errors.

A subcommand is a click command named `command` in its file. Exit codes: 0 done, 1 failed, 2 usage; `run` exits with
the code of its command. An error is one line on stderr.
"""

import errno
import io
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from tailrace.errors import TailraceError, UsageError
from tailrace.integrations.messages import say

Line = tuple[str, str]
"""A command's module, and its line in the help, the man page and the completion."""

SHOWN: dict[str, Line] = {
    "task": ("tailrace.cli.task", "Show a task: status, time, processes, data, what sets it apart."),
    "file": ("tailrace.cli.file", "Show a file's history: versions, writers, readers, what it was made from."),
    "stage": ("tailrace.cli.stage", "Show a stage: tasks, failures, time, I/O, what feeds it and what it feeds."),
    "host": ("tailrace.cli.host", "Show a host: mounts and their speed, cost of tracing, losses, clock, time, I/O."),
    "rank": ("tailrace.cli.rank", "Show a rank of a parallel program: time, I/O, how it differs from the others."),
    "access": ("tailrace.cli.access", "Show what the I/O is like: sizes, order, metadata calls, balance."),
}
"""What `tailrace show` shows; each is a command of its own, too: `tailrace task` is `tailrace show task`."""

GROUPS: dict[str, dict[str, Line]] = {
    "Record": {
        "run": ("tailrace.cli.run", "Run a command and trace its I/O and that of all processes it starts."),
        "tag": ("tailrace.cli.tag", "Execute a command with tags, for managers without a plugin."),
        "env": ("tailrace.cli.env", "Print the environment that traces a process, for other workflow managers."),
        "config": ("tailrace.cli.config", "Print the settings: value, where it comes from, what it means."),
        "seal": ("tailrace.cli.seal", "Recover records of killed processes on this node."),
        "compact": ("tailrace.cli.compact", "Rewrite the trace files of a finished run to fewer and smaller ones."),
        "demo": ("tailrace.cli.demo", "Trace a small Parsl workflow and report on it."),
    },
    "Understand a run": {
        "report": (
            "tailrace.cli.report",
            "Report findings, stages, files and dataflow, on the terminal or as a web page.",
        ),
        "show": ("tailrace.cli.show", f"Show one {', '.join([*SHOWN][:-1])}, or the access patterns."),
        "open": ("tailrace.cli.open", "Show a run in the web browser: the report's page and the timeline."),
        "query": ("tailrace.cli.query", "Print totals of events by stage, task, path or time, or the events."),
        "whatif": (
            "tailrace.cli.whatif",
            "Estimate how long a run takes on other resources: faster files, more workers.",
        ),
        "compare": ("tailrace.cli.compare", "Compare two runs or groups of runs; fail when a limit is exceeded."),
        "info": ("tailrace.cli.info", "Print what a run contains and what was lost."),
    },
    "Many runs": {
        "index": ("tailrace.cli.index", "Add runs to a store, which answers questions about all of them."),
        "sql": ("tailrace.cli.sql", "Print the answer of an SQL query over a store of runs."),
    },
    "Workflow managers": {
        "managers": ("tailrace.cli.managers", "List the adapters of workflow managers, with versions."),
        "adapter": ("tailrace.cli.adapter", "Print where the file is that a workflow manager loads to be traced."),
        "declare": ("tailrace.cli.declare", "Import a declared DAG from what a workflow manager left."),
        "flux": ("tailrace.cli.flux", "Collect Flux's job history; print where the Flux plugins are."),
        "slurm": ("tailrace.cli.slurm", "Print the line by which Slurm loads the plugin."),
    },
    "Other tools": {
        "graph": ("tailrace.cli.graph", "Write the dataflow as a graph file."),
        "export": (
            "tailrace.cli.export",
            "Write a run in the format of another tool: WfFormat, Perfetto, RO-Crate, ...",
        ),
        "convert": ("tailrace.cli.convert", "Write another tracer's trace as a run of tailrace."),
    },
}
"""The commands by what one wants to do, as the help lists them."""

COMPLETION = "_TAILRACE_COMPLETE"
"""The variable with which the completion scripts request completions."""

_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of writing to standard output; any other error names its file."""


class Commands(click.Group):
    """The subcommands of a table by groups, each imported on first use. short: further ones, which the help does not
    list."""

    def __init__(
        self, groups: dict[str, dict[str, Line]], short: dict[str, Line] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.groups = groups
        self.listed = {name: line for lines in groups.values() for name, line in lines.items()}
        self.lines = {**self.listed, **(short or {})}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        module, text = self.lines[cmd_name]
        command = import_module(module).command
        assert isinstance(command, click.Command)
        command.short_help = text
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.lines and not name.startswith("-"):
            from tailrace.analyzer.util import nearest

            ctx.fail(f"No such command {name!r}{nearest.hint(name, self.lines)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Not click.Group's, which imports each subcommand.
        found = [
            CompletionItem(name, help=text) for name, (_, text) in self.lines.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.listed))
        for title, lines in self.groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), text) for name, (_, text) in lines.items()])


@click.group(
    cls=Commands,
    groups=GROUPS,
    short=SHOWN,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"`tailrace {'`, `'.join(SHOWN)}` are short for `tailrace show task` and so on.",
)
@click.version_option(package_name="tailrace", prog_name="tailrace")
def group() -> None:
    """Trace what a scientific workflow does to its data, and report it."""


def main() -> None:
    """Runs the command line and exits; prints completions if a completion script requests them."""
    if instruction := os.environ.get(COMPLETION):
        sys.exit(shell_complete(group, {}, "tailrace", COMPLETION, instruction))
    if sys.stdout is None:
        # The caller closed it: drop the output, and keep files that are opened later off its descriptor number.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (open until exit)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that the locale lacks
    sys.exit(_run())


def _run() -> int:
    try:
        with group.make_context("tailrace", sys.argv[1:] or ["--help"]) as context:
            code = group.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except click.ClickException as error:
        # click.UsageError has the context of its subcommand.
        place = getattr(error, "ctx", None)
        hint = f"; see `{place.command_path} --help`" if place is not None else ""
        return _fail(error.format_message().rstrip(".") + hint, error.exit_code)
    except TailraceError as error:
        return _fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except ImportError as error:
        return _fail(f"the installation of tailrace is incomplete ({error}): install it again with pip", 1)
    except BrokenPipeError:
        _drop_output()  # `tailrace ... | head`
        return 0
    except OSError as error:
        _drop_output()
        what = error.filename or ("standard output" if error.errno in _OF_OUTPUT else "the system")
        return _fail(f"{what}: {error.strerror or error}", 1)


def _fail(message: str, code: int) -> int:
    say(" ".join(message.split()))
    return code


def _drop_output() -> None:
    """Discards unwritten output, which Python would try to write again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
