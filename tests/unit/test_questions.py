"""Random questions of a run, of a store with its events, and of pandas over the run's frame have one answer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.runstore.store import Store
from tailrace.analyzer.store import schema, statistic
from tailrace.analyzer.store.question import Answer, Query, answer
from tailrace.errors import QueryError, UsageError

pytest.importorskip("duckdb")
EXAMPLES = 150
UPPER = ["HDF5", "MPIIO"]
FILES = {"1": ("/d/x", 1), "2": ("/d/y", 2), "3": ("/d/moved", 2), "4": ("/e/x", 4)}
CALLS = [("read", "POSIX", "r"), ("write", "POSIX", "w"), ("fread", "STDIO", "r"), ("H5Dread", "HDF5", "r")]


def blocks(seed: int) -> dict[str, bytes]:
    """Trace files of two processes: calls with and without files, sizes, tags and faults, copies, long calls."""
    chance = random.Random(seed)
    made = {}
    for pid in (7, 8):
        data, at = b"", 0
        for number in range(6):
            lines: list[Any] = [
                tw.host_line(),
                *(tw.file_line(key, name, ino=ino) for key, (name, ino) in FILES.items()),
            ]
            lines.append(tw.meta("FH", "9", "/d/absent", type="none"))
            tags = {"stage": "abc"[number % 3], "task": f"t{number % 4}", "tag.try": str(number % 2)}
            for _ in range(12):
                at += chance.randrange(0, 40)
                name, cat, way = chance.choice(CALLS)
                own = tags if chance.random() < 0.8 else {"stage": "b"} if chance.random() < 0.5 else {}
                where = {"fhash": chance.choice(list(FILES)), "offset": chance.choice([0, 5, 16, 4096])}
                moved = {"size": chance.choice([0, 1, 7, 100, 4096, 5000]), "dir": way}
                more = {"count": 4096} if chance.random() < 0.3 else {}
                dur = chance.choice([0.0, 0.25, 1.0, 12.5, 250.0])
                lines.append(tw.event(name, tw.T0_US + at, dur, pid=pid, cat=cat, **own, **where, **moved, **more))
            lines += [
                tw.event("stat", tw.T0_US + at + 1, pid=pid, **tags, fhash="9", ret=-1, errno=2),
                tw.event("getpid", tw.T0_US + at + 2, pid=pid),
                tw.event("rename", tw.T0_US + at + 3, pid=pid, **tags, fhash="2", fhash2="3", ret=0),
                tw.event(
                    "copy_file_range", tw.T0_US + at + 4, 3.0, pid=pid, fhash="1", fhash2="4", offset=5, offset2=50,
                    size=100, dir="rw", ret=100, **tags,
                ),
            ]  # fmt: skip
            data += tw.block(lines, {"pid": pid, "start": f"18{pid}"})
        made[f"n-{pid}-1"] = data
    return made


@dataclass
class World:
    """A run, a store of it alone, a store with another run besides, and the run's events."""

    run: tailrace.Run
    alone: Store
    among: Store
    frame: pd.DataFrame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    place = tmp_path_factory.mktemp("questions")
    runs = []
    for seed in (1, 2):
        meta = {"host": tw.HOST, "cwd": "/d", "run_id": f"{seed:032x}"}
        runs.append(tailrace.open(tw.make_run(place / f"run{seed}", blocks(seed), meta)))
    stores = []
    for name, members in (("alone", runs[:1]), ("among", runs)):
        store = tailrace.open_store(place / name, create=True)
        for run in members:
            store.add(run, events=True)
        stores.append(tailrace.open_store(place / name))
    frame = runs[0].read()
    plain = frame.astype(object).where(frame.notna(), None)
    return World(runs[0], *stores, plain)


# ---- the question, in words and in pandas ----

Mask = Callable[[pd.DataFrame], "pd.Series[Any]"]


def number(name: str, test: Callable[[Any], bool]) -> Mask:
    return lambda f: f[name].map(lambda value: value is not None and test(value))


def text(name: str, test: Callable[[Any], bool]) -> Mask:
    return lambda f: f[name].map(test)


def on_file(path: str) -> Mask:
    """By any name of the file: identity and inode are the same."""

    def mask(f: pd.DataFrame) -> pd.Series[Any]:
        paths = [name for name, ino in FILES.values() if ino == dict(FILES.values())[path]]
        ids = set(f["file"][f["path"].isin(paths)])
        return f["file"].isin(ids) | (f["file2"].isin(ids) & ~f["dir"].isin(["r", "w"]))

    return mask


