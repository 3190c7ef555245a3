"""What calls of HDF5 and MPI-IO cost (docs/layers.md): untraced, traced without the layers, and with them.

    python tests/bench/layers.py [--bursts N]

It wants MPI with its parallel HDF5 (Debian: libhdf5-openmpi-dev). The figures are medians of bursts, between which the
sealer works. The second column has the system calls alone (`TAILRACE_LAYERS=none`).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

CALLS = ("H5Dwrite, all", "H5Dwrite, a hyperslab", "MPI_File_write_at", "MPI_File_write_at_all, one rank")


def build(folder: Path) -> Path:
    """The program, linked with the HDF5 of mpicc's MPI."""
    compiler = shutil.which("mpicc")
    for header in sorted(Path("/usr/include/hdf5").glob("openmpi/hdf5.h")):
        for library in sorted(Path("/usr/lib").glob("*/hdf5/openmpi/libhdf5.so")):
            if compiler:
                source = Path(__file__).with_suffix(".c")
                words = [compiler, "-O2", "-w", source, "-o", folder / "layers", f"-I{header.parent}"]
                subprocess.run([*words, f"-L{library.parent}", "-lhdf5"], check=True)
                return folder / "layers"
    sys.exit("no MPI with parallel HDF5 (Debian: libhdf5-openmpi-dev)")


def figures(program: Path, bursts: int, run: Path | None, **settings: str) -> list[float]:
    """ns of each of CALLS, traced into `run` or untraced."""
    traced = [str(Path(sys.executable).with_name("tailrace")), "run", "-q", "-o", str(run), "--"] if run else []
    words = [*traced, str(program), str(program.parent / "out.h5"), str(bursts)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings})
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what calls of layers cost.")
    parser.add_argument("--bursts", type=int, default=40, help="how often each is measured")
    bursts = parser.parse_args().bursts
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        columns = [
            figures(program, bursts, None),
            figures(program, bursts, folder / "below", TAILRACE_LAYERS="none"),
            figures(program, bursts, folder / "run"),
        ]
    table = Table(
        "ns a call", "untraced", "without the layers", "with them", "the layer's own", title="Calls of layers"
    )
    for call, bare, below, above in zip(CALLS, *columns, strict=True):
        table.add_row(call, f"{bare:,.0f}", f"{below:,.0f}", f"{above:,.0f}", f"{above - below:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
