"""What tracing adds to steps and jobs of Slurm: wall time, mean and standard deviation over rounds.

    PYTHONPATH=tests python tests/bench/slurm.py [--rounds 10] [--dir DIR]

A cluster of two simulated nodes on this machine (tests/support/slurm_cluster.py: root, Debian's slurm-wlm). Each round
runs each kind untraced and traced, in an order that changes, and removes the run; at least four rounds are taken, as
the study of Darshan in containers (Athena) does. What is timed:

    step    `srun true`: the start of a step, and its end with sealing
    ranks   `srun -n 8 true`
    I/O     `srun dd`: 200,000 writes of 512 B
    job     the genomics workflow as one job of ten steps, with four ranks of MPI (workflows/genomics/managers/mpi.sh),
            from the batch script's begin to its end as Slurm states them; needs bwa, samtools, bcftools and mpicc
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.slurm_cluster import SlurmCluster, missing_for_slurm

GENOMICS = Path(__file__).parents[2] / "workflows" / "genomics"
MANAGERS = GENOMICS / "managers"
sys.path[:0] = [str(GENOMICS)]

from genome import make_genome

DD = "dd if=/dev/zero of=dd.out bs=512 count=200000 status=none"


@dataclass(frozen=True)
class Kind:
    """title: of the table's row; seconds: runs it in a folder, traced or not, and says how long it took."""

    title: str
    seconds: Callable[[Path, bool], float]


def _step(cluster: SlurmCluster, *words: str) -> Callable[[Path, bool], float]:
    def seconds(folder: Path, traced: bool) -> float:
        begin = time.perf_counter()
        cluster.run("srun", *(["--trace", "--trace-run=run"] if traced else []), *words, cwd=folder)
        return time.perf_counter() - begin

    return seconds


def _job(cluster: SlurmCluster) -> Callable[[Path, bool], float]:
    def seconds(folder: Path, traced: bool) -> float:
        make_genome(folder)
        subprocess.run(["mpicc", "-O2", "-o", folder / "ranks", MANAGERS / "ranks.c"], check=True)
        trace = ["--trace", "--trace-run=run"] if traced else []
        words = ["--ntasks=4", "--wait", "--output=slurm.out", *trace, MANAGERS / "mpi_steps.sh", MANAGERS / "step.sh"]
        # `sbatch --wait` asks for the job's end at intervals, and the job's own times are whole seconds.
        (folder / "timed.sh").write_text('#!/bin/sh\ndate +%s.%N > begin\n"$@"\ndate +%s.%N > end\n')
        cluster.run("sbatch", *words[:-2], "timed.sh", "sh", *words[-2:], cwd=folder)
        begin, end = (float((folder / name).read_text()) for name in ("begin", "end"))
        return end - begin

    return seconds


def measure(kinds: list[Kind], rounds: int, folder: Path) -> dict[str, dict[bool, list[float]]]:
    """Kind -> traced or not -> seconds of each round."""
    found: dict[str, dict[bool, list[float]]] = {kind.title: {False: [], True: []} for kind in kinds}
    for number in range(rounds + 1):
        for kind in kinds:
            for traced in (False, True) if number % 2 else (True, False):
                work = Path(tempfile.mkdtemp(dir=folder))
                taken = kind.seconds(work, traced)
                shutil.rmtree(work)
                if number:  # the first round warms caches
                    found[kind.title][traced].append(taken)
    return found


def table(found: dict[str, dict[bool, list[float]]]) -> list[str]:
    """The table's lines; the difference is taken within a round."""
    lines = ["| | untraced, ms | traced, ms | added, ms |", "|---|---:|---:|---:|"]
    for title, taken in found.items():
        added = [after - before for before, after in zip(taken[False], taken[True], strict=True)]
        cells = [
            f"{statistics.mean(values) * 1e3:.0f} ± {statistics.stdev(values) * 1e3:.0f}"
            for values in (taken[False], taken[True], added)
        ]
        lines.append(f"| {' | '.join([title, *cells])} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--dir", type=Path, default=Path("/tmp"))
    options = parser.parse_args()
    if reason := missing_for_slurm():
        sys.exit(reason)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-slurm-", dir=options.dir))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder)
    try:
        kinds = [
            Kind("`srun true`", _step(cluster, "true")),
            Kind("`srun -n 8 true`", _step(cluster, "-n8", "true")),
            Kind("`srun dd`, 200,000 writes of 512 B", _step(cluster, *DD.split())),
        ]
        missing = [one for one in ("bwa", "samtools", "bcftools", "wgsim", "mpicc") if shutil.which(one) is None]
        if missing:
            print(f"left out: the job, no {', '.join(missing)}", file=sys.stderr)
        else:
            kinds.append(Kind("a job of ten steps, six of four MPI ranks", _job(cluster)))
        print("\n".join(table(measure(kinds, max(4, options.rounds), folder))))
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
