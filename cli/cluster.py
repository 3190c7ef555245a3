"""The Dask scheduler that a command computes on: the one that the user named, or that of Dask's own configuration.

    --scheduler, DASK_SCHEDULER_ADDRESS, DASK_SCHEDULER, YAML files --chosen--> address --computing_on--> engine.py

Invariants: Dask is imported only when something was chosen, and a scheduler is connected to only when there is
something to compute: `tailrace info` of most runs needs neither. Whatever is wrong with the cluster is one error that
names its address.
"""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tailrace import __version__
from tailrace.analyzer.store import engine
from tailrace.errors import ManagerError, UsageError

VARIABLES = ("DASK_SCHEDULER_ADDRESS", "DASK_SCHEDULER", "DASK_NUM_WORKERS")
FIRST_WORKER_S = 60
"""How long to wait for a worker: those of a batch system come later than their scheduler."""
_CHOICE = re.compile(r"^\s*(scheduler|scheduler-address|num_workers)\s*:", re.MULTILINE)


@contextmanager
def computing_on(scheduler: str | None) -> Iterator[None]:
    """Computes on this Dask scheduler meanwhile: an address as in tcp://node1:8786, or a scheduler file; None: what
    Dask's configuration says, else this machine.

    Raises:
        UsageError: there is no such scheduler, or it has no workers that can work for this tailrace.
        ManagerError: Dask is missing, or the cluster failed.
    """
    place = chosen(scheduler)
    if place is None:
        yield
        return
    client: list[Any] = []
    with engine.opened_by(lambda: client.append(_connect(place))):
        try:
            yield
        except Exception as error:
            if client and type(error).__name__ in _FAULTS:
                raise ManagerError(f"the Dask scheduler {place}: {_FAULTS[type(error).__name__]} ({error})") from error
            raise
        finally:
            if client:
                client[0].close()


_FAULTS = {
    "KilledWorker": "its workers die of the work: give them more memory, or look at their logs",
    "CommClosedError": "the connection was lost",
    "FutureCancelledError": "it forgot the work: it was restarted, or has lost all its workers",
    "CancelledError": "it forgot the work: it was restarted, or has lost all its workers",
    "FuturesCancelledError": "it forgot the work: it was restarted, or has lost all its workers",
}
"""Errors of distributed by the names of their classes, and what they mean."""


def chosen(scheduler: str | None) -> str | None:
    """The address or file of the scheduler to compute on; None: this machine."""
    if scheduler is not None:
        return scheduler
    if not any(os.environ.get(name) for name in VARIABLES) and not _configured():
        return None
    config = _import("dask").config
    address, name = config.get("scheduler-address", None), config.get("scheduler", None)
    if isinstance(name, str) and "://" in name:
        return name
    if name in (None, "distributed", "dask.distributed"):
        if address is None and name is not None:
            raise UsageError(f"Dask's configuration chooses {name} and no address: set DASK_SCHEDULER_ADDRESS")
        return None if address is None else str(address)
    known = _import("dask.base").named_schedulers
    if isinstance(name, str) and name.lower() not in known:
        raise UsageError(
            f"Dask's configuration (DASK_SCHEDULER) names the scheduler {name!r}; there are {', '.join(sorted(known))},"
            " and addresses as in tcp://node1:8786"
        )
    return None


def _configured() -> bool:
    """Whether one of Dask's configuration files may say where to compute; most that exist have comments only."""
    root = os.environ.get("DASK_ROOT_CONFIG", "/etc/dask")
    own = os.environ.get("DASK_CONFIG", str(Path.home() / ".config/dask"))
    folders = [root, *(f"{prefix}/etc/dask" for prefix in dict.fromkeys([sys.prefix, *site.PREFIXES])), own]
    for folder in map(Path, folders):
        files = [folder] if folder.is_file() else [*folder.glob("*.yaml"), *folder.glob("*.yml")]
        for file in files:
            try:
                if _CHOICE.search(file.read_text(errors="replace")):
                    return True
            except OSError:
                continue
    return False


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ManagerError(
            f"a package for Dask schedulers is missing ({error}): pip install 'tailrace[cluster]'"
        ) from error


def _connect(place: str) -> Any:
    """A client of the scheduler, Dask's default from here on, once a worker is there."""
    distributed = _import("distributed")
    try:
        if place.endswith(".json"):
            if not Path(place).is_file():
                raise UsageError(f"--scheduler {place}: there is no such scheduler file")
            client = distributed.Client(scheduler_file=place)
        else:
            client = distributed.Client(place)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError
        raise UsageError(f"no Dask scheduler answers at {place} ({_line(error)})") from error
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_S)
        _check(client.run(_version), place)
    except UsageError:
        client.close()
        raise
    except Exception as error:
        client.close()
        if type(error).__name__ == "TimeoutError":
            raise UsageError(f"the Dask scheduler {place} has no worker after {FIRST_WORKER_S} s") from error
        raise UsageError(
            f"the workers of the Dask scheduler {place} can't work for tailrace ({_line(error)}): install"
            f" tailrace {__version__} where they run"
        ) from error
    return client


def _version() -> str:
    return __version__


def _check(versions: dict[str, str], place: str) -> None:
    other = sorted({version for version in versions.values() if version != __version__})
    if other:
        raise UsageError(
            f"workers of the Dask scheduler {place} have tailrace {', '.join(other)}, and this is {__version__}:"
            " install one version everywhere"
        )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
