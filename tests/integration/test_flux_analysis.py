"""`tailrace report --flux-workers N`: the same report, and the Flux job ends whatever happens to us."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from support.commands import TAILRACE

pytest.importorskip("distributed", reason="Dask workers in Flux need Dask: pip install 'tailrace[flux]'")
pytest.importorskip("cryptography", reason="Dask workers in Flux need cryptography: pip install 'tailrace[flux]'")


INTERRUPTIBLE = ["env", "--default-signal=INT"]
"""Tests that run in the background ignore SIGINT."""


@pytest.fixture
def recorded(tmp_path, cli):
    """A run of two stages."""
    for stage, script in (("make", "seq 1000 > a; sort -r a > b"), ("use", "cat a b | wc -l > c")):
        done = cli(
            "run", "-q", "-o", tmp_path / "run", "--tag", f"stage={stage}", "--", "sh", "-c", script, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def report(instance, *words, **options):
    """`tailrace report WORDS...` as a process in the instance."""
    command = [*INTERRUPTIBLE, *TAILRACE, "report", *map(str, words)]
    return subprocess.Popen(
        command, env=instance.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def jobs_that_live(instance):
    """The ids of jobs that have not ended."""
    return json.loads(instance.ask("jobs", "--json"))["jobs"]


def wait_until(condition, seconds=240):
    """Waits until `condition()`; fails the test when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_report_is_that_of_this_machine(flux, recorded):
    here = report(flux, recorded, cwd="/")
    there = report(flux, recorded, "--flux-workers", 2, cwd="/")
    local, _ = here.communicate(timeout=120)
    distributed, said = there.communicate(timeout=600)
    assert there.returncode == 0, said
    assert "2 Dask workers" in said
    assert distributed == local
    assert "make" in local
    assert jobs_that_live(flux) == []
    assert [path.name for path in recorded.iterdir() if path.name.startswith(".")] == []


IN_A_CLUSTER = """
import sys
import time
from tailrace.flux import analysis

with analysis.cluster(1, sys.argv[1]) as client:
    print(client.submit(lambda a: a + 1, 41).result(), flush=True)
    {rest}
"""


def in_a_cluster(instance, scratch, rest):
    """A process that has computed something in a cluster, and does `rest` now."""
    command = [*INTERRUPTIBLE, sys.executable, "-c", IN_A_CLUSTER.format(rest=rest), str(scratch)]
    process = subprocess.Popen(command, env=instance.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    assert first == "42\n", process.communicate(timeout=120)[1]
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_job_ends_with_the_command(flux, tmp_path, number):
    process = in_a_cluster(flux, tmp_path, "time.sleep(600)")
    os.kill(process.pid, number)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: jobs_that_live(flux) == [])


def test_a_queued_job_is_cancelled_with_the_command(start_flux, recorded):
    instance = start_flux()
    blocker = instance.submit("-N1", "sleep", "inf")
    instance.wait(blocker, "start")
    process = report(instance, recorded, "--flux-workers", 1)
    said = ""
    while "is waiting for free cores" not in said:
        said = process.stderr.readline()
        assert said
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert [job["name"] for job in jobs_that_live(instance)] == ["sleep"]
    instance.run("cancel", blocker)


def test_an_error_while_it_works_ends_the_job(flux, tmp_path):
    process = in_a_cluster(flux, tmp_path, "raise RuntimeError('as planned')")
    _, stderr = process.communicate(timeout=120)
    assert "as planned" in stderr
    assert jobs_that_live(flux) == []
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_block_is_the_same_loss(flux, recorded):
    file = max((recorded / "trace").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-40] ^= 0xFF
    file.write_bytes(data)
    here = report(flux, recorded, cwd="/")
    local, _ = here.communicate(timeout=120)
    there = report(flux, recorded, "--flux-workers", 1)
    distributed, _ = there.communicate(timeout=600)
    assert (here.returncode, there.returncode) == (0, 0)
    said = [line for line in local.splitlines() if line.startswith("lost:")]
    assert said and said == [line for line in distributed.splitlines() if line.startswith("lost:")]
    assert jobs_that_live(flux) == []


@pytest.mark.parametrize(("workers", "said"), [(0, "from 1 on"), (4096, "unsatisfiable")])
def test_unavailable_workers_are_an_error(flux, recorded, workers, said):
    process = report(flux, recorded, "--flux-workers", workers)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode in (1, 2)
    assert said in stderr
    assert "Traceback" not in stderr
    assert jobs_that_live(flux) == []


def test_without_flux_the_message_names_flux(cli, recorded, tmp_path):
    env = {**os.environ, "PATH": str(tmp_path), "FLUX_EXEC_PATH": ""}
    done = cli("report", recorded, "--flux-workers", 1, env=env)
    assert done.returncode == 1
    assert "the flux command is not on PATH" in done.stderr
