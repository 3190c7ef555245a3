"""The Parsl plugin's parts without a running kernel: what travels to workers, what is refused, what is declared."""

import asyncio
import concurrent.futures
import inspect
import pickle
import shlex
from datetime import datetime
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import FunctionType, SimpleNamespace

import pytest

pytest.importorskip("parsl", reason="the plugin needs Parsl: pip install 'tailrace[parsl]'")

import dill
import parsl
from parsl import bash_app, join_app, python_app
from parsl.app.python import timeout
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.data_provider.http import in_task_transfer_wrapper
from parsl.dataflow import memoization
from parsl.dataflow.dflow import DataFlowKernel
from parsl.dataflow.futures import AppFuture
from parsl.dataflow.taskrecord import TaskRecord
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.serialize import serialize

from tailrace.errors import TagError, UsageError
from tailrace.integrations import programs
from tailrace.integrations.workflow import Workflow
from tailrace.parsl import (
    arguments,
    call,
    executors,
    functions,
    memoizer,
    plugin,
    stage,
    stages,
    task_log,
    trace,
    waits,
)


def double(value, **kwargs):
    return 2 * value, kwargs


@pytest.mark.parametrize(
    ("script", "environ", "main", "name"),
    [
        ("/home/ada/flow.py", {}, {}, "flow"),
        ("/home/ada/words/__main__.py", {}, {}, "words"),  # python -m words
        ("/lib/ipykernel_launcher.py", {"JPY_SESSION_NAME": "/home/ada/Spring run.ipynb"}, {}, "Spring run"),
        ("/lib/ipykernel_launcher.py", {}, {"__vsc_ipynb_file__": "/home/ada/fit.ipynb"}, "fit"),
        ("/lib/ipykernel_launcher.py", {}, {}, "study"),
        ("-c", {}, {}, "study"),
        ("", {}, {}, "study"),
    ],
)
def test_a_workflow_is_named_by_its_program_or_notebook_or_directory(script, environ, main, name):
    assert plugin.program_name([script], environ, main, "/home/ada/study") == name
    assert plugin.program_name([], {}, {}, "") == "parsl"


def test_a_traced_call_is_the_function():
    traced = call.traced_call(double)
    assert traced(4, a=1, **{call.TAGS_KEYWORD: "stage=x"}) == (8, {"a": 1})
    assert traced(4) == (8, {})
    assert traced.__name__ == "double"


@pytest.mark.parametrize("module", [pickle, dill])
def test_a_traced_call_travels_and_stays_equal(module):
    traced = call.TracedCall(double)
    arrived = module.loads(module.dumps(traced))
    assert arrived == traced
    assert hash(arrived) == hash(traced)
    assert arrived(4) == (8, {})


def test_parsls_cache_of_pickled_functions_still_works():
    first = serialize(call.TracedCall(double))
    assert serialize(call.TracedCall(double)) is not None
    from parsl.serialize.concretes import DillCallableSerializer

    before = DillCallableSerializer.serialize.cache_info().hits
    assert serialize(call.TracedCall(double)) == first
    assert DillCallableSerializer.serialize.cache_info().hits == before + 1


def test_one_function_has_one_traced_call():
    assert call.traced_call(double) is call.traced_call(double)


def test_a_function_that_can_not_be_hashed_is_called_too():
    class Unhashable:
        __hash__ = None

        def __call__(self, value):
            return value

    assert call.traced_call(Unhashable())(3) == 3


def test_the_pool_command_is_unchanged_by_both_formattings():
    launch_cmd = "process_worker_pool.py {debug} --block_id={{block_id}}"
    settings = {"TAILRACE_RUN": "/a {b}/c'd", "TAILRACE_TAGS": "workflow=w"}
    formatted = executors.pool_command(launch_cmd, settings).format(debug="-d").format(block_id=7)
    words = shlex.split(formatted)
    assert words[1:] == [
        *programs.module_command("tailrace.integrations.pool")[1:],
        "TAILRACE_RUN=/a {b}/c'd",
        "TAILRACE_TAGS=workflow=w",
        "--",
        "process_worker_pool.py",
        "-d",
        "--block_id=7",
    ]


def test_a_launch_command_in_shell_syntax_stays_one_command():
    command = executors.pool_command("cd /tmp && process_worker_pool.py --port={worker_port}", {"TAILRACE_RUN": "/r"})
    assert shlex.split(command.format(worker_port=1))[-3:] == [
        "/bin/bash",
        "-c",
        "cd /tmp && process_worker_pool.py --port=1",
    ]


