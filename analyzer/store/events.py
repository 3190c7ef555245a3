"""The events of a run: lazily, as a frame, by partitions, counted, summed, or as an answer to a question.

Each way checks the columns and values that are asked for first, and reads only the blocks that can hold what matches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import conditions, loader, partitions, schema
from tailrace.analyzer.store.mounts import mount_rows
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.store.tables import Tables
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

    from tailrace.analyzer.store.group_keys import Key
    from tailrace.analyzer.store.question import Reading


class Events(Tables, ABC):
    """The part of a run (tailrace.analyzer.run.Run) that reads events."""

    @cached_property
    def columns(self) -> list[str]:
        """The columns of `events`: those of tailrace.analyzer.store.schema, and one per free tag of this run."""
        keys = self._catalogue.rows("SELECT DISTINCT j.key FROM contexts c, json_each(c.free) j ORDER BY j.key")
        return [*schema.BY_NAME, *(schema.TAG_PREFIX + key for (key,) in keys)]

    def events(
        self, columns: Sequence[str] | None = None, *, t0: int | None = None, t1: int | None = None, **where: Any
    ) -> dd.DataFrame:
        """Events as a lazy Dask DataFrame; only blocks that can hold matching ones are read.

        Args:
            columns: names from `self.columns`; None for all.
            t0: keep calls that ended at or after it, ns since the epoch.
            t1: keep calls that started before it.
            **where: column=value, column=[values], or of tailrace.analyzer.store.conditions Glob("*.nc"),
                Between(low, high), Not((value,)), AllOf((Between(1), Not((5,)))); "" is null. For a free tag:
                **{"tag.try": "0"}. `path` is any name of a file (`find_files`): its events are those under all its
                names, as the first or the second file of a call.

        Returns:
            dask.dataframe.DataFrame, one row per event, of a copy from file to file two (docs/tables.md), dtypes as in
            tailrace.analyzer.store.schema (text is a category, its categories unknown to Dask; group with
            observed=True). Rows of one file keep its order.
            Bytes and times of calls above libc (`schema.UPPER_LAYERS`: HDF5, MPIIO) are in those of the system calls
            below them, too: sum the rows of one layer, as ~events["cat"].isin(UPPER_LAYERS) picks them.
            A block that is damaged, or has fewer events than its header promises, is left out and named by `problems`
            afterwards; workers of a cluster raise TraceError.

        Raises:
            QueryError: there is no such column, file, stage, task, job, workflow, rank, host, pid or start in the run.
        """
        return loader.frame(self._catalogue, *self._reading(columns, t0, t1, where), mount_rows(self.meta))

    def read(
        self, columns: Sequence[str] | None = None, *, t0: int | None = None, t1: int | None = None, **where: Any
    ) -> pd.DataFrame:
        """The rows of `events(...).compute()` as a pandas frame, read at once: on threads of this process without
        loading Dask, or on the Dask scheduler that was chosen. Arguments and errors are those of `events`."""
        return loader.read(self._catalogue, *self._reading(columns, t0, t1, where), mount_rows(self.meta))

    def parts(
        self,
        columns: Sequence[str] | None = None,
        *,
        t0: int | None = None,
        t1: int | None = None,
        blocks: list[partitions.Block] | None = None,
        ends: bool = False,
        **where: Any,
    ) -> list[loader.Part]:
        """The rows of `events` as functions without arguments that read a partition each, for `engine.compute` and
        `engine.stream`; none where no block can hold a matching event. blocks: only those of these blocks. Without
        `ends` a copy from file to file is one row: its `dir` is rw."""
        found = self._reading(columns, t0, t1, where)
        return loader.parts(self._catalogue, *found, mount_rows(self.meta), blocks, ends)

    def counts(
        self, by: Sequence[str] = (), *, t0: int | None = None, t1: int | None = None, **where: Any
    ) -> partitions.Counts:
        """The number of events that match, by columns, as far as block headers tell it. Arguments and errors are those
        of `events`."""
        return partitions.counts(self._catalogue, by, self._reading(by, t0, t1, where)[1])

    def group_tasks(
        self,
        keys: Sequence[Key],
        values: Sequence[str],
        gathered: Sequence[str] = (),
        *,
        t0: int | None = None,
        t1: int | None = None,
        blocks: list[partitions.Block] | None = None,
        **where: Any,
    ) -> list[loader.GroupTask]:
        """Sums, least and greatest values of columns, and the values of others, by groups of the matching events, as
        functions without arguments that give the groups of a partition each. Arguments and errors are those of
        `parts`."""
        predicates = self._reading([*(key.column for key in keys), *values, *gathered], t0, t1, where)[1]
        asked = loader.Grouping(tuple(keys), tuple(values), tuple(gathered))
        return loader.group_tasks(self._catalogue, asked, predicates, mount_rows(self.meta), blocks)

    def row_tasks(
        self, columns: Sequence[str], *, t0: int | None = None, t1: int | None = None, **where: Any
    ) -> list[loader.RowTask]:
        """The rows of `read` as tuples (None: null), by functions without arguments that read a partition each.
        Arguments and errors are those of `events`."""
        return loader.row_tasks(self._catalogue, *self._reading(columns, t0, t1, where), mount_rows(self.meta))

    def blocks(self, *, t0: int | None = None, t1: int | None = None, **where: Any) -> list[partitions.Block]:
        """The blocks of the trace that can hold an event that matches, by their headers. Arguments and errors are those
        of `events`."""
        return partitions.blocks(self._catalogue, self._reading((), t0, t1, where)[1])

    def stack_blocks(self) -> list[partitions.Block]:
        """The blocks of the trace with a call whose call stack was recorded, by their headers."""
        return partitions.stack_blocks(self._catalogue)

    def totals(
        self,
        by: Sequence[str] = (),
        aggs: Sequence[str] = ("count",),
        *,
        t0: int | None = None,
        t1: int | None = None,
        **where: Any,
    ) -> pd.DataFrame:
        """Totals of the matching events, one row a group, as `tailrace query` prints them.

        Args:
            by: columns, and ranges of them: "stage", "size:log2", "offset:1MiB", "time:1s".
            aggs: "count", "sum:size", "share:size", "rate:size", "ratio:size/count", "p95:dur", ...
            t0: as in `events`.
            t1: as in `events`.
            **where: as in `events`.

        Returns:
            The frame of tailrace.analyzer.store.query.aggregate.

        Raises:
            QueryError: there is no such column, aggregate, file, stage, task, job, workflow, rank, host, pid or start.
        """
        from tailrace.analyzer.store import query, statistic

        return query.aggregate(self, by, [statistic.parse(text) for text in aggs], t0=t0, t1=t1, **where)

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
        """What `tailrace query` prints, as a frame: totals of the matching events, or the events themselves.

        Args:
            by: as in `totals`, also as one text: "time:1s,stage".
            aggs: as in `totals`, also as one text; default: "count".
            where: conditions as texts, with = != < <= > >= and units: "size<4KiB", ["dur>10ms", "name!=read"]. Of one
                column those with = are alternatives; all else must hold.
            columns: these columns of the events, one row each, in place of totals.
            since: only calls that ended at or after it, s from the run's first event.
            until: only calls that began before it.
            sort: a column of the result, the largest first; "-COLUMN": the smallest.
            limit: at most so many rows, after sorting.
            **values: column=value as in `events`, beside the conditions.

        Returns:
            The frame of tailrace.analyzer.store.query.aggregate, or of `events` there: sizes in bytes, times in ns,
            rates per s, shares and ratios as fractions.

        Raises:
            QueryError: there is no such column, aggregate, value or file; the message has the nearest ones.
            UsageError: a condition that can't be understood; columns beside by or aggs.
        """
        from tailrace.analyzer.store import question

        bounds: dict[str, Any] = {"since": since, "until": until, "sort": sort, "limit": limit}
        asked = question.Query.of(by, aggs, columns=columns, where=where, values=values, **bounds)
        return question.frame(self, asked)

    def explain(
        self,
        by: str | Sequence[str] = (),
        aggs: str | Sequence[str] | None = None,
        *,
        where: str | Sequence[str] = (),
        columns: str | Sequence[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        **values: Any,
    ) -> Reading:
        """Which blocks of the trace `query` with these arguments would read; reads none. Errors: those of `query`."""
        from tailrace.analyzer.store import question

        asked = question.Query.of(by, aggs, columns=columns, where=where, values=values, since=since, until=until)
        return question.reading(self, asked)

    def _reading(
        self, columns: Sequence[str] | None, t0: int | None, t1: int | None, where: dict[str, Any]
    ) -> tuple[list[str], conditions.Where]:
        """The columns and checked predicates of `events`."""
        predicates = conditions.where(t0, t1, **where)
        names = list(self.columns if columns is None else columns)
        self._check(names, predicates)
        return names, self._with_files(predicates)

    def _check(self, names: list[str], predicates: conditions.Where) -> None:
        for name in [*names, *predicates.columns()]:
            if schema.column(name).name not in (*self.columns, schema.CALLER.name):
                raise QueryError(f"the run has no column {name!r}; it has {', '.join(self.columns)}")
        for name, wanted in predicates.values:
            if name in schema.TAGS:
                self._check_values(name, "contexts", conditions.named(wanted))
            elif name in PROCESS:
                self._check_values(name, "processes", conditions.named(wanted))

    def _check_values(self, name: str, table: str, wanted: list[str | int | conditions.Glob]) -> None:
        query = f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY {name}"
        conditions.check_known(self.path, name, wanted, [value for (value,) in self._catalogue.rows(query)])

    def _with_files(self, predicates: conditions.Where) -> conditions.Where:
        """The predicates with the files that the values of `path` name, in place of these."""
        paths = [wanted for name, wanted in predicates.values if name == "path"]
        if not paths:
            return predicates
        values = tuple((name, wanted) for name, wanted in predicates.values if name != "path")
        wanted = [one for several in paths for one in several]
        unwanted = [value for one in wanted if isinstance(one, conditions.Not) for value in one.values]
        names = [one for one in wanted if not isinstance(one, conditions.Not)]
        files = self._choose_files(names) if names else None
        without = self._choose_files(unwanted, may_lack=True) if unwanted else None
        return replace(predicates, values=values, files=files, without=without)

    @abstractmethod
    def _choose_files(self, names: Sequence[conditions.Wanted], may_lack: bool = False) -> conditions.Files:
        """The files that have one of these names. Raises QueryError where one is not there, unless it `may_lack`."""
