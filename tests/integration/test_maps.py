"""Mappings of files: which part of which file, by which calls; and the edges that shared ones make."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand
from support.truth import read_run

PAGE = 4096
READ_ONLY, WRITABLE, SHARED, PRIVATE = 1, 3, 1, 2


@pytest.fixture
def shared_memory() -> Iterator[str]:
    name = f"/tailrace-maps-{os.getpid()}"
    yield name
    Path("/dev/shm", name[1:]).unlink(missing_ok=True)


@pytest.mark.skipif(os.sysconf("SC_PAGE_SIZE") != PAGE, reason="the program counts in pages of 4 KiB")
def test_every_mapping_of_a_file_is_an_access_with_its_part(
    program: Callable[[str], Path], run_traced: TracedCommand, tmp_path: Path, shared_memory: str
) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(16 * PAGE))
    run_traced(program("maps"), shared_memory)
    seen = read_run(tmp_path / "run")
    kinds = ("mmap", "munmap", "msync", "mremap")
    fields = ("offset", "count", "prot", "flags")
    found = [
        (event["name"], *(event["args"][field] // (PAGE if field in fields[:2] else 1) for field in fields))
        for event in seen.named(*kinds)
        if seen.path(event) == str(data.resolve())
    ]
    assert found == [
        ("mmap", 0, 16, WRITABLE, SHARED),
        ("mmap", 2, 1, WRITABLE, PRIVATE),
        ("msync", 4, 1, WRITABLE, SHARED),
        ("munmap", 8, 1, WRITABLE, SHARED),
        ("mremap", 2, 3, WRITABLE, PRIVATE),
        ("munmap", 0, 8, WRITABLE, SHARED),
        ("munmap", 9, 3, WRITABLE, SHARED),
        ("munmap", 13, 3, WRITABLE, SHARED),
        ("munmap", 2, 3, WRITABLE, PRIVATE),
    ]
    memory = [event["name"] for event in seen.named(*kinds) if seen.path(event) == f"/dev/shm{shared_memory}"]
    assert memory == ["mmap", "munmap"]
    assert {seen.path(event) for event in seen.named(*kinds)} == {str(data.resolve()), f"/dev/shm{shared_memory}"}


@pytest.mark.skipif(os.sysconf("SC_PAGE_SIZE") != PAGE, reason="the program counts in pages of 4 KiB")
def test_stores_begin_with_a_protection_and_end_with_the_process(
    program: Callable[[str], Path], run_traced: TracedCommand, tmp_path: Path
) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    for file in (data, other):
        file.write_bytes(bytes(16 * PAGE))
    run_traced(program("maps"), "protect")
    seen = read_run(tmp_path / "run")
    found = [
        (event["name"], *(event["args"][field] for field in ("offset", "count", "prot", "flags")))
        for event in seen.named("mmap", "mprotect", "munmap")
        if seen.path(event) == str(data.resolve())
    ]
    assert found == [
        ("mmap", 4 * PAGE, 8 * PAGE, READ_ONLY, SHARED),
        ("mmap", 0, PAGE, READ_ONLY, PRIVATE),
        ("mprotect", 5 * PAGE, 2 * PAGE, WRITABLE, SHARED),
        ("munmap", 5 * PAGE, 2 * PAGE, WRITABLE, SHARED),
    ]
    assert data.read_bytes()[5 * PAGE : 5 * PAGE + 1] == b"z"
    graph = tailrace.open(tmp_path / "run").dataflow(level="process")
    written = {graph.nodes[v].get("path") for _, v, d in graph.edges(data=True) if d["kind"] == "write"}
    assert str(data.resolve()) in written and str(other.resolve()) not in written


def test_a_store_by_one_process_and_a_read_by_another_are_an_edge(
    program: Callable[[str], Path], run_traced: TracedCommand, tmp_path: Path, shared_memory: str
) -> None:
    (tmp_path / "data").write_bytes(bytes(16 * PAGE))
    script = f"{program('maps')} {shared_memory}; cat data > copy; cat /dev/shm{shared_memory} > said"
    run_traced("bash", "-c", script)
    assert (tmp_path / "said").read_bytes().startswith(b"for the other")
    run = tailrace.open(tmp_path / "run")
    graph = run.dataflow(level="process")
    programs = {int(row.pid): Path(row.exe).name for row in run.processes.itertuples()}
    for path in (tmp_path / "data", Path(f"/dev/shm{shared_memory}")):
        (node,) = [n for n, values in graph.nodes(data=True) if values.get("path") == str(path.resolve())]
        writers = {
            programs[graph.nodes[u]["pid"]] for u, _, d in graph.in_edges(node, data=True) if d["kind"] == "write"
        }
        readers = {
            programs[graph.nodes[v]["pid"]] for _, v, d in graph.out_edges(node, data=True) if d["kind"] == "read"
        }
        assert writers == {"maps"} and "cat" in readers


def test_shared_memory_of_a_module_that_brings_its_own_part_of_libc(
    run_traced: TracedCommand, tmp_path: Path, shared_memory: str
) -> None:
    """Before glibc 2.34 shm_open is librt's, which Python loads for the module that calls it, and for no other."""
    script = "import sys, multiprocessing.shared_memory as shared; "
    script += "made = shared.SharedMemory(sys.argv[1], create=True, size=4096); made.close(); made.unlink()"
    run_traced(sys.executable, "-c", script, shared_memory)
    seen = read_run(tmp_path / "run")
    (opened,) = seen.named("shm_open")
    assert (seen.path(opened) or "").endswith(shared_memory)
