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
        assert len(found.flows) == len(found.files) == 0

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
        }
        assert [(r.path, r.only) for r in found.files.itertuples()] == [("f", ""), ("log", "b")]

    def test_an_empty_side_is_refused(self) -> None:
        with pytest.raises(QueryError, match="at least one run"):
            run_comparison.compare([], [run_comparison.measure(run())])


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
        assert bool(run_comparison.check(found, [run_comparison.gate(limit)])) == fails

    def test_a_lower_limit_has_the_other_sign(self) -> None:
        found = compared([run(15)], [run(10)])
        (sentence,) = run_comparison.check(found, [run_comparison.gate("use.read_time<-10%")])
        assert sentence.startswith("use.read_time: 0.015 -> 0.01 s (-33.3%)")

    def test_noise_passes_the_gate(self) -> None:
        found = compared([run(10), run(20), run(12)], [run(15), run(21), run(16)])
        assert row(found, "use", "read_time")["share"] > 0.2
        assert run_comparison.check(found, [run_comparison.gate("use.read_time>+20%")]) == []

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
