"""The context of the calling thread: the workflow, stage and task that its I/O is recorded for.

    with tailrace.context.scope(stage="align", task="17"):
        ...                                   # this thread, and the threads and processes it starts

A context belongs to a thread. A new thread inherits that of its creator, a child process that of its parent thread; a
coroutine has none, so a scope must not span an `await`. In an untraced process every function here returns after one
look-up. Every traced Python worker imports this module, so it imports almost nothing itself.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace

_SIGNATURES = {
    "tailrace_active": (ctypes.c_int, []),
    "tailrace_scope_begin": (ctypes.c_uint64, [ctypes.c_char_p]),
    "tailrace_scope_end": (ctypes.c_int, [ctypes.c_uint64, ctypes.c_int]),
    "tailrace_pass_on": (None, []),
    "tailrace_flush": (None, []),
    "tailrace_count_own": (None, [ctypes.c_uint64, ctypes.c_uint64]),
    "tailrace_run_directory": (ctypes.c_char_p, []),
    "tailrace_setting": (ctypes.c_char_p, [ctypes.c_char_p]),
}
_WRITING = ("tailrace_pass_on", "tailrace_flush")
"""Called without the interpreter's lock, since they may write to a file."""


@lru_cache(maxsize=1)
def _core() -> SimpleNamespace | None:
    """The core's functions in this process, or None when it isn't loaded."""
    unlocked, locked = ctypes.CDLL(None), ctypes.PyDLL(None)
    functions = {}
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(unlocked if name in _WRITING else locked, name)
        except AttributeError:
            return None
        function.restype, function.argtypes = result, arguments
        functions[name.removeprefix("tailrace_")] = function
    return SimpleNamespace(**functions)


def forget_core() -> None:
    """Makes the next call search for the core again, after it was loaded."""
    _core.cache_clear()


def active() -> bool:
    """Whether events of this process are being recorded."""
    core = _core()
    return core is not None and bool(core.active())


@contextmanager
def own_io() -> Iterator[None]:
    """Counts the I/O of the calling thread in native code as the tracer's, not the program's."""
    core = _core()
    before = kernel_account() if core is not None and core.active() else None
    try:
        yield
    finally:
        after = kernel_account() if before is not None else None
        if core is not None and before is not None and after is not None:
            # The second reading includes the bytes of the first one, which the trace contains as well.
            core.count_own(max(0, after[0] - before[0] - before[2]), max(0, after[1] - before[1]))


def kernel_account(whose: int | str = "thread-self") -> tuple[int, int, int] | None:
    """rchar and wchar (proc(5)) of this thread, of "self" or of a process, and the size of the text they were read
    from, which the kernel counts after the reading. None where they can't be read."""
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
    """A setting of the core in this process (`TAILRACE_...`); None when it is unset or the process is untraced."""
    core = _core()
    value = core.setting(name.encode()) if core is not None else None
    return value.decode("utf-8", "surrogateescape") if value else None


def flush() -> None:
    """Seals the records of the calling thread, and of threads that have ended, to the run directory now."""
    core = _core()
    if core is not None:
        core.flush()


@contextmanager
def scope(tags: Mapping[str, str | int] | None = None, /, **more: str | int) -> Iterator[None]:
    """Adds tags to the calling thread's context for the duration of the block. Works as a decorator, too.

    tags: for keys that are no Python keyword arguments (`{"try": 1}`); more: the others (`stage="align"`). A scope with
    another task has no `try` but its own.
    A scope with a `task` ends that task at its end: a thread that was started inside and still runs records under the
    process's context from then on; the thread's records go to the run directory when they are many or a second old,
    else with a later task's. A scope without a `task` only restores the earlier tags, since other threads may record
    under the same ones.

    Raises TagError when a tag breaks the rules, traced or not: tracing must not change a program's behaviour.
    """
    from tailrace.tags import encode

    given = {**(tags or {}), **more}
    with entered(encode(given), finish="task" in given):
        yield


class entered:
    """scope() for tags as a canonical string, unchecked; finish: also end the task at the end of the block.

    A class, since every task of a worker runs in one: contextmanager's generator would take longer than the core.
    """

    __slots__ = ("_canonical", "_core", "_finish", "_scope")

    def __init__(self, canonical: str, finish: bool = True) -> None:
        self._canonical = canonical
        self._finish = finish
        self._scope = 0

    def __enter__(self) -> None:
        core = _core() if self._canonical else None
        if core is not None:
            self._core = core
            self._scope = core.scope_begin(self._canonical.encode())

    def __exit__(self, *_: object) -> None:
        scope, self._scope = self._scope, 0
        if scope and self._core.scope_end(scope, self._finish):
            self._core.pass_on()
