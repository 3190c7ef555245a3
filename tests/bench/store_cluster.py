"""Runs of 10,000 events each, indexed into a store by a Dask cluster, one worker of which is killed.

    python tests/bench/store_cluster.py                    # 10,000 runs, two workers of a thread each
    python tests/bench/store_cluster.py --runs 500

    ORIGINALS real runs --copied, each with an id of its own--> N runs
    tailrace index STORE RUN... --scheduler ADDRESS, a worker killed at a third and another one started -> table

What the store has then is compared with what it should have: the originals are indexed without a cluster, and their
rows, events and bytes multiplied by their copies. Prints a table of Markdown; ends with 1 where a figure differs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tailrace

ORIGINALS = 10
TAILRACE = [sys.executable, "-m", "tailrace.cli.main"]
SCRIPT = (
    "dd if=../shared.bin of=a.bin bs=64 count=2400 status=none; dd if=a.bin of=b.bin bs=64 status=none;"
    " cut -c1-4 ../shared.csv > c.txt; sort c.txt > d.txt; rm a.bin"
)
FIGURES = {
    "runs": "select count(distinct run) from runs",
    "rows of runs": "select count(*) from runs",
    "events": "select sum(events) from runs",
    "bytes read": "select sum(read_bytes) from runs",
    "bytes written": "select sum(written_bytes) from runs",
    "processes": "select count(*) from processes",
    "files": "select count(*) from files",
    "versions": "select count(*) from versions",
    "edges": "select count(*) from edges",
    "bytes of edges": "select sum(bytes) from edges",
    "events lost": "select sum(lost) from runs",
}


def originals(folder: Path) -> list[Path]:
    """Real runs of four programs and about 10,000 events."""
    (folder / "shared.bin").write_bytes(bytes(64 * 2400))
    (folder / "shared.csv").write_text("".join(f"{n},{n * n}\n" for n in range(200)))
    made = []
    for number in range(ORIGINALS):
        work = folder / f"work{number}"
        work.mkdir()
        words = [*TAILRACE, "run", "-q", "-o", work / "run", "-t", "workflow=bench"]
        subprocess.run([*words, "--", "sh", "-c", SCRIPT], cwd=work, check=True)
        made.append(work / "run")
    return made


def copies(runs: list[Path], folder: Path, count: int) -> list[Path]:
    """Copies of the runs in turn, each with another id, without what was derived of them."""
    made = []
    for number in range(count):
        target = folder / f"{number // 1000:02}" / f"{number:06}"
        shutil.copytree(runs[number % len(runs)], target, ignore=shutil.ignore_patterns("tailrace.db*"))
        about = target / "run.json"
        about.write_text(json.dumps({**json.loads(about.read_text()), "run_id": secrets.token_hex(16)}))
        made.append(target)
    return made


def figures(store: Path) -> dict[str, int]:
    """What a store has, by FIGURES."""
    opened = tailrace.open_store(store)
    found = [table.column(0)[0].as_py() for table in opened.answers(list(FIGURES.values()))]
    assert not opened.problems, opened.problems
    return {name: int(value or 0) for name, value in zip(FIGURES, found, strict=True)}


class Cluster:
    """A Dask scheduler and workers of one thread each, as processes of their own; used: processor time (s) and largest
    resident memory (bytes) of each worker that has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.used: list[tuple[float, int]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "dask.log").open("wb")
        self._scheduler = self._started(
            "scheduler", "--scheduler-file", str(self._file), "--port", "0", "--no-dashboard"
        )
        while not self._file.exists():
            time.sleep(0.1)
        self.address = json.loads(self._file.read_text())["address"]

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1"]
        # Samples of the workers' stacks, kept for 1,000 s, would be most of what a worker holds.
        env = {**os.environ, "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false"}
        return subprocess.Popen(command, cwd=self._folder, env=env, stdout=self._log, stderr=self._log)

    def start(self) -> None:
        """Starts a worker."""
        words = ["worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        self.workers.append(self._started(*words, "--local-directory", str(self._folder / "workers")))

    def end(self, worker: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
        """Ends a worker by a signal."""
        worker.send_signal(number)
        _, worker.returncode, usage = os.wait4(worker.pid, 0)
        self.used.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))
        self.workers.remove(worker)

    def stop(self) -> None:
        """Ends all."""
        for worker in list(self.workers):
            self.end(worker)
        self._scheduler.terminate()
        self._scheduler.wait()
        self._log.close()


@contextmanager
def killing(cluster: Cluster, store: Path, at: int) -> Iterator[None]:
    """Kills a worker once the store has `at` entries, and starts another one."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1):
            if sum(1 for _ in store.glob("data/*/*/*")) >= at:
                cluster.end(cluster.workers[0], signal.SIGKILL)
                cluster.start()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def indexed(store: Path, runs: list[Path], folder: Path, workers: int) -> list[tuple[str, str]]:
    """Indexes the runs by a cluster; what it took, in words."""
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.start()
        began = time.perf_counter()
        with killing(cluster, store, len(runs) // 3):
            words = [*TAILRACE, "index", store, *runs, "--scheduler", cluster.address]
            told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        wall = time.perf_counter() - began
    finally:
        cluster.stop()
    processor = sum(seconds for seconds, _ in cluster.used)
    return [
        ("said", told.stdout.split(";")[0]),
        ("wall time", f"{wall:,.0f} s"),
        ("processor time of the workers", f"{processor:,.0f} s"),
        ("that, a run", f"{processor / len(runs):.3f} s"),
        ("largest memory of a worker", f"{max(size for _, size in cluster.used) / 2**20:,.0f} MiB"),
        ("workers killed", f"{len(cluster.used) - workers}"),
    ]


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="copies that are indexed, a multiple of 10")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tailrace-cluster-"))
    try:
        real = originals(folder)
        subprocess.run([*TAILRACE, "index", folder / "one", *real], check=True, stdout=subprocess.DEVNULL)
        each = figures(folder / "one")
        runs = copies(real, folder / "runs", given.runs)
        lines = indexed(folder / "store", runs, folder, given.workers)
        found = figures(folder / "store")
        print("| what | measured |\n|---|---|")
        print("\n".join(f"| {name} | {value} |" for name, value in lines))
        print("\n| in the store | found | expected |\n|---|--:|--:|")
        wanted = {name: value * given.runs // ORIGINALS for name, value in each.items()}
        print("\n".join(f"| {name} | {found[name]:,} | {wanted[name]:,} |" for name in FIGURES))
        return 0 if found == wanted else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
