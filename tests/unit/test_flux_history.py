"""A Flux job history as declared lines: what each event, dependency and end becomes, and that collecting adds up."""

from __future__ import annotations

import json
import multiprocessing
import os
import pwd
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tailrace
from tailrace.base import child
from tailrace.errors import ManagerError, UsageError
from tailrace.flux import collect, declared_folder, declared_jobs
from tailrace.integrations import rundir

USER = pwd.getpwuid(os.getuid()).pw_name
T0 = 1_795_181_800.25


def event(name: str, at: float, **context: Any) -> dict[str, Any]:
    return {"name": name, "timestamp": T0 + at, "context": context}


def job(
    name: str = "ƒA", status: int | None = 0, extra: list[dict[str, Any]] | None = None, **keys: Any
) -> dict[str, Any]:
    events = [event("submit", 0, userid=os.getuid()), event("depend", 1), event("alloc", 3), event("start", 3.5)]
    events += [*(extra or []), *([] if status is None else [event("finish", 9, status=status), event("clean", 9.5)])]
    jobspec = {"tasks": [{"command": ["/bin/sim", "-x"]}], "attributes": {"system": {}}}
    exec_events = [event("shell.init", 3.6), event("shell.start", 3.75)]
    return {"id": name, "events": events, "exec_events": exec_events, "jobspec": jobspec, "waits_for": [], **keys}


def instance(*jobs: dict[str, Any], path: str = "/") -> declared_jobs.Instance:
    return declared_jobs.Instance(
        path, {"path": path, "host": "n1", "hosts": "n[1-4]", "version": "0.88.0", "started": T0}, list(jobs)
    )


def lines(*jobs: dict[str, Any], path: str = "/") -> list[dict[str, Any]]:
    groups = declared_jobs.describe(instance(path=path), jobs, "w")
    return [json.loads(line) for group in groups for line in group]


def traced_event(run: Path | str, **tags: str) -> dict[str, Any]:
    return event("tailrace.trace", 0.5, version=1, library="/lib/libtailrace.so", run=str(run), tags=tags)


def ns(at: float) -> int:
    return round((T0 + at) * 1e6) * 1000


def test_a_job_becomes_a_task_with_all_its_times() -> None:
    given = job(
        resources={"nodes": ["n1", "n2"], "ranks": "0-1", "cores": 8, "gpus": 0}, annotations={"user": {"x": 1}}
    )
    workflow, task, end = lines(given)
    assert (workflow["type"], workflow["workflow"], workflow["manager"], workflow["t_ns"]) == (
        "workflow",
        "w",
        "flux",
        ns(0),
    )
    assert (task["task"], task["stage"], task["name"], task["kind"], task["job"]) == ("fA", "sim", "sim", "job", "/ƒA")
    times = [task[f"t_{name}_ns"] for name in ("submit", "depend", "alloc", "start")]
    assert times == [ns(0), ns(1), ns(3), ns(3.75)]
    assert (task["nodes"], task["ranks"], task["cores"], task["annotations"]) == (
        ["n1", "n2"],
        "0-1",
        8,
        {"user": {"x": 1}},
    )
    assert "gpus" not in task and "parent" not in task
    assert (end["t_end_ns"], end["t_clean_ns"], end["status"], end["result"]) == (ns(9), ns(9.5), "done", "COMPLETED")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"host": "n1", "pid": 7, "waits": True}, {"host": "n1", "pid": 7, "waits": True}),
        ({"host": "n1", "pid": 7, "waits": True, "more": 1}, {"host": "n1", "pid": 7, "waits": True}),
        ({"host": "n1", "pid": "7", "waits": True}, None),
        ("n1", None),
        (None, None),
    ],
)
def test_the_submitter_is_what_the_plugin_wrote_into_the_jobspec(written: object, expected: object) -> None:
    given = job()
    given["jobspec"]["attributes"]["user"] = {"tailrace": {"submitter": written}}
    _, task, _ = lines(given)
    assert task.get("submitter") == expected


