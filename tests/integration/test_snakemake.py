"""Snakemake's adapter, with every Snakemake on PATH:
`pip install snakemake snakemake-executor-plugin-cluster-generic` into environments of their own, and
their bin/ on PATH."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.managers import SNAKEMAKE_PLUGIN, Manager, all_on_path, share_tailrace
from support.run_files import Trace, read_declared

SNAKEMAKES = all_on_path("snakemake")
pytestmark = pytest.mark.skipif(not SNAKEMAKES, reason="no environment with Snakemake on PATH: pip install snakemake")

SNAKEFILE = """
rule all:
    input: "out/report", "out/it's a=b"
rule make:
    output: "data/{s}.txt"
    shell: "seq 20000 > {output}"
rule sort:
    input: "data/{s}.txt"
    output: "data/{s}.sorted"
    threads: 2
    resources: mem_mb=100
    shell: "sort -rn {input} > {output}"
rule flaky:
    input: "data/{s}.sorted"
    output: "data/{s}.flaky"
    retries: 2
    shell: "cp {input} {output}; [ -e mark.{wildcards.s} ] || {{ touch mark.{wildcards.s}; exit 3; }}"
rule count:
    input: "data/a.flaky"
    output: "data/counted"
    run:
        with open(input[0]) as read, open(output[0], "w") as written:
            written.write(str(len(read.readlines())))
rule shadowed:
    input: "data/b.flaky"
    output: "data/shadowed"
    shadow: "minimal"
    shell: "head -c 100 {input} > tmp; cp tmp {output}"
rule script:
    input: "data/counted", "data/shadowed"
    output: "data/scripted"
    script: "join.py"
checkpoint split:
    input: "data/scripted"
    output: directory("data/parts")
    shell: "mkdir -p {output}; split -n 2 {input} {output}/"
def parts(wildcards):
    folder = checkpoints.split.get().output[0]
    return expand(folder + "/{i}", i=glob_wildcards(folder + "/{i}").i)
rule report:
    input: parts
    output: "out/report"
    shell: "cat {input} > {output}"
rule named:
    output: "out/{x} {y}"
    shell: "echo x > {output:q}"
"""
JOIN = """
with open(snakemake.output[0], "w") as written:
    for name in snakemake.input:
        with open(name) as read:
            written.write(read.read())
"""
TASKS = {
    **{f"{stage}:s={s}": stage for stage in ("make", "sort", "flaky") for s in "ab"},
    **{name: name for name in ("count", "shadowed", "script", "split", "report")},
    "named:x=it's,y=a=b": "named",
}
EDGES = {
    *((f"{first}:s={s}", f"{then}:s={s}") for first, then in (("make", "sort"), ("sort", "flaky")) for s in "ab"),
    ("flaky:s=a", "count"),
    ("flaky:s=b", "shadowed"),
    ("count", "script"),
    ("shadowed", "script"),
    ("script", "split"),
    ("split", "report"),
}


@pytest.fixture(scope="module", params=SNAKEMAKES, ids=str)
def snakemake(request: pytest.FixtureRequest) -> Manager:
    found: Manager = request.param
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    shared = share_tailrace(tmp_path_factory.mktemp("site"), SNAKEMAKE_PLUGIN)
    return clean_environment(shared)


def adapter(snakemake: Manager) -> list[str]:
    """The options that load the adapter."""
    if snakemake.version.startswith("7."):
        path = run_cli("adapter", "snakemake").stdout.strip()
        return ["--log-handler-script", path]
    return ["--logger", "tailrace"]


@pytest.fixture(scope="module")
def folder(snakemake: Manager, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of SNAKEFILE under `tailrace run`."""
    folder = tmp_path_factory.mktemp("snakemake")
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "join.py").write_text(JOIN)
    words = [snakemake.program, "-c2", *adapter(snakemake)]
    done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    assert "tailrace: can't" not in done.stderr
    yield folder


def by_task(lines: list[Any], kind: str) -> dict[str, Any]:
    return {line["task"]: line for line in lines if line["type"] == kind}


def test_it_declares_tasks_files_and_dependencies(folder: Path, snakemake: Manager) -> None:
    lines = read_declared(folder / "run")
    tasks = by_task(lines, "task")
    assert {name: line["stage"] for name, line in tasks.items()} == TASKS
    assert {(dep["task"], name) for name, line in tasks.items() for dep in line["deps"]} == EDGES
    assert [(line["manager"], line["version"]) for line in lines if line["type"] == "workflow"] == [
        ("snakemake", snakemake.version)
    ]
    sort = tasks["sort:s=a"]
    assert [file["path"] for file in sort["inputs"]] == [str(folder.resolve() / "data" / "a.txt")]
    assert [file["path"] for file in sort["outputs"]] == [str(folder.resolve() / "data" / "a.sorted")]
    assert sort["annotations"]["requested"] == {"cores": 2, "memory_bytes": 100_000_000}
    assert {name: line["kind"] for name, line in tasks.items()}["count"] == "run"


