"""Totals against totals worked out by hand, and the commands `query` and `info` as a person calls them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.store import engine, loader, partitions, query
from tailrace.analyzer.store.statistic import ALL, COUNT
from tailrace.analyzer.store.statistic import parse as parse_aggregate
from tailrace.cli import info as info_command
from tailrace.cli import query as query_command
from tailrace.errors import QueryError, TailraceError, TraceError, UsageError

ROWS = [  # stage, path, size, dir
    ("a", "/x", 10, "r"),
    ("a", "/x", 30, "r"),
    ("a", "/y", 5, "w"),
    ("b", "/x", 1, "w"),
    ("b", None, None, None),
    (None, "/y", 4, "r"),
]


def write_run(directory: Path, rows: list[Any], per_block: int = 4) -> Any:
    data = b""
    for first in range(0, len(rows), per_block):
        lines = [tw.file_line("1", "/x", ino=1), tw.file_line("2", "/y", ino=2)]
        for i, (stage, path, size, way) in enumerate(rows[first : first + per_block], first):
            args = {"stage": stage, "fhash": {"/x": "1", "/y": "2"}.get(path), "size": size, "dir": way}
            args = {key: value for key, value in args.items() if value is not None}
            lines.append(tw.event("read" if way == "r" else "write", tw.T0_US + i * 1_000_000, **args))
        data += tw.block(lines)
    return tailrace.open(tw.make_run(directory, {"n-7-1": data}))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)  # a partition a block
    return write_run(tmp_path / "run", ROWS)


def query_text(*args: Any) -> str:
    """Standard output of `tailrace query`; errors pass through."""
    result = CliRunner().invoke(query_command.command, [str(a) for a in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(*args: Any) -> list[dict[str, Any]]:
    return json.loads(query_text(*args, "--format", "json"))


# ---- totals ----


def test_every_aggregate_by_hand(run: Any) -> None:
    one = [how for how in ALL if how not in ("count", "ratio")]
    names = ["count", *(f"{how}:size" for how in one), "ratio:size/calls", "nunique:path"]
    table = query.aggregate(run, ["stage"], [parse_aggregate(name) for name in names])
    none, a, b = table.where(table.notna(), None).to_dict("records")
    assert list(table.columns) == ["stage", *(name.replace(":", "_") for name in names)]
    assert a == {
        "stage": "a",
        "count": 3,
        "sum_size": 45,
        "min_size": 5,
        "max_size": 30,
        "mean_size": 15.0,
        "share_size": pytest.approx(0.9),
        "rate_size": pytest.approx(45 / (3 * 1250e-9)),
        "ratio_size/calls": 15.0,
        "nunique_size": 3,
        "p25_size": 7.5,
        "p50_size": 10.0,
        "p75_size": 20.0,
        "p95_size": pytest.approx(28.0),
        "p99_size": pytest.approx(29.6),
        "nunique_path": 2,
    }
    assert (b["stage"], b["count"], b["sum_size"], b["mean_size"], b["nunique_path"]) == ("b", 2, 1, 1.0, 1)
    assert (none["stage"], none["count"], none["sum_size"]) == (None, 1, 4)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Of 100 bytes of /x to /y by one call, from offset 5 to 50, a read of /x and a stat of /y."""
    lines = [tw.file_line("1", "/x", ino=1), tw.file_line("2", "/y", ino=2)]
    copy = {"fhash": "1", "fhash2": "2", "offset": 5, "offset2": 50, "size": 100, "dir": "rw", "stage": "c"}
    lines.append(tw.event("copy_file_range", tw.T0_US, 2.5, **copy))
    lines.append(tw.event("read", tw.T0_US + 9, 1.0, fhash="1", offset=0, size=7, stage="c"))
    lines.append(tw.event("stat", tw.T0_US + 20, 1.0, fhash="2", ret=0, stage="c"))
    return tw.make_run(tmp_path / "copies", {"n-7-1": tw.block(lines)})


