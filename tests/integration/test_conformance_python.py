"""Managers whose workflows are Python programs, on the workflow of the conformance suite (test_conformance.py)."""

import json
import shlex
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest

import tailrace
from support import conformance, work_queue
from support.commands import run_cli
from support.conformance import Adapter, Step
from support.conformance_runs import judged, program
from support.harm import clean_environment
from support.managers import airflow_home, airflows_on_path, all_on_path, share_tailrace

# Parsl

PARSL = """
import sys
import parsl
from parsl import bash_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor, WorkQueueExecutor
from parsl.providers import LocalProvider
from tailrace.parsl import trace

def executor(kind):
    if kind == "work_queue":
        two = LocalProvider(init_blocks=2, min_blocks=2, max_blocks=2)
        return WorkQueueExecutor(address="127.0.0.1", port=0, worker_options="-t 60 --cores 1",
                                 provider=two)
    return HighThroughputExecutor(address="127.0.0.1", encrypted=False, max_workers_per_node=2, cores_per_worker=1e-6,
                                  provider=LocalProvider(init_blocks=1, max_blocks=1))

def app(name):
    def body(command, inputs=(), outputs=()):
        return command
    body.__name__ = name
    return bash_app(body)

def main(kind):
    config = Config(executors=[executor(kind)], run_dir="runinfo", strategy="none", retries=1,
                    retry_handler=lambda error, task: 1 if task["func_name"] == "merge" else 2)
    with parsl.load(trace(config, run_dir="run", workflow="w")):
        made, ends = {}, []
        for stage, out, inputs, command in @STEPS@:
            known = [made.get(path, File(path)) for path in inputs]
            future = app(stage)(command, inputs=known, outputs=[File(out)])
            made[out] = future.outputs[0]
            ends.append(future)
        for future in ends:
            future.exception()

if __name__ == "__main__":
    main(sys.argv[1])
"""


def judged_parsl(row: str, kind: str, version: str, tmp_path: Path, **variables: str) -> conformance.Verdict:
    """The row of Parsl's executor `kind`."""

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, str(folder / step.out), [str(folder / path) for path in step.inputs],
                 f"cd {shlex.quote(str(folder))} && {shlex.join(step.words)}") for step in workflow]  # fmt: skip
        text = textwrap.dedent(PARSL).replace("@STEPS@", repr(rows))
        (folder / "flow.py").write_text(text)
        done = program([sys.executable, "flow.py", kind], folder, **variables)
        assert done.returncode == 0, done.stderr
        return folder / "run"

    return judged(Adapter(row, version, run), tmp_path)