def test_it_declares_how_tasks_ended(folder: Path) -> None:
    ends = by_task(read_declared(folder / "run"), "end")
    assert {name: (line["status"], line["tries"]) for name, line in ends.items()} == {
        name: ("done", 2 if stage == "flaky" else 1) for name, stage in TASKS.items()
    }
    failed = [line for line in read_declared(folder / "run") if line["type"] == "try" and "error" in line]
    assert {(line["task"], line["try"], line["status"]) for line in failed} == {
        ("flaky:s=a", 0, "failed"),
        ("flaky:s=b", 0, "failed"),
    }
    assert all("exit status 3" in line["error"] for line in failed)
    assert all(line["t_start_ns"] < line["t_end_ns"] for line in ends.values())


def is_write(event: Any, path: str, folder: Path) -> bool:
    """Of a file or below a folder, or of its name in a job's shadow directory."""
    way = event["args"].get("dir")
    written = event["path2"] if way == "rw" else event["path"] if way == "w" else None
    inside = path.removeprefix(str(folder.resolve()))
    return written is not None and (
        written.startswith(path) or ("/.snakemake/shadow/" in written and written.endswith(inside))
    )


def test_each_output_was_written_by_its_task(folder: Path) -> None:
    trace = Trace(folder / "run")
    for name, line in by_task(read_declared(folder / "run"), "task").items():
        for file in line["outputs"]:
            written = [event["args"] for event in trace.events if is_write(event, file["path"], folder)]
            found = {(args.get("workflow"), args.get("stage"), args.get("task")) for args in written}
            # Snakemake itself writes a stamp into a folder.
            found.discard((None, None, None))
            assert found == {(folder.name, TASKS[name], name)}, name
    attempts = {
        (event["args"].get("task"), event["args"].get("tag.try"))
        for event in trace.events
        if event["args"].get("stage") == "flaky"
    }
    assert attempts == {(f"flaky:s={s}", number) for s in "ab" for number in ("0", "1")}


def test_what_was_declared_is_what_is_observed(folder: Path) -> None:
    run = tailrace.open(folder / "run")
    declared = run.insights().declared
    status = {(row["producer"], row["consumer"]): row["status"] for row in declared.table.to_dict("records")}
    assert status == dict.fromkeys(EDGES, "observed")
    assert declared.untouched.to_dict("records") == []


def test_snakemakes_own_files_are_no_races_and_no_tasks(folder: Path) -> None:
    run = tailrace.open(folder / "run")
    assert [finding.kind for finding in run.findings() if "race" in finding.kind] == []
    own = [
        event["args"].get("task")
        for event in Trace(folder / "run").events
        if any(name in str(event["path"]) for name in ("/.snakemake/metadata/", "/snakemake/dag.py"))
    ]
    assert len(own) > 20
    # A script imports modules of Snakemake itself.
    assert set(own) - {"script"} == {None}


FAILING = """
rule all:
    input: "c", "e"
rule a:
    output: "a"
    shell: "echo a > {output}"
rule b:
    input: "a"
    output: "b"
    shell: "cat {input} > {output}; exit 7"
rule c:
    input: "b"
    output: "c"
    shell: "cat {input} > {output}"
rule d:
    output: "d"
    shell: "true"
rule e:
    input: "d"
    output: "e"
    shell: "cp {input} {output}"
"""


MARKS = """
rule all:
    input: "c.txt"
rule make:
    output: "a.txt", touch("a.done")
    shell: "seq 100 > a.txt"
rule mark:
    input: "a.done"
    output: touch("mark_{n}")
rule only:
    input: "mark_1", "mark_2"
    output: touch("only")
rule use:
    input: "only", "a.txt"
    output: "c.txt"
    shell: "sort a.txt > c.txt"
"""


def test_rules_that_only_touch_are_tasks_that_others_wait_for(
    snakemake: Manager, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(MARKS)
    words = [snakemake.program, "-c2", *adapter(snakemake)]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    run = tailrace.open(tmp_path / "run")
    table = run.insights().declared.table
    found = {(row["producer"], row["consumer"], row["status"]) for row in table.to_dict("records")}
    assert found == {
        ("make", "use", "observed"),
        *(("make", f"mark:n={n}", "order only") for n in "12"),
        *((f"mark:n={n}", "only", "order only") for n in "12"),
        ("only", "use", "order only"),
    }
    assert set(run.declared_tasks["status"]) == {"done"} and len(run.declared_tasks) == 5
    about = {finding.kind for finding in run.findings()}
    assert not about & {"declared, not accessed", "dependency without data"}, "a mark is touched by Snakemake itself"


def test_alone_it_traces_by_itself_and_says_what_failed(
    snakemake: Manager, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(FAILING)
    words = [snakemake.program, "-c2", "-k", "--latency-wait", "0", *adapter(snakemake)]
    how: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*words, "-n"], check=False, **how)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "tailrace-runs").exists(), "a dry run leaves nothing"
    done = subprocess.run(words, check=False, **how)
    assert done.returncode == 1, done.stderr
    (run,) = (tmp_path / "tailrace-runs").iterdir()
    ends = by_task(read_declared(run), "end")
    assert {name: line["status"] for name, line in ends.items()} == {
        "a": "done",
        "b": "failed",
        "c": "dep_failed",
        "d": "failed",
        "e": "dep_failed",
    }
    assert "exit status 7" in ends["b"]["error"]
    assert "outputs are missing" in ends["d"]["error"]
    assert ends["c"]["error"] == "b failed"
    written = [event for event in Trace(run).of(tmp_path / "a") if event["args"].get("dir") == "w"]
    assert {event["args"].get("task") for event in written} == {"a"}


