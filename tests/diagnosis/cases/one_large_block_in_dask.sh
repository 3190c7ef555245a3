# shellcheck shell=bash source=tests/diagnosis/common.sh
# Of eight blocks that Dask maps, one is ten times as large.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import time
from dask.distributed import Client, LocalCluster

def block(n):
    end = time.process_time() + (2.0 if n == 5 else 0.2)
    while time.process_time() < end: pass
    with open(f"block{n}", "w") as f: f.write("1\n" * 1000)
    return n

def join(blocks): return sum(blocks)

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        blocks = [client.submit(block, n, key=f"block-{n}") for n in range(8)]
        client.submit(join, blocks, key="join-0").result()
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
