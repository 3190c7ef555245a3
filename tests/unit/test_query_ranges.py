"""Totals by ranges of time and of sizes, conditions with bounds, and the words for what can't be asked."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrace
from support import trace_writer as tw
from support.commands import run_cli
from tailrace.analyzer.store import conditions, group_keys, partitions, query, totals_ranges
from tailrace.analyzer.util import quantities
from tailrace.cli import query as query_command
from tailrace.errors import QueryError, TailraceError

MS = 1000  # us


def write_run(directory: Path, calls: list[tuple[int, float, int | None]], per_block: int = 3) -> Any:
    """A run of calls (begin in us, duration in us, size), each a read of /x."""
    data = b""
    for first in range(0, len(calls), per_block):
        lines = [tw.file_line("1", "/x", ino=1)]
        for begin, dur, size in calls[first : first + per_block]:
            args: dict[str, Any] = {} if size is None else {"size": size, "dir": "r"}
            lines.append(tw.event("read", tw.T0_US + begin, dur, fhash="1", **args))
        data += tw.block(lines)
    return tailrace.open(tw.make_run(directory, {"n-7-1": data}))


def asked(*args: Any) -> tuple[str, str]:
    """What `tailrace query` prints on standard output and standard error."""
    result = CliRunner().invoke(query_command.command, [str(a) for a in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


# ---- time ----


def test_a_call_is_shared_by_the_times_that_it_covers(tmp_path: Path) -> None:
    # 10 ms of 1,000 B from 5 ms on, in ranges of 4 ms: 3, 4 and 3 ms of it; and 7 B at 9 ms that take no time.
    run = write_run(tmp_path / "run", [(0, 0, None), (5 * MS, 10 * MS, 1000), (9 * MS, 0, 7)])
    table = run.totals(["time:4ms"], ["sum:size", "count", "max:size", "mean:size", "rate:size", "sum:dur"])
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    assert [row["time"] for row in rows] == pytest.approx([0.0, 0.004, 0.008, 0.012])
    assert [row["sum_size"] for row in rows] == [0, 300, 407, 300]
    assert [row["sum_dur"] for row in rows] == [0, 3_000_000, 4_000_000, 3_000_000]
    assert [row["count"] for row in rows] == [1, 1, 1, 0], "a call counts where it begins"
    assert [row["max_size"] for row in rows] == [None, 1000, 7, None]
    assert [row["mean_size"] for row in rows] == [None, 1000, 7, None]
    assert [row["rate_size"] for row in rows] == pytest.approx([0, 75_000, 101_750, 75_000])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 50_000), st.integers(0, 30_000), st.none() | st.integers(0, 2**45)),
        min_size=1,
        max_size=15,
    ),
    width_us=st.sampled_from([700, 5_000, 1_000_000]),
    by_times=st.booleans(),
)
def test_shared_sums_add_up(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    calls: list[tuple[int, float, int | None]],
    width_us: int,
    by_times: bool,
) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", 1)
    monkeypatch.setattr(conditions.Where, "of_texts", not by_times)
    run = write_run(tmp_path_factory.mktemp("run") / "run", calls)
    table = run.totals([f"time:{width_us}us"], ["sum:size", "sum:dur", "count"])
    assert int(table["sum_size"].sum()) == sum(size or 0 for _, _, size in calls)
    assert int(table["sum_dur"].sum()) == sum(int(dur * 1000) for _, dur, _ in calls)
    assert int(table["count"].sum()) == len(calls)
    origin = min(begin for begin, _, _ in calls)
    expected: dict[int, float] = {}
    for begin, dur, size in calls:
        start, end = begin - origin, begin - origin + dur
        first, last = start // width_us, max(start, end - 1e-3) // width_us
        for number in range(int(first), int(last) + 1):
            inside = min(end, (number + 1) * width_us) - max(start, number * width_us)
            expected[number] = expected.get(number, 0) + (size or 0) * (inside / dur if dur else 1)
    got = {round(time * 1e6 / width_us): int(size) for time, size in zip(table["time"], table["sum_size"], strict=True)}
    assert got == {number: pytest.approx(amount, abs=len(calls), rel=1e-9) for number, amount in expected.items()}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 5_000), st.integers(0, 3_000), st.none() | st.integers(0, 2**45)),
        min_size=1,
        max_size=9,
    ),
    width_us=st.sampled_from([700, 1_000_000]),
)
def test_lines_are_divided_as_the_native_reader_divides_calls(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, float, int | None]], width_us: int
) -> None:
    run = write_run(tmp_path_factory.mktemp("run") / "run", calls)
    keys, values, gathered = [group_keys.parse(f"time:{width_us}us", run.t0_ns, run.t1_ns)], ["size", "dur"], ["size"]
    names = [*keys[0].columns, "lines"]
    (task,) = run.group_tasks(keys, values, gathered)
    folded = []
    for part in (totals_ranges.groups_of(query.events(run, names), names, keys, values, gathered), task()):
        groups: dict[Any, query.GroupTotals] = {}
        query._fold(groups, part, values, gathered, False)
        folded.append({key: (of.calls, of.of, query._gathered(of.values["size"], "p50")) for key, of in groups.items()})
    assert folded[0] == folded[1]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("time", "time:1s"),
        ("time:1ns", "most are 1,000,000"),
        ("time:0s", "larger than 0"),
        ("time:5B", "unit: ns, us, ms, s"),
        ("path:4", "no ranges: group by path"),
        ("sizee:log2", r"no column 'sizee' \(did you mean 'size'"),
        ("size:log3", "no whole number of bytes"),
    ],
)
def test_a_bad_range_is_explained(tmp_path: Path, key: str, words: str) -> None:
    run = write_run(tmp_path / "run", [(0, 5 * MS, 1)])
    with pytest.raises(QueryError, match=words):
        run.totals([key])


# ---- values ----


def test_powers_of_two_and_widths_by_hand(tmp_path: Path) -> None:
    sizes = [0, 1, 2, 3, 4, 1023, 1024, 2**40 - 1, 2**40, None]
    run = write_run(tmp_path / "run", [(i, 1, size) for i, size in enumerate(sizes)])
    table = run.totals(["size:log2"], ["count", "min:size", "share"])
    keys = table["size"].astype(object).where(table["size"].notna(), None)
    got = dict(zip(keys, table["count"], strict=True))
    assert got == {0: 1, 1: 1, 2: 2, 4: 1, 512: 1, 1024: 1, 2**39: 1, 2**40: 1, None: 1}
    assert float(table["share"].sum()) == pytest.approx(1)
    wide = run.totals(["size:1KiB"], ["count"], size=conditions.Between(None, 5000))
    assert list(zip(wide["size"], wide["count"], strict=True)) == [(0, 6), (1024, 1)]


def test_powers_beyond_the_digits_of_a_float(tmp_path: Path) -> None:
    values = [value for power in (52, 53, 54, 61, 62) for value in (2**power - 1, 2**power, 2**power + 1)]
    values.append(2**63 - 1)
    lines = [tw.event("read", tw.T0_US + i, offset=value) for i, value in enumerate(values)]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)}))
    table = run.totals(["offset:log2"], ["count"])
    powers = Counter(1 << (value.bit_length() - 1) for value in values)
    assert dict(zip(table["offset"], table["count"], strict=True)) == powers


def test_a_range_of_the_column_count_stands_beside_other_figures(tmp_path: Path) -> None:
    lines = [tw.event("read", tw.T0_US + i, count=size, size=1) for i, size in enumerate((1, 5, 6))]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)}))
    text, _ = asked(run.path, "--by", "count:log2", "--agg", "sum:size", "--format", "csv")
    assert text.split() == ["count,sum_size", "1,1", "4,2"]
    text, _ = asked(run.path, "--by", "count:log2", "--agg", "count", "--format", "csv")
    assert text.split() == ["count,events", "1,1", "4,2"]
    with pytest.raises(QueryError, match="groups by size in two ways"):
        run.totals(["size", "size:log2"])


CONDITIONS = [
    (["size<4"], [0, 1, 2, 3]),
    (["size<=4", "size>1"], [2, 3, 4]),
    (["size>=4KiB"], [4096, 10_000]),
    (["size=1", "size=4"], [1, 4]),
    (["size!=4", "size<10"], [0, 1, 2, 3]),
    (["size=4", "size=1", "size>2"], [4]),
    (["size="], [None]),
    (["size!="], [0, 1, 2, 3, 4, 4096, 10_000]),
    (["dur>=5us"], [3, 4, 4096, 10_000, None]),
    (["dur<1.5us"], [0]),
    (["name!=read"], []),
    (["path!=/x"], []),
    (["path!=/y*", "size=3"], [3]),
    (["path=/y*", "size=3"], None),
]


@pytest.mark.parametrize(("where", "sizes"), CONDITIONS)
def test_conditions_by_hand(tmp_path: Path, where: list[str], sizes: list[int | None] | None) -> None:
    values = [0, 1, 2, 3, 4, 4096, 10_000, None]
    run = write_run(tmp_path / "run", [(i, i + 1 + (i > 2), size) for i, size in enumerate(values)])
    options = [word for text in where for word in ("--where", text)]
    if sizes is None:
        with pytest.raises(TailraceError, match="no event is on a file that fits '/y"):
            asked(run.path, *options)
        return
    text, _ = asked(run.path, *options, "--columns", "size", "--format", "csv")
    assert [None if row == '""' else int(row) for row in text.split("\n")[1:-1]] == sizes


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("size", "is no condition"),
        ("size<4XB", "unit: B, K, KiB"),
        ("size=many", "column size: 'many' is no whole number of bytes"),
        ("dur<0.5ns", "give a whole number"),
        ("path<4", "text has no order"),
        ("naem=read", "did you mean 'name'"),
        ("pid=4KiB", "no whole number"),
    ],
)
def test_a_bad_condition_is_explained(tmp_path: Path, where: str, words: str) -> None:
    run = write_run(tmp_path / "run", [(0, 1, 1)])
    with pytest.raises(TailraceError, match=words):
        asked(run.path, "--where", where)


def test_units() -> None:
    given_bytes = {"5": 5, "4KiB": 4096, "4K": 4096, "4k": 4096, "1.5MiB": 3 << 19, "2 kB": 2000, "1GB": 10**9}
    assert {text: quantities.whole(text, "bytes") for text in given_bytes} == given_bytes
    given_times = {"5": 5, "1.5ms": 1_500_000, "2us": 2000, "2\u00b5s": 2000, "1min": 60 * 10**9, "0.5h": 1800 * 10**9}
    assert {text: quantities.whole(text, "ns") for text in given_times} == given_times


# ---- totals (--detail) ----

PROGRAM = """
import os, sys, time
with open(sys.argv[1], "wb", 0) as file:
    for i in range(600): file.write(bytes(1 << i % 12))
    time.sleep(0.25)
    for i in range(600): file.write(bytes(3000))
