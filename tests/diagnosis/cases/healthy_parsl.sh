# shellcheck shell=bash source=tests/diagnosis/common.sh
# Parsl: four apps that compute, two at a time, and one that joins their files.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import parsl, tailrace.parsl
from parsl import bash_app, File
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

@bash_app
def part(i, outputs=()): return f"python burn.py 0.8; seq 200000 > {outputs[0].filepath}"

@bash_app
def join(inputs=(), outputs=()): return f"sort -n {' '.join(i.filepath for i in inputs)} > {outputs[0].filepath}"

if __name__ == "__main__":
    parsl.load(tailrace.parsl.trace(Config(executors=[ThreadPoolExecutor(label="t", max_threads=2)])))
    parts = [part(i, outputs=[File(f"part{i}")]) for i in range(4)]
    join(inputs=[p.outputs[0] for p in parts], outputs=[File("joined")]).result()
    parsl.dfk().cleanup()
P
traced python flow.py
