# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Parsl runs eight apps in one thread; remedied: in two.
. "$(dirname "$0")/common.sh"
cat > flow.py << 'P'
import sys, parsl
from parsl import bash_app, File
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

@bash_app
def part(i, outputs=()): return f"python burn.py 0.35; seq 20000 > {outputs[0].filepath}"

@bash_app
def merge(inputs=(), outputs=()): return f"cat {' '.join(i.filepath for i in inputs)} | sort > {outputs[0].filepath}"

if __name__ == "__main__":
    config = Config(executors=[ThreadPoolExecutor(label="t", max_threads=int(sys.argv[1]))])
    if sys.argv[2:]:
        import tailrace.parsl
        config = tailrace.parsl.trace(config)
    parsl.load(config)
    parts = [part(i, outputs=[File(f"part{i}")]) for i in range(8)]
    merge(inputs=[p.outputs[0] for p in parts], outputs=[File("whole")]).result()
    parsl.dfk().cleanup()
P
cat > as_is.sh << 'S'
python flow.py 1 ${TRACED:-}
S
cat > remedied.sh << 'S'
python flow.py 2 ${TRACED:-}
S
