"""Programs of several ranks under mpirun, srun and mpirun in a batch script: each rank's events have its number, and
the memory by which the ranks exchange messages is no data."""

import shutil
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from support.run_files import Trace

RANKS = 4
BLOCK = 4096
# Each rank writes a file of its own, of 8 blocks for rank 0 and 8 more for each further one, and reads its neighbour's.
SOURCE = """
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  int rank, size;
  char name[64], block[BLOCK] = {0};
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(name, sizeof name, "part.%d", rank);
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  for (int i = 0; i < 8 * (rank + 1); ++i) if (write(fd, block, sizeof block) < 0) return 1;
  close(fd);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(name, sizeof name, "part.%d", (rank + 1) % size);
  fd = open(name, O_RDONLY);
  while (read(fd, block, sizeof block) > 0) continue;
  close(fd);
  MPI_Finalize();
  return 0;
}
"""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), "./ranks")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    missing = [program for program in ("mpicc", "mpirun") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no MPI: {' and '.join(missing)} not on PATH")
    (tmp_path / "ranks.c").write_text(SOURCE)
    words = ["mpicc", f"-DBLOCK={BLOCK}", "-o", "ranks", "ranks.c"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("no Open MPI: the options of mpirun are Open MPI's")
    return tmp_path


def check(work: Path, *tags: str) -> None:
    """Each rank has written and read what it should, under its number and these tags (task)."""
    trace = Trace(work / "run")
    for rank in range(RANKS):
        own, other = f"part.{rank}", f"part.{(rank + 1) % RANKS}"
        written, read = (
            trace.of(work / own, {"write"}),
            [e for e in trace.of(work / other, {"read"}) if e["args"]["ret"]],
        )
        assert trace.tags(written + read, "rank", *["task"] * len(tags)) >= {(str(rank), *tags)}
        assert {e["args"]["rank"] for e in written} == {str(rank)}
        assert sum(e["args"]["ret"] for e in written) == 8 * (rank + 1) * BLOCK
    run = tailrace.open(work / "run")
    (group,) = [one for one in run.ranks() if one.program == "ranks"]
    assert (group.world_size, group.missing, [row["rank"] for row in group.rows]) == (RANKS, [], list("0123"))
    assert [row["written_bytes"] // BLOCK // 8 for row in group.rows] == [1, 2, 3, 4]
    data = [name for name in map(str, run.dataflow(level="process").nodes) if "/dev/shm" in name or "/ompi." in name]
    assert data == []
    assert len(run.insights().conflicts.rows) == 0


def test_ranks_of_mpirun(work: Path, run_traced) -> None:
    run_traced(*MPIRUN)
    check(work)


def test_ranks_of_srun_and_of_mpirun_in_a_job(slurm, work: Path) -> None:
    slurm.configure()
    if "pmix" in (listed := slurm.run("srun", "--mpi=list", check=False)).stdout + listed.stderr:
        slurm.run("srun", "--mpi=pmix", f"-n{RANKS}", "--trace", "--trace-run=run", "./ranks", cwd=work)
        (task,) = {e["args"]["task"] for e in Trace(work / "run").of(work / "part.0", {"write"})}
        check(work, task)
        shutil.rmtree(work / "run")
    # mpirun starts its daemon as a step, whose only task is Slurm's rank 0.
    script = f"mpirun --allow-run-as-root -n {RANKS} ./ranks"
    slurm.run("sbatch", "--wait", "-N1", f"-n{RANKS}", "--trace", "--trace-run=run", "--wrap", script, cwd=work)
    check(work)


def test_ranks_that_join_a_run_each(work: Path) -> None:
    """As where mpirun reaches other nodes by ssh, which hands no settings on."""
    words = [*MPIRUN[:-1], *TAILRACE, "run", "-q", "-o", str(work / "run"), "--", "./ranks"]
    subprocess.run(words, cwd=work, check=True, timeout=120)
    check(work)


def test_launches_one_after_another_are_two(work: Path, run_traced) -> None:
    mpirun = " ".join(MPIRUN[:-2])
    run_traced("sh", "-c", f"{mpirun} 2 ./ranks && {mpirun} 2 ./ranks")
    groups = [one for one in tailrace.open(work / "run").ranks() if one.program == "ranks"]
    assert [(one.world_size, one.processes, one.missing) for one in groups] == [(2, 2, [])] * 2
    assert groups[0].end_ns < groups[1].begin_ns


def test_a_rank_that_is_not_traced_is_missing(work: Path, run_traced) -> None:
    (work / "quiet.c").write_text("int main(void) { return 0; }")
    if subprocess.run(["cc", "-static", "-o", "quiet", "quiet.c"], cwd=work, capture_output=True).returncode:
        pytest.skip("nothing can be linked statically here")
    words = ("-n", "1", "cp", "ranks", "copy", ":", "-n", "2", "cat", "ranks", ":", "-n", "1", "./quiet")
    run_traced(*MPIRUN[:-3], *words, text=False)
    groups = {one.program: one for one in tailrace.open(work / "run").ranks()}
    assert {name: [row["rank"] for row in one.rows] for name, one in groups.items()} == {"cp": ["0"], "cat": ["1", "2"]}
    assert {(one.world_size, str(one.missing), one.lacking) for one in groups.values()} == {(4, "[[3, 3]]", 1)}
    shown = run_cli("rank", work / "run")
    assert "  2 of 4 ranks, 2 processes on 1 host\n  Not in the trace: rank 3\n" in shown.stdout, shown.stderr
