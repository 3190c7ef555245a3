"""MPI-IO, and HDF5 over it: every rank's calls, as the rank counted them, on the file that its descriptors have too."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.commands import TAILRACE
from support.truth import Seen, read_run

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
RANKS = 2


@pytest.fixture(scope="module")
def mpicc() -> str:
    """MPI's compiler; skips where it or its launcher isn't there."""
    found = shutil.which("mpicc")
    if found is None or shutil.which("mpiexec") is None:
        pytest.skip("no MPI with a compiler (Debian: libopenmpi-dev or libmpich-dev)")
    return found


@pytest.fixture(scope="module")
def parallel_hdf5() -> list[str]:
    """The compiler flags for the HDF5 that is built with this MPI."""
    flavour = "openmpi" if is_open_mpi() else "mpich"
    for header in sorted(Path("/usr/include/hdf5").glob(f"{flavour}/hdf5.h")):
        for library in sorted(Path("/usr/lib").glob(f"*/hdf5/{flavour}/libhdf5.so")):
            return [f"-I{header.parent}", f"-L{library.parent}", "-lhdf5"]
    pytest.skip(f"no HDF5 for this MPI (Debian: libhdf5-{flavour}-dev)")


def is_open_mpi() -> bool:
    """Whether mpiexec is Open MPI's."""
    said = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=False).stdout
    return any(name in said for name in ("Open MPI", "OpenRTE", "PRRTE"))


Ranks = Callable[..., tuple[subprocess.CompletedProcess[str], Seen]]


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    """Runs a command in RANKS ranks: what it did untraced it does traced, and what was seen."""
    if shutil.which("mpiexec") is None:
        pytest.skip("no MPI (Debian: libopenmpi-dev or libmpich-dev)")
    extra = ["--oversubscribe", "--allow-run-as-root"] if is_open_mpi() else []
    environment = {**os.environ, "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "TMPDIR": str(tmp_path)}

    def run(*command: Any) -> tuple[subprocess.CompletedProcess[str], Seen]:
        words = ["mpiexec", *extra, "-n", str(RANKS), *map(str, command)]
        options: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
        bare = subprocess.run(words, env=environment, timeout=120, **options)
        if bare.returncode:
            pytest.skip(f"MPI doesn't run here: {bare.stderr[-300:]}")
        traced = [*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--", *words]
        done = subprocess.run(traced, env=environment, timeout=120, **options)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == sorted(bare.stdout.splitlines())
        return done, read_run(tmp_path / "run")

    return run


def of(seen: Seen, category: str) -> list[dict[str, Any]]:
    """The events of a category."""
    return [event for event in seen.events if event["cat"] == category]


def test_calls_have_their_offsets_and_bytes(mpicc: str, ranks: Ranks, tmp_path: Path) -> None:
    subprocess.run([mpicc, "-w", "-O2", PROGRAMS / "mpiio.c", "-o", tmp_path / "mpiio"], check=True)
    done, seen = ranks(tmp_path / "mpiio", "out.bin")
    events = of(seen, "MPIIO")
    wrong = [event for event in events if event["args"]["ret"] < 0]
    assert Counter(event["name"] for event in wrong) == {"MPI_File_open": RANKS}
    events = [event for event in events if event["args"]["ret"] == 0]
    assert {seen.path(event) for event in events} == {str(tmp_path / "out.bin")}
    found = []
    for event in events:
        args = event["args"]
        if "dir" in args:
            found.append(
                f"{args['rank']} {event['name']} {args.get('offset', -1)} {args['count']} {args.get('size', -1)}"
            )
    assert sorted(found) == sorted(done.stdout.splitlines())
    plain = Counter(event["name"].removeprefix("MPI_File_") for event in events if "dir" not in event["args"])
    assert plain == dict.fromkeys(["open", "set_size", "set_view", "sync", "read_all_end", "close"], RANKS)
    assert seen.written(tmp_path / "out.bin") == RANKS * (4000 + 32 + 12)


def test_a_file_is_the_same_at_all_layers(mpicc: str, parallel_hdf5: list[str], ranks: Ranks, tmp_path: Path) -> None:
    command = [mpicc, "-w", "-O2", PROGRAMS / "hdf5_parallel.c", "-o", tmp_path / "parallel", *parallel_hdf5]
    subprocess.run(command, check=True)
    _, seen = ranks(tmp_path / "parallel", "out.h5")
    moved = [event for event in of(seen, "HDF5") if "dir" in event["args"]]
    assert Counter((e["args"]["rank"], e["name"], e["args"]["object"], e["args"]["size"]) for e in moved) == {
        (str(rank), call, "/shared", 4000): 1 for rank in range(RANKS) for call in ("H5Dread", "H5Dwrite")
    }
    together = [e for e in of(seen, "MPIIO") if e["name"] in ("MPI_File_write_at_all", "MPI_File_read_at_all")]
    assert Counter(e["args"]["size"] for e in together)[4000] == 2 * RANKS
    hashes = {e["args"]["fhash"] for e in [*moved, *together]}
    below = {e["args"].get("fhash") for e in seen.events if e["cat"] == "POSIX" and e["args"].get("dir") == "w"}
    assert len(hashes) == 1 and hashes <= below


def test_mpi4py(ranks: Ranks, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    source = """
        import array
        from mpi4py import MPI
        rank = MPI.COMM_WORLD.rank
        file = MPI.File.Open(MPI.COMM_WORLD, "out.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
        file.Write_at_all(rank * 400, array.array("i", [rank] * 100))
        file.Close()
    """
    _, seen = ranks(sys.executable, "-c", dedent(source))
    writes = [e["args"] for e in of(seen, "MPIIO") if e["name"] == "MPI_File_write_at_all"]
    assert {(w["rank"], w["offset"], w["size"]) for w in writes} == {("0", 0, 400), ("1", 400, 400)}
