"""Which programs can carry the core: a preloaded library needs glibc's loader, and a loader that lets it in.

Only the first program of a run is looked at here; the core itself looks at what that one starts.
"""

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

_PT_INTERP = 3
_HEADER_BYTES = 64


@dataclass(frozen=True)
class Obstacle:
    """Why a program can't carry the core, in words; breaks: with the core in its environment it won't even start."""

    reason: str
    breaks: bool = False


def find_obstacle(command: str) -> Obstacle | None:
    """What keeps the core out of `command` (found by PATH); None when nothing does, or when it can't be read."""
    found = shutil.which(command)
    if found is None:
        return None
    try:
        return _find_in(_script_interpreter(found) or found)
    except (OSError, struct.error):
        return None


def _script_interpreter(path: str) -> str | None:
    with Path(path).open("rb") as file:
        line = file.readline(256)
    words = line[2:].split() if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None


def _find_in(path: str) -> Obstacle | None:
    status = Path(path).stat()
    if status.st_mode & 0o6000 and status.st_uid != os.geteuid():
        return Obstacle(f"{path} is set-uid or set-gid, and the loader keeps preloaded libraries out of such programs")
    with Path(path).open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if header[:4] != b"\x7fELF" or len(header) < _HEADER_BYTES or header[4] != 2:
            return None  # a script without #!, or a 32-bit program: let the loader say
        loader = _loader(file.fileno(), header)
    if loader is None:
        return Obstacle(f"{path} is statically linked, so that only what it starts can be traced")
    if b"musl" in loader:
        return Obstacle(f"{path} is linked with musl, and the core needs glibc", breaks=True)
    return None


def _loader(descriptor: int, header: bytes) -> bytes | None:
    order = "<" if header[5] == 1 else ">"
    (table_offset,) = struct.unpack_from(order + "Q", header, 32)
    entry_bytes, entries = struct.unpack_from(order + "HH", header, 54)
    for number in range(entries):
        entry = os.pread(descriptor, entry_bytes, table_offset + number * entry_bytes)
        (kind,) = struct.unpack_from(order + "I", entry)
        if kind == _PT_INTERP:
            offset, _, _, size = struct.unpack_from(order + "QQQQ", entry, 8)
            return os.pread(descriptor, size, offset).rstrip(b"\0")
    return None
