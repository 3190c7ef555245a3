"""Small real programs (support/planted.py), each with planted ways to use files badly: which findings they get."""

import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.planted import KINDS, PROGRAMS, planted, source


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_finding_that_was_planted_and_no_other(tmp_path: Path, name: str) -> None:
    (tmp_path / "work").mkdir()
    command = (sys.executable, "-S", "-E", "-c", source(name))
    run_cli("run", "-q", "-o", tmp_path / "run", "--", *command, cwd=tmp_path / "work")
    found = [one for one in tailrace.open(tmp_path / "run").findings() if one.kind in KINDS]
    assert {one.kind for one in found} == planted(name), [one.title for one in found]
    for one in found:
        assert (one.cost_ns > 0 and one.estimate) or one.cost_bytes > 0
        assert one.evidence


def test_the_set_has_forty_programs() -> None:
    assert len(PROGRAMS) == 40
