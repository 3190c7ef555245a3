"""The title of a run names its workflow and its program, not the interpreter."""

from __future__ import annotations

import pytest

from tailrace.analyzer.summary.title import shared_title, title


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


def test_a_named_workflow_is_not_said_twice() -> None:
    assert title(["flux:", "workflow", "spring"], ["spring"]) == "spring"
    assert title(["flux:", "batch", "campaign.sh"], ["f3"]) == "f3: flux: batch campaign.sh"


@pytest.mark.parametrize(
    ("workflows", "expected"),
    [
        (["spring"], "spring"),
        (["", "spring"], "7 jobs in flow/run"),
        (["a", "b"], "7 jobs in flow/run"),
        ([""], "7 jobs in flow/run"),
    ],
)
def test_jobs_that_share_a_run_give_it_no_command_and_no_part_of_them_its_name(
    workflows: list[str], expected: str
) -> None:
    assert shared_title(7, workflows, "/home/ada/flow/run") == expected
