# shellcheck shell=bash source=tests/diagnosis/common.sh
# Dask: tasks of pure Python, two at a time in threads of one process, which compute one at a time.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
from dask.distributed import Client, LocalCluster

def count(n):
    found = {}
    for i in range(3_000_000):
        found[i % 997] = found.get(i % 997, 0) + i
    with open(f"count{n}", "w") as f: f.writelines(f"{k} {v}\n" for k, v in found.items())
    return n

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather([client.submit(count, n, key=f"count-{n}") for n in range(8)])
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
