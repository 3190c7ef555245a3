"""The manifest of a run's trace files (docs/trace-format.md, "The manifest"), by which a removed one is missed.

Node's sealers add their files themselves (core/src/format/node_file.cc); here are those of processes that sealed for
themselves. Invariants: lines are only appended, each in one write; a node has a file of its own, so no lock is needed.
"""

import json
import os
import re
import socket
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tailrace.analyzer.util import ownership

FOLDER = "manifest"


def add(run_dir: Path, trace_files: Iterable[Path]) -> None:
    """Adds the files of processes among `trace_files` that no line names yet; what can't be written is left out."""
    # A process's file has two "-" in its name, a node's none.
    names = {path.name for path in trace_files if path.name.count("-") == 2}
    if not names:
        return
    with suppress(OSError):
        folder = run_dir / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.glob("*.jsonl"):
            text = ownership.read_regular(path, ownership.JSON_LIMIT)
            names.difference_update(map(os.fsdecode, re.findall(rb'^\{"file":"([^"\\]*)"', text, re.MULTILINE)))
        if not names:
            return
        host = re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname())
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder / f"{host}.jsonl", flags, 0o600)
        try:
            os.write(descriptor, b"".join(map(_line, sorted(names))))
        finally:
            os.close(descriptor)


def _line(name: str) -> bytes:
    text = json.dumps({"file": name}, separators=(",", ":"))[:-1].encode()
    return text + b',"crc":"%08x"}\n' % zlib.crc32(text)
