# shellcheck shell=bash source=tests/diagnosis/common.sh
# Parsl: the program waits for all apps of a stage, one of which is long, and only then submits those of the next one.
. "$(dirname "$0")/../common.sh"
cat > flow.py << 'P'
import concurrent.futures, parsl, tailrace.parsl
from parsl import bash_app, File
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

@bash_app
def clean(i, seconds, outputs=()): return f"python burn.py {seconds}; seq 20000 > {outputs[0].filepath}"

@bash_app
def model(i, inputs=(), outputs=()): return f"python burn.py 0.6; sort {inputs[0].filepath} > {outputs[0].filepath}"

if __name__ == "__main__":
    parsl.load(tailrace.parsl.trace(Config(executors=[ThreadPoolExecutor(label="t", max_threads=2)])))
    cleaned = [clean(i, 3 if i == 3 else 0.2, outputs=[File(f"clean{i}")]) for i in range(4)]
    concurrent.futures.wait(cleaned)
    models = [model(i, inputs=[File(f"clean{i}")], outputs=[File(f"model{i}")]) for i in range(4)]
    [m.result() for m in models]
    parsl.dfk().cleanup()
P
traced python flow.py
