"""The command lines that Parsl's executors make of tasks: what the plugin adds, and what the worker runs.

Work Queue and TaskVine need not be there: their executors are made without `__init__`, which imports them.
"""

import inspect
import os
import pickle
import subprocess
from importlib import import_module

import pytest

pytest.importorskip("parsl", reason="the plugin needs Parsl: pip install 'tailrace[parsl]'")

from parsl import python_app
from parsl.executors import ThreadPoolExecutor, WorkQueueExecutor
from parsl.executors.taskvine import TaskVineExecutor, TaskVineFactoryConfig, TaskVineManagerConfig
from parsl.executors.workqueue import exec_parsl_function
from parsl.providers import CondorProvider, LocalProvider

from tailrace.parsl import call, executors, task_commands

COMMAND = "{package_prefix}python3 exec_parsl_function.py {mapping} {function} {result}"
SETTINGS = {"TAILRACE_RUN": "/a {b}/c'd", "TAILRACE_TAGS": "workflow=w"}


def work_queue(**attributes):
    executor = WorkQueueExecutor.__new__(WorkQueueExecutor)
    usual = {"label": "wq", "launch_cmd": COMMAND, "worker_executable": "work_queue_worker", "source": False}
    vars(executor).update({**usual, "_provider": LocalProvider(), **attributes})
    return executor


def taskvine(**attributes):
    executor = TaskVineExecutor.__new__(TaskVineExecutor)
    usual = {"manager_config": TaskVineManagerConfig(), "factory_config": TaskVineFactoryConfig()}
    vars(executor).update({"label": "vine", **usual, "_provider": LocalProvider(), **attributes})
    return executor


def run_in_shell(command, **environ):
    """What the command's program sees of the variables."""
    done = subprocess.run(
        ["sh", "-c", command], env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True, check=True
    )
    names = (*SETTINGS, "LD_PRELOAD", "USERS")
    return {key: value for key, _, value in (line.partition("=") for line in done.stdout.splitlines()) if key in names}


def formatted(executor):
    """The command of a task, whose program prints its environment."""
    parts = {"mapping": "map", "function": "function", "result": "result", "package_prefix": ""}
    command = executor.launch_cmd.format(**parts)
    assert command.endswith("python3 exec_parsl_function.py map function result")
    return command.replace("python3 exec_parsl_function.py map function result", "env")


def test_a_work_queue_task_starts_with_the_settings_and_the_library():
    executor = work_queue(launch_cmd="USERS=own; export USERS; " + COMMAND)
    executors.prepare_workers(executor, SETTINGS, "/lib o.so")
    seen = run_in_shell(formatted(executor), LD_PRELOAD="")
    assert seen == {**SETTINGS, "LD_PRELOAD": "/lib o.so", "USERS": "own"}
    executors.prepare_workers(executor, SETTINGS, "/second.so")
    assert executor.launch_cmd.count("LD_PRELOAD=") == 1 and "/second.so" in executor.launch_cmd


def test_libraries_that_the_worker_preloads_follow():
    executor = work_queue()
    executors.prepare_workers(executor, SETTINGS, "/lib.so")
    assert run_in_shell(formatted(executor), LD_PRELOAD="/theirs.so")["LD_PRELOAD"] == "/lib.so:/theirs.so"


def test_workers_that_parsl_starts_run_in_a_pool():
    executor = work_queue(worker_executable="apptainer exec x.sif work_queue_worker")
    executors.prepare_workers(executor, SETTINGS, "/lib.so")
    assert executor.worker_executable.endswith("-- apptainer exec x.sif work_queue_worker")
    assert "tailrace.integrations.pool" in executor.worker_executable
    condor = work_queue(_provider=CondorProvider())
    executors.prepare_workers(condor, SETTINGS, "/lib.so")
    assert condor.worker_executable == "work_queue_worker", "Parsl puts ./ before it"


