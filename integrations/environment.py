"""The environment of a traced process, and attaching to a running one.

LD_PRELOAD loads the core into a process; TAILRACE_... variables configure it. A traced process does not see these
variables (hidden settings) and passes them to the processes it starts.
"""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from tailrace import _native, context, installation
from tailrace.errors import CoreError, UsageError
from tailrace.integrations import settings

_LIBRARY = "libtailrace.so"
_attached = False


def installed_library() -> Path:
    """Where the core's library lies in this installation; it may be missing."""
    return installation.PACKAGE / "lib" / _LIBRARY


def library_path() -> Path:
    """The core's library: the installed package's, or the build that TAILRACE_CORE_LIBRARY names.

    Raises CoreError when it is missing, or when LD_PRELOAD can't contain its path.
    """
    return Path(_native.library_path(installed_library()))


def trace_settings(run_dir: str | Path, tags: str = "") -> dict[str, str]:
    """The TAILRACE_... variables that trace a process of this node into `run_dir` with `tags` (canonical)."""
    settings.load_file()
    return dict(_native.trace_settings(run_dir, tags))


def chosen_settings() -> dict[str, str]:
    """The settings chosen by the user: set in this process's environment and not specific to a run or a node."""
    settings.load_file()
    return dict(_native.chosen_settings())


def task_environment(run_dir: str | Path, tags: str = "", base_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a traced task: `base_env` (this process's when None) with the core and the tags.

    run_dir: absolute; tags: canonical string, overrides those of `base_env` or this process key by key. Libraries
    that are preloaded already follow the core. Raises CoreError when the core is not found, TagError when the merged
    tags break the rules.
    """
    settings.load_file()
    base = os.environ if base_env is None else base_env
    return dict(_native.task_environment(base, library_path(), run_dir, tags))


def journal_directory(environment: Mapping[str, str] | None = None) -> str:
    """The node-local directory of the journals, by TAILRACE_JOURNAL_DIR in `environment` or the core's default."""
    chosen = (os.environ if environment is None else environment).get("TAILRACE_JOURNAL_DIR")
    if not chosen:
        chosen = context.setting("TAILRACE_JOURNAL_DIR")
    return chosen or default_journal_directory()


def default_journal_directory() -> str:
    """The core's default of TAILRACE_JOURNAL_DIR."""
    return settings.table()["TAILRACE_JOURNAL_DIR"].default


def journal_directories(run_dir: str | Path, environment: Mapping[str, str] | None = None) -> list[Path]:
    """Where this user's journals of the run may be on this node, by `journal_directory`: its place, and those that the
    core uses where the default one can't be used."""
    return [Path(name) for name in _native.journal_directories(run_dir, journal_directory(environment))]


def check_journal_directory(environment: Mapping[str, str] | None = None) -> None:
    """Raises UsageError when no journal can be kept in the directory that the user has chosen.

    The default needs no check: the core uses another place.
    """
    chosen = journal_directory(environment)
    fault = _native.journal_fault(chosen) if chosen != default_journal_directory() else ""
    if fault:
        raise UsageError(
            f"TAILRACE_JOURNAL_DIR is {chosen}: {fault}: give a directory of this node in which you may create files,"
            " or unset it"
        )


def attach(run_dir: str | Path, tags: str = "") -> None:
    """Starts tracing in this running process: its threads and all processes that they start from now on.

    Does nothing in a traced process. Can't be undone. Raises CoreError when the core can't attach, UsageError when the
    chosen journal directory can't be used.
    """
    global _attached
    if context.active():
        return
    check_journal_directory()
    path = library_path()
    variables = trace_settings(run_dir, tags)
    for name, value in variables.items():
        # Not os.environ: the core removes its variables from the C environment, and Python's copy would keep them.
        os.putenv(name, value)
    reason = _load_and_attach(path)
    if reason is not None:
        for name in variables:
            os.unsetenv(name)
        raise CoreError(f"can't attach to this process: {reason}; start it with `tailrace run` instead")
    _attached = True
    context.forget_core()


def is_attached() -> bool:
    """Whether `attach` began the tracing of this process, and not whoever started it."""
    return _attached and context.active()


def _load_and_attach(path: Path) -> str | None:
    """Why the library can't attach; None when it did."""
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        library.tailrace_attach_error.restype = ctypes.c_char_p
        if library.tailrace_attach() == 0:
            return None
        return str((library.tailrace_attach_error() or b"no reason given").decode(errors="replace"))
    except (OSError, AttributeError) as error:
        return str(error)
