"""What a run names of the data of libraries above HDF5, MPI-IO and files: variables, arrays and their files."""

import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pandas as pd
import pytest

from support.commands import TracedCommand
from tailrace import open as open_run
from tailrace.analyzer.store.conditions import Glob


def traced(tmp_path: Path, source: str) -> Any:
    """The run of a Python program."""
    TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-c", dedent(source), check=True)
    return open_run(tmp_path / "run")


def moved(run: Any, folder: Path) -> pd.DataFrame:
    """Bytes of system calls by path and direction, of files below a folder."""
    rows = run.events(["cat", "path", "dir", "size"], cat=["POSIX", "STDIO"]).compute()
    rows = rows[rows["path"].astype(str).str.startswith(f"{folder}/") & rows["dir"].notna()]
    sums = rows.groupby([rows["path"].astype(str), rows["dir"].astype(str)])["size"].sum()
    found: pd.DataFrame = sums[sums > 0].reset_index()
    found["path"] = found["path"].str.removeprefix(f"{folder}/")
    return found


def test_variables_of_netcdf4_are_datasets(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    run = traced(
        tmp_path,
        """
        import netCDF4, numpy
        with netCDF4.Dataset("a.nc", "w") as file:
            file.createDimension("t", None)
            file.createDimension("x", 100)
            variable = file.createVariable("temp", "f4", ("t", "x"))
            variable.units = "K"
            for t in range(3): variable[t] = numpy.ones(100)
        with netCDF4.Dataset("a.nc") as file: assert file["temp"][1:3, 10:20].sum() == 20
        """,
    )
    rows = run.events(["name", "object", "dims", "points", "slab", "size"], cat="HDF5").compute()
    data = rows[rows["name"].isin(["H5Dread", "H5Dwrite"]) & (rows["object"] == "/temp")]
    columns = ["name", "dims", "points", "slab", "size"]
    assert data[columns].astype(object).to_numpy().tolist() == [
        *(["H5Dwrite", f"[{t + 1},100]", 100, f"[[{t},0],[1,1],[1,1],[1,100]]", 400] for t in range(3)),
        ["H5Dread", "[3,100]", 20, "[[1,10],[1,1],[1,1],[2,10]]", 80],
    ]
    assert "/temp@units" in set(rows["object"].dropna())


def test_classic_netcdf_has_its_file_alone(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    run = traced(
        tmp_path,
        """
        import netCDF4
        with netCDF4.Dataset("c.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("x", 100)
            file.createVariable("p", "f4", ("x",))[:] = 1
        """,
    )
    assert run.events(["name"], cat="HDF5").compute().empty
    found = moved(run, tmp_path)
    assert found.loc[found["dir"] == "w", "path"].tolist() == ["c.nc"]


def test_chunks_of_zarr_are_files_below_their_array(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    run = traced(
        tmp_path,
        """
        import numpy, zarr
        group = zarr.open_group("x.zarr", mode="w")
        array = group.create_array("temp", shape=(4, 100), chunks=(2, 100), dtype="f8", compressors=None)
        array[:] = numpy.arange(400.0).reshape(4, 100)
        assert zarr.open_group("x.zarr", mode="r")["temp"][3, 0] == 300
        """,
    )
    found = moved(run, tmp_path)
    read = found[(found["dir"] == "r") & (found["size"] == 1600)]
    assert read["path"].tolist() == ["x.zarr/temp/c/1/0"]
    renamed = run.events(["path2"], path2=Glob(f"{tmp_path}/*")).compute()["path2"].astype(str)
    names = {path.removeprefix(f"{tmp_path}/") for path in renamed}
    assert {"x.zarr/temp/c/0/0", "x.zarr/temp/c/1/0"} <= names


def test_pnetcdf_has_its_file_and_collective_calls(tmp_path: Path) -> None:
    compiler = shutil.which("mpicc")
    if compiler is None or shutil.which("mpiexec") is None or not Path("/usr/include/pnetcdf.h").exists():
        pytest.skip("no MPI with PnetCDF (Debian: libpnetcdf-dev)")
    (tmp_path / "p.c").write_text(
        dedent("""
        #include <mpi.h>
        #include <pnetcdf.h>
        int main(int argc, char **argv) {
          int rank, file, dimension, variable;
          float numbers[100] = {0};
          MPI_Init(&argc, &argv);
          MPI_Comm_rank(MPI_COMM_WORLD, &rank);
          ncmpi_create(MPI_COMM_WORLD, "p.nc", NC_CLOBBER, MPI_INFO_NULL, &file);
          ncmpi_def_dim(file, "x", 200, &dimension);
          ncmpi_def_var(file, "temp", NC_FLOAT, 1, &dimension, &variable);
          ncmpi_enddef(file);
          MPI_Offset start = 100 * rank, count = 100;
          int bad = ncmpi_put_vara_float_all(file, variable, &start, &count, numbers);
          bad += ncmpi_close(file);
          MPI_Finalize();
          return bad;
        }
        """)
    )
    made = subprocess.run([compiler, "-w", "p.c", "-o", "p", "-lpnetcdf"], cwd=tmp_path, check=False)
    said = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=False).stdout
    extra = ["--oversubscribe", "--allow-run-as-root"] if "Open" in said else []
    words = ["mpiexec", *extra, "-n", "2", "./p"]
    if made.returncode or subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("PnetCDF is not of this MPI, or MPI doesn't run here")
    TracedCommand(tmp_path, tmp_path / "run")(*words, check=True)
    run = open_run(tmp_path / "run")
    rows = run.events(["name", "path", "ranks", "size", "rank"], cat="MPIIO").compute()
    assert set(rows["path"].astype(str)) == {str(tmp_path / "p.nc")}
    writes = rows[rows["name"] == "MPI_File_write_at_all"]
    assert sorted(zip(writes["rank"], writes["ranks"], writes["size"], strict=True)) == [("0", 2, 400), ("1", 2, 400)]
    assert (run.collectives.calls["call"] >= 0).all()


def test_adios2_has_the_files_of_its_directory(tmp_path: Path) -> None:
    pytest.importorskip("adios2")
    run = traced(
        tmp_path,
        """
        import adios2, numpy
        with adios2.Stream("a.bp", "w") as stream:
            stream.begin_step()
            stream.write("temp", numpy.ones(1000), [1000], [0], [1000])
            stream.end_step()
        """,
    )
    found = moved(run, tmp_path)
    written = found[(found["dir"] == "w") & (found["path"] == "a.bp/data.0")]
    assert written["size"].sum() >= 8000
