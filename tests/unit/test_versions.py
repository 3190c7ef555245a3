"""Versions of files: against their definition, word by word, and on stories with known ends."""

from __future__ import annotations

from typing import Any

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model import dataflow, graphs


def naive_versions(ops: list[tuple[str, int, int, bool, bool]]) -> list[int]:
    """The rule of versions.py, word by word: ops are (unit, start, end, writes, truncates), each a burst of its own."""
    writes = sorted((o for o in ops if o[3]), key=lambda o: (o[1], not o[4]))
    begun: list[tuple[int, list[Any]]] = []
    for i, op in enumerate(writes):
        unit, start = op[0], op[1]
        if begun and not op[4]:
            members = begun[-1][1]
            units = {m[0] for m in members}
            end = max(m[2] for m in members)
            era = writes[i + 1 :]
            era = era[: next((k for k, o in enumerate(era) if o[4]), len(era))]
            goes_on = end >= start or any(o[0] in units and o[2] >= start for o in era)
            seen = any(not o[3] and o[0] not in units and o[1] < start and o[2] > end for o in ops)
            if unit in units or end >= start or (goes_on and not seen):
                members.append(op)
                continue
        begun.append((start, [op]))
    number: dict[int, int] = {id(o): n for n, (_, members) in enumerate(begun, 1) for o in members}
    return [number[id(o)] if o[3] else sum(1 for start, _ in begun if start <= o[1]) for o in ops]


@st.composite
def burst_ops(draw: st.DrawFn) -> list[tuple[str, int, int, bool, bool]]:
    starts = draw(st.lists(st.integers(0, 60), min_size=1, max_size=9, unique=True))
    return [
        (
            draw(st.sampled_from("abc")),
            s,
            s + draw(st.integers(0, 9)),
            w := draw(st.booleans()),
            w and draw(st.integers(0, 4)) == 0,
        )
        for s in starts
    ]


class TestVersions:
    @settings(max_examples=60, deadline=None)
    @given(burst_ops())
    def test_versions_follow_their_definition(self, ops: list[tuple[str, int, int, bool, bool]]) -> None:
        # bursts of one (unit, direction) that overlap become one; the naive rule has no bursts, so they are kept apart
        for i, a in enumerate(ops):
            for b in ops[:i]:
                if (a[0], a[3]) == (b[0], b[3]) and a[1] <= b[2] and b[1] <= a[2]:
                    return
        story = Story()
        for unit, start, end, writes, truncates in ops:
            values = {"task": unit, "at_ms": start, "dur": (end - start) * MS}
            (story.create if truncates else story.write if writes else story.read)("/f", **values)
        m = dataflow.model(story.run(2))
        got = {}
        for burst, version in zip(m.bursts.to_dict("records"), m.version, strict=True):
            unit = m.who["task"].iat[burst["who"]]
            start = (burst["first_ns"] - T0_NS) // MS
            got[(unit, start, burst["dir"] == edge_table.WRITE)] = int(m.versions.table["number"].iat[version])
        assert [got[(o[0], o[1], o[3])] for o in ops] == naive_versions(ops)

    @settings(max_examples=30, deadline=None)
    @given(burst_ops())
    def test_no_read_belongs_to_a_later_version(self, ops: list[tuple[str, int, int, bool, bool]]) -> None:
        story = Story()
        for unit, start, end, writes, truncates in ops:
            values = {"task": unit, "at_ms": start, "dur": (end - start) * MS}
            (story.create if truncates else story.write if writes else story.read)("/f", **values)
        m = dataflow.model(story.run())
        begin = m.versions.table["begin_ns"].to_numpy()[m.version]
        reads = m.bursts["dir"].to_numpy() == edge_table.READ
        assert (begin[reads] <= m.bursts["first_ns"].to_numpy()[reads]).all()

    def test_an_update_in_place_makes_no_cycle(self) -> None:
        story = Story()
        story.create("/state", task="init")
        story.write("/state", task="init")
        for step in range(4):
            story.read("/state", task=f"step{step}")
            story.write("/state", task=f"step{step}")
        g = graphs.graph(story.run(), "task")
        assert nx.is_directed_acyclic_graph(g)
        assert sum(1 for _, d in g.nodes(data=True) if d["kind"] == "file") == 5

    def test_a_truncated_file_has_no_bytes_of_the_previous_version(self) -> None:
        for truncate, wanted in ((True, []), (False, ["base"])):
            story = Story()
            story.write("/f", task="a")
            story.create("/f", task="b") if truncate else None
            story.write("/f", task="b")
            kinds = [kind for *_, kind in graphs.graph(story.run(), "task").edges(data="kind")]
            assert [kind for kind in kinds if kind == "base"] == wanted

    def test_a_read_that_begins_with_a_version_is_of_it(self) -> None:
        story = Story()
        for task, at_ms in (("a", 1), ("b", 2)):
            story.create("/f", task=task, at_ms=at_ms)
        story.read("/f", task="c", at_ms=2)
        m = dataflow.model(story.run())
        reads = m.bursts["dir"].to_numpy() == edge_table.READ
        assert m.versions.table["number"].to_numpy()[m.version[reads]].tolist() == [2]

    def test_writers_of_one_shared_file_share_a_version(self) -> None:
        story = Story()
        for i in range(20):
            story.write("/shared", i * 10, 10, task=f"rank{i % 4}")
        assert dataflow.model(story.run(3)).versions.table["number"].tolist() == [1]

    def test_a_read_in_the_pause_separates_them(self) -> None:
        story = Story()
        story.write("/f", 0, 10, task="a")
        story.read("/f", 0, 10, task="b")
        story.write("/f", 10, 10, task="b")
        story.write("/f", 20, 10, task="a")
        assert dataflow.model(story.run()).versions.table["number"].max() == 3

    def test_a_read_that_a_writer_overtakes_is_marked(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", task="a")
        story.read("/f", task="r", at_ms=10, dur=10 * MS)
        story.write("/f", task="b", at_ms=15)
        edges = [d for *_, d in graphs.graph(story.run(), "task").edges(data=True) if d["kind"] == "read"]
        assert [d["raced"] for d in edges] == [True]
