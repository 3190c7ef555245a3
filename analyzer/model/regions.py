"""The regions of a run: what the program itself said that it was doing, and the I/O meanwhile.

    parts of events --_read--> regions, I/O as unions of intervals by (scope, region) --> Regions.table, steps, epochs

Times are unions over threads and processes: two threads in a region at once count once. Unoverlapped I/O is the time in
which I/O ran and no region of the category `compute` did (Devarajan et al. 2024, section V.D); application I/O is the
time in regions of the categories `IO`. Both are compared within a scope: the run, or the rows of equal `by` columns.

Invariants: I/O is what the edge table counts as time in file I/O (no pipes, no sockets, no layers above libc). Times
are exact under full detail; of a line of totals the interval is that of its calls, so unions are an upper bound.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.analyzer.edges.edge_table import STREAM_TYPES
from tailrace.analyzer.edges.event_fold import MEANINGS
from tailrace.analyzer.store import engine, schema
from tailrace.analyzer.store.loader import EventSource, Part
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Ints
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

COMPUTE = "compute"
IO = frozenset({"io", "reader", "data", "data_loader", "dataloader", "checkpoint"})
"""Categories with a meaning: what I/O may hide behind, and I/O of the application, with DFTracer's words for it."""
_FRAMEWORK = "ai_framework"
"""DLIO's category of a framework's functions. Those called `compute` are its computation."""
SCOPES = ("workflow", "stage", "task", "job", "rank", "host", "pid")
INSTANCE = (*PROCESS, "region_id")
_COLUMNS = (
    *dict.fromkeys(
        (
            *("cat", "name", "ts", "dur", "span", "ftype", "dir", "size", "calls", "region", "category", "kind"),
            *("region_id", "parent_id", "epoch", "step", "keys", "open", "tid", *SCOPES, *PROCESS),
        )
    ),
)
_CELL = [*SCOPES, "region"]
_NEVER = -1


@dataclass(frozen=True)
class _Folded:
    """What is kept of a partition: regions a row each; cells, the distinct scopes and paths of I/O calls with their
    sums and the union of their times (`start`, `end`: arrays, by `cell`); the last time of each process."""

    regions: pd.DataFrame
    cells: pd.DataFrame
    cell: Ints
    start: Ints
    end: Ints
    last: pd.DataFrame


