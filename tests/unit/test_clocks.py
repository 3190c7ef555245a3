"""Hosts whose clocks differ: detected by reads before their writes, corrected by no more than that."""

from __future__ import annotations

import pytest

from support.flowcase import MS, Story
from tailrace.analyzer.edges import clocks
from tailrace.analyzer.model import dataflow


def relay(ahead: dict[str, float], hosts: tuple[str, ...] = ("a", "b", "a")) -> Story:
    """Each host reads what the one before wrote, 5 ms later in truth; `ahead` is by how many ms its clock is."""
    story = Story()
    for number, host in enumerate(hosts):
        at, values = 20 * number + ahead.get(host, 0), {"task": f"t{number}", "host": host, "pid": number}
        if number:
            story.read(f"/f{number - 1}", at_ms=at, dur=MS, **values)
        story.create(f"/f{number}", at_ms=at + 10, **values)
        story.write(f"/f{number}", at_ms=at + 14, dur=MS, **values)
    return story


def passed(story: Story) -> int:
    return int((dataflow.flow_table(dataflow.model(story.run(2)), "task")["producer"] >= 0).sum())


@pytest.mark.parametrize("ahead", [{}, {"a": 3}, {"b": -3}])
def test_consistent_clocks_are_unchanged(ahead: dict[str, float]) -> None:
    m = dataflow.model(relay(ahead).run())
    assert m.ahead == {}


@pytest.mark.parametrize("ahead", [{"b": -500}, {"b": 500}, {"a": 7000}])
def test_impossible_orders_are_corrected(ahead: dict[str, float]) -> None:
    story = relay(ahead)
    m = dataflow.model(story.run())
    truth = ahead.get("b", 0) - ahead.get("a", 0)
    found = (m.ahead.get("b", 0) - m.ahead.get("a", 0)) / MS
    assert abs(found - truth) <= 6, "known to what lay between write and read"
    assert passed(story) == 2, "no handover is lost"


def test_three_hosts_in_a_chain() -> None:
    story = relay({"b": -300, "c": 400}, ("a", "b", "c", "b", "a"))
    m = dataflow.model(story.run())
    found = {host: m.ahead.get(host, 0) / MS for host in "abc"}
    assert found["b"] - found["a"] == pytest.approx(-300, abs=6)
    assert found["c"] - found["b"] == pytest.approx(700, abs=6)
    assert passed(story) == 4


def test_an_old_file_updated_later_gives_no_clock_bound() -> None:
    story = Story()
    story.read("/old", task="r", host="a", at_ms=1)
    story.write("/old", task="w", host="b", at_ms=50)
    assert len(clocks.gaps(dataflow.model(story.run()).table)) == 0
