"""The calling thread's context: which workflow, stage, task its I/O is recorded for.

    with tailrace.context.scope(stage="align", task="17"):
        ...                                   # this thread, the threads and the processes that it starts

A context belongs to a thread. A new thread has its creator's, a child process its parent thread's; a coroutine has
none of its own, so a scope must not span an `await`. In a process that isn't traced everything here does nothing, at
the cost of one look-up. This module is imported by every traced Python worker and imports next to nothing itself.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace

_SIGNATURES = {
    "tailrace_active": (ctypes.c_int, []),
    "tailrace_context_enter": (ctypes.c_uint32, [ctypes.c_char_p]),
    "tailrace_context_current": (ctypes.c_uint32, []),
    "tailrace_context_switch": (ctypes.c_uint32, [ctypes.c_uint32]),
    "tailrace_context_finish": (None, [ctypes.c_uint32]),
    "tailrace_flush": (None, []),
    "tailrace_count_own": (None, [ctypes.c_uint64, ctypes.c_uint64]),
    "tailrace_run_directory": (ctypes.c_char_p, []),
    "tailrace_setting": (ctypes.c_char_p, [ctypes.c_char_p]),
}


@lru_cache(maxsize=1)
def _core() -> SimpleNamespace | None:
    """The core's functions in this process, or None when it isn't loaded."""
    process = ctypes.CDLL(None)
    functions = {}
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(process, name)
        except AttributeError:
            return None
        function.restype, function.argtypes = result, arguments
        functions[name.removeprefix("tailrace_")] = function
    return SimpleNamespace(**functions)


def forget_core() -> None:
    """Makes the next call look for the core anew: it has just been loaded."""
    _core.cache_clear()


def active() -> bool:
    """Whether events of this process are being recorded."""
    core = _core()
    return core is not None and bool(core.active())


@contextmanager
def own_io() -> Iterator[None]:
    """What the calling thread reads and writes meanwhile in native code is the tracer's, not the program's."""
    core = _core()
    before = kernel_account() if core is not None and core.active() else None
    try:
        yield
    finally:
        after = kernel_account() if before is not None else None
        if core is not None and before is not None and after is not None:
            # The first look's own bytes are in the second; they are in the trace as well.
            core.count_own(max(0, after[0] - before[0] - before[2]), max(0, after[1] - before[1]))


def kernel_account(whose: int | str = "thread-self") -> tuple[int, int, int] | None:
    """rchar and wchar (proc(5)) of this thread, of "self" or of a process, and the bytes that it took to read them,
    which are counted when they are read. None where the kernel doesn't say."""
    try:
        descriptor = os.open(f"/proc/{whose}/io", os.O_RDONLY)
        try:
            text = os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
        fields = dict(line.split(b": ") for line in text.splitlines())
        return int(fields[b"rchar"]), int(fields[b"wchar"]), len(text)
    except (OSError, ValueError, KeyError):
        return None


def run_directory() -> str | None:
    """The run directory that this process is traced into, or None."""
    core = _core()
    path = core.run_directory() if core is not None else None
    return path.decode("utf-8", "surrogateescape") if path else None


def setting(name: str) -> str | None:
    """A setting of the core in this process (`TAILRACE_...`); None where it has none, or when it isn't traced."""
    core = _core()
    value = core.setting(name.encode()) if core is not None else None
    return value.decode("utf-8", "surrogateescape") if value else None


def flush() -> None:
    """Seals what the calling thread has recorded to the run directory now."""
    core = _core()
    if core is not None:
        core.flush()


@contextmanager
def scope(tags: Mapping[str, str | int] | None = None, /, **more: str | int) -> Iterator[None]:
    """Lays tags over the calling thread's context for the length of the block. Works as a decorator too.

    tags: for keys that Python can't spell as a keyword (`{"try": 1}`); more: the rest (`stage="align"`).
    A scope that names a `task` ends that task with it: what the thread recorded goes to the run directory, and a
    thread that was started inside and still runs records under the process's own context from then on. A scope that
    names none only goes back to the tags before it, since other threads may be under the same ones.

    Raises TagError when a tag breaks the rules, traced or not: being traced must not change what a program does.
    """
    from tailrace.tags import encode

    given = {**(tags or {}), **more}
    with entered(encode(given), finish="task" in given):
        yield


@contextmanager
def entered(canonical: str, finish: bool = True) -> Iterator[None]:
    """scope() for tags that are a canonical string already, unchecked; finish: they are a task's, which ends too."""
    core = _core()
    if core is None or not canonical:
        yield
        return
    outer = core.context_current()
    context = core.context_enter(canonical.encode())
    try:
        yield
    finally:
        if context and finish:
            core.context_finish(context)
        if context:
            core.context_switch(outer)