"""


def test_ranges_of_totals_have_the_calls_that_full_detail_has(tmp_path: Path) -> None:
    runs = {}
    for detail in ("full", "totals"):
        command = (sys.executable, "-c", PROGRAM, tmp_path / "data")
        run_cli("run", "-q", "--detail", detail, "-o", tmp_path / detail, "--", *command)
        runs[detail] = tailrace.open(tmp_path / detail)
    full, totals = runs["full"], runs["totals"]
    only = {"path": str(tmp_path / "data"), "name": "write"}
    assert totals.info()["totals"] > 0
    counts = [run.totals(["size:log2"], **only).dropna() for run in (full, totals)]
    counts[1] = counts[1][counts[1]["count"] > 0]
    assert counts[0]["size"].tolist() == counts[1]["size"].tolist() == [*(1 << i for i in range(12))]
    assert counts[0]["count"].tolist() == counts[1]["count"].tolist()

    by_time = totals.totals(["time:50ms"], ["sum:size", "count"], **only)
    assert int(by_time["sum_size"].sum()) == int(full.totals([], ["sum:size"], **only)["sum_size"].iat[0])
    assert int(by_time["count"].sum()) == 1200
    busy = by_time["time"][by_time["sum_size"] > 0]
    assert float(busy.diff().max()) > 0.1, "nothing was written in the pause"
    assert by_time.attrs["shared"] > 0 and full.totals(["time:1s"], **only).attrs["shared"] == 0

    out, said = asked(totals.path, "--where", "size<100", "--path", tmp_path / "data", "--where", "name=write")
    assert "can't be selected by the size" in said and out.split()[-1] == "0"


# ---- words ----


def test_names_that_are_not_there_have_the_nearest_ones(tmp_path: Path) -> None:
    line = tw.event("read", stage="align", task="t1")
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block([line])}))
    with pytest.raises(QueryError, match=r"no stage 'alignn' \(did you mean 'align'\?\); there is 'align'"):
        run.totals(stage="alignn")
    assert run.totals(stage=conditions.Not(("alignn",)))["count"].sum() == 1, "leaving out none leaves all"
    _, said = asked(run.path, "--name", "reaad")
    assert "no event matches (did you mean 'read'" in said
    with pytest.raises(QueryError, match=r"to sort by \(did you mean 'count'"):
        asked(run.path, "--by", "name", "--sort", "cuont")


def test_explain_reads_nothing_and_says_what_would_be_read(tmp_path: Path) -> None:
    blocks = b"".join(tw.block([tw.event("read", tw.T0_US + i, stage=stage)]) for i, stage in enumerate("aab"))
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": blocks}))
    text, _ = asked(run.path, "--stage", "b", "--by", "name", "--explain")
    assert text.startswith("1 of 3 blocks would be read") and "rule them out" in text and "n-7-1" in text
    text, _ = asked(run.path, "--by", "stage", "--explain")
    assert text == "No block is read: the headers of 3 blocks have the answer.\n"
    text, _ = asked(run.path, "--columns", "name", "--explain")
    assert text.startswith("3 of 3 blocks would be read") and "rule" not in text


def test_units_of_the_result(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(0, 5 * MS, 1000)])
    text, _ = asked(
        run.path, "--by", "time:1s", "--agg", "rate:size", "--agg", "ratio:size/calls", "--agg", "share:size"
    )
    head = " ".join(text.split("\n")[1].split())
    assert head == "time (s) rate_size (bytes/s) ratio_size/calls (bytes/calls) share_size"