@pytest.mark.parametrize("launch", ["provider", "factory", "manual"])
def test_a_taskvine_task_starts_with_the_settings_and_shared_defaults_stay(launch):
    before = TaskVineManagerConfig(init_command="USERS=own; export USERS;"), TaskVineFactoryConfig()
    executor = taskvine(manager_config=before[0], factory_config=before[1], worker_launch_method=launch)
    for library in ("/first.so", "/lib.so"):
        executors.prepare_workers(executor, SETTINGS, library)
    seen = run_in_shell(f"{executor.manager_config.init_command} env")
    assert seen == {**SETTINGS, "LD_PRELOAD": "/lib.so", "USERS": "own"}
    assert before == (TaskVineManagerConfig(init_command="USERS=own; export USERS;"), TaskVineFactoryConfig())
    worker = executor.factory_config.worker_executable
    assert worker.endswith("vine_worker") and ("integrations.pool" in worker) == (launch == "provider")


def test_executors_that_start_tasks_otherwise_are_named():
    assert executors.why_not_tagged(work_queue()) is None
    assert executors.why_not_tagged(taskvine()) is None
    assert "WorkQueueExecutor" in executors.why_not_tagged(work_queue(launch_cmd="python4 x.py"))

    class Other(ThreadPoolExecutor.__mro__[1]):
        label = "other"

        def submit(self, func, resource_specification, *args, **kwargs):
            return func, kwargs

        def shutdown(self):
            pass

    executor, handoff = Other(), executors.Handoff()
    assert "Other" in executors.why_not_tagged(executor)
    handoff.give("stage=s", None)
    executors.shadow_submit(executor, handoff)
    assert executor.submit(run_in_shell, {}) == (run_in_shell, {})


def test_parsl_makes_command_lines_as_the_plugin_knows():
    """A Parsl in which this fails runs these executors' tasks untraced: change task_commands.py."""
    assert f'"{COMMAND}"' in inspect.getsource(WorkQueueExecutor.__init__)
    assert "parsl_fn_kwargs" in inspect.signature(WorkQueueExecutor._serialize_function).parameters
    assert "{init_cmd} " in inspect.getsource(import_module("parsl.executors.taskvine.manager"))


@python_app
def told(value, more=0):
    from tailrace.parsl import call

    return value + more, call.context.entered is not None


def serialized(tmp_path, **kwargs):
    executor = work_queue(source=True)
    executors.prepare_workers(executor, SETTINGS, "/lib.so")
    executor._serialize_function(str(tmp_path / "function"), told.func, (2,), kwargs)
    (tmp_path / "map").write_bytes(pickle.dumps({}))
    return pickle.loads((tmp_path / "function").read_bytes())


@pytest.mark.parametrize("tags", [{}, {call.TAGS_KEYWORD: "stage=s,task=1"}])
def test_a_function_that_is_sent_as_text_runs_under_its_tags(tmp_path, tags):
    info = serialized(tmp_path, more=3, **tags)
    assert (info["name"], "source code" in info) == ("_tailrace_scope" if tags else "told", True)
    loaded = exec_parsl_function.load_function(str(tmp_path / "map"), str(tmp_path / "function"))
    assert exec_parsl_function.execute_function(*loaded) == (5, True)


def test_a_function_that_is_sent_as_text_runs_where_tailrace_is_missing(tmp_path, monkeypatch):
    serialized(tmp_path, **{call.TAGS_KEYWORD: "stage=s"})
    loaded = exec_parsl_function.load_function(str(tmp_path / "map"), str(tmp_path / "function"))
    monkeypatch.setattr(call, "context", call.context)  # told() itself asks for it
    monkeypatch.setitem(__import__("sys").modules, "tailrace.context", None)
    monkeypatch.delattr("tailrace.context")
    assert exec_parsl_function.execute_function(*loaded) == (2, True)


def test_the_functions_of_an_executor_that_sends_text_stay_themselves():
    executor = work_queue(source=True, submit=lambda func, asked, *args, **kwargs: (func, kwargs))
    handoff = executors.Handoff()
    executors.shadow_submit(executor, handoff)
    handoff.give("stage=s", None)
    assert executor.submit(told.func, {}) == (told.func, {call.TAGS_KEYWORD: "stage=s"})
    assert task_commands.makes_commands(executor)
