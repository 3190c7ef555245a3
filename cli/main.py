"""The `tailrace` command: the table of its subcommands, each loaded when it is called, and what an error looks like.

A subcommand is a click command named `command` in its file. Exit codes: 0 done, 1 failed, 2 usage; `run` exits as the
command that it ran. An error is one line on stderr.
"""

import errno
import io
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import click

import tailrace
from tailrace.errors import TailraceError, UsageError

# subcommand -> (module, what it does)
COMMANDS = {
    "run": ("tailrace.cli.run", "Run a command and trace all it does to files."),
    "info": ("tailrace.cli.info", "Say what a run holds, and what was lost."),
    "report": ("tailrace.cli.report", "Show a run: stages, files, dataflow; on the terminal or as a web page."),
    "query": ("tailrace.cli.query", "Ask for events or totals by stage, task, path, time."),
    "compare": ("tailrace.cli.compare", "Compare two runs, or two groups of repeated runs; fail beyond a limit."),
    "graph": ("tailrace.cli.graph", "Write the dataflow as a graph file."),
    "export": (
        "tailrace.cli.export",
        "Write a run in a format of other tools: WfFormat, Perfetto, RO-Crate, PROV, ...",
    ),
    "declare": ("tailrace.cli.declare", "Say what should depend on what, by a WfFormat instance."),
    "seal": ("tailrace.cli.seal", "Bring in what processes that died left on this node."),
    "env": ("tailrace.cli.env", "Print the environment that traces a process, for other workflow managers."),
    "flux": ("tailrace.cli.flux", "Collect Flux's job history; find the Flux plugins."),
    "demo": ("tailrace.cli.demo", "Trace a small Parsl workflow and show what came out."),
}


_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing says; an error of anything else names its file."""


class _Commands(click.Group):
    """The subcommands of COMMANDS, none imported before it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tailrace.__version__, prog_name="tailrace")
def group() -> None:
    """Traces what a scientific workflow does to its data, and shows it."""


def main() -> None:
    """Runs the command line and exits."""
    if sys.stdout is None:
        # Closed by who started us: nobody wants the output, and no file that is opened now may get its number.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (open to the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that the locale can't write
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
        # click.UsageError knows its subcommand, and how to ask for help on it.
        place = getattr(error, "ctx", None)
        hint = f"; see `{place.command_path} --help`" if place is not None else ""
        return _fail(error.format_message().rstrip(".") + hint, error.exit_code)
    except TailraceError as error:
        return _fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except ImportError as error:
        return _fail(f"tailrace is not installed whole ({error}): pip install it anew", 1)
    except BrokenPipeError:
        _drop_output()  # `tailrace ... | head`: nothing more to say
        return 0
    except OSError as error:
        _drop_output()
        what = error.filename or ("standard output" if error.errno in _OF_OUTPUT else "the system")
        return _fail(f"{what}: {error.strerror or error}", 1)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"tailrace: {line}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """Python must not find at its exit what standard output could not take."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
