"""Runs against runs: statistics against textbook values, and a gate that fails when it should and only then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flowcase import MS, Story
from tailrace.analyzer.insights import run_comparison
from tailrace.errors import QueryError


def run(read_ms: float = 10, size: int = 100, extra: bool = False, root: str = "/w") -> Any:
    story = Story()
    story.create(f"{root}/f", stage="make", task="m", at_ms=1)
    story.write(f"{root}/f", 0, size, stage="make", task="m", at_ms=2, dur=MS)
    story.read(f"{root}/f", 0, size, stage="use", task="u", at_ms=20, dur=round(read_ms * MS))
    if extra:
        story.write(f"{root}/log", 0, 7, stage="use", task="u", at_ms=60, dur=MS)
    return story.run(meta={"cwd": root})


def compared(a: list[Any], b: list[Any]) -> run_comparison.Comparison:
    return run_comparison.compare([run_comparison.measure(r) for r in a], [run_comparison.measure(r) for r in b])


def row(found: run_comparison.Comparison, scope: str, figure: str) -> dict[Any, Any]:
    table = found.table
    (only,) = table[(table["scope"] == scope) & (table["figure"] == figure)].to_dict("records")
    return only


class TestTwoRuns:
    def test_a_run_is_like_itself_wherever_it_ran(self) -> None:
        found = compared([run(root="/here")], [run(root="/there")])
        assert (found.table["difference"] == 0).all()
        assert len(found.flows) == len(found.files) == 0 and found.identical

    def test_what_differs_and_by_how_much(self) -> None:
        found = compared([run(10)], [run(15, size=150, extra=True)])
        time = row(found, "use", "read_time")
        assert (time["a_mean"], time["b_mean"], time["share"]) == (0.01, 0.015, pytest.approx(0.5))
        assert row(found, run_comparison.RUN, "read_bytes")["difference"] == 50
        assert found.flows.to_dict("records")[0] == {
            "producer": "make",
            "consumer": "use",
            "a_bytes": 100,
            "b_bytes": 150,
            "difference": 50,
            "notable": False,
        }
        assert [(r.path, r.only) for r in found.files.itertuples()] == [("f", ""), ("log", "b")]

    def test_an_empty_side_is_refused(self) -> None:
        with pytest.raises(QueryError, match="at least one run"):
            run_comparison.compare([], [run_comparison.measure(run())])


class TestNoise:
    @pytest.mark.parametrize(
        ("a", "b", "unit", "above"),
        [
            (1.0, 1.04, "s", False),
            (0.010, 0.019, "s", False),
            (1.0, 1.06, "s", True),
            (1e6, 1e6 + 1025, "B", False),
            (10, 1034, "B", False),
            (1e4, 2e4, "B", True),
            (1000, 1011, "", True),
            (1000, 1009, "", False),
            (0, 1, "", True),
        ],
    )
    def test_both_floors_are_exceeded(self, a: float, b: float, unit: str, above: bool) -> None:
        assert run_comparison.above_floor(a, b, unit) == run_comparison.above_floor(b, a, unit) == above

    def test_small_differences_are_the_same(self) -> None:
        found = compared([run(10)], [run(12, size=110)])
        assert found.same and not found.identical

    def test_what_matters_most_is_first(self) -> None:
        """The read takes 1 s longer; the larger file and the log take next to no time."""
        table = compared([run(10)], [run(1010, size=50_000, extra=True)]).table
        assert table["figure"].iat[0] == "makespan" and table["scope"].iat[0] == run_comparison.RUN
        assert table["weight"].iloc[1:].is_monotonic_decreasing
        at = {(r.scope, r.figure): i for i, r in enumerate(table.itertuples())}
        assert at["use", "read_time"] < at["", "written_bytes"] < at["make", "processes"]


class TestGroups:
    def test_mean_deviation_and_interval(self) -> None:
        found = compared([run(10), run(12), run(14)], [run(20), run(20), run(23)])
        time = row(found, "use", "read_time")
        assert (time["a_mean"], time["a_sd"]) == (pytest.approx(0.012), pytest.approx(0.002))
        assert time["a_ci"] == pytest.approx(4.303 * 0.002 / 3**0.5)
        assert time["sure"]

    def test_noise_is_no_difference(self) -> None:
        time = row(compared([run(10), run(20), run(12)], [run(11), run(21), run(14)]), "use", "read_time")
        assert not time["sure"]

    @pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (30, 2.042), (60, 2.000), (120, 1.980), (2.9, 4.303)])
    def test_the_quantiles_are_the_tables(self, freedom: float, value: float) -> None:
        assert run_comparison.quantile(freedom) == pytest.approx(value, abs=6e-4)


class TestGate:
    @pytest.mark.parametrize(
        ("limit", "fails"),
        [
            ("use.read_time>+40%", True),
            ("use.read_time>+60%", False),
            ("use.read_time>0.014", True),
            ("use.read_time>0.016", False),
            ("read_time>+40%", True),  # a figure of stages: any of them
            ("make.read_time>+40%", False),
            ("read_bytes>+49", True),
            ("read_bytes>+50", False),
            ("read_bytes<-1%", False),
            ("io_time>+1e3%", False),
            ("use.written_bytes>+10%", True),  # from nothing to something
        ],
    )
    def test_limits(self, limit: str, fails: bool) -> None:
        found = compared([run(10)], [run(15, size=150, extra=True)])
        verdicts = run_comparison.check(found, [run_comparison.gate(limit)])
        assert any(verdict.exceeded for verdict in verdicts) == fails

    def test_a_lower_limit_has_the_other_sign(self) -> None:
        found = compared([run(15)], [run(10)])
        (verdict,) = run_comparison.check(found, [run_comparison.gate("use.read_time<-10%")])
        assert str(verdict) == "exceeded: use.read_time<-10% (use.read_time: 0.015 -> 0.01 s (-33.3%))"

    def test_noise_passes_the_gate(self) -> None:
        found = compared([run(10), run(20), run(12)], [run(15), run(21), run(16)])
        assert row(found, "use", "read_time")["share"] > 0.2
        (verdict,) = run_comparison.check(found, [run_comparison.gate("use.read_time>+20%")])
        assert (verdict.exceeded, verdict.noise) == (False, True) and str(verdict).startswith("passed, within noise: ")

    def test_each_limit_has_a_verdict_of_the_nearest_stage(self) -> None:
        found = compared([run(10)], [run(15, size=150, extra=True)])
        limits = [run_comparison.gate(text) for text in ("read_time>+60%", "read_bytes>+49", "tasks>+1")]
        assert [str(verdict) for verdict in run_comparison.check(found, limits)] == [
            "passed: read_time>+60% (use.read_time: 0.01 -> 0.015 s (+50.0%))",
            "exceeded: read_bytes>+49 (read_bytes: 100 -> 150 B (+50))",
            "passed: tasks>+1 (tasks: 2 -> 2 (+0))",
        ]

    @pytest.mark.parametrize("text", ["io_time", ">5", "io_time>", "io_time>ten", "io_time=5", ""])
    def test_invalid_limits(self, text: str) -> None:
        with pytest.raises(QueryError, match="is not a limit: write FIGURE"):
            run_comparison.gate(text)

    def test_a_missing_name_lists_the_valid_ones(self) -> None:
        with pytest.raises(QueryError, match="no figure 'speed'; there are makespan, "):
            run_comparison.gate("speed>+1%")
        with pytest.raises(QueryError, match="stages are make, use"):
            run_comparison.check(compared([run()], [run()]), [run_comparison.gate("mak.io_time>+1%")])

    @given(st.text(max_size=30))
    def test_any_text_is_a_limit_or_an_error(self, text: str) -> None:
        try:
            assert run_comparison.gate(text).figure in run_comparison.FIGURES
        except QueryError as error:
            assert str(error)
