"""Two Parsl programs that are killed in the middle, for test_parsl_depth.py: parsl_depth.py FOLDER blocks|threads

Both trace into FOLDER/run under one name. `blocks` has a HighThroughputExecutor of two blocks with one worker each; one
of its workers dies, then its interchange, then itself, while a task runs. `threads` dies while a task runs in it.
"""

# ruff: noqa: PTH123, SIM115
import json
import os
import signal
import sys
import time
from pathlib import Path

import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.dataflow.dependency_resolvers import DEEP_DEPENDENCY_RESOLVER
from parsl.executors import ThreadPoolExecutor

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.parsl_program import local_pool
from tailrace.parsl import stage, trace


@stage("meet")
@python_app
def rendezvous(folder, name, other, parsl_resource_specification=None):
    """Ends when the other one runs, too."""
    import os
    import time
    from pathlib import Path, PurePosixPath

    with open(f"{folder}/{name}", "w") as file:
        file.write(os.environ["PARSL_WORKER_BLOCK_ID"])
    while not Path(f"{folder}/{other}").exists():
        time.sleep(0.01)
    return PurePosixPath(f"{folder}/{name}")


@bash_app
@stage("gather")
def concatenate(folder, names, tuples, table, password, outputs=()):
    return f"cd {folder} && cat {names[0]} {tuples[0][0]} {table['left'].name} > {outputs[0]}"


@python_app
def die(path):
    import os
    import signal

    with open(path, "w") as file:
        file.write("last words")
    os.kill(os.getpid(), signal.SIGKILL)


@stage("hold")
@python_app
def read_and_hold(path, inputs=()):
    import time

    with open(inputs[0].filepath) as file, open(path, "w") as out:
        out.write(file.read())
    time.sleep(3600)


@python_app
def write(path, outputs=()):
    with open(path, "w") as file:
        file.write("written")


@python_app
def never(before):
    return before


def wait_for(condition):
    while not condition():
        time.sleep(0.02)


def has_content(path):
    return Path(path).exists() and Path(path).stat().st_size > 0


def is_launched(folder, workflow, task):
    for path in Path(folder, "run", "declared").glob("*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            if (line["workflow"], line.get("task")) == (workflow, str(task)) and "t_launch_ns" in line:
                return True
    return False


def blocks(folder):
    pool = parsl.dfk().executors["pool"]
    left = rendezvous(folder, "left", "right", parsl_resource_specification={"priority": 1})
    right = rendezvous(folder, "right", "left", parsl_resource_specification={"priority": 1})
    names, parts = [left.name], ((right.parts[-1],),)
    both = concatenate(folder, names, parts, {"left": left}, "hunter2", outputs=[File(f"{folder}/both")])
    both.result()
    die(f"{folder}/died").exception()
    held = read_and_hold(f"{folder}/held", inputs=[both.outputs[0]])
    never(held)
    wait_for(lambda: has_content(f"{folder}/held"))
    os.kill(pool.interchange_proc.pid, signal.SIGKILL)
    pool.interchange_proc.wait()
    write(f"{folder}/late")
    wait_for(lambda: is_launched(folder, "depth", 9))


def threads(folder):
    written = write(f"{folder}/written", outputs=[File(f"{folder}/written")])
    read_and_hold(f"{folder}/kept", inputs=[written.outputs[0]])
    wait_for(lambda: has_content(f"{folder}/kept") and is_launched(folder, "depth-2", 1))


def executor(case):
    if case == "threads":
        return ThreadPoolExecutor(label="pool", max_threads=2)
    return local_pool(workers=1, blocks=2, threshold=600)


def main():
    folder, case = sys.argv[1:]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    config = Config(
        executors=[executor(case)],
        run_dir=f"{folder}/runinfo-{case}",
        strategy="none",
        dependency_resolver=DEEP_DEPENDENCY_RESOLVER,
    )
    parsl.load(trace(config, run_dir=f"{folder}/run", workflow="depth"))
    globals()[case](folder)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