# condition -> column, and whether it is one of the alternatives of its column; what it means
CONDITIONS: dict[str, tuple[str, bool, Mask]] = {
    "stage=a": ("stage", True, text("stage", lambda v: v == "a")),
    "stage=": ("stage", True, text("stage", lambda v: v is None)),
    "stage!=b": ("stage", False, text("stage", lambda v: v != "b")),
    "task=t[12]": ("task", True, text("task", lambda v: v in ("t1", "t2"))),
    "tag.try=1": ("tag.try", True, text("tag.try", lambda v: v == "1")),
    "tag.try!=1": ("tag.try", False, text("tag.try", lambda v: v != "1")),
    "name=read": ("name", True, text("name", lambda v: v == "read")),
    "name=*read": ("name", True, text("name", lambda v: v.endswith("read"))),
    "name!=?[es]*": ("name", False, text("name", lambda v: v[1] not in "es")),
    "cat=POSIX": ("cat", True, text("cat", lambda v: v == "POSIX")),
    "cat=HDF5": ("cat", True, text("cat", lambda v: v == "HDF5")),
    "dir=r": ("dir", True, text("dir", lambda v: v == "r")),
    "dir!=": ("dir", False, text("dir", lambda v: v is not None)),
    "pid=8": ("pid", True, number("pid", lambda v: v == 8)),
    "size>4KiB": ("size", False, number("size", lambda v: v > 4096)),
    "size<=4KiB": ("size", False, number("size", lambda v: v <= 4096)),
    "size=1": ("size", True, number("size", lambda v: v == 1)),
    "size=": ("size", True, lambda f: f["size"].map(lambda v: v is None)),
    "size!=7": ("size", False, lambda f: f["size"].map(lambda v: v != 7)),
    "dur>=1us": ("dur", False, number("dur", lambda v: v >= 1000)),
    "dur<0.25ms": ("dur", False, number("dur", lambda v: v < 250_000)),
    "errno=2": ("errno", True, number("errno", lambda v: v == 2)),
    "path=/d/x": ("path", True, on_file("/d/x")),
    "path=moved": ("path", True, on_file("/d/moved")),
    "path=x": ("path", True, on_file("/d/x")),
    "path=/e/*": ("path", True, on_file("/e/x")),
    "path=": ("path", True, text("path", lambda v: v is None)),
    "path!=/d/y": ("path", False, lambda f: ~on_file("/d/y")(f)),
    "path2=/e/x": ("path2", True, text("path2", lambda v: v == "/e/x")),
}


def mapped(name: str, change: Callable[[int], int]) -> Callable[[pd.DataFrame], list[Any]]:
    return lambda f: [None if value is None else change(value) for value in f[name]]


def column(name: str) -> Callable[[pd.DataFrame], list[Any]]:
    return lambda f: f[name].tolist()


def power(value: int) -> int:
    return 1 << (value.bit_length() - 1) if value else 0


