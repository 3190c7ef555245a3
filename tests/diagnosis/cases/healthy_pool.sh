# shellcheck shell=bash source=tests/diagnosis/common.sh
# A pool of two processes takes twelve equal pieces of work, which it gets by number.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import time
from multiprocessing import Pool

def piece(n):
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    with open(f"piece{n}", "w") as f: f.write(f"{n}\n" * 1000)

if __name__ == "__main__":
    with Pool(2) as pool: pool.map(piece, range(12), chunksize=1)
P
traced python flow.py
