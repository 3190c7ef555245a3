"""The title of a run names its workflow and its program, not the interpreter."""

from __future__ import annotations

import pytest

from tailrace.analyzer.summary.title import title


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/usr/bin/python3.11", "-m", "words.main", "out"], "words.main out"),
        (["python3", "-u", "/home/ada/flow.py", "--fast"], "flow.py --fast"),
        (["/bin/sh", "-c", "sort a | uniq > b"], "sort a | uniq > b"),
        (["env", "OMP_NUM_THREADS=2", "Rscript", "fit.R"], "fit.R"),
        (["/opt/sim/bin/lmp", "-in", "melt.in"], "lmp -in melt.in"),
        (["python3"], ""),
        (["python3", "-i"], ""),
        (["/opt/py/bin/python", "-m", "ipykernel_launcher", "-f", "/home/ada/kernel-1.json"], ""),
        (["python", "/opt/py/lib/ipykernel_launcher.py", "-f", "k.json"], ""),
        (["/home/ada/venv/bin/python", "/home/ada/venv/bin/tailrace", "env", "-o", "run"], ""),
        (["python", "-m", "tailrace.cli.main", "env", "-o", "run"], ""),
        (["tailrace-plot", "x"], "tailrace-plot x"),
        (["jupyter", "execute", "flow.ipynb"], "jupyter execute flow.ipynb"),
        (["node", ""], ""),
        ([], ""),
    ],
)
def test_the_interpreter_is_left_out(command: list[str], words: str) -> None:
    assert title(command) == words


def test_one_workflow_is_named_and_several_are_not() -> None:
    assert title(["sh", "run.sh"], ["hmmer"]) == "hmmer: run.sh"
    assert title(["sh", "run.sh"], ["a", "b"]) == "run.sh"
    assert title([], ["hmmer"]) == "hmmer"


def test_without_a_program_the_workflows_or_the_directory_are_the_title() -> None:
    notebook = ["python", "-m", "ipykernel_launcher", "-f", "k.json"]
    assert title(notebook, ["spring"], "/home/ada/flow") == "spring"
    assert title(notebook, ["a", "b"], "/home/ada/flow") == "a, b"
    assert title(notebook, list("abcd"), "/home/ada/flow") == "flow"
    assert title(["tailrace", "env", "-o", "run"], (), "/home/ada/flow/") == "flow"
    assert title(["sh", "run.sh"], (), "/home/ada/flow") == "run.sh"