def test_parsl(tmp_path: Path) -> None:
    parsl = pytest.importorskip("parsl", reason="needs Parsl: pip install 'tailrace[parsl]'")
    verdict = judged_parsl("Parsl", "pool", parsl.__version__, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


def test_parsl_with_work_queue(tmp_path: Path) -> None:
    parsl = pytest.importorskip("parsl", reason="needs Parsl: pip install 'tailrace[parsl]'")
    if reason := work_queue.why_no_work_queue():
        pytest.skip(reason)
    version = f"{parsl.__version__}, cctools {work_queue.version()}"
    path = work_queue.python_path(tmp_path)
    verdict = judged_parsl("Parsl, Work Queue", "work_queue", version, tmp_path, PYTHONPATH=path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Dask

DASK = """
import subprocess
from dask.distributed import Client, LocalCluster
from tailrace.dask import trace

def run(words, *before):
    subprocess.run(words, check=True)

def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        trace(client, run_dir="run", workflow="w")
        made, ends = {}, []
        for stage, name, out, inputs, words, retries in @STEPS@:
            future = client.submit(run, words, *[made[path] for path in inputs], key=(stage, name), retries=retries)
            made[out] = future
            ends.append(future)
        for future in ends:
            future.exception()

if __name__ == "__main__":
    main()
"""


def _dask(folder: Path, workflow: list[Step]) -> Path:
    rows = [(step.stage, step.name, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
    (folder / "flow.py").write_text(DASK.replace("@STEPS@", repr(rows)))
    done = program([sys.executable, "flow.py"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_dask(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'tailrace[cluster]'")
    verdict = judged(Adapter("Dask distributed", distributed.__version__, _dask, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Luigi

LUIGI = """
import json
import subprocess
from pathlib import Path

import luigi

rows = json.loads(Path("steps.json").read_text())

class Step(luigi.Task):
    name = luigi.Parameter()

    @property
    def row(self):
        return next(row for row in rows if (row["stage"], row["name"]) == (self.task_family, self.name))

    @property
    def retry_count(self):
        return 2 if self.row["how"] == "once" else 1

    def requires(self):
        before = [row for row in rows if row["out"] in self.row["inputs"]]
        return [classes[row["stage"]](name=row["name"]) for row in before]

    def output(self):
        return luigi.LocalTarget(self.row["out"])

    def run(self):
        subprocess.run(["sh", "step.sh", self.row["out"], self.row["how"], *self.row["inputs"]], check=True)

classes = {row["stage"]: type(row["stage"], (Step,), {"__module__": __name__}) for row in rows}
"""
LUIGI_SETTINGS = """
[scheduler]
retry_delay = 0
[worker]
keep_alive = true
wait_interval = 0.1
wait_jitter = 0
max_keep_alive_idle_duration = 2
"""


def test_luigi(tmp_path: Path) -> None:
    luigi = pytest.importorskip("luigi", reason="needs Luigi: pip install luigi")

    def run(folder: Path, workflow: list[Step]) -> Path:
        (folder / "steps.json").write_text(json.dumps([asdict(step) for step in workflow]))
        (folder / "flow.py").write_text(LUIGI)
        (folder / "luigi.cfg").write_text(LUIGI_SETTINGS)
        words = ["-m", "tailrace.luigi", "--module", "flow", "--local-scheduler", "--workers", "2", "after"]
        done = program([sys.executable, *words, "--name", "all"], folder, PYTHONPATH=str(folder))
        assert "1 failed" in done.stderr and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    verdict = judged(Adapter("Luigi", luigi.__version__, run), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# executorlib

EXECUTORLIB = """
import subprocess
import tailrace.executorlib
from executorlib import SingleNodeExecutor

def named(name):
    def call(words, *before):
        import subprocess
        subprocess.run(words, check=True)
    call.__name__ = name
    return call

if __name__ == "__main__":
    tailrace.executorlib.trace()
    with SingleNodeExecutor(max_cores=2, hostname_localhost=True) as executor:
        made = {}
        for stage, out, inputs, words in @STEPS@:
            made[out] = executor.submit(named(stage), words, *[made[path] for path in inputs])
        for future in made.values():
            future.exception()
"""


def test_executorlib(tmp_path: Path) -> None:
    executorlib = pytest.importorskip("executorlib", reason="needs executorlib: pip install executorlib")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words) for step in workflow]
        (folder / "flow.py").write_text(EXECUTORLIB.replace("@STEPS@", repr(rows)))
        done = program([sys.executable, "flow.py"], folder)
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    # It tries a call again only when its worker was lost.
    verdict = judged(Adapter("executorlib", executorlib.__version__, run, retries=False, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Prefect

PREFECT = """
import subprocess
from prefect import flow, task
import tailrace.prefect

def body(words, *before):
    subprocess.run(words, check=True)

@flow
def steps():
    made = {}
    for stage, out, inputs, words, retries in @STEPS@:
        again = {"retries": retries, "retry_delay_seconds": 2}
        made[out] = task(body, name=stage, **again).submit(words, *[made[path] for path in inputs])
    for future in made.values():
        future.wait()

if __name__ == "__main__":
    tailrace.prefect.trace()
    steps(return_state=True)
"""


def test_prefect(tmp_path: Path) -> None:
    prefects = all_on_path("prefect")
    if not prefects:
        pytest.skip("no environment with Prefect on PATH: pip install prefect")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
        (folder / "flow.py").write_text(PREFECT.replace("@STEPS@", repr(rows)))
        shared = share_tailrace(tmp_path / "site")
        settings = {"PREFECT_HOME": str(folder / "prefect"), "DO_NOT_TRACK": "1"}
        environment = clean_environment(
            {**shared, **settings, "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}
        )
        done = program([str(prefects[0].python), "flow.py"], folder, **environment)
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    runs: list[Path] = []

    def kept(folder: Path, workflow: list[Step]) -> Path:
        runs.append(run(folder, workflow))
        return runs[-1]

    verdict = judged(Adapter("Prefect", prefects[0].version, kept, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
    # All were submitted at once, and the one that failed was tried again two seconds later.
    declared = tailrace.open(runs[0])
    first, second = declared.declared_tries.query("task == 'merge:1'").sort_values("try").to_dict("records")
    assert second["t_launch_ns"] - first["t_end_ns"] > 1e9
    assert (declared.declared_tasks["t_submit_ns"] < first["t_end_ns"]).all()


# Ray

RAY = """
import subprocess
import ray
import tailrace.ray

def named(name):
    def call(words, *before):
        subprocess.run(words, check=True)
    call.__name__ = call.__qualname__ = name
    return call

if __name__ == "__main__":
    tailrace.ray.trace()
    ray.init("local", num_cpus=2, include_dashboard=False)
    made = {}
    for stage, out, inputs, words, retries in @STEPS@:
        function = ray.remote(max_retries=retries, retry_exceptions=True)(named(stage))
        made[out] = function.remote(words, *[made[path] for path in inputs])
    ray.wait(list(made.values()), num_returns=len(made))
"""


def test_ray(tmp_path: Path) -> None:
    rays = all_on_path("ray")
    if not rays:
        pytest.skip("no environment with Ray on PATH: pip install ray")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
        (folder / "flow.py").write_text(RAY.replace("@STEPS@", repr(rows)))
        done = program([str(rays[0].python), "flow.py"], folder, **clean_environment(share_tailrace(tmp_path / "site")))
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    # What a task prints goes to its worker's file.
    own = Adapter("Ray", rays[0].version.split()[-1], run, files=False, task_files=("*/logs/worker-*",))
    verdict = judged(own, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Airflow

AIRFLOW = """
import subprocess
from datetime import timedelta
from airflow.sdk import DAG, task, task_group

steps = @STEPS@

@task
def run(words):
    subprocess.run(words, check=True, cwd=@FOLDER@)

def one(stage):
    (row,) = (row for row in steps if row["stage"] == stage)
    options = {"task_id": stage, "retries": row["retries"], "retry_delay": timedelta(0)}
    return run.override(**options)(row["words"])

with DAG("w", schedule=None):
    @task_group
    def chain(make, sort):
        run.override(task_id="make")(make) >> run.override(task_id="sort")(sort)

    pairs = [{row["stage"]: row["words"] for row in steps if row["name"] == name} for name in @NAMES@]
    chain.expand_kwargs(pairs) >> one("merge") >> one("check") >> one("after")
"""


def test_airflow(tmp_path: Path) -> None:
    airflows = airflows_on_path()
    if not airflows:
        pytest.skip("no environment with Airflow on PATH: pip install apache-airflow")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [{"stage": one.stage, "name": one.name, "words": one.words, "retries": int(one.how == "once")}
                for one in workflow]  # fmt: skip
        names = [step.name for step in workflow if step.stage == "make"]
        text = AIRFLOW.replace("@STEPS@", repr(rows)).replace("@FOLDER@", repr(str(folder)))
        environment = clean_environment({**share_tailrace(tmp_path / "site"), **airflow_home(folder / "home")})
        (folder / "home" / "dags" / "flow.py").write_text(text.replace("@NAMES@", repr(names)))
        done = program([str(airflows[0].program), "db", "migrate"], folder, **environment)
        assert done.returncode == 0, done.stderr
        words = [str(airflows[0].program), "dags", "test", "w"]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "DagRun failed" in done.stderr, done.stdout + done.stderr
        return folder / "run"

    stages = {"make": "chain.make", "sort": "chain.sort"}
    how = Adapter("Airflow", airflows[0].version, run, files=False, stages=stages)
    verdict = judged(how, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
