"""traced() with the objects of Flux's own Python bindings, in a real instance."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.flux_instance import missing
from support.run_files import Trace, read_declared

PARSL_PROGRAM = Path(__file__).parents[1] / "support" / "parsl_program.py"

PROGRAM = """
import json
import flux
from flux.job import FluxExecutor, JobspecV1, job_kvs_lookup, submit
from tailrace.flux import trace_executor, traced

handle = flux.Flux()
first = submit(handle, traced(JobspecV1.from_command(["true"]), "one", tags={"k": "v"}))
plain = json.loads(JobspecV1.from_command(["true"]).dumps())
second = submit(handle, json.dumps(traced(plain, "two")))
with trace_executor(FluxExecutor(), "three", workflow="w") as executor:
    futures = [executor.submit(JobspecV1.from_command(["true"])) for _ in range(3)]
    ids = [first, second, *(future.jobid() for future in futures)]
    assert [future.result() for future in futures] == [0, 0, 0]
print(json.dumps([job_kvs_lookup(handle, job)["jobspec"]["attributes"]["user"]["trace"] for job in ids]))
"""


@pytest.fixture
def bindings(flux):
    """The environment in which this Python can import Flux's bindings."""
    # `flux env` prints the path of the bindings, which are built for one version of Python.
    path = flux.run("env", "printenv", "PYTHONPATH").stdout.strip()
    env = {**flux.env, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", "import flux.job"], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing(f"this Python can't import Flux's bindings: {done.stderr.splitlines()[-1]}")
    return env


def test_flux_takes_a_traced_jobspec_and_executor(bindings):
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=bindings, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    three = {"workflow": "w", "stage": "three"}
    assert json.loads(done.stdout) == [{"stage": "one", "tags": {"k": "v"}}, {"stage": "two"}, three, three, three]


def test_the_tasks_of_parsls_flux_executor_have_their_tags(bindings, tmp_path):
    pytest.importorskip("parsl")
    command = [sys.executable, str(PARSL_PROGRAM), "flux", str(tmp_path), "every_kind"]
    environment = {key: value for key, value in bindings.items() if key != "FLUX_URI"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tailrace" not in done.stderr
    trace, keys = Trace(tmp_path / "run"), ("workflow", "stage", "task", "tag.try", "tag.campaign")
    made = [event for event in trace.of(tmp_path / "a") if event["name"] in ("write", "rename")]
    assert trace.tags(made, *keys) == {("kinds", "writing", "0", "0", "c 1")}
    # The task's process starts others.
    moved = [event for event in trace.of(tmp_path / "b.tmp") if event["name"] in ("write", "rename", "renameat2")]
    assert trace.tags(moved, *keys) == {("kinds", "copy_by_bash", "1", "0", "c 1")}
    assert {job[:1] for (job,) in trace.tags(made, "job")} == {"ƒ"}
    ends = [line for line in read_declared(tmp_path / "run") if line["type"] == "end"]
    assert ends and {line["status"] for line in ends} == {"done"}
    profile = tailrace.open(tmp_path / "run").task("0")
    assert (profile.requested, profile.arguments) == ({"cores": 1}, {"text": "'hello'"})
