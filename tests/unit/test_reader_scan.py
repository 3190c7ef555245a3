"""Finding the blocks of a file: torn, foreign, newer and odd ones, on which the native reader and the oracle agree."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from support import reader
from support import trace_writer as tw
from support.both_readers import both, write
from tailrace import _native
from tailrace.errors import TraceError


def scan(path: str, start: int = 0) -> tuple[Any, ...]:
    """The scan, on which both readers must agree."""
    ours, theirs = _native.scan_blocks(path, start), reader.scan_blocks(path, start)
    assert ours[:3] == theirs[:3]
    return ours


def test_scan_finds_all_blocks_and_plain_gzip_reads_them(tmp_path: Path) -> None:
    parts = [tw.block([tw.event(size=i)]) for i in range(5)]
    path = write(tmp_path, b"".join(parts))
    blocks, torn, cause, problem = scan(path)
    assert [length for _, length, _ in blocks] == [len(part) for part in parts]
    assert (torn, cause, problem) == (0, "", "")
    assert all(json.loads(header)["events"] == 1 for _, _, header in blocks)
    assert len(gzip.decompress(Path(path).read_bytes()).splitlines()) == 5
    assert [offset for offset, _, _ in scan(path, len(parts[0]))[0]] == [offset for offset, _, _ in blocks[1:]]


def test_scan_takes_every_whole_block_of_a_torn_file(tmp_path: Path) -> None:
    first, second = tw.block([tw.event()]), tw.block([tw.event()] * 30)
    for kept in range(len(second)):
        blocks, torn, cause, _ = scan(write(tmp_path, first + second[:kept]))
        assert ([offset for offset, _, _ in blocks], torn, cause) == ([0], kept, "")


def test_scan_continues_after_a_torn_block(tmp_path: Path) -> None:
    first, torn, last = tw.block([tw.event()]), tw.block([tw.event()] * 30), tw.block([tw.event(size=9)])
    for kept in (1, 11, 15, 40, len(torn) - 1):
        path = write(tmp_path, first + torn[:kept] + last)
        blocks, lost, cause, _ = scan(path)
        assert ([offset for offset, _, _ in blocks], lost, cause) == ([0, len(first) + kept], kept, "")
        assert len(both(path, ["size"])) == 2


def test_scan_rejects_a_tail_of_zeros(tmp_path: Path) -> None:
    first, second = tw.block([tw.event()]), tw.block([tw.event()] * 30)
    path = write(tmp_path, first + second[: len(second) // 2].ljust(len(second), b"\0"))
    blocks, torn, _, _ = scan(path)
    assert len(blocks) == 1 and torn == len(second)


@pytest.mark.parametrize("data", [gzip.compress(b'{"a":1}\n', mtime=0), b"[\n", b"x" * 100, b"PK\x03\x04" * 9])
def test_scan_recognizes_foreign_files(tmp_path: Path, data: bytes) -> None:
    blocks, _, cause, problem = scan(write(tmp_path, data))
    assert blocks == [] and cause == "foreign" and problem


def test_scan_of_an_empty_file_is_empty(tmp_path: Path) -> None:
    assert scan(write(tmp_path, b"")) == ([], 0, "", "")


def test_scan_refuses_a_newer_version_by_name(tmp_path: Path) -> None:
    good, newer = tw.block([tw.event()]), tw.block([tw.event()], {"v": 3, "lines": None})
    path = write(tmp_path, good + newer + good)
    blocks, torn, cause, problem = scan(path)
    assert [offset for offset, _, _ in blocks] == [0]
    assert (torn, cause) == (len(newer) + len(good), "version") and "version 3" in problem
    with pytest.raises(TraceError, match="version 3"):
        _native.read_blocks(path, [(len(good), len(newer))])


@pytest.mark.parametrize("promise", [{"events": 5}, {"events": 5, "lines": 5}, {"lines": 0}], ids=str)
def test_scan_leaves_out_a_block_whose_header_contradicts_itself_as_reading_does(
    tmp_path: Path, promise: dict[str, int]
) -> None:
    good, odd = tw.block([tw.event()]), tw.block([tw.event()] if "events" not in promise else [b"{}"], promise)
    path = write(tmp_path, good + odd + good)
    blocks, left_out, _, problem = scan(path)
    assert [offset for offset, _, _ in blocks] == [0, len(good) + len(odd)]
    assert left_out == len(odd) and f"block at byte {len(good)}" in problem
    with pytest.raises(TraceError, match="contradict"):
        _native.read_blocks(path, [(len(good), len(odd))])


def test_scan_of_a_header_longer_than_the_first_read(tmp_path: Path) -> None:
    contexts = [f"stage=s{i:05}" for i in range(4000)]
    path = write(tmp_path, tw.block([tw.event()], {"contexts": contexts}))
    ((_, _, header),) = scan(path)[0]
    assert json.loads(header)["contexts"] == contexts
    assert len(both(path, ["name"])) == 1


def test_scan_takes_a_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path.joinpath("a\udcff.pfw.gz")
    path.write_bytes(tw.block([tw.event()]))
    assert len(_native.scan_blocks(path)[0]) == 1
    with pytest.raises(TraceError, match="a\udcff"):
        _native.scan_blocks(path.with_suffix(".none"))