def test_tracing_twice_wraps_the_launch_command_once(tmp_path):
    executor = HighThroughputExecutor(address="127.0.0.1")
    for number in (1, 2):
        executors.prepare_workers(executor, {"TAILRACE_RUN": f"/r{number}"}, "/lib.so")
    assert executor.launch_cmd.count("tailrace.integrations.pool") == 1
    assert "TAILRACE_RUN=/r2" in executor.launch_cmd


@pytest.mark.parametrize("tags", [{"task": "7"}, {"stage": "s"}, {"Campaign": "c"}, {"campaign": ""}])
def test_wrong_tags_are_refused_before_anything_starts(tmp_path, tags):
    with pytest.raises(TagError):
        trace(Config(executors=[ThreadPoolExecutor()]), run_dir=tmp_path / "run", tags=tags)
    assert list(tmp_path.iterdir()) == []


def test_detail_reaches_workers_and_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILRACE_DETAIL", "full")  # so that it is undone
    monkeypatch.delenv("TAILRACE_DETAIL")
    monkeypatch.setattr(plugin.environment, "attach", lambda directory: None)
    executor = HighThroughputExecutor()
    with pytest.raises(UsageError, match="give full, totals, auto or auto:BYTES"):
        trace(Config(executors=[executor]), run_dir=tmp_path / "run", detail="sampled")
    assert "TAILRACE_DETAIL" not in plugin.os.environ
    trace(Config(executors=[executor]), run_dir=tmp_path / "run", detail="auto:16M")
    assert "TAILRACE_DETAIL=auto:16M" in executor.launch_cmd


def test_without_a_usable_directory_the_configuration_comes_back_as_it_was(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    config = Config(executors=[ThreadPoolExecutor()])
    assert trace(config, run_dir=tmp_path / "file" / "run") is config
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_parsls_times_keep_their_microseconds():
    moment = datetime(2026, 11, 20, 10, 0, 0, 123457)
    assert task_log.to_ns(moment) % 10**9 == 123_457_000
    assert task_log.to_ns(moment) // 10**9 == int(moment.timestamp())
    assert task_log.to_ns(None) is None


def test_files_are_found_at_any_place_in_arguments(tmp_path):
    record = {
        "depends": [],
        "args": [File("/d/a"), [File("/d/b")]],
        "kwargs": {"inputs": [File("/d/c"), File("/d/c")], "table": {"x": File("/d/e")}, "outputs": [File("/d/o")]},
    }
    assert [file.path for file in task_log._inputs(record)] == ["/d/a", "/d/b", "/d/c", "/d/e"]
    assert [file.path for file in task_log._outputs(record, "python")] == ["/d/o"]


@pytest.mark.parametrize("stream", ["/d/log", ("/d/log", "a"), File("/d/log")])
def test_the_streams_of_a_bash_app_are_outputs(stream):
    record = {"args": [], "kwargs": {"stdout": stream}}
    assert [file.path for file in task_log._outputs(record, "bash")] == ["/d/log"]


def test_a_partial_is_no_bash_app():
    assert not functions.described(partial(double, 1)).is_bash


def test_futures_of_an_untraced_or_broken_kernel_are_as_before():
    waits.install()
    for record in ({"id": 7}, {"id": 7, "dfk": None}):  # no kernel; one that can't be looked up
        future, called = AppFuture(record), []
        future.add_done_callback(called.append)
        with pytest.raises(TimeoutError):
            future.result(timeout=0)
        future.set_result("made")
        assert (future.result(), future.exception(), called) == ("made", None, [future])
        assert concurrent.futures.wait([future]).done == {future}
        assert list(concurrent.futures.as_completed([future])) == [future]


def test_installing_twice_replaces_once():
    waits.install()
    before = AppFuture.result, concurrent.futures.wait
    waits.install()
    assert (AppFuture.result, concurrent.futures.wait) == before


def test_what_is_waited_for_is_written_once_and_holds_for_what_follows():
    lines = waits.Waits()
    first = lines.submission()
    assert (first.awaited, first.after) == ([], None)
    lines.saw(1)
    lines.saw(2)
    second = lines.submission()
    assert (second.awaited, second.after) == ([1, 2], None)
    second.is_of(3)
    lines.saw(1)
    third = lines.submission()
    assert (third.awaited, third.after) == ([], "3")
    with lines.separately([9]):
        assert (lines.submission().awaited, lines.submission().after) == ([9], None)
    assert lines.submission().after == "3"


def test_an_asyncio_task_is_a_line_of_its_own():
    lines, seen = waits.Waits(), {}

    async def one():
        lines.saw(1)
        await asyncio.sleep(0)
        seen["one"] = lines.submission().awaited

    async def two():
        await asyncio.sleep(0)
        seen["two"] = lines.submission().awaited

    async def both():
        await asyncio.gather(one(), two())

    asyncio.run(both())
    assert seen == {"one": [1], "two": []}


def plain(reads, *rest, password=None):
    return reads


def shell(reads, inputs=()):
    return "true"


def staged(app):
    """The function of the app's tasks, as Parsl submits it, and behind its in-task staging."""
    submitted = getattr(app, "wrapped_remote_function", app.func)
    return submitted, in_task_transfer_wrapper(submitted, File("http://host/file"), None)


@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
@pytest.mark.parametrize("decorator", [python_app, bash_app, join_app])
def test_a_stage_is_named_above_and_below_the_apps_decorator(decorator, above):
    function = FunctionType(shell.__code__, globals(), "shell", shell.__defaults__)
    app = stage("align")(decorator(function)) if above else decorator(stage("align")(function))
    for submitted in staged(app):
        assert stages.declared_stage(submitted) == "align"
        assert stages.declared_stage(timeout(submitted, 1)) == "align"
        assert functions.users_own(submitted) is function
        assert functions.described(submitted).is_bash == (decorator is bash_app)
    assert stages.declared_stage(staged(decorator(shell))[0]) is None, "of another app"


def test_two_apps_of_one_function_have_their_stages():
    apps = [stage(name)(bash_app(shell)) for name in ("first", "second")]
    assert [stages.declared_stage(staged(app)[0]) for app in apps] == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "on", "error"), [("", shell, TagError), (shell, shell, TagError), ("a", 3, UsageError)]
)
def test_what_is_no_stage_is_refused(name, on, error):
    with pytest.raises(error, match="stage"):
        stage(name)(on)


