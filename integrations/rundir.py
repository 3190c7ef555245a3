"""Run directories: creates or opens them and describes the run in run.json (schemas/run.schema.json).

The work is the native launcher's (core/launcher/run_directory.h, description.h).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tailrace import _native
from tailrace.errors import NotARunError, UsageError

DESCRIPTION = "run.json"


def open_run_directory(path: str | Path, command: Sequence[str], tags: str = "") -> Path:
    """Creates the run directory `path`, or opens it for a further run, and describes this run in its run.json.

    command: the traced command line; tags: canonical string. Returns the absolute path with links resolved.
    Raises UsageError when the directory can't be created or written, or contains something other than a run.
    """
    return Path(_native.open_run_directory(checked_path(path), command, tags))


def checked_path(path: str | Path) -> Path:
    """A run directory's path, with the home directory in the place of "~". Raises UsageError where it is not UTF-8."""
    directory = Path(path).expanduser()
    try:
        str(directory).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8: give a run directory whose path is") from error
    return directory


def is_run_directory(directory: Path) -> bool:
    """Whether `directory` is a run (has a run.json or a trace folder)."""
    return (directory / DESCRIPTION).is_file() or (directory / "trace").is_dir()


def existing_run_directory(path: str | Path) -> Path:
    """The absolute path of an existing run, links resolved. Raises NotARunError."""
    directory = Path(path).expanduser().absolute()
    if not directory.is_dir():
        raise NotARunError(f"{directory} is not a directory: give one that `tailrace run` or a plugin wrote")
    if not is_run_directory(directory):
        raise NotARunError(f"{directory} is not a run directory: it has neither {DESCRIPTION} nor trace/")
    return directory.resolve()


def default_run_directory(command: Sequence[str], parent: str | Path = "tailrace-runs") -> Path:
    """An unused directory: `tailrace-runs/<local time>-<program>`, with a number appended if needed.

    Raises UsageError where `parent` is another user's, who could replace the run at any time.
    """
    return Path(_native.default_run_directory(command[0] if command else "run", parent))


def describe_host(directory: Path, command: Sequence[str], tags: str = "") -> None:
    """Adds this host (mounts, kernel, clock error) to run.json unless present. Raises OSError, RunError."""
    _native.describe_host(directory, command, tags)


def boot_id() -> str | None:
    """The id of the running kernel, equal in all of its containers; random(4)."""
    return _native.boot_id()


def command_line() -> list[str]:
    """The command line of this Python program, for `describe_run`."""
    return list(sys.orig_argv)
