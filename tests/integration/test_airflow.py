"""Airflow's adapter beyond the conformance suite: assets, skipped tasks, what remains after a task, untraced runs."""

import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.conformance import WRITES
from support.harm import clean_environment
from support.managers import airflow_home, airflows_on_path, share_tailrace
from support.run_files import Trace
from tailrace.integrations import managers

AIRFLOWS = airflows_on_path()
pytestmark = pytest.mark.skipif(not AIRFLOWS, reason="no environment with Airflow on PATH: pip install apache-airflow")

FLOW = """
import os
import subprocess
from airflow.sdk import DAG, Asset, task
from airflow.sdk.exceptions import AirflowSkipException
from airflow.providers.standard.operators.bash import BashOperator

folder = @FOLDER@
made = Asset("made", uri=f"file://{folder}/a%20b")

def said(context):
    subprocess.run(["sh", "-c", f"echo called > '{folder}/called'"], check=True)
    assert os.environ["AIRFLOW_CTX_TASK_ID"] == "make"

with DAG("flow", schedule=None):
    first = BashOperator(
        task_id="make", bash_command=f"seq 10 > '{folder}/a b'", outlets=[made], on_success_callback=said
    )

    @task(inlets=[made])
    def read():
        with open(f"{folder}/a b") as source, open(f"{folder}/copy", "w") as target:
            target.write(source.read())
        return os.environ["AIRFLOW_CTX_TASK_ID"]

    @task
    def skip():
        raise AirflowSkipException("not today")

    @task
    def after():
        pass

    first >> read()
    first >> skip() >> after()
"""


def _airflow(folder: Path, *words: str, traced: bool, **settings: str) -> "subprocess.CompletedProcess[str]":
    own = {"AIRFLOW_HOME": str(folder / "home"), **settings}
    environment = clean_environment({**share_tailrace(folder / "site"), **own})
    environment["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    command = [str(AIRFLOWS[0].program), *words]
    if traced:
        return run_cli("run", "-o", folder / "run", "--", *command, cwd=folder, env=environment)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_what_a_dag_run_leaves(tmp_path: Path) -> None:
    airflow_home(tmp_path / "home")
    (tmp_path / "home" / "dags" / "flow.py").write_text(FLOW.replace("@FOLDER@", repr(str(tmp_path))))
    assert _airflow(tmp_path, "db", "migrate", traced=False).returncode == 0
    # The plugin does nothing without tracing.
    done = _airflow(tmp_path, "dags", "test", "flow", traced=False)
    assert done.returncode == 0 and "tailrace" not in done.stdout + done.stderr, done.stderr
    done = _airflow(tmp_path, "dags", "test", "flow", traced=True)
    assert done.returncode == 0 and "tailrace: can't" not in done.stdout + done.stderr, done.stdout + done.stderr

    trace, run = Trace(tmp_path / "run"), tailrace.open(tmp_path / "run")
    tasks = run.declared_tasks.set_index("stage")
    for name, stage in (("a b", "make"), ("copy", "read")):
        written = [event for event in trace.of(tmp_path / name, WRITES) if event["args"].get("size")]
        tags = trace.tags(written, "workflow", "stage", "task", "tag.try")
        assert tags == {("flow", stage, tasks["task"][stage], "0")}
    assert trace.tags(trace.of(tmp_path / "called"), "task") == {(None,)}
    of_database = [event for event in trace.events if Path(event["path"] or "").name.startswith("airflow.db")]
    assert of_database and trace.tags(of_database, "task") == {(None,)}

    assert tasks["status"].to_dict() == {"make": "done", "read": "done", "skip": "done", "after": "canceled"}
    assert tasks["tries"].to_dict() == {"make": 1, "read": 1, "skip": 1, "after": 0}
    stage = {task: stage for stage, task in tasks["task"].items()}
    deps = {(stage[row.task], stage[row.dep], row.via) for row in run.declared_deps.itertuples()}
    assert {(task, dep) for task, dep, via in deps if via == "upstream"} == {
        ("read", "make"), ("skip", "make"), ("after", "skip")
    }  # fmt: skip
    files = {(stage[row.task], row.direction, row.path) for row in run.declared_files.itertuples()}
    assert files == {("make", "w", str(tmp_path / "a b")), ("read", "r", str(tmp_path / "a b"))}
    workflows = run.declared_workflows
    assert workflows["manager"].tolist() == ["airflow"] and workflows["version"].tolist() == [AIRFLOWS[0].version]


def test_how_tasks_ended_where_names_are_hashed(tmp_path: Path) -> None:
    airflow_home(tmp_path / "home")
    (tmp_path / "home" / "dags" / "flow.py").write_text(FLOW.replace("@FOLDER@", repr(str(tmp_path))))
    assert _airflow(tmp_path, "db", "migrate", traced=False).returncode == 0
    done = _airflow(tmp_path, "dags", "test", "flow", traced=True, TAILRACE_REDACT="paths")
    assert done.returncode == 0 and "tailrace: can't" not in done.stdout + done.stderr, done.stdout + done.stderr
    tasks = tailrace.open(tmp_path / "run").declared_tasks
    assert sorted(zip(tasks["status"], tasks["tries"], strict=True)) == [("canceled", 0), *[("done", 1)] * 3]
    lines = [line for path in (tmp_path / "run" / "declared").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sum('"type":"end"' in line for line in lines) == len(tasks)


def test_the_manager_is_listed() -> None:
    (entry,) = (one for one in managers.installed() if one.name == "airflow")
    assert entry.manager is not None and entry.manager.title == "Airflow"