def told(*args, **kwargs):
    mode = arguments.mode_here()
    return mode and arguments.of_task({"func": python_app(plain).func, "args": args, "kwargs": kwargs}, mode)


class Careless:
    def __repr__(self):
        raise AssertionError("code of the user ran")


def test_arguments_are_told_by_name_and_bounded():
    found = told("r", 2, 2.5, key={"a": [1, [2, [3, [4]]]]}, big=10**5000, long="x" * 9**6, inputs=[1], stdout="s")
    assert found == {
        "reads": "'r'",
        "rest[0]": "2",
        "rest[1]": "2.5",
        "key": "{'a': [1, [2, [...]]]}",
        "big": "<int of 16610 bits>",
        "long": "'" + "x" * 96 + "...",
    }
    assert told(Careless(), [Careless] * 7)["reads"] == f"<{__name__}.Careless>"
    many = told(*range(30))
    assert (len(many), many["..."]) == (21, "10 more")


def test_arguments_have_no_secrets(monkeypatch):
    token = "ghp_" + "a" * 30
    found = told(
        {"password": "hunter2"}, ["run", "--token", "S3"], "https://me:pw@host/", "x" * 60 + " " + token, password="p"
    )
    assert found["reads"] == "{'password': '[redacted]'}"
    assert found["rest[0]"] == "['run', '--token', '[redacted]']"
    assert found["rest[1]"] == "'https://me:[redacted]@host/'"
    assert token[:20] not in found["rest[2]"]
    assert found["password"] == "'[redacted]'"
    monkeypatch.setenv(arguments.REDACT, "arguments")
    assert told("r") is None
    monkeypatch.setenv(arguments.REDACT, "none")
    assert told({"password": "hunter2"}) == {"reads": "{'password': 'hunter2'}"}


@pytest.mark.parametrize(
    ("given", "requested"),
    [
        ({}, {}),
        (None, {}),
        ({"priority": 3}, {"priority": 3}),
        (
            {"cores": 2, "memory": 100, "disk": 10, "gpus": "1", "running_time_min": 2},
            {"cores": 2, "memory_bytes": 100 << 20, "disk_bytes": 10 << 20, "gpus": 1, "time_s": 120},
        ),
        (
            {"num_tasks": 4, "cores_per_task": 2, "num_nodes": 2},
            {"cores": 8, "num_tasks": 4, "cores_per_task": 2, "num_nodes": 2},
        ),
        ({"num_nodes": 2, "launcher_options": "-x"}, {"num_nodes": 2, "launcher_options": "-x"}),
    ],
)
def test_a_resource_specification_is_what_the_task_requested(given, requested):
    assert task_log.requested({"resource_specification": given}) == requested


