"""Commands that compute on a real Dask scheduler with two worker processes, which have another working directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

distributed = pytest.importorskip("distributed", reason="needs pip install 'tailrace[cluster]'")

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.store import engine, partitions, query
from tailrace.analyzer.store.statistic import parse as parse_aggregate


class Cluster:
    """A scheduler and its workers, each a process as `dask scheduler` and `dask worker` start it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self._environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1"}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 60
        while not self.file.is_file():
            assert time.monotonic() < deadline and self._processes[0].poll() is None, self.log()
            time.sleep(0.1)
        for _ in range(2):
            self.add_worker()
        self.client = distributed.Client(scheduler_file=str(self.file), set_as_default=False)
        self.client.wait_for_workers(2, timeout=60)
        self.address = self.client.scheduler.address

    def add_worker(self) -> None:
        self._start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")

    def _start(self, kind: str, *options: str) -> None:
        command = [sys.executable, "-m", "distributed.cli.dask_" + kind, "--scheduler-file", str(self.file), *options]
        with (self.folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env=self._environment)
            )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def done(self) -> int:
        """How many changes of tasks the scheduler has seen."""
        return int(self.client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter))

    def kill_a_worker(self) -> None:
        victim = next(process for process in self._processes[1:] if process.poll() is None)
        victim.send_signal(signal.SIGKILL)
        victim.wait()

    def end(self) -> None:
        self.client.close()
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.end()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two runs, of twenty processes each, with blocks that mix two stages."""
    for name in ("one", "two"):
        files = {}
        for pid in range(100, 120):
            lines: list[Any] = [tw.host_line(), tw.file_line("1", "/x", ino=1), tw.file_line("2", f"/o{pid}", ino=pid)]
            for i in range(6):
                call, stage, way, file = ("write", "make", "w", "2") if i % 2 else ("read", "use", "r", "1")
                args = {"stage": stage, "task": str(pid), "fhash": file, "dir": way, "size": 10 * i, "offset": 0}
                lines.append(tw.event(call, tw.T0_US + pid * 100 + i, pid=pid, workflow="w", **args))
            files[f"n-{pid}-1"] = tw.block(lines, {"start": "1"})
        tw.make_run(tmp_path / name, files)
    return tmp_path


def run_command(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    for database in folder.glob("*/tailrace.db"):
        database.unlink()  # else nothing would be left to compute
    command = [sys.executable, "-m", "tailrace.cli.main", *words]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


COMMANDS = [
    ["info", "one"],
    ["query", "one", "--by", "stage,name", "--agg", "sum:size", "--agg", "p95:dur", "--format", "json"],
    ["query", "one", "--path", "x", "--by", "path"],
    ["report", "one"],
    ["export", "one", "--to", "perfetto"],
    ["compare", "one", "two", "--format", "json"],
    ["file", "one", "x", "--format", "json"],
    ["task", "one", "107", "--format", "json"],
    ["graph", "one"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_a_command_gives_the_same_on_a_cluster(cluster: Cluster, runs: Path, words: list[str]) -> None:
    here = run_command(*words, folder=runs)
    before = cluster.done()
    there = run_command(*words, "--scheduler", cluster.address, folder=runs)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
    assert here.returncode == 0 and cluster.done() > before, "nothing was computed there"


def test_events_of_an_archive_are_read_on_a_cluster(cluster: Cluster, runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("otf2", reason="needs pip install 'tailrace[otf2]'")
    before = cluster.done()
    words = ["convert", "one", str(tmp_path / "archive"), "--to", "otf2", "--scheduler", cluster.address]
    done = run_command(*words, folder=runs)
    assert done.returncode == 0 and "120 events written" in done.stderr and cluster.done() > before, done.stderr


def test_dasks_own_configuration_chooses(cluster: Cluster, runs: Path, tmp_path: Path) -> None:
    words = ["query", "one", "--by", "name", "--format", "json"]
    here = run_command(*words, folder=runs).stdout
    assert sum(row["count"] for row in json.loads(here)) == 120
    (tmp_path / "config").mkdir()
    (tmp_path / "config/dask.yaml").write_text(f"scheduler-address: {cluster.address}\n")
    for variables in (
        {"DASK_SCHEDULER_ADDRESS": cluster.address},
        {"DASK_SCHEDULER": cluster.address},
        {"DASK_CONFIG": str(tmp_path / "config")},
    ):
        before = cluster.done()
        assert run_command(*words, folder=runs, **variables).stdout == here and cluster.done() > before, variables
    before = cluster.done()
    assert run_command(*words, "--scheduler", str(cluster.file), folder=runs).stdout == here
    assert cluster.done() > before
    for name in ("threads", "synchronous"):
        assert run_command(*words, folder=runs, DASK_SCHEDULER=name).stdout == here


@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], {}, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        (["--scheduler", "absent.json"], {}, "no such scheduler file"),
        ([], {"DASK_SCHEDULER": "cluster"}, "names the scheduler 'cluster'; there are"),
        ([], {"DASK_SCHEDULER": "distributed"}, "set DASK_SCHEDULER_ADDRESS"),
    ],
)
def test_a_wrong_scheduler_is_one_line(runs: Path, options: list[str], variables: dict[str, str], words: str) -> None:
    wait = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    done = run_command("query", "one", "--by", "name", *options, folder=runs, **variables, **wait)
    assert done.returncode == 2 and "Traceback" not in done.stderr and words in done.stderr.splitlines()[-1]


def small_runs(folder: Path, count: int) -> list[str]:
    """Runs with one process and two files each, of which all share one."""
    for number in range(count):
        lines: list[Any] = [tw.host_line(), tw.file_line("1", "/shared", ino=1)]
        lines.append(tw.file_line("2", f"/own{number}", ino=100 + number))
        for way, call, file, i in (("r", "read", "1", 0), ("w", "write", "2", 1)):
            args = {"fhash": file, "dir": way, "size": 10 + number, "offset": 0}
            lines.append(tw.event(call, tw.T0_US + number * 1000 + i, pid=7, workflow="w", **args))
        tw.make_run(folder / f"run{number}", {"n-7-1": tw.block(lines, {"start": "1"})})
    return [f"run{number}" for number in range(count)]


def rows_of(store: Path, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    rows = tailrace.open_store(store).read(table, columns).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_a_killed_worker_loses_and_doubles_no_run_of_a_store(cluster: Cluster, tmp_path: Path) -> None:
    words = small_runs(tmp_path, 30)
    assert run_command("index", "here", *words, folder=tmp_path).stdout == "30 runs indexed; here\n"
    command = ["index", "there", "--events", "--scheduler", cluster.address, *words, "no-run"]
    parts = tmp_path / "there" / "data"

    def kill() -> None:
        while len(list(parts.rglob("e-*/runs.parquet"))) < 10:
            time.sleep(0.01)
        cluster.kill_a_worker()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    done = run_command(*command, folder=tmp_path)
    killer.join(60)
    assert done.returncode == 0 and not killer.is_alive(), done.stderr
    assert "1 left out; there" in done.stdout and "no-run is left out: there is no such directory" in done.stderr
    cluster.add_worker()
    cluster.client.wait_for_workers(2, timeout=60)
    for table, columns in (
        ("runs", ["path", "events", "read_bytes", "written_bytes", "run"]),
        ("files", ["path", "run", "read_bytes", "written_bytes"]),
        ("edges", ["run", "file", "direction", "bytes", "first_ns"]),
    ):
        assert rows_of(tmp_path / "there", table, columns) == rows_of(tmp_path / "here", table, columns)
    before = cluster.done()
    merged = run_command("index", "there", "--compact", "--scheduler", cluster.address, folder=tmp_path)
    assert "parts merged into 1" in merged.stdout and cluster.done() > before, merged.stderr
    assert len(list(parts.rglob("[em]-*/runs.parquet"))) == 1
    assert rows_of(tmp_path / "there", "runs", ["path"]) == rows_of(tmp_path / "here", "runs", ["path"])
    with cluster.client.as_current():
        store = tailrace.open_store(tmp_path / "there")
        sums = store.dask("edges").groupby("direction")["bytes"].sum().compute().to_dict()
        assert sums == dict.fromkeys("rw", sum(10 + number for number in range(30)))
        assert len(store.dask("events", ["run", "name"]).compute()) == 60
        assert store.dask("tasks").compute().empty


def test_a_killed_worker_changes_nothing(cluster: Cluster, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    run = tailrace.open(runs / "one")
    figures = [parse_aggregate(text) for text in ("count", "sum:size", "nunique:path")]
    here = query.aggregate(run, ["stage", "name"], figures)
    edges = run.edges()
    with cluster.client.as_current():
        assert engine.uses_dask()
        killer = threading.Timer(0.2, cluster.kill_a_worker)
        killer.start()
        while killer.is_alive():
            pd.testing.assert_frame_equal(query.aggregate(run, ["stage", "name"], figures), here)
            (runs / "one/tailrace.db").unlink(missing_ok=True)
            pd.testing.assert_frame_equal(tailrace.open(runs / "one").edges().bursts, edges.bursts)
    # The scheduler hears of it when the connection ends.
    deadline = time.monotonic() + 60
    while (left := len(cluster.client.scheduler_info()["workers"])) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == 1, "the worker was not killed meanwhile"
    cluster.add_worker()
    cluster.client.wait_for_workers(2, timeout=60)
