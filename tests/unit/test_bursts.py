"""Bursts, their byte ranges and times, and the times of calls, against a plain model of the definitions in
analyzer/edges/edge_table.py: on random calls of all kinds, with ties, times that run backwards, offsets at the ends of
64 bits.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import T0_NS, frame
from tailrace import _native
from tailrace.analyzer.edges import edge_table, event_fold

MOST = 2**63 - 1
LIMITS = {"MIN_PAUSE_NS": 3, "MAX_BURSTS": 3, "MAX_EXTENTS": 2, "MAX_TIMES": 2, "MAX_BUSY": 3}
"""Small, so that random calls reach them."""

CALLS = [
    *[{"name": "pread", "dir": "r"}, {"name": "pwrite", "dir": "w"}, {"name": "sendfile", "dir": "rw"}],
    *[{"name": "openat", "flags": flags} for flags in (0, 0o1000, 0o1101, 0o1102, 0o102)],
    *[{"name": "creat64"}, {"name": "ftruncate"}, {"name": "fstat"}, {"name": "read", "dir": "r", "cat": "MPIIO"}],
    *[{"name": "fallocate", "flags": mode} for mode in (0, 1, 2 | 1, 8, 16, 32)],
    *[{"name": "mmap", "cat": "MMAP", "prot": prot, "flags": flags} for prot in (1, 3) for flags in (1, 2, 3)],
    *[{"name": "msync", "cat": "MMAP", "prot": 3, "flags": 1}, {"name": "wait", "cat": "PROCESS"}, {"name": "lseek"}],
    *[{"name": "write", "dir": "w", "cat": "PIPE", "ftype": "fifo"}, {"name": "region", "cat": "APP"}],
]
ENDS = st.sampled_from([None, 0, 2**62, MOST - 1, MOST])
EVENTS = st.fixed_dictionaries(
    {
        "call": st.sampled_from([*CALLS[:2] * 4, *CALLS]),
        "file": st.sampled_from(["a", "a", "a", "b", None]),
        "file2": st.sampled_from([None, "b", "c"]),
        "pid": st.sampled_from([1, 1, 2]),
        "start": st.sampled_from([None, "a", "a", "b"]),
        "task": st.sampled_from(["t1", "t1", None]),
        "ts": st.integers(T0_NS, T0_NS + 60),
        "dur": st.sampled_from([0, 1, 2, 5, 40]),
        "offset": st.one_of(st.integers(0, 40), ENDS),
        "offset2": st.one_of(st.integers(0, 40), ENDS),
        "size": st.one_of(st.integers(0, 6), ENDS),
        "count": st.integers(0, 6),
        "errno": st.sampled_from([None, None, None, 0, 5]),
    }
)
PARTITIONS = st.lists(st.lists(EVENTS, max_size=30), min_size=1, max_size=4)


class Row(NamedTuple):
    """An access, or a burst; `extents` and `times` are (start, end, covered)."""

    first: int
    last: int
    bytes: int
    calls: int
    loose: int
    mapped: int
    fresh: bool
    cut: bool
    hides: bool
    exact: bool
    extents: list[tuple[int, int, int]]
    times: list[tuple[int, int, int]]
    relayed: int
    backward: int
    begin: int
    end: int


def event(drawn: dict[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in drawn.items() if name != "call"}
    return {"host": "n1", "cat": "POSIX", "ftype": "reg", "ret": drawn["size"] or 0, **values, **drawn["call"]}


def who(e: dict[str, Any]) -> tuple[Any, ...]:
    return ("", "", e["task"] or "", "n1", e["pid"], e["start"] or "")


def access(
    e: dict[str, Any], offset: int | None, size: int, calls: int, mapped: int, fresh: bool = False, relayed: int = 0
) -> Row:
    first, last = e["ts"], e["ts"] + e["dur"]
    extents = []
    if offset is not None:
        end = min(offset + size + mapped, MOST)
        extents = [(offset, end, end - offset)]
    loose = size if offset is None else 0
    place = (-1, -1) if offset is None or not size + mapped else (offset, min(offset + size + mapped, MOST))
    times = [(first, last, last - first)]
    return Row(first, last, size, calls, loose, mapped, fresh, False, False, True, extents, times, relayed, 0, *place)


def cut(e: dict[str, Any]) -> Row:
    """From the end of the call on, what was written before it and what comes after are apart."""
    at = e["ts"] + e["dur"]
    return Row(at, at, 0, 0, 0, 0, False, True, False, True, [], [(at, at, 0)], 0, 0, -1, -1)


def accesses(e: dict[str, Any]) -> list[tuple[Any, Row]]:
    """What an event does to files: ((who, file, direction), row)."""
    if e["errno"] or e["cat"] == "MPIIO":
        return []
    name, flags, way, size = e["name"], e.get("flags", 0), e.get("dir"), e["size"] or 0
    found = []
    if way in ("r", "w"):
        found.append((e["file"], way, access(e, e["offset"], size, 1, 0)))
    elif way == "rw":
        relayed = size if e["ret"] == size else 0
        found.append((e["file"], "r", access(e, e["offset"], size, 1, 0, relayed=relayed)))
        found.append((e["file2"] or e["file"], "w", access(e, e["offset2"], size, 1, 0, relayed=relayed)))
    opened_anew = name == "openat" and flags & 0o1000 and flags & 0o3
    if opened_anew or name == "creat64" or (name == "ftruncate" and e["offset"] == 0):
        found.append((e["file"], "w", access(e, None, 0, 0, 0, fresh=True)))
    if (name == "ftruncate" and (e["offset"] or 0) > 0 and e["count"]) or (name == "fallocate" and flags & ~1):
        found.append((e["file"], "w", cut(e)))
    if e["cat"] == "MMAP":
        if name == "mmap":
            found.append((e["file"], "r", access(e, e["offset"], 0, 1, e["count"])))
        if e["prot"] & 2 and flags in (1, 3):
            found.append((e["file"], "w", access(e, e["offset"], 0, 1, e["count"])))
    return [((who(e), file, way), row) for file, way, row in found if file]


def united(rows: list[tuple[int, int, int]], limit: int) -> tuple[list[tuple[int, int, int]], bool]:
    """The union of intervals, its smallest gaps closed one after the other (of equal ones the last), and whether so."""
    out: list[tuple[int, int, int]] = []
    for start, end, covered in sorted(rows):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end), out[-1][2] + covered)
        else:
            out.append((start, end, covered))
    out = [(start, end, min(covered, end - start)) for start, end, covered in out]
    closed = len(out) > limit
    while len(out) > limit:
        i = min(range(1, len(out)), key=lambda i: (out[i][0] - out[i - 1][1], -i))
        out[i - 1 : i + 1] = [(out[i - 1][0], out[i][1], out[i - 1][2] + out[i][2])]
    return out, closed


def folded(rows: list[Row]) -> list[Row]:
    """The bursts of the rows of one key."""
    rows = sorted(rows, key=lambda row: (row.first, not (row.fresh or row.cut)))
    pauses = {0: MOST}
    for i, row in enumerate(rows[1:], 1):
        pause = MOST - 1 if row.fresh or row.cut else row.first - max(earlier.last for earlier in rows[:i])
        if pause > LIMITS["MIN_PAUSE_NS"]:
            pauses[i] = pause
    begins = sorted(sorted(pauses, key=lambda i: (-pauses[i], i))[: LIMITS["MAX_BURSTS"]])
    bursts = []
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        part = rows[begin:end]
        extents, coarse = united([x for row in part for x in row.extents], LIMITS["MAX_EXTENTS"])
        times, _ = united([x for row in part for x in row.times], LIMITS["MAX_TIMES"])
        sums = [min(sum(values), MOST) for values in zip(*(row[2:6] for row in part), strict=True)]
        exact = all(row.exact for row in part) and not coarse and not any(row.fresh or row.cut for row in part[1:])
        last = max(row.last for row in part)
        relayed = min(sum(row.relayed for row in part), MOST)
        placed = [row for row in part if row.begin >= 0]
        turns = sum(after.begin < before.end for before, after in pairwise(placed))
        backward = sum(row.backward for row in part) + turns
        place = (placed[0].begin, placed[-1].end) if placed else (-1, -1)
        hides = any(row.hides for row in part) or any(row.fresh for row in part[1:])
        row = Row(
            part[0].first,
            last,
            *sums,
            part[0].fresh,
            part[0].cut,
            hides,
            exact,
            extents,
            times,
            relayed,
            backward,
            *place,
        )
        bursts.append(row)
    return bursts


Wanted = dict[Any, list[Row]]


def by_key(rows: list[tuple[Any, Row]]) -> Wanted:
    found: Wanted = defaultdict(list)
    for key, row in rows:
        found[key].append(row)
    return {key: folded(rows) for key, rows in found.items()}


def busy(events: list[dict[str, Any]]) -> dict[Any, list[tuple[int, int, int]]]:
    """When each actor was in calls of each kind."""
    found: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
    for e in events:
        kind = {"r": "read", "w": "write", "rw": "write"}.get(e.get("dir", ""), "metadata")
        kind = {"PIPE": "pipe", "PROCESS": "child"}.get(e["cat"], "flush" if e["name"] == "msync" else kind)
        if e["cat"] not in ("APP", "MPIIO"):
            found[who(e), kind].append((e["ts"], e["ts"] + e["dur"], e["dur"]))
    return {key: united(rows, LIMITS["MAX_BUSY"])[0] for key, rows in found.items()}


def shown(table: edge_table.EdgeTable) -> tuple[Wanted, dict[Any, list[tuple[int, int, int]]]]:
    """The bursts and busy times of a table, as the model has them."""
    actors = list(table.who.itertuples(index=False, name=None))
    files = table.files["file"].tolist()

    def groups(rows: Any) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for group, *row in zip(*(column.tolist() for column in rows), strict=True):
            found[group].append(tuple(row))
        return found

    extents, times = groups(table.extents), groups(table.times)
    bursts: Wanted = defaultdict(list)
    for i, s in enumerate(table.bursts.itertuples()):
        sums = (s.bytes, s.calls, s.loose_bytes, s.mapped_bytes)
        order = (s.relayed_bytes, s.backward, s.from_offset, s.to_offset)
        row = Row(
            s.first_ns, s.last_ns, *sums, s.fresh, s.cut, s.hides, s.exact, extents.get(i, []), times.get(i, []), *order
        )
        bursts[actors[s.who], files[s.file], "rw"[s.dir]].append(row)
    owner, kind = edge_table.owners_and_kinds(table.busy)
    key = {edge_table.keyed(o, k): (actors[o], edge_table.KINDS[k]) for o, k in zip(owner, kind, strict=True)}
    return dict(bursts), {key[g]: rows for g, rows in groups(table.busy).items()}


@settings(max_examples=50, deadline=None)
@given(PARTITIONS)
def test_bursts_and_times_are_those_of_the_definition(drawn: list[list[dict[str, Any]]]) -> None:
    parts = [[event(one) for one in part] for part in drawn]
    # The fold itself has to stand any number.
    with mock.patch.multiple(edge_table, **LIMITS), mock.patch.object(event_fold, "POSSIBLE", {}):
        partials = [event_fold.chunk(frame(part)) for part in parts]
        whole = shown(edge_table.combine(partials))
    wanted = [by_key([row for e in part for row in accesses(e)]) for part in parts]
    times = [busy(part) for part in parts]
    for partial, bursts, busies in zip(partials, wanted, times, strict=True):
        assert shown(partial) == (bursts, busies)
    keys = {key for part in wanted for key in part}
    together = {key: folded([row for part in wanted for row in part.get(key, [])]) for key in keys}
    actors = {key for part in times for key in part}
    limit = LIMITS["MAX_BUSY"]
    busy_together = {key: united([x for part in times for x in part.get(key, [])], limit)[0] for key in actors}
    assert whole == (together, busy_together)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_many_rows_of_few_keys_are_sorted_as_few_of_many(seed: int, run: int) -> None:
    """Runs of calls in order are sorted as runs; times that run backwards between them must not show."""
    r = np.random.default_rng(seed)
    file = np.repeat(r.integers(0, 3, 1200 // run + 1), run)[:1200]
    ts = T0_NS + np.repeat(r.permutation(1200 // run + 1) * run * 20_000, run)[:1200] + np.arange(1200) % run * 20_000
    calls = {"name": "read", "cat": "POSIX", "dir": "r", "ftype": "reg", "host": "n1", "pid": 1, "dur": 1000}
    events = pd.DataFrame({"ts": ts, "offset": r.integers(0, 10**6, 1200), "size": 7, **calls})
    events["file"] = np.array(["a", "b", "c"])[file]
    tables = [edge_table.frame(event_fold.chunk(rows)) for rows in (events.sort_values(["file", "ts"]), events)]
    pd.testing.assert_frame_equal(*(table.sort_values("file", ignore_index=True) for table in tables))


class TestRefusals:
    """A table that was kept in a damaged file is refused, and nothing is read that isn't there."""

    @pytest.fixture
    def part(self) -> edge_table.Partial:
        read = {"name": "read", "cat": "POSIX", "dir": "r", "ftype": "reg", "file": "a", "host": "n1", "pid": 1}
        return event_fold.chunk(
            frame([{**read, "ts": T0_NS + i, "dur": 1, "offset": i * 10, "size": 5} for i in range(9)])
        )

    @pytest.mark.parametrize(("column", "value"), [("who", 1), ("who", -1), ("file", 7), ("dir", 2)])
    def test_codes_out_of_range(self, part: edge_table.Partial, column: str, value: int) -> None:
        part.bursts[column] = np.int64(value)
        with pytest.raises((ValueError, IndexError)):
            edge_table.combine([part, part])

    @pytest.mark.parametrize("group", [[-1, 0], [0, 99], [1, 0]])
    def test_groups_of_no_burst(self, part: edge_table.Partial, group: list[int]) -> None:
        wrong = part.extents._replace(**{name: np.zeros(2, dtype=np.int64) for name in ("start", "end", "weight")})
        object.__setattr__(part, "extents", wrong._replace(group=np.array(group)))
        with pytest.raises(ValueError, match="group"):
            edge_table.combine([part])

    def test_columns_that_differ(self, part: edge_table.Partial) -> None:
        object.__setattr__(part, "times", part.times._replace(end=part.times.end[:-1]))
        with pytest.raises(ValueError, match="length"):
            edge_table.combine([part])
        part.bursts["bytes"] = part.bursts["bytes"].astype(np.float64)
        with pytest.raises(ValueError, match="bytes"):
            edge_table.combine([part])

    def test_a_limit_of_nothing(self, part: edge_table.Partial) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            _native.unite_intervals([part.times], 0)
