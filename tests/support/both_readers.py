"""Traces of a few blocks read by the native reader and by the plain-Python oracle (reader.py), which must agree."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from support import reader
from support import trace_writer as tw
from tailrace import _native

MOUNTS = [
    ("node-1", "0:52", "/net", "nas:/export:/"),
    ("node-1", "254:1", "/", ""),
    ("node-1", "0:60", "/net/scratch", ""),
    ("pod-7", "", "", "node-1"),  # a container on node-1
    ("pod-7", "0:52", "/data", "nas:/export:/"),
]
"""Of two hosts, as `mounts.Mount` has them."""


def write(tmp_path: Path, data: bytes) -> str:
    """The path of a trace file with these bytes."""
    path = tmp_path / "node_1-7-187a.pfw.gz"
    path.write_bytes(data)
    return str(path)


def native(path: str, columns: list[str] | None = None, mounts: Any = ()) -> pa.RecordBatch:
    """All rows of a file, by the native reader."""
    blocks, *_ = _native.scan_blocks(path)
    batch = pa.record_batch(_native.read_blocks(path, [(o, n) for o, n, _ in blocks], columns, list(mounts)))
    batch.validate(full=True)
    return batch


def oracle(path: str, columns: list[str] | None = None, mounts: Any = ()) -> pa.RecordBatch:
    """The same by the oracle."""
    blocks, *_ = reader.scan_blocks(path)
    return reader.read_blocks(path, [(o, n) for o, n, _ in blocks], columns, mounts)


def both(path: str, columns: list[str] | None = None, mounts: Any = ()) -> list[dict[str, Any]]:
    """The rows, which must be the same by both readers."""
    ours, theirs = native(path, columns, mounts), oracle(path, columns, mounts)
    assert ours.schema.equals(theirs.schema)
    assert ours.to_pylist() == theirs.to_pylist()
    return ours.to_pylist()


def one(tmp_path: Path, *lines: Any, columns: list[str] | None = None, mounts: Any = ()) -> dict[str, Any]:
    """The only row of a block of these lines."""
    header = {"events": 1, "t0": 0, "t1": 0, "contexts": [""]}
    (row,) = both(write(tmp_path, tw.block(lines, header)), columns, mounts)
    return row