def test_a_job_whose_shell_left_no_log_began_when_its_shells_ran() -> None:
    assert lines(job(exec_events=[]))[1]["t_start_ns"] == ns(3.5)


def test_a_running_job_has_no_end() -> None:
    assert [line["type"] for line in lines(job(status=None))] == ["workflow", "task"]


@pytest.mark.parametrize(
    ("status", "extra", "said", "result", "error"),
    [
        (256, [], "failed", "FAILED", "exit code 1"),
        (9, [], "killed", "FAILED", "signal 9 (SIGKILL)"),
        (137 << 8, [], "killed", "FAILED", "signal 9 (SIGKILL)"),  # as a shell says it
        (255 << 8, [], "failed", "FAILED", "exit code 255"),
        (
            15,
            [event("exception", 5, type="cancel", severity=0, note="by hand")],
            "canceled",
            "CANCELED",
            "cancel: by hand",
        ),
        (36608, [event("exception", 5, type="timeout", severity=0, note="")], "timeout", "TIMEOUT", "timeout"),
        (0, [event("exception", 5, type="odd", severity=3, note="only a warning")], "done", "COMPLETED", None),
    ],
)
def test_every_kind_of_end_has_its_status_and_reason(
    status: int, extra: list[dict[str, Any]], said: str, result: str, error: str | None
) -> None:
    end = lines(job(status=status, extra=extra))[-1]
    assert (end["status"], end["result"], end.get("error")) == (said, result, error)


def test_a_job_that_got_nodes_again_has_two_tries() -> None:
    end = lines(job(extra=[event("alloc", 4)]))[-1]
    assert end["tries"] == 2


def test_a_job_whose_dependency_failed_never_ran() -> None:
    events = [
        event("submit", 0),
        event("exception", 2, type="dependency", severity=0, note="afterok"),
        event("clean", 3),
    ]
    _, task, end = lines({**job(), "events": events, "exec_events": []})
    assert (end["status"], end["tries"], end["t_end_ns"]) == ("dep_failed", 0, ns(3))
    assert "t_start_ns" not in task


def test_dependencies_on_jobs_are_edges_and_others_are_named() -> None:
    waits = [["afterok", "ƒA"], ["afterany", "ƒold"], ["begin-time", "1795181945"], ["singleton", ""]]
    first = job("ƒA", extra=[traced_event("/r", workflow="w", stage="s", task="mine")])
    task = lines(first, job("ƒB", waits_for=waits))[3]
    assert task["deps"] == [{"task": "mine", "via": "afterok"}, {"task": "fold", "via": "afterany"}]
    assert task["holds"] == ["begin-time=1795181945", "singleton"]


def test_the_plugins_stage_precedes_the_jobspecs_and_the_jobs_name() -> None:
    asked = job()
    asked["jobspec"]["attributes"]["user"] = {"trace": {"stage": "asked", "tags": {"a": "b"}}}
    traced = {**asked, "events": [*asked["events"], traced_event("/r", workflow="v", stage="traced", task="t")]}
    refused = job()
    refused["jobspec"]["attributes"]["user"] = {"trace": False}
    named = [lines(each)[1] for each in (asked, traced, refused)]
    assert [(line["workflow"], line["stage"], line["task"]) for line in named] == [
        ("", "asked", "fA"),
        ("v", "traced", "t"),
        ("w", "sim", "fA"),
    ]


def test_jobs_of_an_inner_instance_have_its_job_as_parent() -> None:
    outer = job("ƒO")
    outer["jobspec"]["tasks"][0]["command"] = ["flux", "broker", "script"]
    assert lines(outer)[1]["kind"] == "instance"
    inner = lines(job("ƒI", waits_for=[["afterok", "ƒH"]]), path="/ƒO")[1]
    assert (inner["task"], inner["parent"], inner["job"]) == ("fO/fI", "fO", "/ƒO/ƒI")
    assert inner["deps"] == [{"task": "fO/fH", "via": "afterok"}]


