# shellcheck shell=bash source=tests/diagnosis/common.sh
# Dask gets a task for each of 3,000 numbers.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
from dask.distributed import Client, LocalCluster

def square(n): return n * n

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        numbers = client.map(square, range(3000), key=[f"square-{n}" for n in range(3000)])
        print(sum(client.gather(numbers)))
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
