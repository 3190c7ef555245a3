# shellcheck shell=bash source=tests/diagnosis/common.sh
# An app of Parsl fails the first time, and is tried again.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import parsl, tailrace.parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

@bash_app
def work(i): return f"python burn.py 0.5; if [ {i} = 1 ] && [ ! -e seen ]; then touch seen; exit 4; fi; seq 9999 > r{i}"

if __name__ == "__main__":
    executor = ThreadPoolExecutor(label="t", max_threads=2)
    parsl.load(tailrace.parsl.trace(Config(executors=[executor], retries=1)))
    [f.result() for f in [work(i) for i in range(4)]]
    parsl.dfk().cleanup()
P
traced python flow.py
