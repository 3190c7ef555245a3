"""Nextflow's configuration, with each Nextflow on PATH; it must have its framework (`nextflow -v` downloads it)."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.run_files import Trace, read_declared

NEXTFLOWS = [
    path for folder in os.environ.get("PATH", "").split(os.pathsep) if (path := shutil.which("nextflow", path=folder))
]
pytestmark = pytest.mark.skipif(not NEXTFLOWS, reason="no nextflow on PATH: see www.nextflow.io")

PIPELINE = """
process ALIGN {
  tag "it's $x, 100%"
  errorStrategy 'retry'
  maxRetries 2
  input: val x
  output: path "a_${x}.txt"
  script:
  \"\"\"
  seq ${x}000 > a_${x}.txt
  echo "\\${BASH_ENV:-none} \\${TAILRACE_LINE_OF_USER:-}" > shell
  [ ${task.attempt} -gt 1 ] || [ $x -ne 2 ] || exit 3
  \"\"\"
}
process MERGE {
  input: path files
  output: path "all.txt"
  script: "sort -n ${files} > all.txt"
}
process READ {
  input: path f
  output: path "read.txt"
  script:
  \"\"\"
  #!/usr/bin/env python3
  open("read.txt", "w").write(open("${f}").read())
  \"\"\"
}
process SAY {
  input: val x
  output: stdout
  script: "while read -r line; do echo \\$line; done <<< 'said $x' > said; cat said"
}
process HEAR {
  input: val x
  output: val true
  script: "echo ${x.trim()} > heard"
}
process LAST {
  shell '/bin/bash', '-uex'
  storeDir "${launchDir}/store"
  input: val ready
  output: path "last.{txt,none}", optional: true
  script: "echo ${ready.size()} > last.txt"
}
workflow {
  READ(MERGE(ALIGN(Channel.of(1, 2)).collect()))
  LAST(HEAR(SAY(Channel.of(1, 2))).collect())
}
"""
BUILTINS = {"SAY": "said", "HEAR": "heard", "LAST": "last.txt"}
"""Processes whose script is bash's own calls, and what they write."""


@pytest.fixture(scope="module", params=dict.fromkeys(NEXTFLOWS))
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("nextflow")
    (folder / "main.nf").write_text(PIPELINE)
    (folder / "bash env").write_text("TAILRACE_LINE_OF_USER=set\n")
    config = run_cli("adapter", "nextflow").stdout.strip()
    environment = clean_environment({"BASH_ENV": str(folder / "bash env"), "NXF_OFFLINE": "true"})
    words = [request.param, "-c", config, "run", "main.nf", "-with-trace", "trace.txt"]
    done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_cli("declare", folder / "run", "--from", folder / "trace.txt")
    assert done.returncode == 0, done.stderr
    assert "not in the trace" not in done.stderr
    yield folder


def tags(event: Any) -> tuple[Any, ...]:
    return tuple(event["args"].get(key) for key in ("workflow", "stage", "task", "tag.try"))


def test_each_task_wrote_its_output_under_its_tags(folder: Path) -> None:
    """`ab/cdef12 NAME`, as Nextflow prints it; a retried task has another folder, and the next try."""
    trace = Trace(folder / "run")
    found = {}
    for name in ("a_1.txt", "a_2.txt", "all.txt", "read.txt"):
        for path in folder.glob(f"work/??/*/{name}"):
            if not path.is_symlink():
                (mine,) = {tags(event) for event in trace.of(path) if event["args"].get("dir") == "w"}
                found[mine[2].partition(" ")[2], mine[3]] = mine[:2]
                assert mine[2].startswith(f"{path.parent.parent.name}/{path.parent.name[:6]} ")
    assert found == {
        ("ALIGN (it's 1, 100%)", "0"): (folder.name, "ALIGN"),
        ("ALIGN (it's 2, 100%)", "0"): (folder.name, "ALIGN"),
        ("ALIGN (it's 2, 100%)", "1"): (folder.name, "ALIGN"),
        ("MERGE", "0"): (folder.name, "MERGE"),
        ("READ", "0"): (folder.name, "READ"),
    }


