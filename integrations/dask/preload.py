"""Tracing without a line in the program: DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask python program.py"""

import inspect
import logging
from typing import Any

from distributed import Client

_log = logging.getLogger("tailrace.dask")


async def dask_setup(server: Any) -> None:
    """Called by Dask with a client that has just connected."""
    if not isinstance(server, Client):
        _log.warning(
            "tailrace: tailrace.dask is a preload for clients (DASK_DISTRIBUTED__CLIENT__PRELOAD), not for a %s",
            type(server).__name__,
        )
        return
    from tailrace.dask.tracing import trace

    traced = trace(server)
    if inspect.isawaitable(traced):
        await traced