KEYS: dict[str, Callable[[pd.DataFrame], list[Any]]] = {
    **{
        name: column(name)
        for name in ("stage", "task", "pid", "name", "cat", "path", "dir", "tag.try", "errno", "host", "file2")
    },
    "size:log2": mapped("size", power),
    "dur:log2": mapped("dur", power),
    "offset:16": mapped("offset", lambda value: value // 16 * 16),
    "ts:1000": mapped("ts", lambda value: value // 1000 * 1000),
}
WIDTHS = {"time:100us": 100_000, "time:1s": 10**9}
STATISTICS = [
    *("count", "share", "share:size", "rate:size", "rate:calls", "ratio:size/calls", "ratio:size/count"),
    *("sum:size", "sum:dur", "sum:ret", "mean:size", "mean:dur", "mean:ret", "min:size", "max:offset", "max:dur"),
    *("nunique:path", "nunique:size", "nunique:dur", "p25:size", "p50:dur", "p75:offset", "p95:size", "p99:dur"),
]


@dataclass
class Asked:
    by: list[str]
    aggs: list[str]
    where: list[str]
    since: float | None
    until: float | None
    sort: str | None
    limit: int | None

    def words(self) -> dict[str, Any]:
        return {"since": self.since, "until": self.until, "sort": self.sort, "limit": self.limit}


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    by = draw(st.lists(st.sampled_from([*KEYS, *WIDTHS]), max_size=3, unique_by=lambda key: key.partition(":")[0]))
    aggs = draw(st.lists(st.sampled_from(STATISTICS), min_size=1, max_size=4, unique=True))
    where = draw(st.lists(st.sampled_from(list(CONDITIONS)), max_size=3, unique=True))
    since = draw(st.none() | st.sampled_from([0.0002, 0.0005]))
    until = draw(st.none() | st.sampled_from([0.0006, 0.001]))
    labels = [*(key.partition(":")[0] for key in by), *(statistic.parse(one).label for one in aggs)]
    sort = draw(st.none() | st.sampled_from([*labels, *(f"-{label}" for label in labels)]))
    return Asked(by, aggs, where, since, until, sort, draw(st.none() | st.integers(0, 5)))


def matching(f: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    keep = pd.Series(True, f.index)
    columns = {name: is_equal for name, is_equal, _ in (CONDITIONS[one] for one in asked.where) if is_equal}
    for column in columns:
        either = [CONDITIONS[one][2](f) for one in asked.where if CONDITIONS[one][:2] == (column, True)]
        keep &= np.logical_or.reduce(either).astype(bool)
    for one in asked.where:
        if not CONDITIONS[one][1]:
            keep &= CONDITIONS[one][2](f).astype(bool)
    t0 = min(f["ts"])
    if asked.since is not None:
        keep &= (f["ts"] + f["dur"]).map(lambda ns: ns >= t0 + round(asked.since * 1e9))
    if asked.until is not None:
        keep &= f["ts"].map(lambda ns: ns < t0 + round(asked.until * 1e9))
    return f[keep]


class Mixed(Exception):
    """A sum of several layers is asked for."""


def expected(every: pd.DataFrame, asked: Asked) -> list[tuple[Any, ...]]:
    """The answer, worked out row by row."""
    f, wanted = matching(every, asked), [statistic.parse(one) for one in asked.aggs]
    layered = any(one.is_sum and {one.column, one.per} & statistic.LAYERED for one in wanted)
    if layered and not {"cat", "name"} & set(asked.by):
        of = f["cat"].map(lambda v: v if v in UPPER else "")
        if len(set(of)) > 1 and {"cat", "name"} & {CONDITIONS[one][0] for one in asked.where}:
            raise Mixed
        f = f[of == min(of, default="")]
    parts = parts_of(f, asked, min(every["ts"]))
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for key, part in parts:
        groups.setdefault(key, []).append(part)
    if not asked.by:
        groups = {(): groups.get((), [])}
    wholes = {one: sum(total(rows, one.column) for rows in groups.values()) for one in wanted if one.how == "share"}
    width = next((WIDTHS[key] for key in asked.by if key in WIDTHS), None)
    rows = [
        (
            *(value * width / 1e9 if name in WIDTHS else value for name, value in zip(asked.by, key, strict=True)),
            *(figure_of(parts, one, wholes.get(one, 0), width) for one in wanted),
        )
        for key, parts in groups.items()
    ]
    texts = [":" not in name and name not in ("pid", "errno") for name in asked.by]
    rows.sort(key=lambda row: [_place(*one) for one in zip(row, texts, strict=False)])
    if asked.sort is not None:
        labels = [*(key.partition(":")[0] for key in asked.by), *(one.label for one in wanted)]
        at = labels.index(asked.sort.removeprefix("-"))
        some = sorted(
            (row for row in rows if row[at] is not None), key=lambda row: row[at], reverse=asked.sort[0] != "-"
        )
        rows = some + [row for row in rows if row[at] is None]
    return rows[: asked.limit]


def _place(value: Any, is_text: bool) -> tuple[int, Any]:
    return (int(not is_text), 0) if value is None else (int(is_text), value)


def parts_of(f: pd.DataFrame, asked: Asked, t0: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each row, as one for each range of time that it covers: its key, what it counts there, its share of sums."""
    keys = {name: KEYS[name](f) for name in asked.by if name in KEYS}
    time = next((name for name in asked.by if name in WIDTHS), None)
    found = []
    for place, row in enumerate(f.to_dict("records")):
        of_end = row["lines"] == 0
        values = {name: None if of_end and name in schema.OF_CALL else row[name] for name in row}
        width = WIDTHS[time] if time else 1
        begin = row["ts"] - t0 if time else 0
        took = row["dur"] if time else 0
        first, last = begin // width, max(begin + took - 1, begin) // width
        for at in range(first, last + 1):
            low = 0.0 if at == first else (at * width - begin) / took
            high = 1.0 if at == last else ((at + 1) * width - begin) / took
            shares = {
                name: int(value * high) - int(value * low) for name, value in values.items() if isinstance(value, int)
            }
            part = {**values, "lines": row["lines"] if at == first else 0, "shares": shares, "first": at == first}
            found.append((tuple(at if name == time else keys[name][place] for name in asked.by), part))
    return found


def total(rows: list[dict[str, Any]], column: str | None) -> int:
    return sum(row["lines"] if column is None else row["shares"].get(column, 0) for row in rows)


def figure_of(rows: list[dict[str, Any]], one: Any, whole: int, width: int | None) -> Any:
    if one.how == "count":
        return total(rows, None)
    if one.how == "sum":
        return total(rows, one.column)
    if one.how == "share":
        return total(rows, one.column) / whole if whole > 0 else None
    if one.how in ("rate", "ratio"):
        below = total(rows, one.per or "dur") if one.how == "ratio" or width is None else width
        below = below / 1e9 if one.how == "rate" else below
        return total(rows, one.column) / below if below > 0 else None
    values = pd.Series([row[one.column] for row in rows if row["first"] and row[one.column] is not None], dtype=object)
    if one.how == "nunique":
        return values.nunique()
    if values.empty:
        return None
    if one.how in ("min", "max"):
        return getattr(values.astype("int64"), one.how)()
    return values.astype("int64").mean() if one.how == "mean" else values.astype("int64").quantile(
        statistic.QUANTILES[one.how]
    )  # fmt: skip


def rows_of(found: Answer) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.rows]


def same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> bool:
    return len(found) == len(wanted) and all(
        len(one) == len(other) and all(map(_equal, one, other)) for one, other in zip(found, wanted, strict=True)
    )


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None or isinstance(one, str):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(asked=questions(), among=st.booleans())
def test_a_run_a_store_and_pandas_agree(world: World, asked: Asked, among: bool) -> None:
    query = Query.of(asked.by, asked.aggs, where=asked.where, **asked.words())
    store, own = (world.among, [f"run={world.run.path.resolve()}"]) if among else (world.alone, [])
    of_store = Query.of(asked.by, asked.aggs, where=[*asked.where, *own], **asked.words())
    try:
        wanted = expected(world.frame, asked)
    except Mixed:
        event("refused")
        for refused in (lambda: answer(world.run, query), lambda: store.answer(of_store)):
            with pytest.raises(QueryError, match="can't be added"):
                refused()
        return
    event("none matches" if matching(world.frame, asked).empty else "some match")
    of_run = rows_of(answer(world.run, query))
    assert same(of_run, wanted), ("run", of_run, wanted)
    found = rows_of(store.answer(of_store))
    assert same(found, wanted), ("store", found, wanted)


COLUMNS = ["name", "path", "size", "dur", "stage", "tag.try", "dir", "offset", "lines", "errno"]


@settings(max_examples=EXAMPLES // 3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True),
    asked=questions(),
    is_sorted=st.booleans(),
)
def test_events_of_a_run_a_store_and_pandas_agree(
    world: World, columns: list[str], asked: Asked, is_sorted: bool
) -> None:
    bounds = {"since": asked.since, "until": asked.until, "sort": f"-{columns[0]}" if is_sorted else None}
    limit = asked.limit if is_sorted else None
    query = Query.of(columns=columns, where=asked.where, limit=limit, **bounds)
    rows = list(matching(world.frame, asked)[columns].itertuples(index=False, name=None))
    order = [(lambda row: [(value is None, value) for value in row])] * 1
    wanted = sorted(rows, key=order[0])[:limit]
    for found in (rows_of(answer(world.run, query)), rows_of(world.alone.answer(query))):
        assert same(found if is_sorted else sorted(found, key=order[0]), wanted)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"by": "stages"}, "no column 'stages' (did you mean 'stage'"),
        ({"by": "time"}, "as in time:1s"),
        ({"by": "path:4"}, "no ranges: group by path"),
        ({"by": "size,size:log2"}, "groups by size in two ways"),
        ({"aggs": "sun:size"}, "did you mean 'sum'"),
        ({"aggs": "sum:path"}, "only be counted: nunique:path"),
        ({"aggs": "share:count"}, "write share"),
        ({"where": "size"}, "is no condition"),
        ({"where": "size<4parsecs"}, "KiB"),
        ({"where": "path<4"}, "text has no order"),
        ({"where": "stage=q"}, "there is no stage 'q'; there is 'a', 'b', 'c'"),
        ({"where": "pid=99"}, "there is no pid 99; there is 7, 8"),
        ({"where": "path=/d/nothing"}, "no event is on a file called '/d/nothing'"),
        ({"where": "path=/f/*"}, "no event is on a file that fits '/f/*'"),
        ({"sort": "sum"}, "no column 'sum' to sort by"),
        ({"since": math.inf}, "since is inf"),
        ({"by": "stage", "columns": "name"}, "one or the other"),
    ],
)
def test_errors_have_one_wording(world: World, asked: dict[str, Any], words: str) -> None:
    texts = []
    for source in (world.run, world.alone):
        with pytest.raises((QueryError, UsageError)) as error:
            source.query(**asked)
        texts.append(str(error.value).replace(str(source.path), "PLACE"))
    assert words in texts[0] and words in texts[1]


def test_a_store_has_columns_of_its_own(world: World) -> None:
    table = world.among.query("run,day", "count", where=["day>=2025-01-01", "failed=false"])
    assert len(table) == 2 and table["count"].sum() == 2 * int((world.frame["lines"]).sum())
    assert world.among.query(where="day<2025-01-01")["count"].tolist() == [0]
    with pytest.raises(QueryError, match="the run has no column 'day'"):
        world.run.query("day")
