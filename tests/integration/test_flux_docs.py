"""docs/flux.md, followed line by line: its commands are run as they stand, in a private instance."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tailrace
from support.flux_instance import FluxInstance
from support.home_runs import runs_in_home
from tailrace import installation

PAGE = Path(__file__).parents[2] / "docs" / "flux.md"


def blocks(heading):
    """The indented blocks of the section under `heading`, up to the next heading of any level."""
    section = re.split(r"^#+ ", PAGE.read_text().split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"(?:^(?:    .*)?\n)+", section, re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in found if block.strip()]


@pytest.fixture
def shell(flux_program, flux_plugins, tmp_path):
    """Runs shell lines in an instance without anything of ours, one after the other in one environment."""
    # The commands of the page are those of the installation under test.
    env = {"PATH": f"{Path(sys.executable).parent}:{flux_program.parent}:{os.environ['PATH']}"}
    instance = FluxInstance(flux_program, env=env, cwd=tmp_path)

    def run(lines):
        done = subprocess.run(
            ["sh", "-euc", lines],
            env=instance.env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    yield run
    instance.stop()


def test_a_user_can_follow_the_page(shell, tmp_path):
    said = shell("\n".join(blocks("## For a user")))
    run = tailrace.open(tmp_path / "run")
    assert set(run.stages["stage"].dropna()) == {"make", "sort", "campaign", "count"}
    graph = run.dataflow(level="stage")
    edges = {(graph.nodes[a]["label"], graph.nodes[b]["label"]) for a, b in graph.edges()}
    assert {("make", "sort"), ("make", "count")} <= edges
    tasks = run.declared_tasks.set_index("stage")
    assert set(tasks["status"]) == {"done"}
    parents = set(tasks.loc[["count"], "parent"].dropna())
    assert parents == {tasks.at["campaign", "task"]}
    waits = run.waits.set_index("stage")
    assert waits.at["sort", "depend_ns"] > 0
    assert waits.at["sort", "run_ns"] == waits.loc["sort", ["io_ns", "wait_ns", "compute_ns"]].sum()
    for word in ("wait: data", "queue", "Dataflow", "COMPLETED count"):
        assert word in said


def test_an_administrator_can_follow_the_page(shell, flux_program, tmp_path):
    cmake, *commands = blocks("## For an administrator")
    assert cmake.startswith("cmake")
    with runs_in_home() as made:
        shell("\n".join(['eval "$(tailrace flux paths --format shell)"', *commands]))
        (run,) = made()
        opened = tailrace.open(run)
        assert opened.stages["stage"].dropna().tolist() == ["sim-1"]
        assert opened.columns.count("tag.cluster") == 1
        assert opened.declared_tasks["status"].tolist() == ["done"]
    assert not (tmp_path / "tailrace-runs").exists()


def test_the_analysis_can_be_followed(shell, tmp_path):
    pytest.importorskip("distributed", reason="Dask workers in Flux need Dask: pip install 'tailrace[flux]'")
    pytest.importorskip("cryptography", reason="Dask workers in Flux need cryptography: pip install 'tailrace[flux]'")
    shell("tailrace run -q -o run --tag stage=only -- sh -c 'seq 1000 > numbers'")
    (command,) = blocks("## Analysis inside Flux")
    assert "only" in shell(command)


def test_the_option_table_is_that_of_the_plugin():
    table = PAGE.read_text().split("| option | |", 1)[1].split("\n\n", 1)[0]
    documented = {cell.split("=")[0].split()[0] for cell in re.findall(r"^\| `(--[^`]*)`", table, re.MULTILINE)}
    plugin = (installation.PACKAGE / "flux/etc/cli/plugins/tailrace_trace.py").read_text()
    assert documented == set(re.findall(r'add_option\(\s*"(--[a-z-]+)"', plugin))
