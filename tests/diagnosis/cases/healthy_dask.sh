# shellcheck shell=bash source=tests/diagnosis/common.sh
# Dask: four tasks that compute, on two workers, and a sum.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import time
from dask.distributed import Client, LocalCluster

def part(n):
    end = time.process_time() + 0.8
    while time.process_time() < end: pass
    with open(f"part{n}", "w") as f: f.write("1\n" * 200_000)
    return f"part{n}"

def join(parts): return sum(len(open(p).read()) for p in parts)

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.submit(join, [client.submit(part, n, key=f"part-{n}") for n in range(4)], key="join-0").result()
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
