"""What lines of HDF5 and MPI-IO tell beyond names and bytes, and the parts of the time of collective calls."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.commands import TAILRACE, TracedCommand
from support.truth import read_run
from tailrace import open as open_run
from tailrace.analyzer import summary

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
RANKS = 3
ROUNDS = 6
FIELDS = ("dims", "points", "selection", "blocks", "slab")


def words_of(event: dict[str, Any]) -> str:
    """A line as tests/programs/hdf5_selections.c prints it."""
    values = [event["args"].get(name, "-") for name in ("object", *FIELDS)]
    return " ".join([event["name"], *(v if isinstance(v, str) else json.dumps(v).replace(" ", "") for v in values)])


def test_lines_of_hdf5_tell_dimensions_and_selections(program: Callable[[str], Path], tmp_path: Path) -> None:
    path = program("hdf5_selections")
    if not path.exists():
        pytest.skip("no HDF5 to link with (Debian: libhdf5-dev)")
    done = TracedCommand(tmp_path, tmp_path / "run")(path, tmp_path / "out.h5", check=True)
    events = [e for e in read_run(tmp_path / "run").events if e["cat"] == "HDF5"]
    told = [words_of(e) for e in events if e["name"] not in ("H5Fcreate", "H5Dclose", "H5Fclose")]
    assert told == done.stdout.splitlines()
    frame = open_run(tmp_path / "run").events(["name", *FIELDS], cat="HDF5").compute()
    slabs = frame[frame["selection"] == "regular"]
    assert slabs["slab"].tolist() == ["[[4,2],[5,1],[3,1],[2,8]]"] and slabs["points"].tolist() == [48]


def test_fields_stay_in_a_compacted_run(program: Callable[[str], Path], tmp_path: Path) -> None:
    path = program("hdf5_selections")
    if not path.exists():
        pytest.skip("no HDF5 to link with (Debian: libhdf5-dev)")
    TracedCommand(tmp_path, tmp_path / "run")(path, tmp_path / "out.h5", check=True)
    before = [words_of(e) for e in read_run(tmp_path / "run").events if e["cat"] == "HDF5"]
    subprocess.run([*TAILRACE, "compact", tmp_path / "run"], check=True, capture_output=True)
    assert [words_of(e) for e in read_run(tmp_path / "run").events if e["cat"] == "HDF5"] == before


CHUNKED = """
import h5py, numpy
values = numpy.random.default_rng(1).integers(0, 50, (1000, 3000))
with h5py.File("f.h5", "w") as file:
    file.create_dataset("chunked", data=values, chunks=(1000, 40), compression="gzip")
    file["whole"] = values
with h5py.File("f.h5") as file:
    for row in range(3):
        file["chunked"][row], file["whole"][row]
