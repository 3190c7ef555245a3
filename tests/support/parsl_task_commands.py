"""A Parsl program for executors that make a command line of each task: python parsl_task_commands.py KIND.

KIND is threads, work_queue or taskvine. It works in its working directory: the trace goes to ./run. Work Queue and
TaskVine have a second executor, `lost`, whose workers someone else starts: it writes its port to ./port.
"""

# ruff: noqa: PTH123, SIM115
import sys
from importlib.util import find_spec
from pathlib import Path

import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import ThreadPoolExecutor, WorkQueueExecutor
from parsl.executors.taskvine import TaskVineExecutor, TaskVineFactoryConfig, TaskVineManagerConfig
from parsl.providers import LocalProvider

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.work_queue import free_port
from tailrace.parsl import stage, trace


@stage("align")
@python_app(executors=["main"])
def make(size, outputs=(), parsl_resource_specification={}):  # noqa: B006 (Parsl takes the default)
    with open(outputs[0], "w") as file:
        file.write("made\n" * size)
    return size


@bash_app(executors=["main"])
def double(inputs=(), outputs=(), stdout=None, parsl_resource_specification={}):  # noqa: B006 (Parsl takes the default)
    return f"cat {inputs[0]} {inputs[0]} > {outputs[0]}; echo said"


@python_app(executors=["main"])
def gather(inputs=(), outputs=()):
    with open("scratch", "w") as file:
        file.write("in its own directory")
    with open(outputs[0], "w") as file:
        file.writelines(open(one).read() for one in inputs)


@python_app(executors=["main"])
def fail_once(given, mark, told, parsl_resource_specification={}):  # noqa: B006
    with open(mark, "a") as file:
        file.write("x")
    if len(open(mark).read()) == 1:
        raise ValueError("once")
    return len(open(given).read()) + told


@python_app(executors=["main"])
def fail(given, parsl_resource_specification={}):  # noqa: B006
    open(given).read()
    raise RuntimeError("always")


@python_app(executors=["lost"])
def lose(mark, out):
    """Kills its worker with its helpers, goes on for a while, and is run again elsewhere."""
    import os
    import signal
    import time

    with open(mark, "a+") as file:
        file.write("x")
        file.seek(0)
        number = len(file.read())
    with open(f"{out}-{number}", "w") as file:
        file.write(f"attempt {number}")
    if number == 1:
        pid = os.getpid()
        while "_work" not in open(f"/proc/{pid}/comm").read():
            pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        assert os.getpgid(pid) != os.getpgrp()
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        # Its manager sees no end of the connection before this process ends, too, which has inherited it.
        time.sleep(0.5)
        with open(f"{out}-after", "w") as file:
            file.write("goes on")
    return number


@python_app(executors=["source"])
def sent_as_text(given, outputs=()):
    with open(outputs[0], "w") as file:
        file.write(open(given).read())
    return len(given)


# Of the text Parsl drops the line of one decorator, and runs the others, whose names the worker doesn't have.
stage("as text")(sent_as_text)


@stage("served")
@python_app(executors=["serverless"])
def call_in_library(given, out):
    with open(out, "w") as file:
        file.write(open(given).read())
    return len(given)


def has_serverless(kind):
    """TaskVine imports conda_pack for it."""
    return kind == "taskvine" and find_spec("conda_pack") is not None


def executors(kind, port):
    if kind == "threads":
        return [ThreadPoolExecutor(label="main", max_threads=2)]

    def provider(blocks):
        return LocalProvider(init_blocks=blocks, min_blocks=blocks, max_blocks=blocks)

    def work_queue(label, blocks=1, **options):
        return WorkQueueExecutor(
            label=label, address="127.0.0.1", worker_options="-t 60 --cores 2", provider=provider(blocks), **options
        )

    if kind == "work_queue":
        # Twice: what a worker whose connection ends leaves counts as one.
        return [
            work_queue("main", port=0),
            work_queue("source", port=0, source=True),
            work_queue("lost", 0, port=port, max_retries=3),
        ]

    def taskvine(label, port, shared_fs=False, **options):
        manager = TaskVineManagerConfig(
            port=port, address="127.0.0.1", max_retries=3, init_command="true &&", shared_fs=shared_fs
        )
        factory = TaskVineFactoryConfig(worker_options="--cores 2")
        return TaskVineExecutor(label=label, manager_config=manager, factory_config=factory, **options)

    own = {"worker_launch_method": "provider"}
    found = [
        taskvine("main", free_port(), provider=provider(1), **own),
        taskvine("lost", port, worker_launch_method="manual"),
    ]
    if has_serverless(kind):
        mode = {"function_exec_mode": "serverless", "shared_fs": True}
        found.append(taskvine("serverless", free_port(), provider=provider(1), **mode, **own))
    return found


def workflow(kind, folder):
    asked = {} if kind == "threads" else {"parsl_resource_specification": {"cores": 1, "memory": 200, "disk": 100}}
    last = [] if kind == "threads" else [lose(f"{folder}/lost", f"{folder}/out")]
    # "a" is relative: without a shared directory it is copied to the worker and back; "b" is not.
    ends = [File("a"), File(f"{folder}/b")]
    made = [make(1000, outputs=[end], **asked) for end in ends]
    doubled = [
        double(inputs=[one.outputs[0]], outputs=[File(f"{end.filepath}{end.filepath[-1]}")], stdout=out, **asked)
        for one, end, out in zip(made, ends, ("a.out", f"{folder}/b.out"), strict=True)
    ]
    gathered = gather(inputs=[one.outputs[0] for one in doubled], outputs=[File("all")])
    b = f"{folder}/b"
    made[1].result()
    last += [gathered, fail_once(b, f"{folder}/mark", made[0], **asked), fail(b, **asked)]
    if kind == "work_queue":
        last.append(sent_as_text(b, outputs=[File(f"{folder}/text")]))
    if has_serverless(kind):
        last.append(call_in_library(b, f"{folder}/served"))
    for future in last:
        print(future.task_record["func_name"], future.exception() or future.result(), flush=True)


def main(kind):
    port, folder = free_port(), str(Path.cwd())
    config = Config(executors=executors(kind, port), run_dir="runinfo", strategy="none", strategy_period=0.3, retries=1)
    with parsl.load(trace(config, run_dir="run", workflow="w")):
        if kind != "threads":
            Path("port.part").write_text(str(port))
            Path("port.part").rename("port")
        workflow(kind, folder)


if __name__ == "__main__":
    main(sys.argv[1])
