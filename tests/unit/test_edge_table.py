"""The edge table: unions are exact, nothing is counted twice, and the partitioning does not show."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story, frame
from tailrace.analyzer.edges import edge_table, event_fold
from tailrace.analyzer.util import intervals

ranges = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 8)), max_size=30)


def arrays(rows: list[tuple[int, int, int]]) -> intervals.Intervals:
    group, start, size = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    return intervals.make(group, start, start + size)


def covered(rows: intervals.Intervals) -> set[tuple[int, int]]:
    return {(int(g), x) for g, s, e in zip(rows.group, rows.start, rows.end, strict=True) for x in range(s, e)}


def pairs(points: set[int]) -> np.ndarray:
    """A set of integers as a union of shape (n, 2)."""
    out: list[list[int]] = []
    for x in sorted(points):
        if out and out[-1][1] == x:
            out[-1][1] = x + 1
        else:
            out.append([x, x + 1])
    return np.array(out, dtype=np.int64).reshape(-1, 2)


class TestIntervals:
    @given(ranges)
    @example([(0, 0, 8), (0, 1, 1), (0, 5, 1)])
    def test_union_is_the_set_union(self, rows: list[tuple[int, int, int]]) -> None:
        united = intervals.union(arrays(rows))
        assert covered(united) == {(g, x) for g, s, n in rows for x in range(s, s + n)}
        for i in range(1, len(united.group)):
            same = united.group[i] == united.group[i - 1]
            assert not same or united.start[i] > united.end[i - 1], "touching intervals are one"

    @given(ranges, st.integers(0, 30))
    def test_union_of_unions_is_the_union(self, rows: list[tuple[int, int, int]], cut: int) -> None:
        whole = intervals.union(arrays(rows))
        parts = intervals.cap(
            [intervals.union(arrays(rows[:cut])), intervals.union(arrays(rows[cut:]))], len(rows) + 1
        )[0]
        for a, b in zip(whole, parts, strict=True):
            assert a.tolist() == b.tolist()

    @given(ranges)
    def test_length_is_the_number_of_points(self, rows: list[tuple[int, int, int]]) -> None:
        lengths = intervals.length(intervals.union(arrays(rows)), 4)
        points = {(g, x) for g, s, n in rows for x in range(s, s + n)}
        assert lengths.tolist() == [sum(1 for g, _ in points if g == k) for k in range(4)]

    @given(ranges, st.integers(1, 4))
    def test_cap_keeps_everything_covered_and_the_largest_gaps(
        self, rows: list[tuple[int, int, int]], limit: int
    ) -> None:
        united = intervals.union(arrays(rows))
        capped, coarse = intervals.cap([united], limit)
        assert covered(united) <= covered(capped)
        assert capped.weight.sum() == united.weight.sum(), "the length that was covered is remembered"
        for g in range(4):
            before, after = united.start[united.group == g], capped.start[capped.group == g]
            assert len(after) == min(limit, len(before))
            assert (g in coarse) == (len(before) > limit)
            gaps = sorted(before[1:] - united.end[united.group == g][:-1], reverse=True)
            kept = sorted(after[1:] - capped.end[capped.group == g][:-1], reverse=True)
            assert kept == gaps[: len(kept)]

    @given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
    def test_intersect_and_subtract_are_those_of_sets(self, a: set[int], b: set[int]) -> None:
        assert intervals.intersect(pairs(a), pairs(b)).tolist() == pairs(a & b).tolist() or a & b == set()
        both = {x for s, e in intervals.intersect(pairs(a), pairs(b)).tolist() for x in range(s, e)}
        rest = {x for s, e in intervals.subtract(pairs(a), pairs(b)).tolist() for x in range(s, e)}
        assert (both, rest) == (a & b, a - b)

    def test_times_since_the_epoch_do_not_overflow(self) -> None:
        group = np.arange(5000, dtype=np.int64).repeat(2) * 10**12
        start = np.full(10_000, T0_NS, dtype=np.int64)
        united = intervals.union(intervals.make(group, start, start + 1))
        assert len(united.group) == 5000
        assert (united.end - united.start == 1).all()


def busy_story(seed: int) -> Story:
    """Some hundred accesses of a few files by a few actors, overlapping, with truncations."""
    r, story = random.Random(seed), Story()
    for _ in range(200):
        values = {"pid": r.randint(1, 3), "task": r.choice([None, "t1", "t2"]), "at_ms": r.randint(0, 400) / 4}
        path, start, size = r.choice("abc"), r.choice([None, *range(0, 500, 50)]), r.randint(0, 60)
        kind = r.random()
        if kind < 0.1:
            story.create("/" + path, **values)
        elif kind < 0.5:
            story.write("/" + path, start, size, dur=r.randint(0, 900_000), **values)
        else:
            story.read("/" + path, start, size, dur=r.randint(0, 900_000), **values)
    return story


def sorted_frame(table: edge_table.EdgeTable) -> pd.DataFrame:
    return edge_table.frame(table).sort_values([*edge_table.WHO, "file", "direction"], ignore_index=True)


class TestEdgeTable:
    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 10_000), st.integers(2, 9))
    def test_partitioning_changes_nothing(self, seed: int, partitions: int) -> None:
        story = busy_story(seed)
        one, many = (sorted_frame(event_fold.build(story.run(n))) for n in (1, partitions))
        pd.testing.assert_frame_equal(one, many)

    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 10_000))
    def test_sums_are_those_of_the_events(self, seed: int) -> None:
        story = busy_story(seed)
        events = frame(story.rows)
        table = sorted_frame(event_fold.build(story.run(3)))
        for direction in ("r", "w"):
            moved = events[events["dir"] == direction]
            edges = table[table["direction"] == direction]
            assert edges["bytes"].sum() == moved["size"].sum()
            assert edges["calls"].sum() == len(moved)
        for row in table.itertuples():
            mine = events[(events["file"] == row.file) & (events["pid"] == row.pid) & (events["dir"] == row.direction)]
            mine = mine[mine["task"].fillna("") == row.task]
            placed = mine[mine["offset"].notna()]
            points = {x for o, n in zip(placed["offset"], placed["size"], strict=True) for x in range(o, o + n)}
            assert {x for s, e in row.extents for x in range(s, e)} == points
            loose = mine[mine["offset"].isna()]
            assert row.loose_bytes == loose["size"].sum()

    def test_io_time_is_a_union_over_threads_and_partitions(self) -> None:
        story = Story()
        for tid, at in ((1, 0.0), (2, 1.0), (1, 5.0)):
            story.read("/a", 0, 10, at_ms=at, dur=2 * MS, tid=tid)
        for partitions in (1, 3):
            table = edge_table.frame(event_fold.build(story.run(partitions)))
            assert table["io_ns"].tolist() == [5 * MS]

    def test_upper_layers_and_failures_move_nothing(self) -> None:
        story = Story()
        story.write("/a", 0, 100)
        story.write("/a", 0, 100, cat="MPIIO", name="MPI_File_write")
        story.write("/a", 100, 0, ret=-1, errno=28)
        table = event_fold.build(story.run())
        assert edge_table.frame(table)[["bytes", "calls"]].to_numpy().tolist() == [[100, 1]]
        assert table.counts["failed"].sum() == 1

    def test_two_descriptor_copies_read_one_file_and_write_the_other(self) -> None:
        story = Story()
        values = {"dir": "rw", "size": 70, "offset": 5, "path2": "/b", "file2": story.identity("/b")}
        story.event("copy_file_range", "/a", **values)
        table = sorted_frame(event_fold.build(story.run())).sort_values("path")
        assert table[["path", "direction", "bytes", "loose_bytes"]].to_numpy().tolist() == [
            ["/a", "r", 70, 0],
            ["/b", "w", 70, 70],
        ]

    def test_mapping_a_file_reads_no_bytes_but_is_an_access(self) -> None:
        story = Story()
        story.event("mmap", "/a", cat="MMAP", count=4096, offset=0)
        table = edge_table.frame(event_fold.build(story.run()))
        assert table[["direction", "bytes", "mapped_bytes"]].to_numpy().tolist() == [["r", 0, 4096]]

    @pytest.mark.parametrize(("prot", "flags", "ways"), [(1, 1, "r"), (3, 1, "rw"), (3, 3, "rw"), (3, 2, "r")])
    def test_writable_shared_mappings_are_writes(self, prot: int, flags: int, ways: str) -> None:
        story = Story()
        mapping = {"cat": "MMAP", "count": 4096, "offset": 8192, "prot": prot, "flags": flags}
        story.event("mmap", "/a", **mapping)
        story.event("munmap", "/a", **{**mapping, "count": 100})
        table = event_fold.build(story.run())
        frame = sorted_frame(table)
        assert "".join(frame["direction"]) == ways
        assert (frame["bytes"] == 0).all() and frame["mapped_bytes"].tolist() == [4096, 4196][: len(ways)]

    def test_a_file_keeps_its_names_and_shows_the_last(self) -> None:
        story = Story()
        story.write("/d/tmp.part")
        story.rename("/d/tmp.part", "/d/final")
        table = event_fold.build(story.run(2))
        assert sorted(table.aliases["path"]) == ["/d/final", "/d/tmp.part"]
        assert edge_table.last_paths(table).tolist() == ["/d/final"]

    def test_a_renamed_directory_renames_what_is_in_it(self) -> None:
        story = Story()
        story.write("/d/tmp/x")
        story.event("rename", "/d/tmp", path2="/d/out", file2="8:1:99", file="8:1:99", ftype="dir")
        story.write("/d/tmp/x2")
        paths = dict(zip((t := event_fold.build(story.run())).files["file"], edge_table.last_paths(t), strict=True))
        assert paths[story.identity("/d/tmp/x")] == "/d/out/x"
        assert (
            paths[story.identity("/d/tmp/x2")] == "/d/tmp/x2"
        ), "seen after the rename: another directory of that name"

    def test_a_failed_rename_changes_no_name(self) -> None:
        story = Story()
        story.write("/a")
        story.event("rename", "/a", path2="/b", ret=-1, errno=13)
        assert edge_table.last_paths(event_fold.build(story.run())).tolist() == ["/a"]

    def test_the_table_does_not_grow_with_the_events(self) -> None:
        story = Story()
        for i in range(2000):
            story.read("/a", (i * 7919) % 100_000, 1)
        table = event_fold.build(story.run(4))
        assert len(table.bursts) == edge_table.MAX_BURSTS
        assert len(table.extents.group) <= edge_table.MAX_BURSTS * edge_table.MAX_EXTENTS
        assert not edge_table.frame(table)["exact"].iat[0]
        assert edge_table.frame(table)["bytes"].iat[0] == 2000

    @pytest.mark.parametrize("dtype", ["category", "string", "object"])
    def test_any_dtype_of_text_will_do(self, dtype: str) -> None:
        story = busy_story(1)
        events = frame(story.rows)
        texts = [c for c in events if isinstance(events[c].dtype, pd.StringDtype)]
        plain = edge_table.frame(event_fold.chunk(events))
        pd.testing.assert_frame_equal(
            plain, edge_table.frame(event_fold.chunk(events.astype(dict.fromkeys(texts, dtype))))
        )

    def test_no_events_make_an_empty_table(self) -> None:
        table = event_fold.build(Story().run())
        assert len(edge_table.frame(table)) == 0
