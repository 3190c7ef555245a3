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
        (["python3"], "python3"),
        (["python3", "-i"], "python3"),
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
