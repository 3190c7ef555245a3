"""Appending in every way: where the trace says that a call's bytes lie, there they are.

The program's processes write letters of their own, and nothing is overwritten: so the ranges of all calls are disjoint,
each has its own process's letters, and together they are the file.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand

Program = Callable[[str], Path]


def ranges(run: Path, path: Path) -> tuple[list[tuple[int, int, int]], list[int]]:
    """(begin, end, pid) of the calls that wrote to the file, and the bytes of those at unknown offsets."""
    events = tailrace.open(run).read(["pid", "dir", "offset", "size", "name"], path=str(path))
    rows = events[(events["dir"] == "w") & (events["size"] > 0)]
    known = rows[rows["offset"].notna()]
    found = [(int(at), int(at + size), int(pid)) for pid, at, size in known[["pid", "offset", "size"]].to_numpy()]
    return sorted(found), [int(size) for size in rows["size"][rows["offset"].isna()]]


def check(found: list[tuple[int, int, int]], data: bytes) -> None:
    """Each range has one letter, that of its process, and no two have a byte."""
    letters: dict[int, set[int]] = {}
    for begin, end, pid in found:
        letters.setdefault(pid, set()).update(data[begin:end])
    assert all(len(mine) == 1 for mine in letters.values()), letters
    assert len({letter for mine in letters.values() for letter in mine}) == len(letters)
    assert all(before[1] <= after[0] for before, after in pairwise(found))


@pytest.mark.parametrize("seed", range(8))
def test_one_process_has_the_offsets_of_all_its_appends(
    program: Program, run_traced: TracedCommand, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "file"
    run_traced(program("appends"), path, seed, 60)
    data = path.read_bytes()
    found, loose = ranges(run_traced.run, path)
    check(found, data)
    assert sum(end - begin for begin, end, _ in found) + sum(loose) == len(data)
    # Of a call that libc wrote in pieces, with another descriptor's in between, none is known.
    assert len(loose) * 50 <= len(found)


@pytest.mark.parametrize("seed", range(4))
def test_processes_with_descriptors_of_their_own_have_what_they_wrote(
    program: Program, run_traced: TracedCommand, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "file"
    run_traced(program("appends"), path, seed, 60, "own", 3)
    data = path.read_bytes()
    found, loose = ranges(run_traced.run, path)
    check(found, data)
    assert sum(end - begin for begin, end, _ in found) + sum(loose) == len(data)


@pytest.mark.parametrize("seed", range(4))
def test_processes_that_share_an_open_file_never_have_a_neighbours_bytes(
    program: Program, run_traced: TracedCommand, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "file"
    run_traced(program("appends"), path, seed, 60, "shared", 3)
    data = path.read_bytes()
    found, loose = ranges(run_traced.run, path)
    check(found, data)
    assert sum(end - begin for begin, end, _ in found) + sum(loose) == len(data)
