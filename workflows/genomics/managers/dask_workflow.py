"""python dask_workflow.py, in the folder of genome.fa.gz: the computation as tasks of Dask distributed."""

import subprocess
from pathlib import Path

from dask.distributed import Client, LocalCluster

from tailrace.dask import trace

STEP = Path(__file__).resolve().with_name("step.sh")
SAMPLES = ("ada", "bo", "cy", "dee")


def run(step, sample, *after):
    """What it waits for it gets as arguments, which are the names of the steps before."""
    subprocess.run(["sh", str(STEP), step, sample], check=True)
    return step


def main():
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        client = trace(Client(cluster), workflow="genomics", stage=lambda key: str(key).partition("-")[0])

        def submit(step, sample, *after):
            return client.submit(run, step, sample, *after, key=f"{step}-{sample}" if sample else step, pure=False)

        unpack = submit("unpack", "")
        index = submit("index", "", unpack)
        called, rest = [], []
        for sample in SAMPLES:
            simulate = submit("simulate", sample, unpack)
            sort = submit("sort", sample, submit("align", sample, simulate, index))
            called.append(submit("call", sample, submit("pile", sample, sort, unpack)))
            rest += [simulate, submit("count", sample, sort)]
        submit("summarize", "", submit("merge", "", *called), *rest).result()
        client.close()


if __name__ == "__main__":
    main()
