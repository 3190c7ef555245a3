"""HDF5: the trace has a program's dataset accesses as the program counts them, and nothing else changes."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.commands import TracedCommand
from support.truth import read_run

Program = Callable[[str], Path]


def hdf5_program(program: Program, name: str) -> Path:
    found = program(name)
    if not found.exists():
        pytest.skip("no HDF5 to link with (Debian: libhdf5-dev)")
    return found


def both(tmp_path: Path, *command: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """The traced command, after it did untraced what it does traced."""
    options: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    options["env"] = {**os.environ, **environment}
    bare = subprocess.run([*map(str, command)], **options)
    done = TracedCommand(tmp_path, tmp_path / "run")(*command, check=False, env=options["env"])
    assert (done.returncode, done.stdout, timeless(done.stderr)) == (
        bare.returncode,
        bare.stdout,
        timeless(bare.stderr),
    )
    return done


def timeless(text: str) -> str:
    """Without the times in messages of HDF5 and the ids of its threads."""
    return re.sub(r"time = .*?(,|$)|0x[0-9a-f]+|thread \d+", "", text, flags=re.MULTILINE)


def hdf5_events(run: Path, *names: str) -> list[dict[str, Any]]:
    return [e for e in read_run(run).events if e["cat"] == "HDF5" and (not names or e["name"] in names)]


def moved(run: Path) -> Iterator[tuple[str, str, int]]:
    """(call, object, bytes) of what was moved: "-" for no name, -1 bytes where the size is unknown."""
    for event in hdf5_events(run):
        args = event["args"]
        if "dir" in args or event["name"] == "H5Olink":
            yield event["name"], args.get("object", "-"), args.get("size", args.get("count", -1))


@pytest.mark.parametrize("binding", ["hdf5", "hdf5_now"])
def test_datasets_have_their_names_and_bytes(program: Program, tmp_path: Path, binding: str) -> None:
    done = both(tmp_path, hdf5_program(program, binding), "write", "out.h5")
    printed = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    expected = [(call, name, int(size)) for words, size in printed for call, name in [words.split(" ", 1)]]
    assert [(call, name.replace("\n", "|"), size) for call, name, size in moved(tmp_path / "run")] == expected
    assert "the same id again: 1" in done.stderr
    seen = read_run(tmp_path / "run")
    assert {seen.path(event) for event in hdf5_events(tmp_path / "run")} == {str(tmp_path / "out.h5")}


def test_a_failure_is_returned_to_the_program(program: Program, tmp_path: Path) -> None:
    both(tmp_path, hdf5_program(program, "hdf5"), "fail", "out.h5")
    failed = Counter(event["name"] for event in hdf5_events(tmp_path / "run") if event["args"]["ret"] < 0)
    assert failed == {
        "H5Dopen": 1,
        "H5Dread": 2,
        "H5Dwrite": 1,
        "H5Dclose": 1,
        "H5Fclose": 1,
        "H5Fopen": 2,
        "H5Aread": 1,
    }
    assert all("errno" not in event["args"] for event in hdf5_events(tmp_path / "run"))


def test_threads(program: Program, tmp_path: Path) -> None:
    both(tmp_path, hdf5_program(program, "hdf5"), "threads", "out.h5")
    writes = hdf5_events(tmp_path / "run", "H5Dwrite")
    assert Counter(event["args"]["object"] for event in writes) == {f"/thread{n}": 50 for n in range(4)}
    assert len({event["tid"] for event in writes}) == 4
    assert {event["args"]["size"] for event in writes} == {4000}


def test_the_same_name_in_another_directory_is_another_file(program: Program, tmp_path: Path) -> None:
    script = "for d in a b; do mkdir -p $d; (cd $d; $0 threads out.h5); done"
    both(tmp_path, "sh", "-c", script, hdf5_program(program, "hdf5"))
    seen = read_run(tmp_path / "run")
    paths = Counter(seen.path(event) for event in hdf5_events(tmp_path / "run", "H5Dwrite"))
    assert paths == {str(tmp_path / d / "out.h5"): 200 for d in "ab"}


# --- nothing else changes ---


def hdf5_library() -> str:
    for line in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.splitlines():
        if "libhdf5_serial.so.1" in line or "libhdf5.so." in line:
            return line.split()[-1]
    pytest.skip("no HDF5 library (Debian: libhdf5-dev)")


def test_a_lookup_of_an_absent_library_finds_none(program: Program, tmp_path: Path) -> None:
    done = both(tmp_path, program("hdf5_host"))
    assert done.stdout == "linked 0 0 0, found 0 0 0\n"


def test_a_local_library_that_is_loaded_and_unloaded(program: Program, tmp_path: Path) -> None:
    plugin = hdf5_program(program, "hdf5_plugin.so")
    done = both(tmp_path, program("hdf5_host"), "plugin", plugin, "out.h5", 5)
    assert done.stdout == "linked 0 0 0, found 0 0 0\n" * 2
    names = Counter(event["name"] for event in hdf5_events(tmp_path / "run"))
    assert names == {"H5Fcreate": 5, "H5Dcreate": 5, "H5Dwrite": 5, "H5Dclose": 5, "H5Fclose": 5}


def test_functions_looked_up_by_name(program: Program, tmp_path: Path) -> None:
    both(tmp_path, program("hdf5_host"), "handle", hdf5_library(), "out.h5", 3)
    assert Counter(e["name"] for e in hdf5_events(tmp_path / "run")) == {"H5Fcreate": 3, "H5Fclose": 3}


def test_layers_can_be_left_out(program: Program, tmp_path: Path) -> None:
    both(tmp_path, hdf5_program(program, "hdf5"), "threads", "out.h5", TAILRACE_LAYERS="none")
    assert hdf5_events(tmp_path / "run") == []
    assert read_run(tmp_path / "run").written(tmp_path / "out.h5") > 4 * 4000


def test_the_bytes_of_the_run_are_the_files(program: Program, tmp_path: Path) -> None:
    import tailrace

    both(tmp_path, hdf5_program(program, "hdf5"), "threads", "out.h5")
    run = tailrace.open(tmp_path / "run")
    below = read_run(tmp_path / "run").written(tmp_path / "out.h5")
    (process,) = [p for p in run.coverage.to_dict("records") if p["exe"].endswith("/hdf5")]
    assert 200 * 4000 < below < 201 * 4000
    assert process["captured_written"] == process["kernel_written"]
    assert run.info()["written_bytes"] < 201 * 4000
    assert sum(run.processes["written_bytes"].fillna(0)) < 201 * 4000
    (edge,) = [e for *_, e in run.dataflow("process").edges(data=True) if e["kind"] == "write"]
    assert edge["bytes"] == below


# --- Python ---


def python(tmp_path: Path, source: str, *modules: str) -> subprocess.CompletedProcess[str]:
    for module in modules:
        pytest.importorskip(module)
    return both(tmp_path, sys.executable, "-c", dedent(source))


def test_h5py(tmp_path: Path) -> None:
    done = python(
        tmp_path,
        """
        import h5py, numpy
        with h5py.File("out.h5", "w") as file:
            file.create_dataset("group/data", data=numpy.arange(1000.0))
            file["late"] = numpy.zeros(10, "i4")
            file["group/data"].attrs["number"] = 7
            for n in range(20):
                file[f"many/{n}"] = numpy.zeros(n + 1)
        with h5py.File("out.h5", "r") as file:
            print(file["group/data"][10:20].sum(), file["group/data"].attrs["number"], file["late"][()].sum())
            try:
                file["nowhere"]
            except KeyError as error:
                print(error)
        """,
        "h5py",
    )
    assert done.returncode == 0
    seen = list(moved(tmp_path / "run"))
    assert [row for row in seen if "many" not in row[1] and row[1] != "-"] == [
        ("H5Dwrite", "/group/data", 8000),
        ("H5Olink", "/late", 40),
        ("H5Awrite", "/group/data@number", 8),
        ("H5Dread", "/group/data", 80),
        ("H5Aread", "/group/data@number", 8),
        ("H5Dread", "/late", 40),
    ]
    assert {row for row in seen if "many" in row[1]} == {("H5Olink", f"/many/{n}", 8 * (n + 1)) for n in range(20)}


def test_references_are_not_looked_up(tmp_path: Path) -> None:
    python(
        tmp_path,
        """
        import h5py, numpy
        with h5py.File("out.h5", "w") as file:
            for n in range(300):
                file.create_dataset(f"d{n}", data=[n])
            refs = file.create_dataset("refs", (300,), dtype=h5py.ref_dtype)
            for n in range(300):
                refs[n] = file[f"d{n}"].ref
        with h5py.File("out.h5", "r") as file:
            print(sum(file[ref][0] for ref in file["refs"][()]))
        """,
        "h5py",
    )
    reads = Counter(row[1] for row in moved(tmp_path / "run") if row[0] == "H5Dread")
    assert reads == {"-": 300, "/refs": 1}


def test_two_hdf5_libraries_in_one_process(tmp_path: Path) -> None:
    python(
        tmp_path,
        """
        import h5py, netCDF4, numpy
        with netCDF4.Dataset("one.nc", "w") as one:
            one.createDimension("t", 100)
            one.createVariable("temperature", "f4", ("t",))[:] = numpy.arange(100)
        with h5py.File("one.nc", "r") as file, h5py.File("two.h5", "w") as two:
            two.create_dataset("copy", data=file["temperature"][:])
        with netCDF4.Dataset("two.h5") as two:
            print(float(two["copy"][:50].sum()))
        """,
        "h5py",
        "netCDF4",
    )
    data = [row for row in moved(tmp_path / "run") if row[0] in ("H5Dwrite", "H5Dread")]
    assert data == [
        ("H5Dwrite", "/temperature", 400),
        ("H5Dread", "/temperature", 400),
        ("H5Dwrite", "/copy", 400),
        ("H5Dread", "/copy", 200),
    ]
