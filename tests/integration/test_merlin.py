"""Merlin's adapter, on real runs: parameters, samples and restarts, in one process and by Celery's workers."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.managers import all_on_path
from support.run_files import Trace
from tailrace.analyzer.model import declared_vs_observed

MERLINS = all_on_path("merlin")
pytestmark = pytest.mark.skipif(
    not MERLINS, reason="no merlin in an environment on PATH: pip install merlin 'celery<5.5'"
)

STUDY = r"""
description: {name: flow, description: parameters and samples}
batch: {type: local, shell: @SHELL@}
study:
    - {name: make, description: d, run: {cmd: "seq $(N) > made"}}
    - {name: sim, description: d, run: {cmd: "sort $(make.workspace)/made > $(X).out", depends: [make]}}
    - {name: post, description: d,
       run: {cmd: "sort $(sim.workspace)/$(MERLIN_SAMPLE_PATH)/$(X).out > post", depends: [sim]}}
    - name: merge
      description: d
      run: {cmd: "sort $(post.workspace)/*/*/post > merged; [ -e again ] || { touch again; exit $(MERLIN_RETRY); }",
            depends: [post_*], retry_delay: 0}
    - {name: last, description: d, run: {cmd: "sort $(merge.workspace)/merged > last; exit 3", depends: [merge]}}
global.parameters:
    N: {values: [10, 20], label: N.%%}
merlin:
    samples:
        generate: {cmd: "printf '1\n2\n3\n' > $(MERLIN_INFO)/samples.csv"}
        file: $(MERLIN_INFO)/samples.csv
        column_labels: [X]
    resources: {task_server: celery, workers: {w: {args: "-l INFO --concurrency 2", steps: [all]}}}
"""
WRITES = {"write", "fwrite"}
SETTINGS = """
broker: {name: redis, server: 127.0.0.1, port: @PORT@, db_num: 0}
results_backend: {name: redis, server: 127.0.0.1, port: @PORT@, db_num: 0, encryption_key: ~/.merlin/key}
celery: {override: {visibility_timeout: 86400}}
"""
BY_WORKERS = """
merlin run study.yaml && merlin run-workers study.yaml || exit 1
n=0
until [ -e flow_*/last/last ] || [ $((n += 1)) -gt 60 ]; do sleep 1; done
sleep 1
merlin stop-workers
sleep 3
"""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[int]:
    """The port of a server."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield port
    server.terminate()
    server.wait(timeout=20)


def study(folder: Path, *words: str, **settings: str) -> tuple[Trace, tailrace.Run]:
    """Runs it in `folder`, and declares what it left."""
    (folder / "study.yaml").write_text(STUDY.replace("@SHELL@", run_cli("adapter", "merlin").stdout.strip()))
    path = f"{MERLINS[0].program.parent}:{os.environ['PATH']}"
    environment = clean_environment({"HOME": str(folder), "PATH": path, **settings})
    done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (left,) = folder.glob("flow_*")
    done = run_cli("declare", "--from", left, folder / "run")
    assert done.returncode == 0, done.stderr
    return Trace(folder / "run"), tailrace.open(folder / "run")


def assert_right(folder: Path, trace: Trace, run: tailrace.Run) -> None:
    (left,) = folder.glob("flow_*")
    sims = {f"sim_N.{n}/0{x}": ("sim", f"sim/N.{n}/0{x}/{x + 1}.out") for n in (10, 20) for x in range(3)}
    for task, (stage, path) in sims.items():
        assert trace.tags(trace.of(left / path, WRITES), "stage", "task", "tag.try") == {(stage, task, "0")}
    merged = trace.tags(trace.of(left / "merge/merged", WRITES), "stage", "task", "tag.try")
    assert merged == {("merge", "merge", "0"), ("merge", "merge", "1")}

    tasks = run.declared_tasks.set_index("task")
    posts = [name.replace("sim", "post") for name in sims]
    assert set(tasks.index) == {"make_N.10", "make_N.20", *sims, *posts, "merge", "last"}
    assert {name: row["status"] for name, row in tasks.iterrows() if row["status"] != "done"} == {"last": "failed"}
    assert tasks["tries"]["merge"] == 2 and tasks["tries"]["last"] == 1
    deps = {(row.dep, row.task) for row in run.declared_deps.itertuples()}
    assert deps == {
        *((f"make_{sim.partition('/')[0].partition('_')[2]}", sim) for sim in sims),
        *zip(sims, posts, strict=True),
        *((post, "merge") for post in posts),
        ("merge", "last"),
    }
    compared = declared_vs_observed.compare_declared(run)
    assert set(compared["status"]) == {"observed"} and len(compared) == len(deps)


def test_a_study_in_one_process(tmp_path: Path) -> None:
    trace, run = study(tmp_path, str(MERLINS[0].program), "run", "--local", "study.yaml")
    assert_right(tmp_path, trace, run)


def test_a_study_of_celerys_workers(tmp_path: Path, redis: int) -> None:
    (tmp_path / ".merlin").mkdir()
    (tmp_path / ".merlin" / "app.yaml").write_text(SETTINGS.replace("@PORT@", str(redis)))
    # Celery's workers don't run as root otherwise.
    trace, run = study(tmp_path, "sh", "-c", BY_WORKERS, C_FORCE_ROOT="1")
    assert_right(tmp_path, trace, run)
