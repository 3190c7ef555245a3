"""Descriptions of hosts that no launcher described: hosts/HOST.json of a run (docs/trace-format.md, "Hosts").

Processes write their own (core/src/format/host_description.h); a sealer adds what is missing.
"""

import json
import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path

from tailrace import _native, hashed_names
from tailrace.base import ownership
from tailrace.errors import UsageError
from tailrace.integrations.rundir import DESCRIPTION


def add(directory: Path) -> None:
    """Describes this host where processes of the run ran here since it was started and no description has its mounts;
    on a failure it goes on without.

    A later start of the machine may have given other device numbers to the same mounts.
    """
    host = socket.gethostname()
    name = re.sub(r"[^A-Za-z0-9._]", "_", host)
    path = directory / "hosts" / f"{name}.json"
    began = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with suppress(OSError):
        if _describes(path, host) or _describes(directory / DESCRIPTION, host):
            return
        own = re.compile(rf"{re.escape(name)}(-\d+-[0-9a-f]+|\.\d+)\.pfw\.gz")
        with os.scandir(directory / "trace") as found:
            if not any(own.fullmatch(entry.name) and entry.stat().st_mtime_ns >= began for entry in found):
                return
        with suppress(UsageError):
            # As processes of the run describe it; without the key the host stays undescribed.
            hashed_names.of_run(directory)
            path.unlink(missing_ok=True)
            _native.write_host_description(directory, host)


def _describes(path: Path, host: str) -> bool:
    """Whether the file, or one of its restarts, has the mounts of the host. Raises OSError."""
    # Here, since every command imports this module, completion as well.
    from tailrace.analyzer.store.mounts import undescribed

    try:
        known = json.loads(ownership.read_regular(path, ownership.JSON_LIMIT))
    except (FileNotFoundError, RecursionError, ValueError):
        return False
    return isinstance(known, dict) and host not in undescribed(known, (host, ""))