GROUP = """
rule all:
    input: "two.sum"
rule one:
    output: "one"
    group: "g"
    shell: "seq 3000 > {output}"
rule two:
    input: "one"
    output: "two"
    group: "g"
    run:
        with open(input[0]) as read, open(output[0], "w") as written:
            written.write(read.read())
rule sum:
    input: "two"
    output: "two.sum"
    retries: 1
    shell: "[ -e mark ] || {{ touch mark; exit 3; }}; wc -l < {input} > {output}"
"""
SUBMIT = """#!/bin/sh
ended='sh "$1"; date +%s%N > "$0.ended.$$"'
env -i HOME="$HOME" PATH="$PATH" PYTHONPATH="$PYTHONPATH" \\
  setsid sh -c "$ended" "$0" "$1" >/dev/null 2>&1 </dev/null &
echo $!
"""
"""It writes down when a job has ended, which the manager finds out later."""


def cluster(snakemake: Manager, submit: Path) -> list[str]:
    """The options for a batch system of one command."""
    if snakemake.version.startswith("7."):
        pytest.skip("Snakemake 7 looks each 10 s whether jobs have ended")
    words = [snakemake.python, "-c", "import snakemake_executor_plugin_cluster_generic"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no cluster executor: pip install snakemake-executor-plugin-cluster-generic")
    program = ["--executor", "cluster-generic", "--cluster-generic-submit-cmd", str(submit)]
    return [*program, "--max-status-checks-per-second", "10", "--seconds-between-status-checks", "1"]


def test_jobs_of_a_batch_system_and_groups_are_tagged_where_they_run(
    snakemake: Manager, environment: dict[str, str], tmp_path: Path
) -> None:
    """The batch system clears the environment."""
    (tmp_path / "Snakefile").write_text(GROUP)
    submit = tmp_path / "submit"
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    words = [snakemake.program, "-j2", *adapter(snakemake), *cluster(snakemake, submit)]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    lines = read_declared(tmp_path / "run")
    assert {(dep["task"], name) for name, line in by_task(lines, "task").items() for dep in line["deps"]} == {
        ("one", "two"),
        ("two", "sum"),
    }
    ends = by_task(lines, "end")
    assert {name: (line["status"], line["tries"]) for name, line in ends.items()} == {
        "one": ("done", 1),
        "two": ("done", 1),
        "sum": ("done", 2),
    }
    trace = Trace(tmp_path / "run")
    stamps = sorted(int(path.read_text()) for path in tmp_path.glob("submit.ended.*"))
    jobids = {name: line["annotations"]["jobid"] for name, line in by_task(lines, "task").items()}
    for path, task in (("one", "one"), ("two", "two"), ("two.sum", "sum")):
        writes = [e for e in trace.of(tmp_path / path) if e["args"].get("dir") == "w" and e["args"].get("size")]
        assert {(e["args"].get("task"), e["args"].get("tag.jobid")) for e in writes} == {(task, jobids[task])}
        # When it ran, not when Snakemake found that it had ended: jobs ran one after the other.
        last_ns = max(e["ts"] for e in writes) * 1000
        assert last_ns < ends[task]["t_end_ns"] <= next(stamp for stamp in stamps if stamp > last_ns)
    assert len(list((tmp_path / "run" / "declared").glob("*.jsonl"))) == 1


SIMPLE = """
rule one:
    output: "one"
    shell: "echo 1 > {output}"
"""
UNKNOWN = """
def _handle_error(self, work, job):
    raise AssertionError
SCHEDULER._handle_error = _handle_error
"""
FAULTY = """
from tailrace.snakemake import jobs
def task(job):
    raise ValueError("planted")
jobs.task = task
"""
BEGIN = """
import runpy
try:
    from snakemake.scheduling.job_scheduler import JobScheduler as SCHEDULER
except ImportError:
    from snakemake.scheduler import JobScheduler as SCHEDULER
"""
END = """
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "change, said",
    [(UNKNOWN, "doesn't know Snakemake"), (FAULTY, "ValueError: planted; the workflow continues")],
    ids=["unknown version", "faulty adapter"],
)
def test_what_the_adapter_lacks_is_one_line_and_the_workflow_runs(
    change: str, said: str, snakemake: Manager, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(SIMPLE)
    words = [snakemake.python, "-c", BEGIN + change + END, "-c1", *adapter(snakemake)]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one").read_text() == "1\n"
    ours = [line for line in done.stderr.splitlines() if line.startswith("tailrace: ")]
    assert len(ours) == 2, "and the summary"
    assert said in ours[0]
