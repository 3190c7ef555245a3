"""A block of Parsl's HighThroughputExecutor is lost in the middle: its manager and workers are killed at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.run_files import Trace

pytest.importorskip("parsl", reason="needs Parsl: pip install 'tailrace[parsl]'")

PROGRAM = """
import os, sys
sys.path.insert(0, @TESTS@)
import parsl
from parsl import python_app
from parsl.config import Config
from support.parsl_program import local_pool
from tailrace.parsl import trace

@python_app
def make(path):
    with open(path, "w") as file:
        file.write("made")
    return path

@python_app
def lose(path, given, driver):
    import os, signal
    with open(given) as file, open(path, "w") as out:
        out.write(file.read() + ", last words")
    assert os.getpgrp() != driver  # the block's own
    os.killpg(os.getpgrp(), signal.SIGKILL)

@python_app
def use(path, given):
    with open(path, "w") as file:
        file.write(str(given))

config = Config(executors=[local_pool(workers=1, blocks=2, threshold=4)], run_dir="runinfo", strategy="none")
with parsl.load(trace(config, run_dir="run", workflow="w")):
    lost = lose("lost", make("made"), os.getpgrp())
    after = use("never", lost)
    print(type(lost.exception()).__name__, type(after.exception()).__name__)
    use("other", make("again")).result()
"""


def test_a_lost_manager_loses_nothing_of_what_ran_and_reports_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(PROGRAM.replace("@TESTS@", repr(str(Path(__file__).parents[1]))))
    environment = clean_environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    done = subprocess.run(
        [sys.executable, "flow.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.split() == ["ManagerLost", "DependencyError"], done.stderr

    trace, run = Trace(tmp_path / "run"), tailrace.open(tmp_path / "run")
    written = trace.of(tmp_path / "lost", {"write"})
    assert [event["args"]["size"] for event in written] == [len("made, last words")]
    assert trace.tags(written, "stage", "task", "tag.try") == {("lose", "1", "0")}
    assert trace.tags(trace.of(tmp_path / "other", {"write"}), "stage", "task") == {("use", "4")}
    tasks = run.declared_tasks.set_index("task")
    assert tasks["status"].to_dict() == {"0": "done", "1": "killed", "2": "dep_failed", "3": "done", "4": "done"}
    assert tasks["error"]["1"].startswith("ManagerLost")

    told = run_cli("report", tmp_path / "run").stdout
    assert "lose 1 was killed: ManagerLost" in told and "1 task never ran for it" in " ".join(told.split()), told
    assert not re.search(r"\brace\b|records? lost|not observed|undeclared", told), told
