"""Frames of events: which blocks are read, which rows come out, and what the tables say."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tailrace
from support import trace_writer as tw
from tailrace import _native
from tailrace.analyzer.store import conditions, joining, loader, partitions, schema
from tailrace.errors import QueryError, TraceError


def stage_block(stage: str | None, at_us: int, count: int = 3, **header: Any) -> bytes:
    tags = {} if stage is None else {"stage": stage, "task": f"{stage}-1"}
    lines = [tw.event(ts_us=tw.T0_US + at_us + i, dir="r", size=10, **tags) for i in range(count)]
    return tw.block(lines, header)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    data = stage_block("a", 0) + stage_block("b", 1000) + stage_block(None, 2000)
    mixed = tw.block(
        [
            tw.event("write", tw.T0_US + 5000, stage="a", task="a-2", dir="w", size=7),
            tw.event("read", tw.T0_US + 5001, stage="b", task="b-1", dir="r", size=2, **{"tag.try": "1"}),
            tw.event("read", tw.T0_US + 5002, cat="MPIIO", stage="b", task="b-1", dir="r", size=100),
        ],
        {"pid": 8},
    )
    return tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": data, "n-8-1": mixed}))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str]]]:
    """(number of blocks, columns) of every native read that happens from here on."""
    seen: list[tuple[int, list[str]]] = []

    class Spy:
        @staticmethod
        def read_files(parts: Any, columns: list[str], mounts: Any, ends: bool) -> Any:
            seen.append((sum(len(places) for _, places in parts), columns))
            return _native.read_files(parts, columns, mounts, ends)

    monkeypatch.setattr(loader, "_native", Spy)
    return seen


# ---- rows ----


def test_all_events_in_file_order(run: Any) -> None:
    frame = run.events().compute(scheduler="threads")
    assert frame["ts"].tolist() == sorted(frame["ts"]) and len(frame) == 12
    assert (
        frame["stage"].astype(object).where(frame["stage"].notna(), None).tolist()[:9]
        == ["a"] * 3 + ["b"] * 3 + [None] * 3
    )


def test_dtypes_are_those_of_the_meta_and_the_schema(run: Any) -> None:
    lazy = run.events()
    frame = lazy.compute()
    assert list(lazy.columns) == list(frame.columns) == [*schema.BY_NAME, "tag.try"]
    for name in frame.columns:
        want = schema.column(name).dtype
        assert str(frame[name].dtype) == want and str(lazy.dtypes[name]) == want
    assert lazy._meta["name"].cat.categories.dtype == frame["name"].cat.categories.dtype


def test_a_stage_reads_only_its_blocks(run: Any, read: list[tuple[int, list[str]]]) -> None:
    frame = run.events(columns=["ts", "size"], stage="a").compute()
    assert [blocks for blocks, _ in read] == [2] and set(read[0][1]) == {"ts", "size", "stage", "dir"}
    assert list(frame.columns) == ["ts", "size"] and frame["size"].tolist() == [10, 10, 10, 7]


def test_a_projection_is_pushed_down(run: Any, read: list[tuple[int, list[str]]]) -> None:
    assert run.events()["size"].sum().compute() == 90 + 7 + 2 + 100
    assert {tuple(columns) for _, columns in read} == {("size", "dir")}, "a copy is known by its dir"


@pytest.mark.parametrize(
    ("where", "count", "blocks"),
    [
        ({"stage": ["a", "b"]}, 9, 3),
        ({"stage": ""}, 3, 1),
        ({"stage": ["", "a"]}, 7, 3),
        ({"task": "a-2"}, 1, 1),
        ({"stage": "b", "task": "a-2"}, 0, 0),  # no context has both
        ({"stage": conditions.Glob("[ab]*")}, 9, 4),
        ({"tag.try": "1"}, 1, 1),
        ({"pid": 8}, 0, 1),  # the header has 8, the lines 7: headers exclude blocks, rows decide
        ({"host": conditions.Glob("node*")}, 12, 4),
        ({"name": "write"}, 1, 4),
        ({"size": [2, 7]}, 2, 4),
        ({"offset": 0}, 0, 4),
        ({"cat": "MPIIO", "dir": "r"}, 1, 4),
        ({"t0": (tw.T0_US + 1002) * 1000}, 8, 3),
        ({"t0": (tw.T0_US + 1002) * 1000 + 251}, 7, 3),  # the call before it ended 1 ns earlier
        ({"t0": (tw.T0_US + 1001) * 1000 + 1250}, 8, 3),
        ({"t1": (tw.T0_US + 1) * 1000}, 1, 1),
        ({"t1": (tw.T0_US + 1) * 1000 + 1}, 2, 1),
        ({"t0": (tw.T0_US + 1000) * 1000, "t1": (tw.T0_US + 2000) * 1000}, 3, 1),
        ({"t1": 0}, 0, 0),
        ({"t0": 2**70}, 0, 0),
    ],
)
def test_predicates(
    run: Any, read: list[tuple[int, list[str]]], where: dict[str, Any], count: int, blocks: int
) -> None:
    frame = run.events(columns=["name"], **where).compute()
    assert len(frame) == count
    assert sum(seen for seen, _ in read) == blocks


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"stage": "c"}, "no stage 'c'; there is 'a', 'b'"),
        ({"job": "1"}, "no job '1'; there is none"),
        ({"host": "elsewhere"}, "no host 'elsewhere'; there is 'node-1'"),
        ({"colour": "red"}, "colour"),
        ({"tag.none": "x"}, "tag.none"),
        ({"columns": ["nome"]}, "nome"),
        ({"columns": ["tag.none"]}, "tag.none"),
        ({"size": "big"}, "'big'"),
        ({"t0": 1.5}, "t0"),
    ],
)
def test_missing_names_are_reported(run: Any, where: dict[str, Any], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        run.events(**where)


def test_partitions_are_balanced_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"n-{i}-1": b"".join(stage_block("s", j * 100, 5 + j) for j in range(4)) for i in range(5)}
    run = tailrace.open(tw.make_run(tmp_path / "run", files))
    raw = run.info()["raw_bytes"]
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", raw // 6)
    parts = partitions.partitions(run._catalogue, conditions.Where())
    sizes = [sum(file.events for file in part) for part in parts]
    assert len(parts) in (6, 7) and sum(sizes) == 5 * (5 + 6 + 7 + 8) and max(sizes) <= 2 * sum(sizes) / 6
    frame = run.events()
    assert frame.npartitions == len(parts) and len(frame.compute()) == sum(sizes)
    assert run.events(columns=["stage"]).groupby("stage", observed=True).size().compute().to_dict() == {"s": sum(sizes)}


def test_categories_of_partitions_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    files = {f"n-{i}-1": stage_block(stage, 0) for i, stage in enumerate(["a", None, "b"])}
    frame = tailrace.open(tw.make_run(tmp_path / "run", files)).events(columns=["stage", "name"])
    assert frame.npartitions == 3
    stages = frame.compute()["stage"]
    assert (
        str(stages.dtype) == "category"
        and stages.dropna().tolist() == ["a"] * 3 + ["b"] * 3
        and stages.isna().sum() == 3
    )


@pytest.mark.parametrize(
    "where", [{}, {"stage": ""}, {"name": "write"}, {"size": [2, 7]}, {"t0": (tw.T0_US + 1002) * 1000}]
)
def test_what_is_read_at_once_is_what_partitions_have(
    run: Any, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    want = run.events(**where).compute().reset_index(drop=True)
    monkeypatch.setattr(loader, "JOINED_RAW_BYTES", 1)
    columns = ["size", "stage", "name", "ts"]
    assert run.read(columns, **where).astype(object).equals(want[columns].astype(object))
    assert run.read(**where).dtypes.astype(str).tolist() == want.dtypes.astype(str).tolist()


def test_a_frame_can_be_changed(run: Any) -> None:
    frame = run.events().compute()
    frame.loc[0, "size"] = 1
    frame.loc[0, "ts"] = 2
    frame.loc[0, "flags"] = 3
    frame.loc[0, "name"] = "write"
    assert frame.loc[0, ["size", "ts", "flags", "name"]].tolist() == [1, 2, 3, "write"]


# ---- headers that contradict their block ----


def test_a_damaged_block_costs_that_block(tmp_path: Path) -> None:
    """It has fewer events than its header says; so has one whose bytes are damaged."""
    data = stage_block("a", 0) + stage_block("b", 10, events=4, lines=4) + stage_block("c", 20)
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": data}))
    assert len(run.events(stage="a").compute()) == 3 and run.problems == []
    assert len(run.events(columns=["name"]).compute()) == len(run.read(["name"])) == 6
    (said,) = run.problems
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [["damaged", "events", 4]]
    assert said.startswith("4 events damaged (") and "n-7-1.pfw.gz: block at byte" in said
    # What is kept in the catalogue was computed without it, and says so.
    run.edges()
    again = tailrace.open(run.path)
    assert again.problems == [said] and again.info()["events"] == 6
    assert again.losses[["cause", "unit", "count"]].values.tolist() == [["damaged", "events", 4]]


def test_what_counts_headers_and_what_reads_blocks_leave_out_the_same_ones(tmp_path: Path) -> None:
    odd = tw.block([tw.event(stage="b")] * 3, {"lines": 2})
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": stage_block("a", 0) + odd + stage_block("c", 20)}))
    before = run.info()["events"], run.problems
    assert before[0] == len(run.read(["name"])) == 6 and len(before[1]) == 1
    assert (tailrace.open(run.path).info()["events"], run.problems) == before
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [["damaged", "bytes", len(odd)]]


def test_a_worker_elsewhere_does_not_leave_out_what_nobody_would_see(tmp_path: Path) -> None:
    data = stage_block("a", 0) + stage_block("b", 10, events=4, lines=4)
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": data}))
    reading = loader.Reading(("name",), conditions.Where(), (), opened_in=("another", 1))
    (part,) = partitions.partitions(run._catalogue, conditions.Where())
    with pytest.raises(TraceError, match=r"n-7-1.*promises 4 lines"):
        loader.read_partition(part, reading=reading)


def test_a_file_repaired_is_no_longer_damaged(tmp_path: Path) -> None:
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": stage_block("b", 10, events=4, lines=4)}))
    assert len(run.read(["name"])) == 0 and run.problems
    (run.path / "trace" / "n-7-1.pfw.gz").write_bytes(stage_block("b", 10))
    assert run.refresh().problems == []


def test_a_file_that_shrank_after_the_run_was_opened_is_named(run: Any) -> None:
    path = run.path / "trace" / "n-7-1.pfw.gz"
    path.write_bytes(path.read_bytes()[:-10])
    assert len(run.events(columns=["name"]).compute()) == 9
    assert "n-7-1" in run.problems[0] and "it is cut short" in run.problems[0]
    assert len(run.refresh().events(columns=["name"]).compute()) == 9


def test_a_file_that_vanished_is_named(run: Any) -> None:
    (run.path / "trace" / "n-8-1.pfw.gz").unlink()
    events = len(run.events(columns=["name"]).compute())
    assert events < run.info()["events"] and "n-8-1" in run.problems[0]


# ---- tables ----


def test_stages_are_exact_also_in_mixed_blocks(run: Any) -> None:
    table = run.stages
    assert table["stage"].tolist() == ["a", "b", None]
    assert table["tasks"].tolist() == [2, 1, 0] and table["events"].tolist() == [4, 5, 3]
    # The MPIIO read is seen again below: its bytes would count twice.
    assert table["read_bytes"].tolist() == [30, 32, 30] and table["written_bytes"].tolist() == [7, 0, 0]
    assert table["t0_ns"].tolist() == [(tw.T0_US + us) * 1000 for us in (0, 1000, 2000)]
    assert table["t1_ns"].tolist() == [(tw.T0_US + us) * 1000 + 1250 for us in (5000, 5002, 2002)]
    assert table["processes"].tolist() == [2, 2, 1]


def test_tasks(run: Any) -> None:
    table = run.tasks
    assert table["task"].tolist() == ["a-1", "b-1", "a-2"] and table["stage"].tolist() == ["a", "b", "a"]
    assert table["events"].tolist() == [3, 5, 1]


def test_tables_of_pure_blocks_read_no_events(tmp_path: Path, read: list[tuple[int, list[str]]]) -> None:
    files = {"n-7-1": stage_block("a", 0) + stage_block("b", 5)}
    run = tailrace.open(tw.make_run(tmp_path / "run", files))
    assert run.stages["events"].tolist() == [3, 3] and len(run.tasks) == 2 and read == []


@pytest.mark.parametrize("rows", [0, 7, 100_000])
@pytest.mark.parametrize("texts", [1, 100, 40_000])
def test_batches_are_joined_in_order_whatever_room_was_made(rows: int, texts: int) -> None:
    """Categories that differ, more of them than a narrow code has, and nulls."""

    def plain(values: pd.Series) -> list[Any]:
        return [None if pd.isna(value) else value for value in values.tolist()]

    batches, frames = [], []
    for number in range(3):
        names = [None if at % 5 == 0 else f"{(at * (number + 1)) % texts}" for at in range(max(texts, 4) - number)]
        columns = {
            "name": pa.array([text or "none" for text in names]).dictionary_encode(),
            "path": pa.array(names, pa.string()).dictionary_encode(),
            "ts": pa.array(range(len(names)), pa.int64()),
            "size": pa.array([None if text is None else 2**62 + len(text) for text in names], pa.int64()),
        }
        batches.append(pa.record_batch(columns))
        frames.append(schema.frame_of(batches[-1]))
    whole = joining.joined(iter(batches), list(frames[0].columns), rows)
    for name in whole.columns:
        assert plain(whole[name]) == [value for one in frames for value in plain(one[name])]
        assert whole[name].dtype.name == schema.column(name).dtype
    known = dict.fromkeys(text for one in frames for text in one["path"].cat.categories)
    assert whole["path"].cat.categories.tolist() == list(known) and whole["path"].cat.categories.dtype == "str"
    assert whole["path"].cat.codes.dtype == pd.Series(list(known)).astype("category").cat.codes.dtype