@pytest.mark.parametrize(
    ("command", "stage"),
    [
        (["flux", "start", "/bin/sh", "-c", "x"], "sh"),
        (["/opt/bin/flux", "start", "-s", "2", "--test-exit-timeout=5s", "--", "./wf.sh"], "wf.sh"),
        (["flux", "broker", "cp in out && sync"], "cp"),
        (["flux", "start"], "flux"),
        (["flux", "start", "-s"], "flux"),
        (["flux", "run", "x"], "flux"),
    ],
)
def test_the_stage_of_an_instance_without_a_name_is_its_program(command: list[str], stage: str) -> None:
    outer = job()
    outer["jobspec"]["tasks"][0]["command"] = command
    assert lines(outer)[1]["stage"] == stage


def test_the_workflow_is_the_one_in_the_trace() -> None:
    beside, named = (
        job("ƒA", extra=[traced_event("/r", stage="s")]),
        job("ƒB", extra=[traced_event("/r", workflow="v")]),
    )
    outer = job("ƒO", extra=[traced_event("/r", stage="s")])
    outer["jobspec"]["tasks"][0]["command"] = ["flux", "broker", "script"]
    top, inner = instance(), instance(path="/ƒO/ƒP")
    assert [declared_jobs.workflow_of(top, each) for each in (beside, named, outer, job())] == ["", "v", "fO", None]
    assert [declared_jobs.workflow_of(inner, each) for each in (beside, named, job())] == ["fO", "v", None]
    assert declared_jobs.default_workflow(top, [beside, job()]) == ""
    assert declared_jobs.default_workflow(top, [named, job()]) == "v"
    assert declared_jobs.default_workflow(inner, [beside, named]) == "fO"


def test_each_instance_has_a_file_of_its_own() -> None:
    names = [collect.file_name(instance(path=path)) for path in ("/", "/ƒA", "/ƒA/ƒB")]
    assert names == ["flux-n1.jsonl", "flux-n1-fA.jsonl", "flux-n1-fA-fB.jsonl"]


@pytest.mark.parametrize("value", [None, "x", [], {"task": "t"}])
def test_a_trace_attribute_of_any_type_is_accepted(value: object) -> None:
    given = job()
    given["jobspec"]["attributes"]["user"] = {"trace": value}
    assert lines(given)[1]["stage"] == "sim"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return rundir.open_run_directory(tmp_path / "run", ["test"])


def test_collecting_again_replaces_and_adds(run_dir: Path) -> None:
    histories = [
        instance(job("ƒA", status=None), job("ƒB")),
        instance(job("ƒA", status=256)),
        instance(job("ƒA", status=256), job("ƒC")),
    ]
    for history in histories:
        collect.store([history], [], run_dir)
    assert [path.name for path in (run_dir / "declared").iterdir()] == ["flux-n1.jsonl"]
    run = tailrace.open(run_dir)
    assert run.declared_problems.empty
    assert dict(run.declared_tasks[["task", "status"]].to_numpy()) == {"fA": "failed", "fB": "done", "fC": "done"}
    assert len((run_dir / "declared" / "flux-n1.jsonl").read_text().splitlines()) == 7


def test_a_damaged_file_loses_only_its_damaged_lines(run_dir: Path) -> None:
    (run_dir / "declared" / "flux-n1.jsonl").write_text('{"type":"task","workf\n\n[1]\n\xff"x"\n')
    history = [instance(job())]
    collect.store(history, [], run_dir)
    assert tailrace.open(run_dir).declared_tasks["task"].tolist() == ["fA"]


