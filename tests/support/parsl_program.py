"""A Parsl program with every kind of app, for test_parsl.py: python parsl_program.py EXECUTOR FOLDER CASE.

Each case is a function below; it prints one JSON value. The trace goes to FOLDER/run, Parsl's own files to
FOLDER/runinfo. The apps are defined in __main__ and use plain open(), as in a user's script.
"""

# ruff: noqa: PTH123, SIM115
import json
import os
import sys
import time
from concurrent.futures import wait
from pathlib import Path

import parsl
from parsl import bash_app, join_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import FluxExecutor, HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider

from tailrace.parsl import trace


@python_app
def write_by_python(text, outputs=(), parsl_resource_specification={}):  # noqa: B006 (Parsl takes the default)
    import os

    with open(outputs[0].filepath, "w") as file:
        file.write(text)
    return os.getpid()


@bash_app
def copy_by_bash(inputs=(), outputs=(), stdout=None, stderr=None):
    return f"cat {inputs[0]} | tr a-z A-Z > {outputs[0]}.tmp && mv {outputs[0]}.tmp {outputs[0]}; echo told"


@python_app
def start_programs(inputs=(), outputs=()):
    """Every way in which Python code starts programs; each appends its name."""
    import os
    import subprocess
    import threading

    target = outputs[0].filepath
    subprocess.run(["sh", "-c", f"echo run >> {target}"], check=True)
    os.system(f"echo system >> {target}")
    with os.popen(f"echo popen >> {target}") as pipe:
        pipe.read()
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo spawn >> {target}"], os.environ)
    os.waitpid(pid, 0)
    thread = threading.Thread(target=lambda: open(target, "a").write("thread\n"))
    thread.start()
    thread.join()
    return sorted(open(target).read().split())


@join_app
def fan_out(number, folder):
    with open(f"{folder}/join.txt", "w") as file:
        file.write("joining")
    return [write_by_python(f"part {part}", outputs=[File(f"{folder}/part{part}")]) for part in range(number)]


@python_app
def fail(path):
    with open(path, "a") as file:
        file.write("tried\n")
    raise ValueError("on purpose")


@python_app
def fail_once(path):
    with open(path, "a") as file:
        file.write("tried\n")
    if len(open(path).read().split()) < 2:
        raise ValueError("not yet")
    return "at last"


@python_app(cache=True)
def memoized(path):
    with open(path, "a") as file:
        file.write("computed\n")
    return 17


@python_app
def depend(value, inputs=()):
    return value


@python_app
def write_and_die(path):
    import os
    import signal

    with open(path, "w") as file:
        file.write("last words")
    os.kill(os.getpid(), signal.SIGKILL)


@python_app
def write_and_wait(path, seconds):
    import time

    with open(path, "w") as file:
        file.write("last words")
    time.sleep(seconds)


@bash_app
def die_in_bash(path):
    return f"echo part > {path}; kill -9 $$"


@bash_app
def exit_in_bash(path, stderr=None):
    return f"echo part > {path}; echo no space left >&2; exit 3"


@python_app
def outlast(path, walltime=1):
    import time

    with open(path, "w") as file:
        file.write("begun")
    for _ in range(600):
        time.sleep(0.1)


@python_app
def keyword_argument(**kwargs):
    return sorted(kwargs)


def every_kind(folder):
    asked = {"num_tasks": 1, "cores_per_task": 1} if "FluxExecutor" in parsl.dfk().executors else {}
    a = write_by_python("hello", outputs=[File(f"{folder}/a")], parsl_resource_specification=asked)
    b = copy_by_bash(inputs=[a.outputs[0]], outputs=[File(f"{folder}/b")], stdout=f"{folder}/b.out")
    c = start_programs(inputs=[b.outputs[0]], outputs=[File(f"{folder}/c")])
    d = depend(a, inputs=[c.outputs[0]])
    return {"c": c.result(), "d": d.result() > 0, "b": Path(folder, "b").read_text(), "b_code": b.result()}


def many(folder):
    tasks = [write_by_python(str(number), outputs=[File(f"{folder}/many{number}")]) for number in range(40)]
    return len({task.result() for task in tasks})


def join(folder):
    return len(fan_out(3, folder).result())


def failing(folder):
    first = fail(f"{folder}/failed")
    second = depend(first)
    wait([first, second])
    return [type(first.exception()).__name__, type(second.exception()).__name__]


def retried(folder):
    return fail_once(f"{folder}/retried").result()


def every_end(folder):
    """Every way in which a task ends; of the retries each task has one."""
    failed = fail(f"{folder}/failed")
    behind = depend(failed)
    tasks = [failed, behind, depend(behind), fail_once(f"{folder}/retried"), exit_in_bash(f"{folder}/exited")]
    tasks += [die_in_bash(f"{folder}/killed"), outlast(f"{folder}/outlasted")]
    memo(folder)
    wait(tasks)
    # A pool of processes ends it, however long that takes; one of threads waits for its end.
    threads = isinstance(parsl.dfk().executors["pool"], ThreadPoolExecutor)
    write_and_wait(f"{folder}/given_up", 2 if threads else 600)
    while not Path(folder, "given_up").exists():
        time.sleep(0.01)
    return [type(task.exception()).__name__ for task in tasks]


def memo(folder):
    return [memoized(f"{folder}/memo").result(), memoized(f"{folder}/memo").result()]


def killed(folder):
    future = write_and_die(f"{folder}/killed")
    wait([future])
    return type(future.exception()).__name__


def unfinished(folder):
    write_and_wait(f"{folder}/unfinished", 600)
    while not Path(folder, "unfinished").exists() or not Path(folder, "unfinished").read_text():
        time.sleep(0.01)
    return "left"


def vanishing(folder):
    """The run directory goes away under the workflow."""
    import shutil

    before = write_by_python("x", outputs=[File(f"{folder}/before")]).result()
    shutil.rmtree(f"{folder}/run")
    after = write_by_python("x", outputs=[File(f"{folder}/after")]).result()
    return [before > 0, after > 0]


def keywords(folder):
    return keyword_argument(b=1, a=2).result()


def local_pool(workers, blocks=1, threshold=60):
    """A HighThroughputExecutor of `blocks` blocks on this machine with so many workers each."""
    return HighThroughputExecutor(
        label="pool",
        address="127.0.0.1",
        encrypted=False,
        max_workers_per_node=workers,
        cores_per_worker=1e-6,
        heartbeat_period=1,  # a dead worker is found after it
        heartbeat_threshold=threshold,
        provider=LocalProvider(init_blocks=blocks, max_blocks=blocks),
    )


def configuration(executor, folder, retries):
    if executor == "threads":
        executors = [ThreadPoolExecutor(label="pool", max_threads=4)]
    elif executor == "flux":
        executors = [FluxExecutor(working_dir=f"{folder}/flux", provider=LocalProvider())]
    else:
        executors = [local_pool(workers=2)]
    return Config(
        executors=executors, run_dir=f"{folder}/runinfo", strategy="none", strategy_period=0.2, retries=retries
    )


def main():
    executor, folder, case = sys.argv[1:4]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    config = configuration(executor, folder, retries=1 if case in ("retried", "every_end") else 0)
    stages = {"write_by_python": "writing"}
    with parsl.load(trace(config, run_dir=f"{folder}/run", workflow="kinds", tags={"campaign": "c 1"}, stage=stages)):
        print(json.dumps(globals()[case](folder)))


if __name__ == "__main__":
    main()