HANDED_OVER = {
    "parsl.config:Config": {"memoizer", "retry_handler", "executors"},
    "parsl.dataflow.memoization:Memoizer.check_memo": {"self", "task"},
    "parsl.dataflow.memoization:Memoizer.update_memo_result": {"self", "task", "r"},
    "parsl.dataflow.memoization:Memoizer.update_memo_exception": {"self", "task", "e"},
    "parsl.dataflow.memoization:Memoizer.start": {"self", "run_dir"},
    "parsl.dataflow.memoization:Memoizer.close": {"self"},
    "parsl.dataflow.memoization:BasicMemoizer": set(),
    "parsl.dataflow.dflow:DataFlowKernel.submit": {"self", "func", "app_args", "app_kwargs", "join"},
    "parsl.dataflow.dflow:DataFlowKernel.cleanup": {"self"},
    "parsl.dataflow.dflow:DataFlowKernel.wait_for_current_tasks": {"self"},
    "parsl.executors.base:ParslExecutor.submit": {"self", "func", "resource_specification", "args", "kwargs"},
    "parsl.executors:HighThroughputExecutor": {"launch_cmd"},
    "parsl.executors.flux.executor:_submit_single_job": {"flux_executor", "working_dir"},
    "parsl.executors:WorkQueueExecutor": {"init_command", "worker_executable", "source"},
    "parsl.executors:WorkQueueExecutor._serialize_function": {
        "fn_path",
        "parsl_fn",
        "parsl_fn_args",
        "parsl_fn_kwargs",
    },
    "parsl.executors.taskvine:TaskVineExecutor": {"worker_launch_method", "manager_config", "factory_config"},
    "parsl.executors.taskvine:TaskVineManagerConfig": {"init_command"},
    "parsl.executors.taskvine:TaskVineFactoryConfig": {"worker_executable"},
    "parsl.app.bash:remote_side_bash_executor": {"func"},
    "parsl.app.app:AppBase": {"func"},
    "parsl.dataflow.futures:AppFuture": {"task_record"},
    "parsl.dataflow.dflow:DataFlowKernel.launch_task": {"self", "task_record"},
}
"""What the adapter calls, replaces or is called by, and the parameters that it needs of it."""
RECORD = {
    *(
        "args",
        "depends",
        "dfk",
        "executor",
        "from_memo",
        "func",
        "func_name",
        "id",
        "join",
        "joins",
        "kwargs",
        "status",
    ),
    *("resource_specification", "time_invoked", "time_returned", "try_id", "try_time_launched", "try_time_returned"),
}


@pytest.mark.parametrize("name", HANDED_OVER)
def test_parsl_has_what_hands_tags_over(name):
    """A Parsl in which this fails runs workflows untagged: change the adapter, and `tested` in tailrace.managers."""
    module, _, path = name.partition(":")
    found = attrgetter(path)(import_module(module))
    assert HANDED_OVER[name] <= set(inspect.signature(found).parameters)


def test_parsls_task_records_have_what_is_declared():
    assert set(TaskRecord.__annotations__) >= RECORD
    launch = inspect.getsource(DataFlowKernel.launch_task)
    assert 0 < launch.index("memoizer.check_memo(") < launch.index("executor.submit("), "on one thread, in this order"


def test_a_parsl_that_lacks_something_runs_workflows_untraced(tmp_path, caplog, monkeypatch):
    monkeypatch.delattr(memoization, "BasicMemoizer")
    executor = HighThroughputExecutor(address="127.0.0.1")
    before = executor.launch_cmd
    config = Config(executors=[executor])
    assert trace(config, run_dir=tmp_path / "run") is config
    assert executor.launch_cmd == before
    assert len(caplog.records) == 1 and f"Parsl is {parsl.__version__}" in caplog.text
    assert "tested with 2025.12.8 to" in caplog.text


@pytest.mark.parametrize("where", [{"run_dir": "/r"}, {"run_dir": "/r", "config_run_dir": "/", "more": "x"}])
def test_a_memoizer_is_started_as_this_parsl_does(where):
    started = []
    inner = SimpleNamespace(start=lambda **given: started.append(given))
    options = {"config": {}, "stage_of": None, "early_stage_of": None, "redaction": None, "on_end": None}
    memoizer.TracingMemoizer(inner, Workflow("parsl", None, "w"), **options).start(**where)
    assert started == [where]