def test_jobs_traced_into_another_run_are_left_out(run_dir: Path, tmp_path: Path) -> None:
    other = rundir.open_run_directory(tmp_path / "other", ["test"])
    here = job("ƒA", extra=[traced_event(run_dir, workflow="w", stage="s")])
    there = job("ƒB", extra=[traced_event(other, workflow="w", stage="s")])
    history = [instance(here, there, job("ƒC"))]
    (done,) = collect.store(history, [], run_dir)
    assert (done.jobs, done.elsewhere) == (2, 1)
    both = collect.store(history, [])
    assert {each.run_dir: (each.jobs, each.elsewhere) for each in both} == {run_dir: (1, 2), other: (1, 2)}
    assert tailrace.open(other).declared_tasks["task"].tolist() == ["fB"]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("/data/run", "/data/run"),
        ("runs/{{id.f58plain}}", "/jobs/runs/fA"),
        ("/r/{{name}}/{{id.dec}}", "/r/sim/77"),
        ("/r/{{id}}", "/r/ƒA"),
        ("/r/{user}/{{name}}/x{user}", f"/r/{USER}/sim/x{USER}"),
        ("/r/{{user}}", None),
        ("/r/{{tmpdir}}", None),
        (7, None),
    ],
)
def test_the_run_of_a_job_is_found_where_its_shell_made_it(run: object, expected: str | None) -> None:
    given = job(number=77, extra=[event("tailrace.trace", 0.5, version=1, run=run)])
    given["jobspec"]["attributes"]["system"]["cwd"] = "/jobs"
    assert declared_jobs.run_of(given) == (None if expected is None else Path(expected))
    assert declared_jobs.run_of(job()) is None


def test_the_format_of_the_id_is_that_of_the_existing_directory(tmp_path: Path) -> None:
    (tmp_path / "fA").mkdir()
    assert declared_jobs.run_of(job(extra=[traced_event(f"{tmp_path}/{{{{id}}}}")])) == tmp_path / "fA"


def test_a_declared_file_is_replaced_whole(run_dir: Path) -> None:
    for lines_ in (["a", "b"], ["c"]):
        with declared_folder.opened(run_dir, os.getuid()) as folder:
            folder.publish("m.jsonl", lines_)
    assert [(path.name, path.read_text()) for path in (run_dir / "declared").iterdir()] == [("m.jsonl", "c\n")]


PLANTS = {
    "declared is a link": "rmdir run/declared; ln -s ../kept run/declared",
    "others may write to declared": "chmod g+w run/declared",
    "others may write to the run": "chmod o+w run",
    "the file is a link": "ln -s ../../kept/file run/declared/flux-n1.jsonl",
    "the file has another name": "ln kept/file run/declared/flux-n1.jsonl",
    "the file is a pipe": "mkfifo run/declared/flux-n1.jsonl",
    "the file is too large": "truncate -s 2G run/declared/flux-n1.jsonl",
    "the file has newlines alone": "yes '' | head -c 3000000 > run/declared/flux-n1.jsonl",
}


@pytest.mark.parametrize("how", PLANTS.values(), ids=PLANTS.keys())
def test_a_run_that_was_tampered_with_is_left_out_and_named(run_dir: Path, tmp_path: Path, how: str) -> None:
    good = rundir.open_run_directory(tmp_path / "good", ["test"])
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    subprocess.run(["sh", "-euc", how], cwd=tmp_path, check=True)
    jobs = [job(name, extra=[traced_event(run, stage="s")]) for name, run in (("ƒA", run_dir), ("ƒB", good))]
    left, written = sorted(collect.store([instance(*jobs)], []), key=lambda done: not done.fault)
    assert left.run_dir == run_dir and str(run_dir) in left.fault
    assert (written.run_dir, written.jobs) == (good, 1)
    assert [(path.name, path.read_text()) for path in (tmp_path / "kept").iterdir()] == [("file", "kept")]