def test_each_end_of_a_copy_is_a_row_with_its_own_file_and_offset(copies: Path) -> None:
    rows = rows_of(copies, "--columns", "path,path2,dir,offset,offset2,size,lines", "--where", "name=copy_file_range")
    assert [tuple(row.values()) for row in rows] == [
        ("/x", "/y", "r", 5, 50, 100, 1),
        ("/y", "/x", "w", 50, 5, 100, 0),
    ]
    for end, way in (("/x", "r"), ("/y", "w")):
        found = rows_of(copies, "--path", end, "--where", "name=copy_file_range", "--columns", "dir")
        assert found == [{"dir": way}]


@pytest.mark.parametrize("more", [[], ["--agg", "p50:ts"]], ids=["native", "frames"])
def test_sums_have_both_ends_of_a_copy_and_its_call_once(copies: Path, more: list[str]) -> None:
    asked = ["--agg", "count", "--agg", "sum:size", "--agg", "sum:dur", "--agg", "sum:calls", *more]
    names = ("count", "sum_size", "sum_dur", "sum_calls")

    def sums(*options: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in rows_of(copies, *asked, *options)]

    assert sums() == [(3, 207, 4500, 3)]
    assert sums("--by", "path", "--where", "dir=w") == [(0, 100, 0, 0)]
    assert sorted(sums("--by", "path")) == [(1, 100, 1000, 1), (2, 107, 3500, 2)]


def test_no_groups_is_one_row(run: Any) -> None:
    table = query.aggregate(
        run, [], [parse_aggregate(text) for text in ("count", "sum:size", "nunique:path", "p50:size")]
    )
    assert table.to_dict("records") == [{"count": 6, "sum_size": 50, "nunique_path": 2, "p50_size": 5.0}]


def test_no_events_are_no_groups(run: Any) -> None:
    aggregates = [parse_aggregate(text) for text in ("count", "sum:size", "p50:size", "nunique:path")]
    grouped = query.aggregate(run, ["path", "pid"], aggregates, name="none")
    assert grouped.empty and list(grouped.columns) == ["path", "pid", "count", "sum_size", "p50_size", "nunique_path"]
    (total,) = query.aggregate(run, [], aggregates, name="none").to_dict("records")
    assert total["count"] == 0 and total["sum_size"] == 0 and pd.isna(total["p50_size"])


def test_a_group_without_values(run: Any) -> None:
    aggregates = [parse_aggregate(f"{how}:errno") for how in ("sum", "min", "mean", "nunique", "p95")]
    table = query.aggregate(run, ["stage"], aggregates)
    assert len(table) == 3 and table["nunique_errno"].tolist() == [0, 0, 0] and table["min_errno"].isna().all()
    assert table["mean_errno"].isna().all() and table["p95_errno"].isna().all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["/x", "/y", None]),
            st.none() | st.integers(0, 2**40),
            st.sampled_from(["r", "w"]),
        ),
        min_size=1,
        max_size=20,
    ),
    per_block=st.integers(1, 7),
)
def test_totals_do_not_depend_on_partitions(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, rows: list[Any], per_block: int
) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    run = write_run(tmp_path_factory.mktemp("run") / "run", rows, per_block)
    got = query.aggregate(
        run, ["stage", "path"], [parse_aggregate(t) for t in ("count", "sum:size", "max:size", "p50:size")]
    )
    groups: dict[Any, list[int]] = {}
    for stage, path, size, _ in rows:
        groups.setdefault((stage, path), []).append(-1 if size is None else size)
    assert len(got) == len(groups)
    for row in got.astype(object).where(got.notna(), None).itertuples():
        sizes = sorted(size for size in groups[row.stage, row.path] if size >= 0)
        assert row.count == len(groups[row.stage, row.path]) and row.sum_size == sum(sizes)
        assert (pd.isna(row.max_size) and pd.isna(row.p50_size)) if not sizes else row.max_size == max(sizes)
        if sizes:
            assert row.p50_size == pytest.approx((sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("total:size", "total.*sum"),
        ("sum", "needs a column"),
        ("sum:", "needs a column"),
        ("count:size", "count"),
        ("sum:bytes", "bytes"),
        ("sum:path", "nunique:path"),
    ],
)
def test_a_bad_aggregate_is_explained(text: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        parse_aggregate(text)


# ---- the command ----


def test_query_by_path_sorted(run: Any) -> None:
    rows = rows_of(
        run.path, "--stage", "a", "--by", "path", "--agg", "sum:size", "--agg", "count", "--sort", "sum:size"
    )
    assert rows == [{"path": "/x", "sum_size": 40, "count": 2}, {"path": "/y", "sum_size": 5, "count": 1}]
    assert [row["path"] for row in rows_of(run.path, "--stage", "a", "--by", "path", "--sort", "-count")] == [
        "/y",
        "/x",
    ]
    assert len(rows_of(run.path, "--by", "path,stage", "--limit", "2")) == 2


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 6),
        (["--path", "/?"], 5),
        (["--path", "*y"], 2),
        (["--path", ""], 1),
        (["--stage", "a", "--stage", "b"], 5),
        (["--stage", "[ab]"], 5),
        (["--name", "read", "--path", "/x"], 2),
        (["--host", "node*"], 6),
        (["--where", "stage=a", "--stage", "b"], 5),
        (["--where", "dir=w", "--where", "size=5"], 1),
        (["--where", "dir=w", "--where", "dir=r"], 5),
        (["--since", "1.5"], 4),
        (["--until", "1"], 1),
        (["--since", "1.5", "--until", "3.5"], 2),
        (["--pid", "7"], 6),
    ],
)
def test_query_filters(run: Any, options: list[str], count: int) -> None:
    assert rows_of(run.path, *options) == [{"count": count}]


