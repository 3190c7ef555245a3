"""A Parsl program that orders its tasks by waiting, or doesn't: python parsl_waits.py EXECUTOR FOLDER.

Each function below is a case. It submits `make`, then `use`, which reads by a plain string what `make` wrote; the
stages are "make CASE" and "use CASE". All cases run one after the other in one run, so that a wait of one case must not
count for another one that has none.
"""

# ruff: noqa: PTH123, SIM115
import os
import sys
import threading
import time
from concurrent.futures import as_completed, wait
from contextlib import suppress
from pathlib import Path

import parsl
from parsl import join_app, python_app
from parsl.data_provider.files import File

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.parsl_program import configuration
from tailrace.parsl import trace


@python_app
def make(path, case, seconds=0.0, outputs=()):
    import time

    with open(path, "w") as file:
        file.write("made")
    time.sleep(seconds)


@python_app
def use(path, case):
    import time

    while True:
        try:
            with open(path) as file:
                return file.read()
        except FileNotFoundError:
            time.sleep(0.01)


def is_over(future):
    """Whether a task is over, by the file that tells: no wait for its future."""
    while not future.done():
        time.sleep(0.05)
    return True


def takes_the_result(path, case):
    make(path, case).result()
    return use(path, case)


def takes_the_exception(path, case):
    assert make(path, case).exception() is None
    return use(path, case)


def waits_for_a_file(path, case):
    make(path, case, outputs=[File(path)]).outputs[0].result()
    return use(path, case)


def waits(path, case):
    wait([make(path, case)])
    return use(path, case)


def waits_for_what_is_over(path, case):
    made = make(path, case)
    is_over(made)
    wait([made])
    return use(path, case)


def as_they_complete(path, case):
    used = [use(path, case) for _ in as_completed([make(path, case)])]
    return used[0]


def waits_for_all(path, case):
    make(path, case)
    parsl.dfk().wait_for_current_tasks()
    return use(path, case)


def submits_others_between(path, case):
    make(path, case).result()
    for number in range(3):
        make(f"{path}.{number}", "other")
    return use(path, case)


def calls_back(path, case):
    used, done = [], threading.Event()

    def submit(_):
        used.append(use(path, case))
        done.set()

    make(path, case).add_done_callback(submit)
    assert done.wait(60)
    return used[0]


@join_app
def join(path, case):
    made = make(path, case)
    made.result()
    return use(path, case)


def joins(path, case):
    return join(path, case)


def sleep_past(future):
    """Sleeps for longer than the task takes, whatever this machine is doing: no wait either."""
    while future.task_status() != "exec_done":
        time.sleep(0.05)
    time.sleep(0.2)


def submits_slowly(path, case):
    sleep_past(make(path, case))
    return use(path, case)


def polls(path, case):
    is_over(make(path, case))
    return use(path, case)


def gives_up_waiting(path, case):
    made = make(path, case, seconds=1.0)
    with suppress(TimeoutError):
        made.result(timeout=0.05)
    sleep_past(made)
    return use(path, case)


def waits_in_another_thread(path, case):
    thread = threading.Thread(target=make(path, case).result)
    thread.start()
    thread.join()
    return use(path, case)


def overlaps(path, case):
    make(path, case, seconds=1.0)
    return use(path, case)


AWAITED = (
    takes_the_result,
    takes_the_exception,
    waits_for_a_file,
    waits,
    waits_for_what_is_over,
    as_they_complete,
    waits_for_all,
    submits_others_between,
    calls_back,
    joins,
)
IN_TIME = (submits_slowly, polls, gives_up_waiting, waits_in_another_thread)
RACES = (overlaps,)


def main():
    executor, folder = sys.argv[1:]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    config = configuration(executor, folder, retries=0)

    def stage(record):
        return f"{record['func_name']} {record['args'][1]}"

    with parsl.load(trace(config, run_dir=f"{folder}/run", workflow="waits", stage=stage)):
        # Those without a wait first: a wait for all tasks counts for what follows it.
        for case in (*IN_TIME, *RACES, *AWAITED):
            used = case(f"{folder}/{case.__name__}", case.__name__)
            if case in AWAITED or case in RACES:
                used.exception()


if __name__ == "__main__":
    main()
