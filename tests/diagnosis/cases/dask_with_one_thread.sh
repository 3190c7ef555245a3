# shellcheck shell=bash source=tests/diagnosis/common.sh
# Eight tasks of Dask that wait for a slow device run one by one.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import time
from dask.distributed import Client, LocalCluster

def fetch(n):
    time.sleep(0.4)
    with open(f"raw{n}", "w") as f: f.write("1\n" * 1000)
    return n

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather([client.submit(fetch, n, key=f"fetch-{n}") for n in range(8)])
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
