# shellcheck shell=bash source=tests/diagnosis/common.sh
# A task of Dask waits for a file that another one makes; the graph does not say so.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import os, time
from dask.distributed import Client, LocalCluster

def make():
    end = time.process_time() + 1.5
    while time.process_time() < end: pass
    with open("model.tmp", "w") as f: f.write("1\n" * 100000)
    os.rename("model.tmp", "model")
    return 1

def use():
    while not os.path.exists("model"): time.sleep(0.05)
    return len(open("model").read())

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        both = [client.submit(use, key="use-1"), client.submit(make, key="make-1")]
        client.gather(both)
P
DASK_DISTRIBUTED__CLIENT__PRELOAD=tailrace.dask traced python flow.py