@dataclass(frozen=True)
class Regions:
    """The regions of a run.

    instances: a row each: name, region (its path), category, begin_ns, end_ns (of one that never ended the last time of
    its process), open, epoch, step (its own, else those of the regions around it), keys (a tag string), tid, region_id,
    parent_id, the columns SCOPES and start.
    """

    instances: pd.DataFrame
    _io: _Folded

    def table(self, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """A row for each path, in the order of first begin: region, category, count, open (how many never ended),
        time_ns, io_ns, calls, read_bytes, written_bytes (of I/O in the region or those below it), unoverlapped_ns,
        app_ns, unoverlapped_app_ns (application I/O in it). The last three but app_ns are NA where the scope has no
        compute region.

        by: columns of SCOPES that make a row and a scope each. Raises QueryError for any other column.
        """
        keys = _checked(by)
        rows = []
        for scope, own, io in self._scopes(keys):
            compute, application = _union(own[_is_compute(own)]), own[own["category"].isin(IO)]
            for path, some in own.groupby("region", sort=False, observed=True):
                below = application[_is_below(application["region"], str(path))]
                rows.append(
                    {
                        **scope,
                        "region": path,
                        "category": some["category"].iloc[0],
                        "count": len(some),
                        "open": int(some["open"].sum()),
                        "time_ns": intervals.total(_union(some)),
                        **io.below(str(path)),
                        **_against(compute, io.times(str(path)), _union(below)),
                        "_first": int(some["begin_ns"].min()),
                    }
                )
        names = ("region", "category", "count", "open", "time_ns", *_SUMS, *_OVERLAPS)
        return _frame(rows, [*keys, *names], [*keys, "_first"])

    def steps(self, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """A row for each epoch and step, in their order: epoch, step, count (of regions), begin_ns, time_ns,
        compute_ns, io_ns (of all processes of the scope in that time), unoverlapped_ns, app_ns, unoverlapped_app_ns.
        by: as in `table`."""
        return self._over(_checked(by), ["epoch", "step"])

    def epochs(self, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """The same for each epoch, without the column step."""
        return self._over(_checked(by), ["epoch"])

    def _over(self, keys: list[str], numbers: list[str]) -> pd.DataFrame:
        rows = []
        for scope, own, io in self._scopes(keys):
            compute, application = _union(own[_is_compute(own)]), _union(own[own["category"].isin(IO)])
            calls = io.times("")
            numbered = own.dropna(subset=numbers[-1:])
            for number, some in numbered.groupby(numbers, sort=True, dropna=False):
                window = _union(some)
                inside = [intervals.intersect(part, window) for part in (compute, calls, application)]
                rows.append(
                    {
                        **scope,
                        **dict(zip(numbers, number, strict=True)),
                        "count": len(some),
                        "begin_ns": int(some["begin_ns"].min()),
                        "time_ns": intervals.total(window),
                        "compute_ns": intervals.total(inside[0]),
                        "io_ns": intervals.total(inside[1]),
                        **_against(inside[0] if len(compute) else compute, inside[1], inside[2], bool(len(compute))),
                    }
                )
        names = (*numbers, "count", "begin_ns", "time_ns", "compute_ns", "io_ns", *_OVERLAPS)
        return _frame(rows, [*keys, *names], [*keys, *numbers])

    def _scopes(self, keys: list[str]) -> list[tuple[dict[str, object], pd.DataFrame, _Io]]:
        """(values of the keys, regions, I/O) of each scope that has a region."""
        if not len(self.instances):
            return []
        if not keys:
            return [({}, self.instances, _Io(self._io, np.ones(len(self._io.cells), dtype=bool)))]
        found = []
        for values, own in self.instances.groupby(keys, sort=False, observed=True, dropna=False):
            mine = np.ones(len(self._io.cells), dtype=bool)
            for key, value in zip(keys, values, strict=True):
                mine &= (self._io.cells[key] == value).to_numpy()
            found.append((dict(zip(keys, values, strict=True)), own, _Io(self._io, mine)))
        return found


_SUMS = ("io_ns", "calls", "read_bytes", "written_bytes")
_OVERLAPS = ("unoverlapped_ns", "app_ns", "unoverlapped_app_ns")


class _Io:
    """The I/O of a scope, by region."""

    def __init__(self, folded: _Folded, mine: np.ndarray) -> None:
        self._cells = folded.cells
        self._mine = mine
        self._folded = folded

    def _chosen(self, path: str) -> np.ndarray:
        return self._mine & _is_below(self._cells["region"], path).to_numpy() if path else self._mine

    def times(self, path: str) -> Ints:
        """When I/O ran in the region or below it; in any and none for ""."""
        rows = self._chosen(path)[self._folded.cell]
        return intervals.united(np.column_stack((self._folded.start[rows], self._folded.end[rows])))

    def below(self, path: str) -> dict[str, int]:
        some = self._cells[self._chosen(path)]
        return {
            "io_ns": intervals.total(self.times(path)),
            **{name: int(some[name].sum()) for name in ("calls", "read_bytes", "written_bytes")},
        }


def of(run: EventSource, has_regions: bool = True) -> Regions:
    """The regions of a run, in one pass over its events. Raises RunError when the trace can't be read."""
    parts = run.parts(columns=list(_COLUMNS)) if has_regions else []
    folded = engine.folded([functools.partial(_read_part, part) for part in parts], _combine) if parts else _EMPTY()
    return Regions(_instances(folded), folded)


# --- a partition -----------------------------------------------------------------------------------------------------


def _EMPTY() -> _Folded:
    return _read(schema.empty_frame(_COLUMNS))


def _read_part(part: Part) -> _Folded:
    return _read(part())


def _read(frame: pd.DataFrame) -> _Folded:
    category = MEANINGS["cat"]
    not_io = [text for text in frame["cat"].cat.categories if category.get(text, 0) & _bit("not_io")]
    own = frame["cat"] == "APP"
    regions = frame[own & frame["kind"].isna() & frame["region_id"].notna()]
    streams = frame["ftype"].isin(STREAM_TYPES) | frame["cat"].isin(["PIPE", "SOCKET"])
    calls = frame[~frame["cat"].isin(not_io) & ~streams]
    cells, cell = _cells(calls)
    start = calls["ts"].to_numpy(np.int64)
    length = calls["span"].astype("Int64").fillna(calls["dur"]).to_numpy(np.int64)
    united = intervals.union(intervals.make(cell, start, start + np.maximum(length, 0)))
    size = calls["size"].fillna(0).to_numpy(np.int64)
    for name, letter in (("read_bytes", "r"), ("written_bytes", "w")):
        moved = calls["dir"].astype(str).str.contains(letter).to_numpy()
        cells[name] = np.bincount(cell, weights=size * moved, minlength=len(cells)).astype(np.int64)
    cells["calls"] = np.bincount(cell, weights=calls["calls"], minlength=len(cells)).astype(np.int64)
    times = pd.DataFrame({**{key: _plain(frame[key]) for key in PROCESS}, "last": frame["ts"] + frame["dur"]})
    last = times.groupby(list(PROCESS), dropna=False)["last"].max().reset_index()
    return _Folded(_plain_frame(regions), cells, united.group, united.start, united.end, last)


def _cells(calls: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    keys = pd.DataFrame({key: _plain(calls[key]) for key in _CELL})
    grouped = keys.groupby(_CELL, sort=False, dropna=False)
    cell = grouped.ngroup().to_numpy(np.int64)
    return keys.drop_duplicates().reset_index(drop=True), cell


def _plain(column: pd.Series) -> pd.Series:
    """Texts as objects, "" for none, so that partitions can be joined."""
    if column.dtype == "category":
        column = column.astype(object).where(column.notna(), "")
    return column.reset_index(drop=True)


def _plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({name: _plain(frame[name]) for name in frame.columns})


def _combine(parts: list[_Folded]) -> _Folded:
    rows = pd.concat([part.cells for part in parts], ignore_index=True)
    first = np.cumsum([0, *(len(part.cells) for part in parts)])
    number = rows.groupby(_CELL, sort=False, dropna=False).ngroup().to_numpy(np.int64)
    cells = rows.groupby(_CELL, sort=False, dropna=False)[["read_bytes", "written_bytes", "calls"]].sum().reset_index()
    united = intervals.union(
        intervals.make(
            np.concatenate([number[at + part.cell] for at, part in zip(first, parts, strict=False)]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
        )
    )
    last = pd.concat([part.last for part in parts]).groupby(list(PROCESS), dropna=False)["last"].max().reset_index()
    regions = pd.concat([part.regions for part in parts], ignore_index=True)
    return _Folded(regions, cells, united.group, united.start, united.end, last)


@functools.cache
def _bit(name: str) -> int:
    from tailrace import _native

    return int(_native.bits()[name])


# --- all of them -----------------------------------------------------------------------------------------------------


def _instances(folded: _Folded) -> pd.DataFrame:
    rows = folded.regions.copy()
    rows["open"] = rows["open"].fillna(0).astype("int64")
    # A region that was sealed while it was open has a second line with its end.
    rows = rows.sort_values("open", kind="stable").drop_duplicates(list(INSTANCE), keep="first")
    rows = rows.merge(folded.last, on=list(PROCESS), how="left")
    begin = rows["ts"].to_numpy(np.int64)
    ended = np.maximum(rows["last"].fillna(0).to_numpy(np.int64), begin)
    rows["begin_ns"] = begin
    rows["end_ns"] = np.where(rows["open"] == 1, ended, begin + rows["dur"].to_numpy(np.int64))
    rows = rows.sort_values(["begin_ns", *INSTANCE]).reset_index(drop=True)
    _inherit(rows)
    names = ["name", "region", "category", "begin_ns", "end_ns", "open", "epoch", "step", "keys", "tid"]
    columns = dict.fromkeys((*names, "region_id", "parent_id", *SCOPES, *PROCESS))
    return rows[list(columns)]


def _inherit(rows: pd.DataFrame) -> None:
    """Gives each region the epoch and step of the nearest one around it that has them and still runs when it begins.
    What a thread or process was started in may have ended by then: a data loader's workers, started in the first
    epoch, load for all."""
    ids = pd.Index(rows["region_id"].astype("int64"))
    place = pd.Series(np.arange(len(rows)), index=ids).groupby(level=0).first()
    outer = place.reindex(rows["parent_id"].fillna(_NEVER).astype("int64")).fillna(_NEVER).to_numpy(np.int64)
    begin, end = (rows[name].to_numpy(np.int64) for name in ("begin_ns", "end_ns"))
    for name in ("epoch", "step"):
        given = value = rows[name].astype("Int64")
        at = outer.copy()
        # As often as regions are nested. Numbers of a damaged trace may go round in circles.
        for _ in range(64):
            missing = value.isna().to_numpy() & (at >= 0)
            if not missing.any():
                break
            missing &= end[np.maximum(at, 0)] >= begin
            value = value.mask(missing, given.take(np.maximum(at, 0)).set_axis(value.index))
            at = np.where(at >= 0, outer[np.maximum(at, 0)], _NEVER)
        rows[name] = value


def _union(rows: pd.DataFrame) -> Ints:
    return intervals.united(rows[["begin_ns", "end_ns"]].to_numpy(np.int64))


def _is_compute(own: pd.DataFrame) -> pd.Series:
    of_framework = (own["category"] == _FRAMEWORK) & own["name"].astype(str).str.endswith(".compute")
    return (own["category"] == COMPUTE) | of_framework


def _is_below(paths: pd.Series, path: str) -> pd.Series:
    texts = paths.astype(str)
    return (texts == path) | texts.str.startswith(path + "/")


def _against(compute: Ints, calls: Ints, application: Ints, known: bool | None = None) -> dict[str, object]:
    has_compute = bool(len(compute)) if known is None else known
    found: dict[str, object] = {"app_ns": intervals.total(application)}
    for name, times in (("unoverlapped_ns", calls), ("unoverlapped_app_ns", application)):
        found[name] = intervals.total(intervals.subtract(times, compute)) if has_compute else None
    return found


def _frame(rows: list[dict[str, object]], names: list[str], order: list[str]) -> pd.DataFrame:
    if not rows:
        return pd.DataFrame({name: [] for name in names})
    frame: pd.DataFrame = pd.DataFrame(rows).sort_values(order, kind="stable", ignore_index=True)[names]
    for name in ("unoverlapped_ns", "unoverlapped_app_ns"):
        frame[name] = frame[name].astype("Int64")
    return frame


def _checked(by: str | Sequence[str]) -> list[str]:
    keys = [by] if isinstance(by, str) else list(by)
    for key in keys:
        if key not in SCOPES:
            raise QueryError(f"regions have no scope {key!r}; there are {', '.join(SCOPES)}")
    return keys