def test_a_name_with_brackets_is_found_as_it_is(tmp_path: Path) -> None:
    lines = [tw.file_line("1", "pipe:[5]", kind="fifo"), tw.file_line("2", "pipe:5", ino=2, kind="fifo")]
    lines += [tw.event("read", tw.T0_US + i, fhash=str(i)) for i in (1, 2)]
    directory = tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)})
    assert rows_of(directory, "--path", "pipe:[5]", "--by", "path") == [
        {"path": "pipe:5", "count": 1},
        {"path": "pipe:[5]", "count": 1},
    ]


def test_the_column_count_beside_the_number_of_events(run: Any) -> None:
    (row,) = rows_of(run.path, "--by", "count", "--agg", "count", "--agg", "nunique:count")
    assert row == {"count": None, "events": 6, "nunique_count": 0}


def test_offsets_of_a_copy_are_those_in_each_file(tmp_path: Path) -> None:
    args = {"fhash": "1", "fhash2": "2", "offset": 5, "offset2": 50, "size": 9, "dir": "rw"}
    lines = [tw.file_line("1", "/x", ino=1), tw.file_line("2", "/y", ino=2), tw.event("copy_file_range", **args)]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)}))
    table = run.totals(["path"], ["max:offset", "nunique:offset2"])
    assert table.astype(object).to_numpy().tolist() == [["/x", 5, 1], ["/y", 50, 1]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--where", "sort=1", "--columns", "path"], "no column 'sort'"),
        (["--where", "run=1"], "no column 'run'"),
        (["--where", "t0=1"], "no column 't0'"),
        (["--since", "nan"], "--since is nan: give"),
        (["--until", "inf"], "--until is inf: give"),
    ],
)
def test_an_invalid_query_is_explained(run: Any, options: list[str], words: str) -> None:
    with pytest.raises(TailraceError, match=words):
        query_text(run.path, *options)


def test_query_events_themselves(run: Any) -> None:
    rows = rows_of(run.path, "--columns", "stage,size", "--sort", "size", "--limit", "1")
    assert rows == [{"stage": "a", "size": 30}]


def test_texts_are_sorted_as_texts(run: Any) -> None:
    rows = rows_of(run.path, "--columns", "path,size", "--sort", "-path")
    assert [row["path"] for row in rows] == ["/x", "/x", "/x", "/y", "/y", None]
    assert rows_of(run.path, "--columns", "path,size", "--sort", "-path", "--limit", "3") == rows[:3]


