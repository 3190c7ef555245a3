"""Where an analysis computes: on threads of this process, or on the Dask scheduler that was chosen.

    tasks (callables without arguments) --compute, stream, folded--> results, in their order

Dask is used when the program that imported it has a distributed.Client or chose a scheduler in Dask's configuration;
a command's choice is opened at its first computation (cli/cluster.py).
Without that, nothing of Dask is imported: threads do the same, since the native reader releases the interpreter lock.

Invariants: results come in the order of the tasks and don't depend on where they are computed. Tasks and results can be
pickled. An error of a task is raised here.

Importing Dask's frames took 0.4 of the 1 s of a small question, and their tokens of 100,000 trace files cost more than
reading these.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
Task = Callable[[], T]

SPLIT_EVERY = 32
"""Results combined at once; each level of the tree combines those of the level below."""
CHOICES = ("scheduler", "num_workers", "pool")
"""Keys of Dask's configuration with which a program says where to compute."""
VARIABLES = ("DASK_SCHEDULER", "DASK_NUM_WORKERS")
"""The same in the environment."""


_opener: ContextVar[Callable[[], object] | None] = ContextVar("_opener", default=None)


@contextmanager
def opened_by(connect: Callable[[], object]) -> Iterator[None]:
    """Calls `connect`, which makes a scheduler Dask's default, before the first computation meanwhile."""
    before = _opener.set(connect)
    try:
        yield
    finally:
        _opener.reset(before)


_local: ContextVar[bool] = ContextVar("_local", default=False)


@contextmanager
def here() -> Iterator[None]:
    """Computes on threads of this process meanwhile: what is a task of a cluster itself would wait for its workers,
    which may all run such tasks."""
    before = _local.set(True)
    try:
        yield
    finally:
        _local.reset(before)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


def uses_dask() -> bool:
    """Whether tasks are computed by Dask."""
    if _local.get():
        return False
    if (connect := _opener.get()) is not None:
        _opener.set(None)
        connect()
    if _client() is not None:
        return True
    if any(os.environ.get(name) for name in VARIABLES):
        return True
    config: Any = getattr(sys.modules.get("dask"), "config", None)
    return config is not None and any(config.get(key, None) is not None for key in CHOICES)


def _client() -> Any:
    """Dask's default client; None where there is none."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.get_client()
    except (AttributeError, ValueError):  # it is being imported; there is no client
        return None


def width() -> int:
    """How many tasks run at once."""
    client = _client()
    return cores() if client is None else max(sum(client.nthreads().values()), 1)


def compute(tasks: Sequence[Task[T]]) -> list[T]:
    """The results of the tasks."""
    return list(stream(tasks, ahead=len(tasks)))


def stream(tasks: Sequence[Task[T]], ahead: int | None = None) -> Iterator[T]:
    """The results of the tasks, one after another; at most `ahead` (one a processor) are computed before they are
    taken."""
    if not tasks:
        return
    if uses_dask():
        yield from _stream_dask(tasks, width() if ahead is None else ahead)
        return
    if len(tasks) <= 1:  # without the start of a thread
        yield from (task() for task in tasks)
        return
    left = iter(tasks)
    pool = ThreadPoolExecutor(min(cores(), len(tasks)), thread_name_prefix="tailrace")
    try:
        running: deque[Future[T]] = deque(map(pool.submit, islice(left, ahead or cores())))
        while running:
            yield running.popleft().result()
            running.extend(map(pool.submit, islice(left, 1)))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _stream_dask(tasks: Sequence[Task[T]], ahead: int) -> Iterator[T]:
    import dask

    for at in range(0, len(tasks), ahead):
        yield from dask.compute(*(dask.delayed(task)() for task in tasks[at : at + ahead]))


def folded(tasks: Sequence[Task[T]], combine: Callable[[list[T]], T]) -> T:
    """The results of one or more tasks, combined by a tree of calls of `combine`. No more than `SPLIT_EVERY` results
    of a level are held."""
    if uses_dask():
        return _folded_dask(tasks, combine)
    levels: list[list[T]] = [[]]
    for result in stream(tasks, ahead=cores() + 1):
        levels[0].append(result)
        for level, held in enumerate(levels):
            if len(held) < SPLIT_EVERY:
                break
            if level + 1 == len(levels):
                levels.append([])
            levels[level + 1].append(combine(held))
            held.clear()
    rest = [result for held in reversed(levels) for result in held]
    return rest[0] if len(rest) == 1 else combine(rest)


def _folded_dask(tasks: Sequence[Task[T]], combine: Callable[[list[T]], T]) -> T:
    import dask

    layer: list[Any] = [dask.delayed(task)() for task in tasks]
    together = dask.delayed(combine)
    while len(layer) > 1:
        layer = [together(layer[at : at + SPLIT_EVERY]) for at in range(0, len(layer), SPLIT_EVERY)]
    return dask.compute(layer[0])[0]
