"""A store of runs, opened: its tables as Arrow datasets and as views for SQL.

    store = tailrace.open_store("STORE")
    store.add(tailrace.open("RUN"))
    store.sql("select user, sum(read_bytes) from runs group by user")

Invariants: a Store is the state of the directory when it was opened; where files were merged since, it looks again. A
part that can't be read is left out and named (`problems`); of events so is a copy that is not what the run has now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.analyzer.runstore import parts
from tailrace.analyzer.runstore.columns import EVENTS, PLACE, arrow_schema
from tailrace.analyzer.runstore.entries import Current, current, in_short
from tailrace.analyzer.runstore.parts import Entry, Part
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.lazy import lazy
from tailrace.errors import QueryError, RunError, TailraceError

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

    from tailrace.analyzer.edges.run_protocol import AnalyzedRun
    from tailrace.analyzer.runstore.lineage import History
    from tailrace.analyzer.store.question import Answer, Query
else:
    pa = lazy("pyarrow")
    ds = lazy("pyarrow.dataset")

_ATTEMPTS = 5
_MOST_KEPT = 1000
"""Files of a table whose footers are kept between two questions: of more they would take too much memory."""
_Result = TypeVar("_Result")
_Picked = TypeVar("_Picked", bound=Hashable)


def open_store(path: str | os.PathLike[str], create: bool = False, shared: bool = False) -> Store:
    """Opens a store of runs.

    Args:
        path: its directory.
        create: make it where there is none.
        shared: make it one to which every user may add his runs; what others may read of them is what they may read of
            the runs.

    Raises:
        RunError: there is no store, or none of this format; UsageError: it can't be made.
    """
    if create:
        parts.create(Path(path), shared)
    return Store(Path(path))


class Store:
    """A store. Make it with `tailrace.open_store`.

    Attributes:
        path: its directory.
        shared: whether every user may add runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shared = parts.check(path)
        self._damaged: dict[Path, str] = {}
        self._damaged_events: dict[Path, str] = {}

    def __repr__(self) -> str:
        return f"tailrace.open_store({str(self.path)!r})"

    # ---- adding ----

    def knows(self, directory: str | os.PathLike[str], run: AnalyzedRun, events: bool = False) -> bool:
        """Whether the run is in the store, as it is now, for those who may read it now. events: with its events."""
        from tailrace.analyzer.runstore import rows

        access = parts.access_of(Path(directory), self.shared)
        state, known = rows.state_of(directory), self.current.of_run(access.uid, rows.run_key(run))
        return any(
            entry.state == state and part.access == access and (not events or self._has_events(entry, part))
            for entry, part in known
        )

    def had_events(self, run: AnalyzedRun) -> bool:
        """Whether the run was indexed with its events before."""
        from tailrace.analyzer.runstore import rows

        owner = parts.access_of(run.path, self.shared).uid
        known = self.current.of_run(owner, rows.run_key(run))
        return any(self._event_rows(entry, part) is not None for entry, part in known)

    def _has_events(self, entry: Entry, part: Part) -> bool:
        """Whether what an entry says of its events is there."""
        from tailrace.analyzer.runstore import events

        count = self._event_rows(entry, part)
        return count is not None and (count == 0 or not events.fault(part))

    def _event_rows(self, entry: Entry, part: Part) -> int | None:
        data = dataset(parts.RUNS, [part])
        rows = data.to_table(columns=["event_rows"], filter=ds.field("entry") == entry.name)["event_rows"].to_pylist()
        return next(iter(rows), None)

    def add(self, run: AnalyzedRun, events: bool = False) -> str:
        """Adds a run as it is now; it counts once, whatever was added of it before. Returns its id. events: with its
        events. Raises RunError, OSError."""
        from tailrace.analyzer.runstore import events as event_files
        from tailrace.analyzer.runstore import rows

        state, access = rows.state_of(run.path), parts.access_of(run.path, self.shared)
        tables = rows.rows_of(run)
        entry = Entry(rows.run_key(run), time.time_ns(), state)
        overview = tables["runs"].to_pylist()[0]
        # By what never changes, so that all entries of a run are of one day.
        day = parts.day_of(overview["created_ns"] or overview["t0_ns"])
        stamped = {name: _stamped(table, entry) for name, table in tables.items()}
        for attempt in range(_ATTEMPTS):
            try:
                place = parts.place_of(self.path, access, day)
                with parts.publishing(place, entry.name, access) as scratch:
                    if events:
                        count = event_files.write(run, entry, scratch)
                        stamped["runs"] = _with(stamped["runs"], "event_rows", count)
                    parts.write(scratch, stamped)
                break
            except FileNotFoundError:  # a compaction removed the empty day
                if attempt + 1 == _ATTEMPTS:
                    raise
        return entry.run

    # ---- reading ----

    @cached_property
    def current(self) -> Current:
        """The parts and entries that count."""
        return self._looked[1]

    @cached_property
    def _looked(self) -> tuple[parts.Listing, Current]:
        for attempt in range(_ATTEMPTS):
            listed = parts.listing(self.path)
            # Their entries are read next.
            self._refuse((part, parts.RUNS) for part in listed.parts if part.entry is None)
            try:
                return listed, current(part for part in listed.parts if part.path not in self._damaged)
            except FileNotFoundError as error:
                if attempt + 1 == _ATTEMPTS:
                    raise RunError(f"{self.path}: its files change all the time: repeat this later") from error
        raise AssertionError

    @cached_property
    def _tables(self) -> dict[Part, frozenset[str]]:
        """The tables of each part. A part that is refused is left out from here on."""
        while True:
            found: dict[Part, frozenset[str]] = {}
            refused: dict[Path, str] = {}
            for part in self.current.names:
                try:
                    found[part] = frozenset(part.tables())
                except FileNotFoundError:
                    raise  # it was merged meanwhile
                except (OSError, parts.Refused) as error:
                    refused[part.path] = in_short(error)
            if not refused:
                return found
            self._damaged |= refused
            self.refresh()

    def _refuse(self, asked: Iterable[tuple[Part, str]]) -> bool:
        """Leaves out those whose tables are not to be read (vetting.py), and returns whether there are any."""
        from tailrace.analyzer.runstore import vetting

        left = [(part, table) for part, table in asked if part.access.uid != os.geteuid()]
        found = vetting.refused(self.path, ((one, name) for one, name in left if one.path not in self._damaged))
        self._damaged |= {part.path: why for part, why in found.items()}
        return bool(found)

    def refresh(self) -> None:
        """Looks at the directory again."""
        for name in ("current", "_looked", "_tables", "_believed", "_datasets"):
            self.__dict__.pop(name, None)

    @property
    def problems(self) -> list[str]:
        """What of the store is not in its tables, a sentence each."""
        self._steady(lambda: self._tables)
        listed, known = self._looked
        found = [f"left out, {text}" for text in listed.refused]
        damaged = {**{part.path: why for part, why in known.damaged.items()}, **self._damaged}
        found += [f"{path} is left out: {why}" for path, why in sorted(damaged.items())]
        if "_believed" in self.__dict__:
            found += self._believed[1]
        if listed.hidden:
            found.append(
                f"runs are left out that you may not read, in {count_text(listed.hidden, 'folder')} of {self.path}/data"
            )
        return found

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table, for Dask and other readers. Raises RunError where they alone don't give the
        table: `tailrace index STORE --compact` makes them do so."""
        sources = self._steady(lambda: self.sources(table))
        if any(out for _, out in sources):
            raise RunError(
                f"{self.path}: files have rows that no longer count: run `tailrace index {self.path} --compact`, and"
                " index runs again that have changed"
            )
        return [str(part.table(table)) for part, _ in sources]

    def read(self, table: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None) -> pa.Table:
        """Rows of a table, with the columns of docs/store.md. where: a filter of pyarrow.dataset."""

        def reading() -> pa.Table:
            found = []
            for data, out in self.datasets(table):
                wanted = list(columns) if columns is not None else None
                pick = where
                if out:
                    counts = ~ds.field("entry").isin(sorted(out))
                    pick = counts if where is None else where & counts
                found.append(data.to_table(columns=wanted, filter=pick))
            return pa.concat_tables(found)

        return self._steady(reading)

    def picked(
        self,
        table: str,
        columns: Sequence[str],
        where: ds.Expression,
        pick: Callable[[pa.RecordBatch], Iterable[_Picked]],
    ) -> dict[_Picked, None]:
        """What `pick` takes of the rows of `read`, in order and each once. It gets them in pieces of bounded size."""

        def reading() -> dict[_Picked, None]:
            found: dict[_Picked, None] = {}
            for data, out in self.datasets(table):
                counts = where & ~ds.field("entry").isin(sorted(out)) if out else where
                for batch in data.to_batches(columns=list(columns), filter=counts):
                    found.update(dict.fromkeys(pick(batch)))
            return found

        return self._steady(reading)

    def dask(self, table: str, columns: Sequence[str] | None = None) -> dd.DataFrame:
        """A table as a lazy Dask frame with Arrow's types, a partition a file, and the columns of docs/store.md."""
        from tailrace.analyzer.runstore import dask_frames

        return self._steady(lambda: dask_frames.frame(self, table, columns))

    def frame(self, table: str) -> pd.DataFrame:
        """A whole table as a pandas frame."""
        return self.read(table).to_pandas()

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The answer of a query over the views runs, stages, tasks, processes, files, versions, edges, findings and
        events. Raises QueryError."""

        return self._asked([query], parameters)[0]

    def query(
        self,
        by: str | Sequence[str] = (),
        aggs: str | Sequence[str] | None = None,
        *,
        where: str | Sequence[str] = (),
        columns: str | Sequence[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        sort: str | None = None,
        limit: int | None = None,
        **values: Any,
    ) -> pd.DataFrame:
        """What `tailrace query STORE` prints, as a frame. Arguments and errors: those of `Run.query`, with the columns
        of docs/store.md besides."""
        from tailrace.analyzer.store.question import Query

        bounds: dict[str, Any] = {"since": since, "until": until, "sort": sort, "limit": limit}
        return self.answer(Query.of(by, aggs, columns=columns, where=where, values=values, **bounds)).frame()

    def answer(self, asked: Query) -> Answer:
        """The answer to a question. Raises QueryError."""
        from tailrace.analyzer.runstore import store_query

        return store_query.answer(self, asked)

    def answers(self, queries: Sequence[str]) -> list[pa.Table]:
        """The answers of several queries, over one state of the store. Raises QueryError."""
        return self._asked(queries)

    def _asked(self, queries: Sequence[str], parameters: Sequence[Any] = ()) -> list[pa.Table]:
        from tailrace.analyzer.runstore.sql import EventsAsked, answer, connected

        direct = [True]  # once: not again where DuckDB could not read a file itself
        events = False

        def asking() -> list[pa.Table]:
            nonlocal events
            while True:
                way = bool(events and direct and direct.pop())
                try:
                    with connected(self, queries, events, way) as connection:
                        return [answer(connection, query, parameters) for query in queries]
                except EventsAsked as error:
                    if events:
                        raise QueryError(str(error.__cause__)) from error
                    events = True  # only now, since `runs` has a column of that name

        return self._steady(asking)

    def file(self, name: str, *, up: bool = True, down: bool = True) -> History:
        """The history of a file over all runs. Raises QueryError when no run has such a name."""
        from tailrace.analyzer.runstore.lineage import history

        return history(self, name, up=up, down=down)

    def sources(self, table: str) -> list[tuple[Part, set[str]]]:
        """The parts that have rows of a table, and the entries of each that don't count."""
        while True:
            tables = self._tables  # first, since parts that it refuses don't count
            if not self._refuse((part, table) for part in self.current.names if table in tables[part]):
                break
            self.refresh()
        if table == EVENTS:
            return list(self._believed[0].items())
        having = [(part, set[str]()) for part in self.current.whole() if table in tables[part]]
        return having + [(part, out) for part, out in self.current.some().items() if table in tables[part]]

    @cached_property
    def _believed(self) -> tuple[dict[Part, set[str]], list[str]]:
        """The parts with events, the entries of each that don't count, and what is left out, sentences."""
        from tailrace.analyzer.runstore.copies import believed

        rows = self.read(parts.RUNS, ["entry", "owner", "path", "events", "event_rows"])
        return believed(self.current, self._tables, rows.to_pylist(), self._damaged_events)

    def datasets(
        self, table: str, leave: Collection[Part] = (), coded: bool = False
    ) -> Iterator[tuple[ds.Dataset, set[str]]]:
        """Datasets whose rows are those of the table but for entries that don't count. leave: without these parts;
        coded: texts as codes of a dictionary."""
        key = (table, frozenset(leave), coded)
        found = self._datasets.get(key)
        if found is None:
            sources = [(part, out) for part, out in self.sources(table) if part not in leave]
            found = [(dataset(table, [part for part, out in sources if not out], coded), set[str]())]
            found += [(dataset(table, [part], coded), out) for part, out in sources if out]
            if len(sources) <= _MOST_KEPT:
                self._datasets[key] = found
        yield from found

    @cached_property
    def _datasets(self) -> dict[tuple[str, frozenset[Part], bool], list[tuple[ds.Dataset, set[str]]]]:
        """Datasets that were made, which know the footers of the files that they read."""
        return {}

    def _steady(self, reading: Callable[[], _Result]) -> _Result:
        """The result of `reading`, again where parts were merged meanwhile, and without those that are damaged."""
        for attempt in range(_ATTEMPTS):
            before = set(self.current.names)
            try:
                return reading()
            except TailraceError:
                raise
            except Exception as error:
                self.refresh()
                gone = set(self.current.names) != before
                damaged = [] if gone else self._weed()
                if attempt + 1 < _ATTEMPTS and (gone or damaged):
                    continue
                raise QueryError(f"{self.path}: {str(error).strip()}") from error
        raise AssertionError

    def _weed(self) -> list[Part]:
        """Leaves out the parts that can't be read, and returns them: after something went wrong."""
        from tailrace.analyzer.runstore.compaction import check

        found = []
        for part in self.current.names:
            try:
                for table in part.tables():
                    if table != EVENTS:
                        check(part, table)
            except FileNotFoundError:
                continue
            except Exception as error:  # of any kind: it is another user's file
                self._damaged[part.path] = in_short(error)
                found.append(part)
        if found:
            self.refresh()
        return found


def dataset(table: str, of: Sequence[Part], coded: bool = False) -> ds.Dataset:
    """A table of parts, with owner and day. coded: texts as codes of a dictionary."""
    from tailrace.analyzer.runstore.opening import Dataset, files_of

    schema = arrow_schema(table, placed=True, coded=coded)
    form = ds.ParquetFileFormat(
        dictionary_columns=[field.name for field in schema if pa.types.is_dictionary(field.type)],
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True),
    )
    fragments = []
    for part in of:
        place = (ds.field("owner") == part.access.uid) & (ds.field("day") == part.day)
        system = files_of(part.access.uid)
        fragments.append(form.make_fragment(str(part.table(table)), system, partition_expression=place))
    return Dataset(fragments, schema, form)


def _stamped(table: pa.Table, entry: Entry) -> pa.Table:
    """The rows as those of an entry."""
    stamped = _with(table, "entry", entry.name)
    return _with(stamped, "indexed_ns", entry.indexed_ns) if "indexed_ns" in stamped.column_names else stamped


def _with(table: pa.Table, name: str, value: str | int) -> pa.Table:
    """The rows with one value in a column."""
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array([value] * table.num_rows, field.type))


__all__ = ["PLACE", "Store", "open_store"]
