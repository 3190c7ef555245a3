"""tailrace.integrations.pool: the command that plugins put in front of a worker pool."""

import json
import os
import signal
import subprocess
import sys
import time

from tailrace.integrations.rundir import open_run_directory

WRITES = {"write", "writev"}


def pool(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "tailrace.integrations.pool", *map(str, words)], **options)


def test_a_pool_is_traced_with_its_tags_and_variables(tmp_path, read_trace):
    run = open_run_directory(tmp_path / "run", ["test"])
    script = f'echo "$COLOUR" > {tmp_path}/colour; exit 9'
    process = pool(f"TAILRACE_RUN={run}", "TAILRACE_TAGS=workflow=w", "COLOUR=red", "--", "sh", "-c", script)
    assert process.wait(120) == 9
    assert (tmp_path / "colour").read_text() == "red\n"
    trace = read_trace(run)
    assert trace.tags(trace.of(tmp_path / "colour", WRITES), "workflow") == {("w",)}


def test_workers_killed_with_their_pool_lose_nothing(tmp_path, read_trace):
    """A provider ends a pool by a signal to its group: pool, workers and wrapper get it in one instant."""
    run = open_run_directory(tmp_path / "run", ["test"])
    worker = "echo kept > {0}/worker{1}; : > {0}/ready{1}; sleep 600"
    workers = "; ".join(f"sh -c '{worker.format(tmp_path, number)}' &" for number in (1, 2)).replace("&;", "&")
    process = pool(f"TAILRACE_RUN={run}", "--", "sh", "-c", f"{workers} wait", start_new_session=True)
    wait_for(tmp_path / "ready1", tmp_path / "ready2")
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(120) == 128 + signal.SIGTERM
    trace = read_trace(run)
    for number in (1, 2):
        assert [event["args"]["size"] for event in trace.of(tmp_path / f"worker{number}", WRITES)] == [5]


def test_a_pool_runs_without_its_run_directory(tmp_path, capfd):
    process = pool(f"TAILRACE_RUN={tmp_path}/gone", "--", "sh", "-c", "echo on; exit 3")
    assert process.wait(120) == 3
    out, err = capfd.readouterr()
    assert out == "on\n"
    assert "tailrace: " in err
    assert "Traceback" not in err


def test_the_pools_host_is_described_once(tmp_path):
    run = open_run_directory(tmp_path / "run", ["test"])
    described = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**described, "host": "login-node"}))
    for _ in range(2):
        assert pool(f"TAILRACE_RUN={run}", "--", "true").wait(120) == 0
    described = json.loads((run / "run.json").read_text())
    assert [restart["host"] for restart in described["restarts"]] == [os.uname().nodename]


def wait_for(*paths):
    deadline = time.monotonic() + 120
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"{paths} did not appear"
        time.sleep(0.01)
