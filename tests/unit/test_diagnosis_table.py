"""The table of the workflows with a known cause (tests/diagnosis/expected.tsv)."""

from diagnosis.run import ROOM, cases

from tailrace.analyzer.insights.findings import RULES


def test_each_row_has_a_script_and_each_script_a_row() -> None:
    assert sorted(case.name for case in cases()) == sorted(path.stem for path in (ROOM / "cases").iterdir())


def test_each_kind_is_a_findings() -> None:
    kinds = {rule.kind for rule in RULES}
    assert not [case.name for case in cases() if not case.expected | case.also <= kinds]


def test_there_are_many_and_some_are_healthy() -> None:
    healthy = [case.name for case in cases() if not case.expected]
    assert len(cases()) >= 30 and 4 * len(healthy) >= len(cases())
    assert all(name.startswith("healthy_") for name in healthy)
