"""Makeflow's wrapper: rules are tasks, categories stages."""

import shutil
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.harm import active_environment
from support.run_files import Trace, read_declared

pytestmark = pytest.mark.skipif(
    not shutil.which("makeflow"), reason="no Makeflow: apt-get install coop-computing-tools"
)

FLOW = """CATEGORY="making"
a.txt:
\tseq 1000 > a.txt
CATEGORY=sorting
a.sorted: a.txt
\tsort -rn a.txt > a.sorted
out: a.sorted a.txt
\tcat a.sorted a.txt | cat > out && echo 'x y'
"""


def test_rules_are_tasks_of_their_categories(tmp_path: Path) -> None:
    (tmp_path / "flow.mf").write_text(FLOW)
    wrapper = f"{run_cli('adapter', 'makeflow').stdout.strip()} %%"
    words = ["makeflow", "-T", "local", "--wrapper", wrapper, "flow.mf"]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=active_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    trace = Trace(tmp_path / "run")
    found = {
        name: {
            (event["args"].get("stage"), event["args"].get("task"))
            for event in trace.of(tmp_path / name)
            if "w" in (event["args"].get("dir") or "") and event["args"].get("size")
        }
        for name in ("a.txt", "a.sorted", "out")
    }
    assert found == {"a.txt": {("making", "0")}, "a.sorted": {("sorting", "1")}, "out": {("sorting", "2")}}
    viz = subprocess.run(
        ["makeflow_viz", "-D", "json", "flow.mf"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (tmp_path / "flow.json").write_text(viz.stdout)
    done = run_cli("declare", tmp_path / "run", "--from", tmp_path / "flow.json")
    assert done.returncode == 0 and "not in the trace" not in done.stderr, done.stderr
    assert [line["task"] for line in read_declared(tmp_path / "run") if line["type"] == "task"] == ["0", "1", "2"]
    declared = tailrace.open(tmp_path / "run").insights().declared.table
    edges = {(row["producer"], row["consumer"]): row["status"] for row in declared.to_dict("records")}
    assert edges == {("0", "1"): "observed", ("0", "2"): "observed", ("1", "2"): "observed"}
