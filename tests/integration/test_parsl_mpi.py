"""Parsl's MPIExecutor: every rank that its launch line starts has the task of the app.

The line is one of Hydra's (MPICH, Intel MPI: `mpiexec -n N -ppn P -hosts ...`), which Open MPI's mpiexec doesn't take.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.harm import active_environment
from support.run_files import Trace

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")
HYDRA = shutil.which("mpiexec.hydra")
pytestmark = pytest.mark.skipif(HYDRA is None, reason="no mpiexec.hydra: apt-get install mpich")

PROGRAM = """
import parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors import MPIExecutor
from parsl.launchers import SimpleLauncher
from parsl.providers import LocalProvider
from tailrace.parsl import trace

provider = LocalProvider(init_blocks=1, max_blocks=1, launcher=SimpleLauncher(),
                         worker_init="export PBS_NODEFILE=@FOLDER@/nodes PATH=@FOLDER@/bin:$PATH")
config = Config(executors=[MPIExecutor(label="mpi", address="127.0.0.1", max_workers_per_block=2, provider=provider)],
                run_dir="runinfo", strategy="none")

# Of ranks that end at once Hydra 4.0.2 itself dies by SIGPIPE, untraced three times in 4,500.
@bash_app
def ranks(name, parsl_resource_specification):
    return "$PARSL_MPI_PREFIX sh -c 'echo $PMI_RANK > @FOLDER@/%s-$PMI_RANK; sleep 0.2'" % name

with parsl.load(trace(config, run_dir="run", workflow="w")):
    asked = {"num_nodes": 1, "ranks_per_node": 2, "num_ranks": 2}
    for future in [ranks(name, parsl_resource_specification=asked) for name in ("one", "two")]:
        future.result()
"""


def test_every_rank_has_its_task(tmp_path: Path) -> None:
    assert HYDRA is not None
    (tmp_path / "nodes").write_text("localhost\nlocalhost\n")
    (tmp_path / "bin").mkdir()
    # No link: it looks for its proxy beside itself.
    (tmp_path / "bin" / "mpiexec").write_text(f'#!/bin/sh\nexec {HYDRA} "$@"\n')
    (tmp_path / "bin" / "mpiexec").chmod(0o755)
    (tmp_path / "flow.py").write_text(PROGRAM.replace("@FOLDER@", str(tmp_path)))
    environment = {**active_environment(), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "flow.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    trace, run = Trace(tmp_path / "run"), tailrace.open(tmp_path / "run")
    tasks = run.declared_tasks
    assert tasks["stage"].tolist() == ["ranks", "ranks"] and set(tasks["status"]) == {"done"}
    found = {}
    for name in ("one", "two"):
        for rank in ("0", "1"):
            assert (tmp_path / f"{name}-{rank}").read_text() == f"{rank}\n"
            found[name, rank] = trace.tags(trace.of(tmp_path / f"{name}-{rank}"), "stage", "task", "rank")
    assert {key: {(stage, rank) for stage, _, rank in tags} for key, tags in found.items()} == {
        (name, rank): {("ranks", rank)} for name, rank in found
    }
    by_app = [{task for rank in "01" for _, task, _ in found[name, rank]} for name in ("one", "two")]
    assert sorted(task for (task,) in by_app) == sorted(tasks["task"])
