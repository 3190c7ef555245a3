"""A Dask program with every kind of task, for test_dask.py: python dask_program.py (processes | threads) WHAT

WHAT: `every` kind of task, or a `plain` one without a line about tracing. It works in the current directory, traces
into ./run, and prints one JSON value: the keys of the tasks, and what came of them.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dask
import dask.array
from dask.distributed import Client, LocalCluster, Worker, WorkerPlugin


class Pool(WorkerPlugin):
    """Gives each worker a process pool."""

    def setup(self, worker: Worker) -> None:
        worker.executors["pool"] = ProcessPoolExecutor(1)


class Counter:
    """An actor."""

    def increment(self, path: str) -> int:
        return Path(path).write_text("1\n")


def make(path: str) -> str:
    Path(path).write_text("2\n1\n")
    return path


def sort(path: str) -> str:
    subprocess.run(["sort", "-o", f"{path}.sorted", path], check=True)
    return f"{path}.sorted"


async def asynchronous(path: str, out: str) -> str:
    text = Path(path).read_text()
    await asyncio.sleep(0.01)
    Path(out).write_text(text)
    return out


def flaky(path: str, out: str) -> str:
    again = Path(out).exists()
    Path(out).write_text(Path(path).read_text())
    if not again:
        raise ValueError("not yet")
    return out


def fail(path: str) -> None:
    raise RuntimeError(f"no use of {path}")


def after(value: object) -> object:
    return value


def die_once(path: str, out: str) -> str:
    again = Path(out).exists()
    Path(out).write_text(Path(path).read_text())
    if not again:
        os.kill(os.getpid(), signal.SIGKILL)
    return out


def block(value: int, block_info: object = None) -> object:
    Path(f"block{value.flat[0]}").write_text("block")
    return value


def every(client: Client, processes: bool) -> dict[str, object]:
    made = client.map(make, ["a", "b"])
    ordered = client.map(sort, made)
    futures = {"make": made[0], "sort": ordered[0]}
    futures["flaky"] = client.submit(flaky, ordered[0], "flaky", retries=1)
    futures["asynchronous"] = client.submit(asynchronous, ordered[0], "async1")
    futures["other"] = client.submit(asynchronous, ordered[1], "async2")
    futures["fail"] = client.submit(fail, ordered[1])
    futures["after"] = client.submit(after, futures["fail"])
    array = dask.array.from_array(dask.array.arange(4, chunks=4).compute(), chunks=2)
    dask.array.map_blocks(block, array, dtype=int).sum().compute(scheduler=client)
    client.submit(Counter, actor=True).result().increment("actor").result()
    client.gather(list(futures.values()), errors="skip")
    said = {"errors": [str(futures["fail"].exception()), str(futures["after"].exception())]}
    if processes:
        futures["die_once"] = client.submit(die_once, ordered[0], "died")
        futures["die_once"].result()
        # Last: a pool's process outlives a worker that is killed.
        client.register_plugin(Pool())
        with dask.annotate(executor="pool"):
            # A function of this file can't be pickled by name on a worker.
            futures["pooled"] = client.submit(shutil.copyfile, ordered[1], "pooled")
        futures["pooled"].result()
    return {**said, "keys": {name: future.key for name, future in futures.items()}}


def plain(client: Client, processes: bool) -> dict[str, object]:
    future = client.submit(make, "a")
    return {"keys": {"make": future.key}, "result": future.result()}


def main() -> None:
    processes, what = sys.argv[1] == "processes", sys.argv[2]
    # A daemon may not have a process pool.
    dask.config.set({"distributed.worker.daemon": False, "temporary-directory": str(Path.cwd())})
    with (
        LocalCluster(n_workers=2 if processes else 1, threads_per_worker=2, processes=processes,
                     dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        if what == "every":
            from tailrace.dask import trace

            trace(client, run_dir="run", workflow="w", stage={"asynchronous": "async"})
        print(json.dumps(globals()[what](client, processes)))


if __name__ == "__main__":
    main()
