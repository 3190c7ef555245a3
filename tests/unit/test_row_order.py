"""An edge table has one order, whatever was read first."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flowcase import FakeRun, Story
from tailrace.analyzer.edges import event_fold, row_order
from tailrace.analyzer.edges.edge_table import EdgeTable

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-(2**62), 2**62), st.text("ab/", max_size=2), st.text("xy", max_size=1))
)


@given(ROWS)
def test_rows_come_by_their_numbers_and_then_by_their_texts(rows: list[tuple[int, int, str, str]]) -> None:
    numbers = [np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1)]
    texts = [np.array([row[i] for row in rows], dtype=object) for i in (2, 3)]
    at = row_order.order(numbers, texts)
    found = rows if at is None else [rows[i] for i in at]
    assert found == sorted(rows)
    assert (at is None) == (rows == sorted(rows))


def tied() -> Story:
    """Processes that do the same to files of their own and to a common one, all at one time."""
    story = Story()
    for pid in random.Random(1).sample(range(100, 900), 40):
        who = {"pid": pid, "task": f"t{pid % 7}", "stage": "s", "host": f"n{pid % 3}"}
        story.create(f"/own-{pid}", at_ms=1, **who)
        story.write(f"/own-{pid}", at_ms=1, **who)
        story.read("/common", at_ms=2, **who)
        story.event("rename", f"/own-{pid}", path2=f"/other-{pid}", at_ms=3, **who)
        story.event("fork", at_ms=3, cat="PROCESS", **{**who, "ret": pid + 1000})
    return story


def shuffled(run: FakeRun, partitions: int) -> FakeRun:
    """The processes in another order."""
    pids = sorted({row["pid"] for row in run.rows})
    place = {pid: at for at, pid in enumerate(random.Random(2).sample(pids, len(pids)))}
    return FakeRun(sorted(run.rows, key=lambda row: place[row["pid"]]), partitions)


@pytest.mark.parametrize("partitions", [1, 7])
def test_a_table_does_not_depend_on_what_was_read_first(partitions: int) -> None:
    run = tied().run()
    found, wanted = event_fold.build(shuffled(run, partitions)), event_fold.build(run)
    for name in (field.name for field in dataclasses.fields(EdgeTable)):
        one, other = getattr(found, name), getattr(wanted, name)
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other, obj=name)
        else:
            assert [column.tolist() for column in one] == [column.tolist() for column in other], name


def test_a_table_in_its_order_stays_as_it_is() -> None:
    table = event_fold.build(tied().run(3))
    again = row_order.ordered(table)
    assert all(
        getattr(again, name) is getattr(table, name) for name in ("who", "files", "aliases", "bursts", "thread_calls")
    )


def test_a_file_has_the_type_that_any_part_says() -> None:
    """A part in which a folder is a second file only can't say what it is."""
    story = Story()
    story.event("link", "/a", path2="/folder", file2="8:1:9")
    story.event("open", "/folder", file="8:1:9", ftype="dir", pid=2)
    for run in (story.run(2), FakeRun(story.rows[::-1], 2)):
        table = event_fold.build(run)
        assert dict(zip(table.files["file"], table.files["ftype"], strict=True))["8:1:9"] == "dir"
