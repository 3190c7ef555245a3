"""What each command imports, and that the ways without pandas and Dask give what those with them give."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import pandas as pd
import pytest

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.edges import event_fold, name_table
from tailrace.analyzer.store import conditions, engine, loader, partitions, query, usage
from tailrace.analyzer.store.statistic import COUNT
from tailrace.analyzer.store.statistic import parse as parse_aggregate
from tailrace.errors import QueryError

HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "networkx", "dask", "distributed", "jinja2", "rich")
PROGRAM = """
import contextlib, io, sys
from tailrace.cli import main
sys.argv[0] = "tailrace"
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main.main()
print(*(name for name in sys.argv_heavy if name in sys.modules), file=sys.stderr)
"""


def traced(path: Path, files: int = 3) -> Path:
    """A run with blocks of one context and of several, on two hosts, calls of two layers."""
    made = {}
    for number in range(files):
        pid, start = 7 + number, {"pid": 7 + number, "start": f"{number}"}
        tags = {"stage": "a", "task": f"t{number}"}
        first: list[Any] = [tw.file_line("1", "/x", ino=1), tw.host_line()]
        first += [tw.event("read", tw.T0_US + i, pid=pid, **tags, fhash="1", dir="r", size=i) for i in range(5)]
        mixed = [tw.event("write", tw.T0_US + 50 + i, pid=pid, stage="ab"[i % 2], size=7, dir="w") for i in range(4)]
        mixed.append(tw.event("H5Dread", tw.T0_US + 60, pid=pid, cat="HDF5", size=3, dir="r"))
        last = [tw.event("open", tw.T0_US + 90 + number, pid=pid, stage="c", rank=str(number), **{"tag.try": "1"})]
        made[f"n-{pid}-1"] = b"".join(tw.block(lines, start) for lines in (first, mixed, last))
    return tw.make_run(path, made)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = traced(tmp_path_factory.mktemp("start") / "run")
    tailrace.open(path).info()
    # What is read once is in the catalogue from here on.
    assert len(tailrace.open(path).stages) == 4 and len(tailrace.open(path).find_files("x")) == 1
    return path


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--version"], set()),
        (["--help"], set()),
        (["run", "--help"], set()),
        (["info", "RUN"], set()),
        (["info", "RUN", "--format", "json"], set()),
        (["query", "RUN", "--by", "pid"], set()),
        (["query", "RUN", "--stage", "c", "--by", "stage,task", "--format", "csv"], set()),
        (["query", "RUN", "--stage", "c", "--by", "rank", "--sort", "count", "--format", "json"], set()),
        (["query", "RUN", "--by", "stage"], set()),
        (["query", "RUN", "--by", "name", "--agg", "sum:size", "--stage", "a*", "--sort", "sum_size"], set()),
        (["query", "RUN", "--by", "name,size:log2", "--agg", "p95:size", "--agg", "nunique:path"], set()),
        (["query", "RUN", "--by", "time:1ms", "--agg", "rate:size", "--where", "dur<1s"], set()),
        (["query", "RUN", "--columns", "name,size", "--where", "size>1", "--stage", "a", "--sort", "size"], set()),
        (["query", "RUN", "--path", "/x"], set()),
        (["query", "RUN", "--path", "x", "--by", "path,size:log2", "--agg", "sum:size"], set()),
        (["query", "RUN", "--where", "path!=x", "--columns", "name,size"], set()),
        (["file", "RUN", "/x", "--up"], {"numpy", "pandas", "pyarrow"}),
    ],
)
def test_a_command_imports_what_it_needs(directory: Path, words: list[str], heavy: set[str]) -> None:
    arguments = [str(directory) if word == "RUN" else word for word in words]
    program = PROGRAM.replace("sys.argv_heavy", repr(HEAVY))
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert set(done.stderr.splitlines()[-1].split() if done.stderr.strip() else []) <= heavy, done.stderr


BY = [[], ["stage"], ["stage", "task"], ["pid"], ["host", "start"], ["rank"], ["tag.try"], ["name"], ["stage", "name"]]
WHERE: list[dict[str, Any]] = [
    {},
    {"stage": "a"},
    {"stage": ["a", ""]},
    {"task": conditions.Glob("t*")},
    {"pid": 8},
    {"tag.try": "1"},
    {"rank": ""},
    {"name": "read"},
    {"t0": (tw.T0_US + 55) * 1000},
    {"t1": (tw.T0_US + 70) * 1000, "stage": "c"},
]


@pytest.mark.parametrize("where", WHERE, ids=str)
def test_counts_from_headers_are_those_of_the_events(directory: Path, where: dict[str, Any]) -> None:
    run = tailrace.open(directory)
    events = run.read(**where)
    for by in BY:
        table = query.aggregate(run, by, [COUNT], **where)
        if by:
            plain = events[by].astype(object).where(events[by].notna(), None)
            wanted = plain.groupby(by, dropna=False).size().to_dict()
        else:
            wanted = {(): len(events)}
        keys = table[by].astype(object).where(table[by].notna(), None).itertuples(index=False, name=None)
        found = {(key[0] if len(key) == 1 else key): n for key, n in zip(keys, table.iloc[:, -1], strict=True)}
        assert {str(key): n for key, n in found.items()} == {
            str(key).replace("nan", "None"): n for key, n in wanted.items()
        }, (by, where)


FIGURES = (
    "count",
    "sum:size",
    "mean:dur",
    "min:size",
    "max:offset",
    "share",
    "share:size",
    "rate:size",
    "ratio:size/count",
    "nunique:path",
    "nunique:size",
    "p50:dur",
    "p95:size",
)
RANGES = [["size:log2"], ["stage", "size:3"], ["time:2us"], ["time:500us", "stage"], ["dur:log2", "time:1ms", "name"]]
NUMBERS: list[dict[str, Any]] = [
    {"size": conditions.Between(2, 7)},
    {"size": [1, 7, ""], "stage": conditions.Glob("[ab]")},
    {"size": conditions.Not((3, ""))},
    {"size": conditions.Not((1, 2))},
    {"errno": ""},
    {"size": conditions.AllOf((conditions.Between(1, None), conditions.Not((4,)))), "pid": [7, 9]},
    {"dur": conditions.Between(None, 0)},
    {"t0": (tw.T0_US + 10) * 1000, "t1": (tw.T0_US + 60) * 1000, "dir": conditions.Not(("r",))},
]


GROUPS = [*BY, ["cat"], ["errno"], ["offset", "path"], *RANGES]


@pytest.mark.parametrize(("number", "where"), list(enumerate([*WHERE, *NUMBERS])), ids=str)
def test_sums_by_the_times_of_calls_are_those_without_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, where: dict[str, Any]
) -> None:
    run = tailrace.open(directory)
    figures = [parse_aggregate(text) for text in FIGURES]
    groups = GROUPS if not where else GROUPS[number % 4 :: 4]  # each condition with some: all pairs take a minute
    found = [query.aggregate(run, by, figures, **where) for by in groups]
    monkeypatch.setattr(conditions.Where, "of_texts", False)
    for by, table in zip(groups, found, strict=True):
        slow = query.aggregate(run, by, figures, **where)
        pd.testing.assert_frame_equal(table, slow, check_dtype=len(slow) > 0)
        assert table.attrs == slow.attrs


@pytest.mark.parametrize("where", [*WHERE, *NUMBERS], ids=str)
def test_events_by_the_times_of_calls_are_those_without_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any]
) -> None:
    run = tailrace.open(directory)
    columns = ["name", "size", "stage", "path", "errno"]
    orders = ((None, None), ("size", 5), ("-name", None))
    found = [list(query.events(run, columns, sort, limit, **where)) for sort, limit in orders]
    monkeypatch.setattr(conditions.Where, "of_texts", False)
    assert [list(query.events(run, columns, sort, limit, **where)) for sort, limit in orders] == found


FILES: list[dict[str, Any]] = [
    {"path": "/x"},
    {"path": ["x", "y"], "name": "read"},
    {"path": conditions.Glob("/d/*")},
    {"path": "z"},
    {"path": "absent"},
    {"path": ["", "/d/y"]},
    {"path": conditions.Not(("/x",)), "stage": "a"},
    {"path": conditions.Not(("", "moved"))},
    {"path": conditions.AllOf((conditions.Glob("/d/*"), conditions.Not(("y",)))), "t0": tw.T0_US * 1000 + 3000},
]


def moved(path: Path) -> Path:
    """`traced`, and calls on two files, on a file that is not there, on none, and on another name of a file."""
    lines: list[Any] = [tw.file_line("2", "/d/y", ino=2), tw.file_line("3", "/d/moved", ino=2), tw.host_line()]
    lines += [tw.meta("FH", "4", "/d/absent", type="none"), tw.file_line("5", "/d/z", ino=5)]
    tags = {"stage": "a", "task": "t"}
    lines += [tw.event("write", tw.T0_US + i, **tags, fhash="2", dir="w", size=i) for i in range(4)]
    lines.append(tw.event("rename", tw.T0_US + 5, **tags, fhash="2", fhash2="3"))
    lines.append(tw.event("copy_file_range", tw.T0_US + 6, **tags, fhash="3", fhash2="5", dir="rw", size=9))
    lines.append(tw.event("open", tw.T0_US + 7, **tags, fhash="4", ret=-1, errno=2))
    lines.append(tw.event("getpid", tw.T0_US + 8, **tags))
    (path / "trace" / "m-20-1.pfw.gz").write_bytes(tw.block(lines, {"pid": 20, "start": "20"}))
    return path


@pytest.mark.parametrize("where", FILES, ids=str)
def test_files_by_name_are_those_by_the_times_of_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any]
) -> None:
    path = moved(traced(tmp_path / "run"))
    tailrace.open(path).find_files("/x")
    run = tailrace.open(path)
    monkeypatch.setattr(type(run), "edges", lambda *_: pytest.fail("the names are in the catalogue"))
    figures = [parse_aggregate(text) for text in FIGURES]
    columns = ["name", "size", "path2"]
    groups = [[], ["path", "name"], ["size:log2"], ["stage", "file2"]]
    found = [query.aggregate(run, by, figures, **where) for by in groups]
    rows = list(query.events(run, columns, **where))
    monkeypatch.setattr(conditions.Where, "of_texts", False)
    assert rows and list(query.events(run, columns, **where)) == rows
    for by, table in zip(groups, found, strict=True):
        pd.testing.assert_frame_equal(table, query.aggregate(run, by, figures, **where))


def test_names_are_those_of_all_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traced(tmp_path / "run")
    tailrace.open(path).find_files("/x")
    with pytest.raises(QueryError, match="no event is on a file called 'y'"):
        tailrace.open(path).find_files("y")
    moved(path)
    assert len(tailrace.open(path).find_files("y")) == 1, "it came later"
    monkeypatch.setattr(name_table, "MOST", 1)
    monkeypatch.setattr(conditions.Files, "fits", lambda *_: pytest.fail("there are many names"))
    assert query.aggregate(tailrace.open(path), [], [COUNT], path="/x")["count"].tolist() == [15]


def test_some_counts_need_no_event(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "read_partition", lambda *_, **__: pytest.fail("events were read"))
    run = tailrace.open(directory)
    assert query.totals_from_headers(run, ["pid"], [COUNT]) == [(7, 11), (8, 11), (9, 11)]
    assert query.totals_from_headers(run, ["stage"], [COUNT], stage="c") == [("c", 3)]
    assert query.totals_from_headers(run, [], [COUNT], task="t1", pid=7) == [(0,)]
    assert query.totals_from_headers(run, ["stage"], [COUNT]) is None, "blocks mix stages"
    assert query.totals_from_headers(run, ["pid"], [parse_aggregate("sum:size")]) is None


def test_threads_and_dask_give_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    run = tailrace.open(directory)
    aggregates = [parse_aggregate(text) for text in ("count", "sum:size", "nunique:path", "p95:dur", "mean:size")]

    def answers() -> list[pd.DataFrame]:
        edges = event_fold.build(run)
        rows = pd.DataFrame(query.events(run, ["name", "size"], "size"))
        used = pd.DataFrame(usage.rows(run._catalogue))
        return [query.aggregate(run, ["stage", "name"], aggregates), edges.bursts, edges.files, rows, used, run.read()]

    assert not engine.uses_dask()
    here = answers()
    with dask.config.set(scheduler="threads"):
        assert engine.uses_dask()
        there = answers()
    for ours, theirs in zip(here, there, strict=True):
        pd.testing.assert_frame_equal(ours, theirs)
    lazy = run.events().compute()
    pd.testing.assert_frame_equal(here[-1].astype(object), lazy.astype(object).reset_index(drop=True))


@pytest.mark.parametrize("tasks", [0, 1, 31, 32, 33, 32 * 32 + 5])
def test_a_tree_of_results_has_each_once_and_in_order(tasks: int) -> None:
    def join(parts: list[list[int]]) -> list[int]:
        assert len(parts) <= 2 * engine.SPLIT_EVERY
        return sorted(number for part in parts for number in part)

    def task(number: int) -> Any:
        return lambda: [number]

    if tasks:
        assert engine.folded([task(n) for n in range(tasks)], join) == list(range(tasks))
    assert list(engine.stream([task(n) for n in range(tasks)], ahead=3)) == [[n] for n in range(tasks)]


def test_a_task_that_fails_is_raised_and_ends_the_others() -> None:
    done: list[int] = []

    def task(number: int) -> Any:
        def run() -> int:
            if number == 3:
                raise OSError("three")
            done.append(number)
            return number

        return run

    with pytest.raises(OSError, match="three"):
        list(engine.stream([task(n) for n in range(1000)], ahead=2))
    assert len(done) < 10


def test_sums_of_mixed_blocks_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traced(tmp_path / "run")
    before = tailrace.open(path).stage_rows()
    assert {(row.stage, row.events, row.written_bytes) for row in before} == {
        ("a", 21, 42),
        ("b", 6, 42),
        ("c", 3, 0),
        (None, 3, 0),
    }
    plain = loader.read_partition
    monkeypatch.setattr(loader, "read_partition", lambda *_, **__: pytest.fail("events were read again"))
    assert tailrace.open(path).stage_rows() == before
    monkeypatch.setattr(loader, "read_partition", plain)
    grown = path / "trace/n-7-1.pfw.gz"
    grown.write_bytes(grown.read_bytes() + tw.block([tw.event(stage="b"), tw.event(stage="d")]))
    assert {(row.stage, row.events) for row in tailrace.open(path).stage_rows()} == {
        ("a", 21),
        ("b", 7),
        ("c", 3),
        ("d", 1),
        (None, 3),
    }


def test_sums_without_a_damaged_block_say_so_each_time(tmp_path: Path) -> None:
    path = traced(tmp_path / "run")
    damaged = path / "trace/n-7-1.pfw.gz"
    data = bytearray(damaged.read_bytes())
    start = data.index(b"\x1f\x8b\x08\x04", 10)  # the second block, which mixes stages
    end = data.index(b"\x1f\x8b\x08\x04", start + 10)
    data[end - 8 : end - 4] = bytes(byte ^ 0xFF for byte in data[end - 8 : end - 4])  # its checksum
    damaged.write_bytes(data)
    for _ in range(3):
        run = tailrace.open(path)
        assert {row.stage: row.events for row in run.stage_rows()} == {"a": 19, "b": 4, "c": 3, None: 2}
        assert any("damaged" in problem for problem in run.problems), "each time"
