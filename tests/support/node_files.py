"""Lays the blocks of a run's trace files out anew: as a node's files (docs/trace-format.md), in the order of time."""

import heapq
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support import reader
from tailrace import _native

Chunk = tuple[int, str, bytes]
"""Time until which the file's blocks so far reach, host, the block."""


@contextmanager
def without_sealer(run: Path) -> Iterator[None]:
    """For the scope the processes of this run seal into files of their own: in the place of the sealer's board stands
    something else."""
    journals = Path(_native.journal_directory(str(run), "/dev/shm"))
    (journals / "sealer.board").mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(journals)


def gather(run: Path, rotate_bytes: int, keeps: Callable[[str, int], bool] = lambda name, number: False) -> None:
    """Replaces the files in `run` by the files of their nodes, `<host>.<n>.pfw.gz`, each at most `rotate_bytes` before
    its last block. keeps(file, number of the block): it stays in its own file."""
    trace = run / "trace"
    files = sorted(trace.glob("*.pfw.gz"))
    aside = run / "own"
    trace.rename(aside)
    trace.mkdir(mode=0o700)
    at: dict[str, int] = {}
    for _, host, block in heapq.merge(*(_blocks(aside / path.name, trace, keeps) for path in files)):
        name = trace / f"{host}.{at.setdefault(host, 0)}.pfw.gz"
        if name.exists() and name.stat().st_size >= rotate_bytes:
            at[host] += 1
            name = trace / f"{host}.{at[host]}.pfw.gz"
        _append(name, block)
    shutil.rmtree(aside)
    shutil.rmtree(run / "manifest", ignore_errors=True)


def _blocks(path: Path, trace: Path, keeps: Callable[[str, int], bool]) -> Iterator[Chunk]:
    data, reached = path.read_bytes(), 0
    blocks, torn, *_ = reader.scan_blocks(str(path))
    assert not torn
    for number, (offset, length, header) in enumerate(blocks):
        block = data[offset : offset + length]
        about = json.loads(header)
        reached = max(reached, about["t1"])
        if "-" in path.name and keeps(path.name, number):
            _append(trace / path.name, block)
        else:
            yield reached, re.sub("[^A-Za-z0-9._]", "_", about["host"]), block


def _append(path: Path, block: bytes) -> None:
    with path.open("ab") as file:
        file.write(block)
