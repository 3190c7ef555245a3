"""The stage table: unions of time, sums of bytes, and the fate of files."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, Story, frame
from tailrace.analyzer.model import dataflow, stages


def pipeline() -> Story:
    story = Story()
    story.event("openat", "/in", stage="make", task="m1", pid=1)
    story.read("/in", 0, 50, stage="make", task="m1", pid=1)
    story.create("/mid", stage="make", task="m1", pid=1)
    story.write("/mid", 0, 80, stage="make", task="m1", pid=1)
    story.create("/log", stage="make", task="m2", pid=2)
    story.write("/log", 0, 7, stage="make", task="m2", pid=2)
    story.read("/mid", 0, 80, stage="use", task="u1", pid=3)
    story.write("/out", 0, 9, stage="use", task="u1", pid=3)
    story.event("unlink", "/out", stage="use", task="u1", pid=3)
    story.read("pipe:[1]", None, 1000, ftype="fifo", dur=50 * MS, stage="use", task="u1", pid=3)
    story.write("/x", None, 3, file=None, ftype=None, stage="use", task="u1", pid=3)
    story.event("stat", "/gone", errno=2, ret=-1, stage="use", task="u1", pid=3)
    return story


def rows(story: Story, partitions: int = 1) -> dict[str, dict[str, int]]:
    return {row["stage"]: row for row in stages.table(story.run(partitions)).to_dict("records")}


def test_columns_are_documented_and_whole_numbers() -> None:
    table = stages.table(pipeline().run(2))
    assert list(table.columns) == list(stages.COLUMNS)
    assert {str(table[c].dtype) for c in table.columns if c not in ("workflow", "stage")} == {"int64"}
    assert all(stages.COLUMNS.values())


def test_counts_bytes_and_calls() -> None:
    got = rows(pipeline(), 3)
    make, use = got["make"], got["use"]
    assert (make["tasks"], make["processes"], make["read_bytes"], make["written_bytes"]) == (2, 2, 50, 87)
    assert (make["read_calls"], make["write_calls"], make["metadata_calls"]) == (1, 2, 3)
    assert (use["read_bytes"], use["written_bytes"], use["stream_calls"]) == (1080, 12, 1)
    assert (use["failed_calls"], use["unnamed_bytes"]) == (1, 3)


def test_the_fate_of_files() -> None:
    got = rows(pipeline())
    names = ("files_read", "files_written", "files_passed_on", "files_external", "files_never_read")
    assert [got["make"][n] for n in names] == [1, 2, 1, 1, 1]
    assert [got["use"][n] for n in names] == [1, 1, 0, 0, 1]
    unread = stages.never_read(dataflow.model(pipeline().run()))
    assert unread[["path", "stages", "removed"]].to_numpy().tolist() == [
        ["/log", ["make"], False],
        ["/out", ["use"], True],
    ]


def test_waiting_on_a_pipe_is_not_io() -> None:
    use = rows(pipeline())["use"]
    assert use["stream_ns"] == 50 * MS
    assert use["io_ns"] < MS


def test_untagged_actors_are_named_so() -> None:
    story = pipeline()
    story.read("/mid", pid=9)
    assert rows(story)["(untagged)"]["tasks"] == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_times_are_unions_over_actors(seed: int, partitions: int) -> None:
    r, story = random.Random(seed), Story()
    for _ in range(60):
        values = {
            "pid": r.randint(1, 4),
            "stage": r.choice("ab"),
            "at_ms": r.randint(0, 100),
            "dur": r.randint(0, 5) * MS,
        }
        r.choice((story.read, story.write))("/f", 0, 1, **values) if r.random() < 0.7 else story.event(
            "stat", "/f", **values
        )
    events = frame(story.rows)
    t0 = int(events["ts"].min())
    for name, row in rows(story, partitions).items():
        mine = events[events["stage"] == name]
        kinds = {"read_ns": mine["dir"].eq("r"), "write_ns": mine["dir"].eq("w"), "metadata_ns": mine["dir"].isna()}
        for column, pick in {**kinds, "io_ns": mine["dir"].notna() | True}.items():
            covered = np.zeros(200, dtype=bool)
            for ts, dur in mine.loc[pick.fillna(False).astype(bool), ["ts", "dur"]].to_numpy():
                covered[(ts - t0) // MS : (ts - t0 + dur) // MS] = True
            assert row[column] == covered.sum() * MS, column


def test_no_events_make_no_stages() -> None:
    assert len(stages.table(Story().run())) == 0


def test_who_only_opens_a_file_that_another_one_fills_is_no_writer() -> None:
    story = Story()
    for pid, path in ((1, "/out"), (2, "/out"), (1, "/empty")):
        story.create(path, pid=pid)
    story.write("/out", 0, 80, pid=2)
    m = dataflow.model(story.run())
    fates = stages.file_fates(m).set_index(m.paths)
    assert fates["writers"].to_dict() == {"/out": 1, "/empty": 1}