"""


def test_long_transfers_tell_the_chunks_of_a_dataset_that_has_some(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-c", CHUNKED, check=True)
    events = [e for e in read_run(tmp_path / "run").events if e["name"] == "H5Dread"]
    chunk = {
        name: {str(e["args"].get("chunk")) for e in events if e["args"]["object"] == name}
        for name in ("/chunked", "/whole")
    }
    assert chunk == {"/chunked": {"[1000, 40]"}, "/whole": {"None"}}


# --- collective calls ---


def mpi_tools() -> str:
    """MPI's compiler; skips where it or its launcher isn't there."""
    found = shutil.which("mpicc")
    if found is None or shutil.which("mpiexec") is None:
        pytest.skip("no MPI with a compiler (Debian: libopenmpi-dev or libmpich-dev)")
    return found


def is_open_mpi() -> bool:
    said = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=False).stdout
    return any(name in said for name in ("Open MPI", "OpenRTE", "PRRTE"))


def run_ranks(tmp_path: Path, *command: Any, **environment: str) -> str:
    """Runs a command traced, in RANKS ranks; returns what they print. Skips where MPI doesn't run untraced."""
    extra = ["--oversubscribe", "--allow-run-as-root"] if is_open_mpi() else []
    own = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "TMPDIR": str(tmp_path), **environment}
    options: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, "check": False}
    options["env"] = {**os.environ, **own}
    words = ["mpiexec", *extra, "-n", str(RANKS), *map(str, command)]
    bare = subprocess.run(words, **options)
    if bare.returncode:
        pytest.skip(f"MPI doesn't run here: {bare.stderr[-300:]}")
    done = subprocess.run([*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--", *words], **options)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.fixture(params=["vulcan", "individual", "romio321"])
def phases(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """A run of tests/programs/mpi_phases.c by one of Open MPI's algorithms (of any other MPI always its own), and what
    its ranks measured."""
    command = [mpi_tools(), "-w", "-O2", "-rdynamic", PROGRAMS / "mpi_phases.c", "-o", tmp_path / "phases", "-ldl"]
    subprocess.run(command, check=True)
    name = "OMPI_MCA_io" if request.param == "romio321" else "OMPI_MCA_fcoll"
    said = run_ranks(tmp_path, tmp_path / "phases", "out.bin", ROUNDS, **{name: request.param})
    rows = [line.split() for line in said.splitlines()]
    found = pd.DataFrame(rows, columns=["rank", "round", "way", "begin", "end", "inside"])
    numbers = ["round", "begin", "end", "inside"]
    found[numbers] = found[numbers].astype("int64")
    return tmp_path / "run", found.sort_values(["rank", "round"], ignore_index=True)


def test_the_time_of_collective_calls_has_the_parts_that_the_program_measured(
    phases: tuple[Path, pd.DataFrame],
) -> None:
    run, truth = phases
    calls = open_run(run).collectives.calls
    moved = calls[calls["name"].str.contains("_at_all")].sort_values(["rank", "begin_ns"], ignore_index=True)
    assert moved["rank"].tolist() == truth["rank"].tolist()
    assert set(moved["ranks"]) == {RANKS}
    assert (moved[["io_ns", "waited_ns", "rest_ns"]].sum(axis=1) == moved["time_ns"]).all()
    # The program's clock was read outside of the call, and of the system calls in it.
    begin, end = moved["begin_ns"], moved["begin_ns"] + moved["time_ns"]
    microsecond = 1000  # by which the two clocks may differ
    assert (begin >= truth["begin"] - microsecond).all() and (end <= truth["end"] + microsecond).all()
    assert (moved["io_ns"] <= truth["inside"] + microsecond).all()
    assert moved["io_ns"].sum() >= 0.5 * truth["inside"].sum()
    assert (moved.loc[truth["inside"] == 0, "io_ns"] == 0).all()


def test_ranks_that_come_late_are_named(phases: tuple[Path, pd.DataFrame]) -> None:
    run, truth = phases
    calls = open_run(run).collectives.calls
    moved = calls[calls["name"].str.contains("_at_all")].sort_values(["rank", "begin_ns"], ignore_index=True)
    assert moved["call"].groupby(moved["call"]).size().tolist() == [RANKS] * ROUNDS
    moved["round"] = truth["round"]
    late = {row["round"]: row["rank"] for row in moved[moved["last"]].to_dict("records")}
    assert late == {round_: str(round_ % RANKS) for round_ in range(ROUNDS)}
    came = truth.groupby("round")["begin"].max()
    there = (came.reindex(truth["round"]).to_numpy() - truth["begin"]).clip(lower=0)
    microsecond = 1000
    waited = moved["waited_ns"].to_numpy()
    assert (waited <= there + 100 * microsecond).all()
    # A call that returned before the last rank came didn't wait for it.
    until = pd.concat([truth["begin"] + there, truth["end"]], axis=1).min(axis=1) - truth["begin"]
    accounted = waited + moved["io_ns"].to_numpy()
    assert accounted[until > 0].sum() >= 0.9 * until[until > 0].sum()


def test_rank_and_access_show_collective_calls(phases: tuple[Path, pd.DataFrame]) -> None:
    run, truth = phases
    shown = subprocess.run([*TAILRACE, "rank", run, "1"], check=True, capture_output=True, text=True).stdout
    assert "collective calls of MPI-IO" in shown and "came last to 1" in shown
    words = [*TAILRACE, "access", run, "--by", "rank", "--format", "json"]
    rows = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["collectives"]
    counted = Counter({(row["group"], row["name"]): row["calls"] for row in rows if "_at_all" in row["name"]})
    ways = truth["way"].map({"write": "MPI_File_write_at_all", "read": "MPI_File_read_at_all"})
    assert counted == Counter(zip(truth["rank"], ways, strict=True))


def test_the_summary_and_the_page_have_the_sums(phases: tuple[Path, pd.DataFrame]) -> None:
    run = open_run(phases[0])
    calls = run.collectives.calls
    sums = {name: int(calls[name].sum()) for name in ("time_ns", "io_ns", "waited_ns", "rest_ns")}
    total = {"calls": len(calls), "ranks": RANKS, **sums}
    assert run.io_summary().collectives == total == summary.collect(run)["numbers"]["collectives"]
    shown = subprocess.run(
        [*TAILRACE, "info", run.path, "--summary"], check=True, capture_output=True, text=True
    ).stdout
    assert f"{len(calls)} calls of {RANKS} ranks of MPI-IO" in " ".join(shown.split())


def test_accesses_that_messages_order_are_no_race(
    phases: tuple[Path, pd.DataFrame], request: pytest.FixtureRequest
) -> None:
    """At the end each rank writes again what an aggregator wrote for it, or it itself where there is none."""
    found = open_run(phases[0]).findings()
    assert not [one.title for one in found if one.about == "race"]
    by_aggregators = "individual" not in request.node.name
    assert len([one for one in found if one.kind == "same bytes, by ranks"]) == by_aggregators


def test_ranks_of_communicators_that_share_a_file_are_not_matched(tmp_path: Path) -> None:
    mpi_tools()
    pytest.importorskip("mpi4py")
    source = (
        "from mpi4py import MPI\n"
        "alone = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank, 0)\n"
        "file = MPI.File.Open(alone, 'out.bin', MPI.MODE_CREATE | MPI.MODE_RDWR)\n"
        "file.Write_at_all(MPI.COMM_WORLD.rank * 4, b'data')\n"
        "file.Close()\n"
    )
    run_ranks(tmp_path, sys.executable, "-c", source)
    calls = open_run(tmp_path / "run").collectives.calls
    assert set(calls["ranks"]) == {1} and len(calls) == 3 * RANKS
    assert (calls["call"] == -1).all() and calls["last"].isna().all() and (calls["waited_ns"] == 0).all()


def test_how_hdf5_made_a_transfer_is_told(tmp_path: Path) -> None:
    compiler = mpi_tools()
    flavour = "openmpi" if is_open_mpi() else "mpich"
    found = [
        (header.parent, library.parent)
        for header in Path("/usr/include/hdf5").glob(f"{flavour}/hdf5.h")
        for library in Path("/usr/lib").glob(f"*/hdf5/{flavour}/libhdf5.so")
    ]
    if not found:
        pytest.skip(f"no HDF5 for this MPI (Debian: libhdf5-{flavour}-dev)")
    include, libraries = found[0]
    command = [compiler, "-w", PROGRAMS / "hdf5_parallel.c", "-o", tmp_path / "parallel", f"-I{include}"]
    subprocess.run([*command, f"-L{libraries}", "-lhdf5"], check=True)
    run_ranks(tmp_path, tmp_path / "parallel", "out.h5")
    moved = [e["args"] for e in read_run(tmp_path / "run").events if e["name"] in ("H5Dread", "H5Dwrite")]
    assert Counter(m["transfer"] for m in moved) == {"collective": 2 * RANKS}
    assert {(m["rank"], m["dims"][0], m["selection"], m["points"]) for m in moved} == {
        (str(rank), 1000 * RANKS, "regular", 1000) for rank in range(RANKS)
    }
