"""The environment of a traced process, and attaching to a running one.

LD_PRELOAD loads the core into a process; TAILRACE_... variables configure it. A traced process does not see these
variables (hidden settings) and passes them to the processes it starts.
"""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from tailrace import context, installation
from tailrace.errors import CoreError, UsageError

_LIBRARY = "libtailrace.so"
_OF_A_RUN = ("TAILRACE_RUN", "TAILRACE_TAGS", "TAILRACE_CLOCK", "TAILRACE_PROCESS")


def library_path() -> Path:
    """The core's library: the installed package's, or the build that TAILRACE_CORE_LIBRARY names.

    Raises CoreError when it is missing, or when LD_PRELOAD can't contain its path.
    """
    chosen = os.environ.get("TAILRACE_CORE_LIBRARY")
    path = Path(chosen) if chosen else installation.PACKAGE / "lib" / _LIBRARY
    if chosen and not (path.is_absolute() and path.name == _LIBRARY and path.is_file()):
        raise CoreError(f"TAILRACE_CORE_LIBRARY is {chosen}: give the absolute path of a {_LIBRARY}, or unset it")
    if not path.is_file():
        raise CoreError(f"{path} is missing: tailrace was installed without its core; install it again with pip")
    if any(separator in str(path) for separator in " :\t\n$"):
        raise CoreError(f"LD_PRELOAD can't contain {path}: install tailrace under a path without blanks, ':' and '$'")
    return path


def trace_settings(run_dir: str | Path, tags: str = "") -> dict[str, str]:
    """The TAILRACE_... variables that trace a process of this node into `run_dir` with `tags` (canonical)."""
    from tailrace import _native

    # One clock reference for all processes of this node: one pair of clock readings. It is not valid elsewhere.
    settings = {**chosen_settings(), "TAILRACE_RUN": str(run_dir), "TAILRACE_CLOCK": _native.clock_reference()}
    return {**settings, "TAILRACE_TAGS": tags} if tags else settings


def checked_detail(detail: str) -> str:
    """A value of TAILRACE_DETAIL. Raises UsageError on any other text."""
    from tailrace import _native

    if not _native.is_detail(detail):
        raise UsageError(f"there is no detail {detail!r}: give full, totals, auto or auto:BYTES, as in auto:16M")
    return detail


def chosen_settings() -> dict[str, str]:
    """The settings chosen by the user: set in this process's environment and not specific to a run or a node."""
    from tailrace import _native

    chosen = {}
    for name, default, _ in _native.settings():
        value = os.environ.get(name) or context.setting(name)
        if name not in _OF_A_RUN and value and value != default:
            chosen[name] = value
    return chosen


def task_environment(run_dir: str | Path, tags: str = "", base_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a traced task: `base_env` (this process's when None) with the core and the tags.

    run_dir: absolute; tags: canonical string, overrides those of `base_env` or this process key by key. Libraries
    that are preloaded already follow the core. Raises CoreError when the core is not found, TagError when the merged
    tags break the rules.
    """
    from tailrace.tags import merge

    base = dict(os.environ if base_env is None else base_env)
    library = str(library_path())
    preloaded = [entry for entry in base.get("LD_PRELOAD", "").replace(":", " ").split() if entry != library]
    preloaded = [library, *preloaded]
    # A traced process has its tags in the core, not in its environment.
    tags = merge(base.get("TAILRACE_TAGS") or context.setting("TAILRACE_TAGS") or "", tags)
    return {**base, **trace_settings(run_dir, tags), "LD_PRELOAD": ":".join(preloaded)}


def journal_directory(environment: Mapping[str, str] | None = None) -> str:
    """The node-local directory of the journals, by TAILRACE_JOURNAL_DIR in `environment` or the core's default."""
    chosen = (os.environ if environment is None else environment).get("TAILRACE_JOURNAL_DIR")
    if not chosen:
        chosen = context.setting("TAILRACE_JOURNAL_DIR")
    return chosen or default_journal_directory()


def default_journal_directory() -> str:
    """The core's default of TAILRACE_JOURNAL_DIR."""
    from tailrace import _native

    return next(default for name, default, _ in _native.settings() if name == "TAILRACE_JOURNAL_DIR")


def journal_directories(run_dir: str | Path, environment: Mapping[str, str] | None = None) -> list[Path]:
    """Where this user's journals of the run may be on this node, by `journal_directory`: its place, and those that the
    core uses where the default one can't be used."""
    from tailrace import _native

    return [Path(name) for name in _native.journal_directories(str(run_dir), journal_directory(environment))]


def check_journal_directory(environment: Mapping[str, str] | None = None) -> None:
    """Raises UsageError when no journal can be kept in the directory that the user has chosen.

    The default needs no check: the core uses another place.
    """
    from tailrace import _native

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
    if context.active():
        return
    check_journal_directory()
    path = library_path()
    settings = trace_settings(run_dir, tags)
    for name, value in settings.items():
        # Not os.environ: the core removes its variables from the C environment, and Python's copy would keep them.
        os.putenv(name, value)
    reason = _load_and_attach(path)
    if reason is not None:
        for name in settings:
            os.unsetenv(name)
        raise CoreError(f"can't attach to this process: {reason}; start it with `tailrace run` instead")
    context.forget_core()


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