WIDE = [("a", "/x" if i % 2 else None, 10 * (i // 3) + i % 3, "r") for i in range(12)]


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """4 partitions of 3 events, read one by one."""
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    monkeypatch.setattr(engine, "cores", lambda: 1)
    return write_run(tmp_path / "run", WIDE, per_block=3)


def test_rows_come_a_partition_at_a_time(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    plain = loader._rows_of
    monkeypatch.setattr(loader, "_rows_of", lambda part, **k: (read.append(part), plain(part, **k))[1])
    rows = query.events(wide, ["size"])
    assert [next(rows) for _ in range(3)] == [(0,), (1,), (2,)] and len(read) == 1
    assert len(list(rows)) == 9 and len(read) == 4
    read.clear()
    assert list(query.events(wide, ["size"], limit=4)) == [(0,), (1,), (2,), (10,)]
    assert len(read) == 2
    assert [size for size, _ in query.events(wide, ["size", "path"], "size", 4)] == [32, 31, 30, 22]
    assert [size for (size,) in query.events(wide, ["size"], "-size")] == sorted(row[2] for row in WIDE)


@pytest.mark.parametrize(("least", "limit"), [(0, None), (0, 5), (0, 0), (22, None), (99, None)])
def test_every_format_has_the_rows_of_all_partitions(wide: Any, least: int, limit: int | None, tmp_path: Path) -> None:
    base = [wide.path, "--columns", "path,size,job", *([] if limit is None else ["--limit", limit])]
    base += [word for size in range(least, 100) for word in ("--where", f"size={size}")]
    expected = [{"path": path, "size": size, "job": None} for _, path, size, _ in WIDE if size >= least][:limit]
    assert rows_of(*base) == expected
    query_text(*base, "-o", tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table.astype(object).where(table.notna(), None).to_dict("records") == expected
    texts = [{"path": row["path"] or "", "size": str(row["size"]), "job": ""} for row in expected]
    assert list(csv.DictReader(io.StringIO(query_text(*base, "--format", "csv")))) == texts


def test_a_file_appears_when_it_is_whole(wide: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out.csv"
    output.write_text("what was there\n")
    (trace,) = (wide.path / "trace").iterdir()
    trace.write_bytes(trace.read_bytes()[:-40] + bytes(40))
    monkeypatch.setattr(tailrace, "open", lambda directory: wide)
    with pytest.raises(TraceError):
        query_text(wide.path, "--columns", "size", "-o", output, "--strict")
    assert output.read_text() == "what was there\n" and list(tmp_path.glob(".out*")) == []


def test_query_formats(run: Any, tmp_path: Path) -> None:
    base = [run.path, "--by", "path", "--agg", "sum:size"]
    expected = {"/x": 41, "/y": 9, "": None}
    text = query_text(*base, "--format", "csv")
    assert {
        r["path"]: int(r["sum_size"]) if r["sum_size"] != "0" else None for r in csv.DictReader(io.StringIO(text))
    } == expected
    query_text(*base, "-o", tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert dict(zip(table["path"].fillna(""), table["sum_size"].replace(0, None), strict=True))["/x"] == 41
    for ending in ("csv", "json", "txt"):
        query_text(*base, "-o", tmp_path / f"out.{ending}")
        assert "/x" in (tmp_path / f"out.{ending}").read_text().replace("\\/", "/")
    shown = query_text(*base)
    assert "sum_size" in shown and "/x" in shown and "41" in shown


def test_control_sequences_in_names_are_shown_as_text(tmp_path: Path) -> None:
    name = "/evil\x1b[31m\n[bold]x[/bold]\u202e"
    lines = [tw.file_line("1", name), tw.event(fhash="1", stage="[red]s")]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n": tw.block(lines)}))
    shown = query_text(run.path, "--by", "path")
    assert "/evil\\x1b[31m\\n[bold]x[/bold]\\u202e" in shown and "\x1b" not in shown
    assert "[red]s" in CliRunner().invoke(info_command.command, [str(run.path)]).stdout


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (["--stage", "none"], QueryError, "no stage 'none'"),
        (["--by", "nome"], QueryError, "nome"),
        (["--agg", "sum:nome"], QueryError, "nome"),
        (["--sort", "nome"], QueryError, "nome"),
        (["--where", "size"], UsageError, "COLUMN=VALUE"),
        (["--pid", "seven"], QueryError, "seven"),
        (["--agg", "share:count"], QueryError, "write share"),
        (["--format", "parquet"], UsageError, "-o"),
        (["--columns", "name", "--by", "name"], UsageError, "--columns"),
        (["-o", "/no/such/directory/x.csv"], UsageError, "can't write"),
    ],
)
def test_query_errors(run: Any, options: list[str], error: type[TailraceError], words: str) -> None:
    with pytest.raises(error, match=words):
        query_text(run.path, *options)


# ---- info ----


def info_text(*args: Any) -> str:
    result = CliRunner().invoke(info_command.command, [str(a) for a in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_info_shows_figures_and_losses(tmp_path: Path) -> None:
    data = tw.block([tw.event(stage="align", dir="r", size=2048)], {"lost": {"unnamed": 3}})
    directory = tw.make_run(tmp_path / "run", {"n-7-1": data + data[:9]}, bad="no json")
    text = " ".join(info_text(directory).split())
    for words in (
        "events 1",
        "processes 1",
        "2.0 KiB (2048 B)",
        "align",
        "3 events unnamed",
        "9 bytes torn",
        "bad.jsonl",
        "r1",
    ):
        assert words in text
    assert "first event 2025-11-20 00:53:20.000000000 UTC" in text
    assert "last event 2025-11-20 00:53:20.000001250 UTC" in text
    info = json.loads(info_text(directory, "--format", "json"))
    assert info["losses"] == [
        {"cause": "torn", "unit": "bytes", "count": 9},
        {"cause": "unnamed", "unit": "events", "count": 3},
    ]


def test_info_of_nothing(tmp_path: Path) -> None:
    text = " ".join(info_text(tw.make_run(tmp_path / "run", {})).split())
    assert "events 0" in text and "lost nothing" in text


def test_info_needs_a_run() -> None:
    with pytest.raises(UsageError, match="run directory is missing"):
        info_text()


def test_commands_are_click_commands() -> None:
    assert isinstance(query_command.command, click.Command) and isinstance(info_command.command, click.Command)


class TestLayers:
    """A byte that HDF5 and MPI-IO moved is in their calls and in the system calls below them."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> tailrace.Run:
        lines = [tw.file_line("1", "/x", ino=1)]
        for i, (name, cat, size) in enumerate(
            [("H5Dread", "HDF5", 80), ("MPI_File_read_all", "MPIIO", 90), ("pread", "POSIX", 100), ("read", "POSIX", 7)]
        ):
            lines.append(tw.event(name, tw.T0_US + i, cat=cat, stage="s", fhash="1", size=size, dir="r"))
        return tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)}))

    def total(self, run: tailrace.Run, by: list[str] | None = None, **where: Any) -> list[list[Any]]:
        figures = [parse_aggregate(text) for text in ("sum:size", "count")]
        rows: list[list[Any]] = query.aggregate(run, by or [], figures, **where).to_numpy().tolist()
        return rows

    def test_a_sum_is_of_the_system_calls(self, run: tailrace.Run) -> None:
        assert self.total(run) == [[107, 2]] and self.total(run, ["path"]) == [["/x", 107, 2]]

    def test_a_layer_is_asked_for_by_name(self, run: tailrace.Run) -> None:
        assert self.total(run, cat="HDF5") == [[80, 1]] and self.total(run, name="MPI_File_read_all") == [[90, 1]]
        assert self.total(run, ["cat"]) == [["HDF5", 80, 1], ["MPIIO", 90, 1], ["POSIX", 107, 2]]

    def test_a_mixed_sum_is_refused(self, run: tailrace.Run) -> None:
        with pytest.raises(QueryError, match="of system calls, HDF5 can't be added"):
            self.total(run, cat=["HDF5", "POSIX"])
        assert query.aggregate(run, [], [COUNT])["count"].tolist() == [4], "events may be"

    def test_nothing_is_still_a_row(self, run: tailrace.Run) -> None:
        assert self.total(run, cat="STDIO") == [[0, 0]]

    def test_the_command_says_what_it_left_out(self, run: tailrace.Run) -> None:
        done = CliRunner().invoke(query_command.command, [str(run.path), "--by", "path", "--agg", "sum:size"])
        assert done.exit_code == 0 and "without the calls of HDF5, MPIIO" in done.stderr and "107" in done.stdout
