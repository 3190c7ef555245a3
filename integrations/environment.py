"""The environment that makes a process a traced one, and the way into a process that runs already.

The core is put into a process by LD_PRELOAD and told what to do by TAILRACE_...; a traced process doesn't see these
variables itself, and hands them to what it starts.
"""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from tailrace import context, installation
from tailrace.errors import CoreError

_LIBRARY = "libtailrace.so"
_OF_A_RUN = ("TAILRACE_RUN", "TAILRACE_TAGS", "TAILRACE_CLOCK", "TAILRACE_PROCESS")


def library_path() -> Path:
    """The core's library: the installed package's, or the build that TAILRACE_CORE_LIBRARY names.

    Raises CoreError when it isn't there, or lies where LD_PRELOAD can't name it.
    """
    chosen = os.environ.get("TAILRACE_CORE_LIBRARY")
    path = Path(chosen) if chosen else installation.PACKAGE / "lib" / _LIBRARY
    if chosen and not (path.is_absolute() and path.name == _LIBRARY and path.is_file()):
        raise CoreError(f"TAILRACE_CORE_LIBRARY is {chosen}: name a {_LIBRARY} by its whole path, or unset it")
    if not path.is_file():
        raise CoreError(f"{path} is missing: tailrace was installed without its core; `pip install` it anew")
    if any(separator in str(path) for separator in " :\t\n$"):
        raise CoreError(f"LD_PRELOAD can't name {path}: install tailrace under a path without blanks, ':' and '$'")
    return path


def trace_settings(run_dir: str | Path, tags: str = "") -> dict[str, str]:
    """The TAILRACE_... variables of a process on this node that is traced into `run_dir` with `tags` (canonical)."""
    from tailrace import _native

    # The clock reference holds on this node only. With it, all its processes count from one pair of clock readings.
    settings = {**chosen_settings(), "TAILRACE_RUN": str(run_dir), "TAILRACE_CLOCK": _native.clock_reference()}
    return {**settings, "TAILRACE_TAGS": tags} if tags else settings


def chosen_settings() -> dict[str, str]:
    """The settings that the user has chosen: set for this process, and not a matter of one run or one node."""
    from tailrace import _native

    chosen = {}
    for name, default, _ in _native.settings():
        value = os.environ.get(name) or context.setting(name)
        if name not in _OF_A_RUN and value and value != default:
            chosen[name] = value
    return chosen


def task_environment(run_dir: str | Path, tags: str = "", base_env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a traced task: `base_env` (this process's when None) with the core and the tags in it.

    run_dir: absolute; tags: canonical string, laid over the ones that `base_env` or this process carries. A library
    that is preloaded already stays, behind the core. Raises CoreError when the core can't be found, TagError when the
    tags together break the rules.
    """
    from tailrace.tags import merge

    base = dict(os.environ if base_env is None else base_env)
    library = str(library_path())
    preloaded = [entry for entry in base.get("LD_PRELOAD", "").replace(":", " ").split() if entry != library]
    preloaded = [library, *preloaded]
    # A traced process doesn't see its own variables, so its tags are to be had from the core.
    tags = merge(base.get("TAILRACE_TAGS") or context.setting("TAILRACE_TAGS") or "", tags)
    return {**base, **trace_settings(run_dir, tags), "LD_PRELOAD": ":".join(preloaded)}


def journal_directory(environment: Mapping[str, str] | None = None) -> str:
    """The node-local directory of the journals, by TAILRACE_JOURNAL_DIR in `environment` or the core's default."""
    from tailrace import _native

    chosen = (os.environ if environment is None else environment).get("TAILRACE_JOURNAL_DIR")
    if not chosen:
        chosen = context.setting("TAILRACE_JOURNAL_DIR")
    return chosen or next(default for name, default, _ in _native.settings() if name == "TAILRACE_JOURNAL_DIR")


def attach(run_dir: str | Path, tags: str = "") -> None:
    """Starts tracing in this process, which was not started traced: its threads and all that they start from now on.

    Does nothing when the process is traced already. Can't be undone. Raises CoreError when the core can't attach.
    """
    if context.active():
        return
    path = library_path()
    settings = trace_settings(run_dir, tags)
    for name, value in settings.items():
        # Not os.environ: the core takes its variables out of the C environment, and Python's copy would keep them.
        os.putenv(name, value)
    reason = _load_and_attach(path)
    if reason is not None:
        for name in settings:
            os.unsetenv(name)
        raise CoreError(f"can't attach to this process: {reason}; start it with `tailrace run` instead")
    context.forget_core()


def _load_and_attach(path: Path) -> str | None:
    """Why the library can't attach, or None when it has."""
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        library.tailrace_attach_error.restype = ctypes.c_char_p
        if library.tailrace_attach() == 0:
            return None
        return str((library.tailrace_attach_error() or b"no reason given").decode(errors="replace"))
    except (OSError, AttributeError) as error:
        return str(error)