@pytest.mark.parametrize("makes", ["truncate -s 300M", "yes '[' | tr -d '\\n' | head -c 1000000 >"])
def test_lines_without_an_end_are_left_out_of_a_file(run_dir: Path, makes: str) -> None:
    subprocess.run(["sh", "-euc", f"{makes} {run_dir}/declared/flux-n1.jsonl"], check=True)
    (done,) = collect.store([instance(job())], [], run_dir)
    assert (done.fault, len((run_dir / "declared" / "flux-n1.jsonl").read_text().splitlines())) == ("", 3)


def store_limited(limits: child.Limits, job_s: float, jobs: list[dict[str, Any]]) -> dict[Path, str]:
    """The fault of each run."""
    collect._LIMITS, collect._JOB_S = limits, job_s
    return {each.run_dir: each.fault for each in collect.store([instance(*jobs)], [])}


@pytest.mark.parametrize(("limits", "said"), [(child.Limits(60, 20 << 20), "MiB"), (child.Limits(0), "more than")])
def test_a_run_that_takes_too_much_is_left_out_and_the_others_are_written(
    run_dir: Path, tmp_path: Path, limits: child.Limits, said: str
) -> None:
    good = rundir.open_run_directory(tmp_path / "good", ["test"])
    (run_dir / "declared" / "flux-n1.jsonl").write_text('{"type":"end"}\n' * 2_000_000)
    jobs = [job(name, extra=[traced_event(run, stage="s")]) for name, run in (("ƒA", run_dir), ("ƒB", good))]
    # A new process: in one that has freed much, a child has room within what it has.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        done = pool.submit(store_limited, limits, 0.0 if limits.seconds == 0 else 1.0, jobs).result()
    assert said in done[run_dir] and "remove its flux-" in done[run_dir]
    assert limits.seconds == 0 or not done[good]


def test_runs_are_left_when_no_time_is_left_and_new_ones_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [rundir.open_run_directory(tmp_path / name, ["test"]) for name in ("a", "b", "c")]
    jobs = [job(f"ƒ{n}", extra=[traced_event(run, stage="s")]) for n, run in enumerate(runs)]
    collect.store([instance(*jobs[:1])], [])
    clock = iter([0, 0, *range(1000, 1010)])
    monkeypatch.setattr(collect, "monotonic", lambda: next(clock))
    done = collect.store([instance(*jobs)], [], end=1000)
    assert [(each.run_dir.name, bool(each.fault)) for each in done] == [("b", False), ("c", True), ("a", True)]
    assert "again" in done[-1].fault


def test_jobs_of_other_users_enter_no_run(run_dir: Path) -> None:
    mine, theirs = job("ƒA"), job("ƒB", extra=[traced_event(run_dir, workflow="w", stage="s", task="fA")])
    theirs["events"][0]["context"]["userid"] += 1
    (done,) = collect.store([instance(mine, theirs)], [], run_dir)
    assert (done.jobs, done.others, done.elsewhere) == (1, 1, 0)
    assert tailrace.open(run_dir).declared_tasks["stage"].tolist() == ["sim"]


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    history = [instance(job())]
    with pytest.raises(UsageError, match="nor a run directory"):
        collect.store(history, [], tmp_path)


def test_other_output_than_a_history_is_refused() -> None:
    with pytest.raises(ManagerError, match="other than a job history"):
        collect.parse_history(["Welcome to the cluster!"])


def test_without_flux_the_message_has_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FLUX_EXEC_PATH", raising=False)
    with pytest.raises(ManagerError, match="--flux"):
        collect.find_flux()
    with pytest.raises(UsageError, match="--flux"):
        collect.find_flux(tmp_path / "flux")
    program = tmp_path / "bin" / "flux"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setenv("FLUX_EXEC_PATH", f"{tmp_path}/x:{tmp_path}/libexec/flux/cmd")
    (tmp_path / "libexec/flux/cmd").mkdir(parents=True)
    assert collect.find_flux() == program
