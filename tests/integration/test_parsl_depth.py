"""Parsl in depth, in one run directory: two programs, several blocks, lifted futures, futures in collections,
arguments, and what is left when a worker, the interchange and both programs are killed.

support/parsl_depth.py has the programs.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.run_files import Trace, read_declared

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")

PROGRAM = Path(__file__).parents[1] / "support" / "parsl_depth.py"
WAIT_S = 300


def of_session(leader):
    """The processes of a session but zombies."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(place.name))
    return found


def kill_session(leader):
    end = time.monotonic() + WAIT_S
    while pids := of_session(leader):
        assert time.monotonic() < end, pids
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def bounded(text):
    return text if len(text) <= 100 else text[:97] + "..."


@dataclass
class Found:
    folder: Path
    running: "subprocess.CompletedProcess[str]"
    """The report while workers run."""
    report: str
    """And when they are over."""

    @property
    def run(self):
        return tailrace.open(self.folder / "run")

    @property
    def tasks(self):
        return self.run.declared_tasks.set_index(["workflow", "task"])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("depth")
    words = [sys.executable, str(PROGRAM), str(folder)]
    with open(folder / "said", "w+") as said:  # noqa: PTH123
        how = {"cwd": folder, "stdout": said, "stderr": said}
        blocks = subprocess.Popen([*words, "blocks"], start_new_session=True, **how)
        try:
            end = time.monotonic() + WAIT_S
            while not (folder / "left").exists():
                assert blocks.poll() is None and time.monotonic() < end, (folder / "said").read_text()
                time.sleep(0.05)
            threads = subprocess.run([*words, "threads"], timeout=WAIT_S, check=False, **how)
            assert threads.returncode == -signal.SIGKILL, (folder / "said").read_text()
            assert blocks.wait(WAIT_S) == -signal.SIGKILL, (folder / "said").read_text()
            running = run_cli("report", folder / "run")
        finally:
            kill_session(blocks.pid)
    report = run_cli("report", folder / "run", env={**os.environ, "COLUMNS": "200"})
    assert report.returncode == 0, report.stderr
    return Found(folder, running, " ".join(report.stdout.split()))


def test_the_workers_of_several_blocks_have_the_tags_of_their_tasks(found):
    trace = Trace(found.folder / "run")
    pids = set()
    for task, name in (("0", "left"), ("1", "right")):
        writes = trace.of(found.folder / name, {"write"})
        assert trace.tags(writes, "workflow", "stage", "task") == {("depth", "meet", task)}
        pids |= {event["pid"] for event in writes}
    assert len(pids) == 2
    assert {(found.folder / name).read_text() for name in ("left", "right")} == {"0", "1"}


def test_lifted_futures_and_futures_in_collections_are_dependencies(found):
    deps = found.run.declared_deps
    of_blocks = deps[deps["workflow"] == "depth"]
    # 2: left.name, 3: right.parts, 4: right.parts[-1], 5: concatenate
    assert {(row.task, row.dep, row.via) for row in of_blocks.itertuples()} == {
        ("2", "0", "future"),
        ("3", "1", "future"),
        ("4", "3", "future"),
        *(("5", dep, "future") for dep in ("0", "2", "4")),
        ("7", "5", "file"),
        ("8", "7", "future"),
    }
    assert len(of_blocks) == 8, "each once"
    compared = found.run.insights().declared.table.set_index(["workflow", "producer", "consumer"])
    assert compared.loc[("depth", "0", "5"), "status"] == "observed"
    assert compared.loc[("depth", "1", "5"), ["status", "order"]].tolist() == ["undeclared", "declared"]
    assert "race" not in {finding.about for finding in found.run.findings()}


def test_stages_arguments_and_requests_are_declared(found):
    tasks = found.tasks.loc["depth"]
    assert tasks["stage"].to_dict() == {
        "0": "meet",
        "1": "meet",
        "2": "deferred_getattr",
        "3": "deferred_getattr",
        "4": "deferred_getitem",
        "5": "gather",
        "6": "die",
        "7": "hold",
        "8": "never",
        "9": "write",
    }
    folder = str(found.folder)
    facts = tasks["annotations"]
    assert facts["0"] == {
        "requested": {"priority": 1},
        "arguments": {"folder": bounded(repr(folder)), "name": "'left'", "other": "'right'"},
    }
    assert facts["5"]["arguments"] == {
        "folder": bounded(repr(folder)),
        "names": "['left']",
        "tuples": "(('right',),)",
        "table": bounded(f"{{'left': '{folder}/left'}}"),
        "password": "'[redacted]'",
    }
    # Never launched: what was known at its submission.
    assert facts["8"]["arguments"] == {"before": "<result of read_and_hold 7>"}
    shown = run_cli("task", found.folder / "run", "depth/5").stdout
    assert "password='[redacted]'" in shown and "hunter2" not in shown


def test_what_ran_before_the_kills_is_in_the_run(found):
    trace = Trace(found.folder / "run")
    for workflow, task, name in (("depth", "6", "died"), ("depth", "7", "held"), ("depth-2", "1", "kept")):
        writes = trace.of(found.folder / name, {"write"})
        assert sum(event["args"]["size"] for event in writes) == (found.folder / name).stat().st_size
        assert trace.tags(writes, "workflow", "task") == {(workflow, task)}
    statuses = found.tasks["status"]
    assert statuses.loc["depth"].to_dict() == {
        **dict.fromkeys("012345", "done"),
        "6": "killed",
        **dict.fromkeys("789", None),
    }
    assert statuses.loc["depth-2"].to_dict() == {"0": "done", "1": None}
    assert {line["workflow"] for line in read_declared(found.folder / "run")} == {"depth", "depth-2"}


def test_the_report_says_what_happened_and_no_more(found):
    assert (
        "1 of 12 tasks did not succeed: 1 killed. Of the others: 4 without an end (running, or their manager ended"
        " first)." in found.report
    )
    assert "die 6 was killed: WorkerLost" in found.report
    assert "waited for" not in found.report
    # While its workers ran, nothing was said of what they had not written yet.
    assert found.running.returncode == 0
    assert "still running: what they have not written yet is not in here" in found.running.stderr
    assert "but read nothing that it wrote" not in " ".join(found.running.stdout.split())