def test_what_nextflow_declares_is_observed(folder: Path) -> None:
    tasks = {line["task"]: line["stage"] for line in read_declared(folder / "run") if line["type"] == "task"}
    assert sorted(tasks.values()) == ["ALIGN"] * 3 + ["HEAR"] * 2 + ["LAST", "MERGE", "READ"] + ["SAY"] * 2
    ends = [line["status"] for line in read_declared(folder / "run") if line["type"] == "end"]
    assert sorted(ends) == ["done"] * 9 + ["failed"]
    declared = tailrace.open(folder / "run").insights().declared.table
    edges = [(row["producer_stage"], row["consumer_stage"], row["status"]) for row in declared.to_dict("records")]
    assert sorted(edges) == [
        ("ALIGN", "MERGE", "observed"),
        ("ALIGN", "MERGE", "observed"),
        ("HEAR", "LAST", "value only"),
        ("HEAR", "LAST", "value only"),
        ("MERGE", "READ", "observed"),
        ("SAY", "HEAR", "value only"),
        ("SAY", "HEAR", "value only"),
    ]


def test_tasks_are_those_of_the_trace_file(folder: Path) -> None:
    rows = [line.split("\t") for line in (folder / "trace.txt").read_text().splitlines()]
    told = {f"{row[rows[0].index('hash')]} {row[rows[0].index('name')]}" for row in rows[1:]}
    run = tailrace.open(folder / "run")
    assert set(run.tasks["task"].dropna()) == set(run.declared_tasks["task"]) == told


@pytest.mark.parametrize(("process", "name"), BUILTINS.items())
def test_what_bash_does_itself_is_of_the_process(folder: Path, process: str, name: str) -> None:
    """Its echo and redirections, before it has started any program."""
    written = [
        event["args"].get("stage")
        for event in Trace(folder / "run").events
        if event["args"].get("dir") == "w" and event["path"] and Path(event["path"]).name == name
    ]
    assert set(written) == {process}


def test_a_script_prints_what_it_prints_untraced(folder: Path) -> None:
    """Also with -x, by which bash prints what it reads from BASH_ENV."""
    (script,) = (path for path in folder.glob("work/??/*/.command.sh") if "last.txt" in path.read_text())
    env = {"BASH_ENV": str(folder / "bash env")}
    untraced = subprocess.run(
        ["/bin/bash", "-uex", script], cwd=script.parent, env=env, capture_output=True, text=True, check=True
    )
    assert script.with_name(".command.err").read_text() == untraced.stderr


def test_a_task_lasts_as_long_as_its_script(folder: Path) -> None:
    """The wrapper's measuring takes some hundred milliseconds, and is none of it."""
    run = tailrace.open(folder / "run")
    events = Trace(folder / "run").events
    for row in run.declared_tasks.to_dict("records"):
        own = [event for event in events if event["args"].get("task") == row["task"]]
        first, last = (pick(int(e["ts"]) * 1000 for e in own) for pick in (min, max))
        if row["stage"] != "READ":  # a script of python's: its task has the wrapper
            assert abs(row["t_launch_ns"] - first) < 1_000_000 and row["t_end_ns"] >= last


def test_no_finding_is_about_nextflow_itself(folder: Path) -> None:
    for finding in tailrace.open(folder / "run").findings():
        assert "(untagged)" not in finding.title and ".jar" not in finding.title, finding.title


def test_the_wrapper_and_its_measuring_are_apart(folder: Path) -> None:
    """The programs of `-with-trace` are no part of a task whose script is for bash."""
    trace = Trace(folder / "run", only=("start",))
    programs: dict[str, set[str]] = {}
    for event in trace.events:
        name = Path(event["args"]["exe"]).name
        programs.setdefault(event["args"].get("stage") or "", set()).add(name)
    assert programs["ALIGN"] <= {"bash", "seq"}
    assert programs["MERGE"] <= {"bash", "sort"}
    assert {"ps", "grep"} <= programs[""]
    assert set(programs) == {"", "ALIGN", "MERGE", "READ", *BUILTINS}


def test_scripts_find_the_users_bash_env(folder: Path) -> None:
    for path in folder.glob("work/??/*/shell"):
        assert path.read_text() == f"{folder / 'bash env'} set\n"
