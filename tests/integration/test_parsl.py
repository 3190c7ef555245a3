"""The Parsl plugin: one suite over thread pools and HighThroughputExecutor; each case is a program of its own.

support/parsl_program.py has the apps. What is asserted comes from the trace's JSON lines and the files themselves.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")

PROGRAM = Path(__file__).parents[1] / "support" / "parsl_program.py"
WRITES = {"write", "writev", "pwrite64", "pwrite", "fwrite", "rename", "renameat2", "renameat"}


@pytest.fixture(params=["threads", "htex"])
def executor(request):
    return request.param


@pytest.fixture
def run_case(tmp_path, executor, read_trace, declared):
    """Runs a case of the program; returns its result, its trace, its declared lines and its stderr."""

    def run(case, prefix=()):
        command = [*prefix, sys.executable, str(PROGRAM), executor, str(tmp_path), case]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), read_trace(tmp_path / "run"), declared(tmp_path / "run"), done.stderr

    return run


def lines(declared_lines, type_, **keys):
    """The declared lines of a type that have these values."""
    return [
        line for line in declared_lines if line["type"] == type_ and all(line.get(key) == keys[key] for key in keys)
    ]


def tries(declared_lines, **keys):
    """The lines that tell of a try: those of tasks do it of the one that is launched at once."""
    return [line for kind in ("task", "try") for line in lines(declared_lines, kind, **keys) if "t_launch_ns" in line]


def test_every_kind_of_task_has_its_tags_and_so_has_all_it_starts(tmp_path, run_case):
    result, trace, _, stderr = run_case("every_kind")
    assert result == {"c": ["popen", "run", "spawn", "system", "thread"], "d": True, "b": "HELLO", "b_code": 0}
    assert "tailrace" not in stderr
    keys = ("workflow", "stage", "task", "tag.try", "tag.campaign")
    a_writes = trace.of(tmp_path / "a", WRITES)
    assert trace.tags(a_writes, *keys) == {("kinds", "writing", "0", "0", "c 1")}
    # tr wrote it, mv renamed it; cat read what the first task wrote.
    b_made = trace.of(tmp_path / "b.tmp", WRITES)
    assert trace.tags(b_made, *keys) == {("kinds", "copy_by_bash", "1", "0", "c 1")}
    assert sum(event["args"].get("size", 0) for event in b_made) == len("HELLO")
    assert any(event["name"].startswith("rename") for event in b_made)
    a_reads = [event for event in trace.of(tmp_path / "a", {"read"}) if event["args"].get("size")]
    assert trace.tags(a_reads, *keys) == {("kinds", "copy_by_bash", "1", "0", "c 1")}
    c_writes = trace.of(tmp_path / "c", WRITES)
    assert trace.tags(c_writes, *keys) == {("kinds", "start_programs", "2", "0", "c 1")}
    assert sum(event["args"]["size"] for event in c_writes) == (tmp_path / "c").stat().st_size
    assert len({event["pid"] for event in c_writes}) == 5


def test_many_tasks_at_once_stay_apart(tmp_path, run_case):
    result, trace, _, _ = run_case("many")
    assert result in (1, 2)
    for number in range(40):
        writes = trace.of(tmp_path / f"many{number}", WRITES)
        assert sum(event["args"]["size"] for event in writes) == len(str(number))
        assert trace.tags(writes, "stage", "task") == {("writing", str(number))}


def test_events_of_a_worker_between_tasks_are_untagged(tmp_path, run_case):
    _, trace, _, _ = run_case("many")
    own_files = [event for event in trace.events if event["path"] and "/runinfo/" in event["path"]]
    assert own_files
    assert trace.tags(own_files, "task") == {(None,)}


def test_a_join_and_the_tasks_it_submits(tmp_path, run_case):
    result, trace, declared, _ = run_case("join")
    assert result == 3
    assert trace.tags(trace.of(tmp_path / "join.txt", WRITES), "stage", "task") == {("fan_out", "0")}
    for part in range(3):
        assert trace.tags(trace.of(tmp_path / f"part{part}", WRITES), "stage", "task") == {("writing", str(part + 1))}
    (outer,) = lines(declared, "task", kind="join")
    assert (outer["task"], outer["executor"], "parent" in outer) == ("0", "_parsl_internal", False)
    assert [line["task"] for line in lines(declared, "task", parent="0")] == ["1", "2", "3"]
    (end,) = lines(declared, "end", task="0")
    assert (end["status"], end["joins"]) == ("done", ["1", "2", "3"])


def test_a_failing_app_fails_as_it_does_untraced(tmp_path, run_case):
    result, trace, declared, _ = run_case("failing")
    assert result == ["ValueError", "DependencyError"]
    assert trace.tags(trace.of(tmp_path / "failed", WRITES), "stage", "task") == {("fail", "0")}
    (failed,) = lines(declared, "end", task="0")
    assert (failed["status"], failed["tries"], failed["error"]) == ("failed", 1, "ValueError: on purpose")
    (never_run,) = lines(declared, "end", task="1")
    assert (never_run["status"], never_run["tries"]) == ("dep_failed", 0)
    assert tries(declared, task="1") == []
    (task,) = lines(declared, "task", task="1")
    assert task["deps"] == [{"task": "0", "via": "future"}]


def test_each_try_has_its_number(tmp_path, run_case):
    result, trace, declared, _ = run_case("retried")
    assert result == "at last"
    writes = trace.of(tmp_path / "retried", WRITES)
    assert [event["args"]["tag.try"] for event in sorted(writes, key=lambda event: event["ts"])] == ["0", "1"]
    begun, failed, again = tries(declared, task="0")
    assert [line["try"] for line in (begun, failed, again)] == [0, 0, 1]
    assert (failed["status"], failed["error"]) == ("failed", "ValueError: not yet")
    assert begun["t_launch_ns"] == failed["t_launch_ns"] < failed["t_end_ns"] <= again["t_launch_ns"]
    (end,) = lines(declared, "end")
    assert (end["status"], end["tries"]) == ("done", 2)


def test_every_end_of_a_task_is_news(tmp_path, run_case, executor, cli):
    result, *_ = run_case("every_end")
    names = ["ValueError", "DependencyError", "DependencyError", "NoneType", "BashExitFailure", "BashExitFailure"]
    assert result == [*names, "AppTimeout"]
    run = tailrace.open(tmp_path / "run")
    rows = run.outcomes.set_index("task")
    given_up = executor == "htex"  # a thread pool runs to its tasks' ends, also after Parsl has ended
    ends = {row.stage: (row.status, int(row.tries)) for row in run.outcomes.itertuples() if row.stage != "memoized"}
    assert ends == {
        "fail": ("failed", 2),
        "exit_in_bash": ("failed", 2),
        "die_in_bash": ("killed", 2),
        "outlast": ("timeout", 2),
        "write_and_wait": ("canceled" if given_up else "done", 1),
        "depend": ("dep_failed", 0),
        "fail_once": ("retried", 2),
    }
    assert sorted(rows[rows["stage"] == "memoized"]["status"]) == ["done", "memoized"]
    errors = rows.set_index("stage")["error"]
    assert errors["fail"] == "ValueError: on purpose"
    assert errors["die_in_bash"].endswith("signal 9 (SIGKILL)")
    assert errors["exit_in_bash"].endswith("exit code 3")
    assert errors["outlast"].startswith("AppTimeout")
    assert errors["fail_once"] == "ValueError: not yet", "why its first try failed"
    tries = run.declared_tries
    assert tries.loc[tries["task"] == "3", "status"].tolist() == ["failed", None]
    assert set(run.tasks.loc[run.tasks["status"] == "killed", "error"]) == {errors["die_in_bash"]}
    sentence = (
        f"{6 + given_up} of 10 tasks did not succeed: 2 failed, 1 killed, 1 timed out, {'1 canceled, ' * given_up}"
        "2 never ran (a dependency failed)."
        " Of the others: 1 done at a later try, 1 memoized."
    )
    assert run.info()["outcome"].endswith(sentence)
    assert sentence in cli("info", tmp_path / "run").stdout
    report = " ".join(cli("report", tmp_path / "run").stdout.split())
    assert sentence in report
    found = {finding.title: finding for finding in run.findings() if finding.about == "failure"}
    first = next(iter(found))
    assert first == (
        "fail 0 failed in each of 2 tries: ValueError: on purpose; 2 tasks never ran for it; last files:"
        f" {tmp_path}/failed"
    )
    assert any(
        title.startswith("die_in_bash 5 was killed in each of 2 tries") and title.endswith(f"{tmp_path}/killed")
        for title in found
    )
    shown = cli(*shlex.split(found[first].query)[1:])
    assert (shown.returncode, str(tmp_path / "failed") in shown.stdout) == (0, True), shown.stderr


def test_a_memoized_task_is_declared_and_not_run(tmp_path, run_case):
    result, trace, declared, _ = run_case("memo")
    assert result == [17, 17]
    assert len(trace.of(tmp_path / "memo", WRITES)) == 1
    assert [line["status"] for line in lines(declared, "end")] == ["done", "memoized"]
    assert [line["task"] for line in tries(declared)] == ["0"]


def test_an_app_gets_only_its_own_keywords(run_case):
    result, _, _, _ = run_case("keywords")
    assert result == ["a", "b"]


def test_the_declared_dag_is_the_programs(tmp_path, run_case, executor):
    _, _, declared, _ = run_case("every_kind")
    (workflow,) = lines(declared, "workflow")
    assert (workflow["workflow"], workflow["manager"]) == ("kinds", "parsl")
    tasks = {line["task"]: line for line in lines(declared, "task")}
    assert {task: (line["stage"], line["name"], line["kind"]) for task, line in tasks.items()} == {
        "0": ("writing", "write_by_python", "python"),
        "1": ("copy_by_bash", "copy_by_bash", "bash"),
        "2": ("start_programs", "start_programs", "python"),
        "3": ("depend", "depend", "python"),
    }
    assert {line["executor"] for line in tasks.values()} == {"pool"}
    folder = os.path.realpath(tmp_path)
    assert tasks["1"]["deps"] == [{"task": "0", "via": "file", "path": f"{folder}/a"}]
    assert [file["path"] for file in tasks["1"]["inputs"]] == [f"{folder}/a"]
    assert [file["path"] for file in tasks["1"]["outputs"]] == [f"{folder}/b", f"{folder}/b.out"]
    assert sorted(dep["via"] for dep in tasks["3"]["deps"]) == ["file", "future"]
    for task, line in tasks.items():
        (try_,) = tries(declared, task=task)
        (end,) = lines(declared, "end", task=task)
        assert line["t_submit_ns"] <= try_["t_launch_ns"] <= end["t_end_ns"]
        assert end["status"] == "done"


def test_the_tasks_times_enclose_their_events(tmp_path, run_case):
    _, trace, declared, _ = run_case("every_kind")
    for task in ("0", "1", "2"):  # the fourth does no I/O
        (line,) = tries(declared, task=task)
        (end,) = lines(declared, "end", task=task)
        starts = [
            event["ts"] * 1000 + event["args"]["ns"] for event in trace.events if event["args"].get("task") == task
        ]
        slack_ns = 2_000_000  # Parsl's clock is read in another process; its times have microseconds
        assert line["t_launch_ns"] - slack_ns <= min(starts)
        assert max(starts) <= end["t_end_ns"] + slack_ns


@pytest.mark.parametrize("executor", ["htex"], indirect=True)
def test_a_killed_worker_loses_nothing(tmp_path, run_case):
    result, trace, declared, _ = run_case("killed")
    assert result == "WorkerLost"
    writes = trace.of(tmp_path / "killed", WRITES)
    assert [event["args"]["size"] for event in writes] == [len("last words")]
    assert trace.tags(writes, "stage", "task") == {("write_and_die", "0")}
    (end,) = lines(declared, "end")
    assert end["status"] == "killed"


@pytest.mark.parametrize("executor", ["htex"], indirect=True)
def test_tasks_running_when_the_pool_ends_lose_nothing(tmp_path, run_case):
    result, trace, _, _ = run_case("unfinished")
    assert result == "left"
    writes = trace.of(tmp_path / "unfinished", WRITES)
    assert trace.tags(writes, "stage", "task") == {("write_and_wait", "0")}


@pytest.mark.parametrize("executor", ["htex"], indirect=True)
def test_no_journal_is_left_when_the_program_has_ended(tmp_path, run_case, cli):
    run_case("many")
    done = cli("seal", tmp_path / "run")
    assert done.stdout.startswith("0 journals sealed: 0 events"), done.stdout


def test_under_tailrace_run_the_workflow_joins_that_run(tmp_path, run_case, executor, read_trace):
    outer = tmp_path / "outer"
    prefix = [*TAILRACE, "run", "-q", "-o", str(outer)]
    command = [*prefix, sys.executable, str(PROGRAM), executor, str(tmp_path), "every_kind"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "is already traced into" in done.stderr  # the program asked for another directory
    assert not (tmp_path / "run").exists()
    trace = read_trace(outer)
    assert trace.tags(trace.of(tmp_path / "a", WRITES), "workflow", "stage", "task") == {("kinds", "writing", "0")}
    c_writes = trace.of(tmp_path / "c", WRITES)
    assert trace.tags(c_writes, "stage", "task") == {("start_programs", "2")}
    assert sum(event["args"]["size"] for event in c_writes) == (tmp_path / "c").stat().st_size


def test_two_runs_of_a_workflow_in_one_directory_have_two_names(run_case):
    run_case("every_kind")
    _, trace, declared, _ = run_case("every_kind")
    assert {line["workflow"] for line in lines(declared, "workflow")} == {"kinds", "kinds-2"}
    tasks = [event for event in trace.events if event["args"].get("task")]
    assert trace.tags(tasks, "workflow") == {("kinds",), ("kinds-2",)}


def test_a_workflow_continues_after_its_run_directory_is_removed(tmp_path, executor):
    command = [sys.executable, str(PROGRAM), executor, str(tmp_path), "vanishing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "[true, true]\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_workflow_runs_where_tracing_can_not(tmp_path, executor):
    (tmp_path / "run").write_text("a file in the run directory's place")
    command = [sys.executable, str(PROGRAM), executor, str(tmp_path), "keywords"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, '["a", "b"]\n')
    assert done.stderr.count("is not traced") == 1
