# shellcheck shell=bash source=tests/diagnosis/common.sh
# Parsl: two apps at a time, then a long one by itself.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import parsl, tailrace.parsl
from parsl import bash_app, File
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

@bash_app
def part(i, outputs=()): return f"python burn.py 0.3; seq 20000 > {outputs[0].filepath}"

@bash_app
def merge(inputs=(), outputs=()):
    return f"python burn.py 2; cat {' '.join(i.filepath for i in inputs)} > {outputs[0].filepath}"

@bash_app
def plot(i, inputs=(), outputs=()): return f"python burn.py 0.2; sort {inputs[0].filepath} > {outputs[0].filepath}"

if __name__ == "__main__":
    parsl.load(tailrace.parsl.trace(Config(executors=[ThreadPoolExecutor(label="t", max_threads=2)])))
    parts = [part(i, outputs=[File(f"part{i}")]) for i in range(4)]
    whole = merge(inputs=[p.outputs[0] for p in parts], outputs=[File("whole")])
    plots = [plot(i, inputs=[whole.outputs[0]], outputs=[File(f"plot{i}")]) for i in range(4)]
    [p.result() for p in plots]
    parsl.dfk().cleanup()
P
traced python flow.py
