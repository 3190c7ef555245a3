"""Workflows with a known cause, traced and judged (tests/diagnosis/run.py): a few always, all of them with -m long."""

from pathlib import Path

import pytest
from diagnosis.run import Case, cases, diagnose, totals

QUICK = (
    "lock_directory",
    "poll_in_c",
    "flush_each_record",
    "settings_nobody_declared",
    "killed_while_writing",
    "healthy_pipeline",
    "healthy_database",
)


def there(case: Case) -> Case:
    if absent := case.missing():
        pytest.skip(f"no {absent}")
    return case


@pytest.mark.parametrize("name", QUICK)
def test_a_workflow_is_told_its_cause_and_nothing_else(name: str, tmp_path: Path) -> None:
    (case,) = [one for one in cases() if one.name == name]
    outcome = diagnose(there(case), tmp_path)
    assert outcome.found, outcome.shown
    assert outcome.false == ()


def test_most_workflows_are_told_their_cause_and_few_anything_else(tmp_path: Path) -> None:
    outcomes = []
    for case in cases():
        if not case.missing():
            (tmp_path / case.name).mkdir()
            outcomes.append(diagnose(case, tmp_path / case.name))
    planted = [one for one in outcomes if one.case.expected]
    shown = sum(len(one.shown) for one in outcomes)
    assert sum(one.found for one in planted) >= 0.9 * len(planted), totals(outcomes)
    assert sum(len(one.false) for one in outcomes) <= 0.05 * shown, totals(outcomes)
