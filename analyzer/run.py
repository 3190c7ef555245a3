"""An opened run: tables of the catalogue at once; events, dataflow and report computed on first use.

Invariants: a Run is the state of the directory when it was opened (`refresh` opens it again). Tables are pandas frames
computed on first use, in a stable order; times are ns since the epoch, sizes bytes. Figures of stages and tasks are
exact: headers give them for blocks of one context, and only blocks that mix contexts are parsed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import (
    clock_steps,
    conditions,
    engine,
    headers,
    ledger,
    loader,
    missing,
    problems,
    schema,
    usage,
)
from tailrace.analyzer.store.catalogue import Catalogue, open_catalogue
from tailrace.analyzer.store.mounts import mount_rows
from tailrace.analyzer.store.processes import PROCESS, Process
from tailrace.analyzer.util import nearest
from tailrace.analyzer.util.formatting import clean
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.losses import Loss
from tailrace.analyzer.util.types import Graph, SqlRow
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

    from tailrace.analyzer.edges.edge_table import EdgeTable
    from tailrace.analyzer.edges.file_names import FileNames
    from tailrace.analyzer.insights import Finding, Insights
    from tailrace.analyzer.insights.file_history import FileHistory
    from tailrace.analyzer.insights.task_profile import TaskProfile
    from tailrace.analyzer.summary.io_summary import Summary
else:
    pd = lazy("pandas")

_KEYS = ["workflow", "stage", "task", "job"]
_INTEGERS = ("tasks", "processes", "events", "read_bytes", "written_bytes", "t0_ns", "t1_ns")
_SUMS = {"events": "sum", "read_bytes": "sum", "written_bytes": "sum", "t0_ns": "min", "t1_ns": "max"}

_LOSSES = (
    "SELECT file, cause, unit, sum(count) AS count, max(problem) AS problem FROM losses"
    " GROUP BY file, cause, unit ORDER BY file, cause, unit"
)
_PROBLEMS = "SELECT file, line, problem FROM declared_problems ORDER BY file, line"
_COMMANDS = "SELECT {} FROM reaped WHERE process_id IS NULL AND NOT is_task ORDER BY t1"
"""The ends of the commands that `tailrace run` started."""
_USAGE = {
    "utime_ns": "utime",
    "stime_ns": "stime",
    "maxrss_kib": "maxrss",
    **{name: name for name in ("minflt", "majflt", "inblock", "oublock")},
}
"""Columns of processes, and their keys in the `exit` event."""
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
"""The cgroups of containers of Docker, Podman, containerd and CRI-O, which contain the container's id."""


def open(directory: str | os.PathLike[str]) -> Run:
    """Opens a run directory, finished or being written, or the trace of another tracer (docs/foreign-traces.md).

    Raises NotARunError when it is neither; RunError when it can't be read.
    """
    return Run(open_catalogue(directory))


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _texts(keys: Sequence[str]) -> str:
    return ", ".join(f"coalesce(c.{key}, '') AS {key}" for key in keys)


def _with_nulls(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """`table` renumbered, with None for "" and NaN in the text columns `names`."""
    texts = {name: table[name].astype(object).where(table[name].notna() & (table[name] != ""), None) for name in names}
    renumbered: pd.DataFrame = table.assign(**texts).reset_index(drop=True)
    return renumbered


def _int64(value: Any) -> Any:
    """A number in the range of its column, which only sums of a damaged trace exceed."""
    return value if value is None else max(-(2**63), min(value, 2**63 - 1))


def _unmet(part: loader.Part) -> set[str]:
    """The names of a partition's calls that met no file."""
    frame = part()
    names = [frame[path][frame[file].isna()].dropna() for file, path in (("file", "path"), ("file2", "path2"))]
    return {str(name) for column in names for name in column.unique()}


def _with_facts(table: pd.DataFrame, facts: pd.Series) -> pd.DataFrame:
    """Processes with a column for each fact of their `facts` and `account` (dicts, None where unknown)."""
    columns: dict[str, Any] = {}
    for name in ("cpus", "cgroup"):
        texts = [f.get(name) if isinstance(f, dict) else None for f in facts]
        columns[name] = pd.Series([text if isinstance(text, str) else None for text in texts], dtype=object)
    found = [_CONTAINER.search(group) if group else None for group in columns["cgroup"]]
    columns["container"] = pd.Series([match[1] if match else None for match in found], dtype=object)
    for column, name in _USAGE.items():
        numbers = [a.get(name) if isinstance(a, dict) else None for a in table["account"]]
        columns[column] = pd.array([headers.whole(n) for n in numbers], dtype="Int64")
    result: pd.DataFrame = table.assign(**columns)
    return result


class Run:
    """One run. Make it with `tailrace.open`.

    Attributes:
        path: its directory, or the other tracer's trace.
        meta: run.json as a dict, {} when there is none; `hosts`: the descriptions in hosts/.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.path: Path = catalogue.layout.given
        rows = catalogue.rows("SELECT json FROM meta")
        self.meta: dict[str, Any] = json.loads(rows[0][0]) if rows else {}

    def __repr__(self) -> str:
        return f"tailrace.open({str(self.path)!r})"

    def refresh(self) -> Run:
        """A new Run with the current state of the directory."""
        return Run(open_catalogue(self.path))

    # ---- events ----

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
            dask.dataframe.DataFrame, one row per event, dtypes as in tailrace.analyzer.store.schema (text is a
            category, its categories unknown to Dask; group with observed=True). Rows of one file keep its order.
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
        blocks: list[loader.Block] | None = None,
        **where: Any,
    ) -> list[loader.Part]:
        """The rows of `events` as functions without arguments that read a partition each, for `engine.compute` and
        `engine.stream`; none where no block can hold a matching event. blocks: only those of these blocks."""
        return loader.parts(self._catalogue, *self._reading(columns, t0, t1, where), mount_rows(self.meta), blocks)

    def counts(
        self, by: Sequence[str] = (), *, t0: int | None = None, t1: int | None = None, **where: Any
    ) -> loader.Counts:
        """The number of events that match, by columns, as far as block headers tell it. Arguments and errors are those
        of `events`."""
        return loader.counts(self._catalogue, by, self._reading(by, t0, t1, where)[1])

    def blocks(self, *, t0: int | None = None, t1: int | None = None, **where: Any) -> list[loader.Block]:
        """The blocks of the trace that can hold an event that matches, by their headers. Arguments and errors are those
        of `events`."""
        return loader.blocks(self._catalogue, self._reading((), t0, t1, where)[1])

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
        from tailrace.analyzer.store import figures, query

        return query.aggregate(self, by, [figures.parse(text) for text in aggs], t0=t0, t1=t1, **where)

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
            if schema.column(name).name not in self.columns:
                raise QueryError(f"the run has no column {name!r}; it has {', '.join(self.columns)}")
        for name, wanted in predicates.values:
            if name in schema.TAGS:
                self._check_values(name, "contexts", conditions.named(wanted))
            elif name in PROCESS:
                self._check_values(name, "processes", conditions.named(wanted))

    def _check_values(self, name: str, table: str, wanted: list[str | int | conditions.Glob]) -> None:
        query = f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY {name}"
        known = [value for (value,) in self._catalogue.rows(query)]
        for value in wanted:
            if value not in known and not (isinstance(value, conditions.Glob) and any(value.fits(known))):
                text = value.pattern if isinstance(value, conditions.Glob) else value
                shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
                near = nearest.hint(str(text), map(str, known))
                raise QueryError(f"{self.path}: there is no {name} {text!r}{near}; there is {shown or 'none'}")

    # ---- files by name ----

    @cached_property
    def _file_names(self) -> FileNames:
        from tailrace.analyzer.edges.file_names import FileNames

        cwd = self.meta.get("cwd")
        return FileNames(self.edges(), cwd if isinstance(cwd, str) else "", self._names_of_no_file)

    def _names_of_no_file(self) -> set[str]:
        """The names in calls that met no file: failed opens, files that were searched for."""
        parts = loader.parts(self._catalogue, conditions.Files.COLUMNS, conditions.Where(), mount_rows(self.meta))
        return set().union(*engine.compute([partial(_unmet, part) for part in parts]))

    def find_files(self, name: str | conditions.Glob) -> pd.DataFrame:
        """The files of a name or pattern: file (identity), path (its last name), ftype, found (that one of its names by
        which it was found), how (whole, relative, ending, link).

        A name is absolute, relative to the directory in which the run was started or to the current one, or the last
        components of a path, as a base name; it is any name that the file had in the run (before and after a rename,
        hard links), or a symbolic link of this machine to it. Reads events on first use.

        Raises:
            QueryError: no event has such a name; the message has the nearest ones.
        """
        return self._file_names.find(name)

    def _with_files(self, predicates: conditions.Where) -> conditions.Where:
        """The predicates with the files that the values of `path` name, in place of these."""
        paths = [wanted for name, wanted in predicates.values if name == "path"]
        if not paths:
            return predicates
        values = tuple((name, wanted) for name, wanted in predicates.values if name != "path")
        wanted = [one for several in paths for one in several]
        unwanted = [value for one in wanted if isinstance(one, conditions.Not) for value in one.values]
        names = [one for one in wanted if not isinstance(one, conditions.Not)]
        files, without = (self._file_names.choose(some) if some else None for some in (names, unwanted))
        return replace(predicates, values=values, files=files, without=without)

    # ---- tables ----

    def _table(self, query: str, integers: Sequence[str] = ()) -> pd.DataFrame:
        return self._frame(*self._catalogue.table(query), integers)

    @staticmethod
    def _frame(names: Sequence[str], rows: Sequence[SqlRow], integers: Sequence[str]) -> pd.DataFrame:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        data: dict[str, Any] = {
            name: pd.array(list(map(_int64, column)), dtype="Int64")
            if name in integers
            else pd.Series(list(column), dtype=object)
            for name, column in zip(names, columns, strict=True)
        }
        table: pd.DataFrame = pd.DataFrame(data)
        return table

    @cached_property
    def files(self) -> pd.DataFrame:
        """Trace files: file (relative to the run), kind (tailrace, foreign), size_bytes, mtime_ns, blocks,
        events."""
        return self._table(
            "SELECT f.file, f.kind, f.size AS size_bytes, f.mtime_ns, count(b.id) AS blocks,"
            " coalesce(sum(b.calls), 0) AS events FROM files f LEFT JOIN blocks b ON b.file_id = f.id"
            " GROUP BY f.id ORDER BY f.file",
            ["size_bytes", "mtime_ns", "blocks", "events"],
        )

    @cached_property
    def processes(self) -> pd.DataFrame:
        """Processes by start: host, pid, start (hex), ppid, exe, argv (list), cwd, uid, t0_ns, t1_ns, exit (code),
        account (dict: the args of the `exit` event), events, read_bytes, written_bytes; cpus (its CPU affinity when it
        began, as "0-3,8"), cgroup, container (the id in the cgroup's path); of the account
        utime_ns, stime_ns, maxrss_kib, minflt, majflt, inblock, oublock (getrusage(2): blocks of 512 bytes); and of
        `coverage` signal, kernel_read, kernel_written, captured_read, captured_written, share, cause. Unknown values
        are null."""
        integers = ["pid", "ppid", "uid", "t0_ns", "t1_ns", "exit", "events", "read_bytes", "written_bytes"]
        table = self._table(
            "SELECT p.host, p.pid, p.start, p.ppid, p.exe, p.argv, p.cwd, p.uid, p.facts, p.t0 AS t0_ns, p.t1 AS t1_ns,"
            " p.exit, p.account, coalesce(sum(b.calls), 0) AS events, coalesce(sum(b.read), 0) AS read_bytes,"
            " coalesce(sum(b.written), 0) AS written_bytes FROM processes p JOIN blocks b ON b.process_id = p.id"
            " GROUP BY p.id ORDER BY p.t0, p.host, p.pid",
            integers,
        )
        for name in ("argv", "account", "facts"):
            table[name] = pd.Series(headers.documents(table[name].tolist()), dtype=object)
        table = _with_facts(table, table.pop("facts"))
        more = ["signal", "kernel_read", "kernel_written", "captured_read", "captured_written", "share", "cause"]
        seen = self.coverage.loc[self.coverage["traced"], [*PROCESS, *more]]
        merged: pd.DataFrame = table.merge(seen, on=PROCESS, how="left")
        return merged

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """The trace compared with the kernel's accounts, one row per process; see
        tailrace.analyzer.store.ledger.accounts."""
        return ledger.table(self._accounts)

    @cached_property
    def _accounts(self) -> list[dict[str, Any]]:
        return ledger.accounts(self._catalogue)

    @cached_property
    def lossy_processes(self) -> set[Process]:
        """The processes that lost something; where it is not known which process of a trace file did, all of it."""
        ids = ledger.lossy_ids(self._catalogue)
        rows = self._catalogue.rows("SELECT id, host, pid, start FROM processes") if ids else []
        return {(str(host), int(pid), str(start)) for key, host, pid, start in rows if key in ids}

    @cached_property
    def manager_processes(self) -> set[Process]:
        """The traced processes that declared tasks: the workflow managers (docs/declared-dag.md). Of several processes
        with the pid in a file's name it is the one alive at the time in the name; all of those that were."""
        rows = self._catalogue.rows("SELECT path FROM sources WHERE path LIKE 'declared/%'")
        seen: dict[tuple[str, str], list[tuple[Process, int]]] = {}
        for host, pid, start, t1 in self._catalogue.rows("SELECT host, pid, start, t1 FROM processes"):
            named = (re.sub(r"[^A-Za-z0-9._]", "_", str(host)), str(pid))
            seen.setdefault(named, []).append(((str(host), int(pid), str(start)), int(t1 or 0)))
        found: set[Process] = set()
        for (path,) in rows:
            # <manager>-<host>-<pid>-<ns in hex>.jsonl
            *_, host, pid, opened = ("", "", *PurePosixPath(str(path)).stem.rsplit("-", 3))
            when = _hex(opened)
            begun = [row for row in seen.get((host, pid), []) if _hex(row[0][2]) <= when]
            # The last one counts as alive, since the blocks of its last events may not be written yet.
            last = max(begun, key=lambda row: _hex(row[0][2]), default=None)
            found.update(process for process, t1 in begun if t1 >= when or (process, t1) == last)
        return found

    @cached_property
    def process_clocks(self) -> dict[Process, int]:
        """Process -> ns by which its times are ahead of those of its host's last processes, where the clock was set in
        between (store/clock_steps.py)."""
        return dict(clock_steps.find(missing.lived(self._catalogue.rows(missing.LIVED))).ahead)

    @property
    def losses(self) -> pd.DataFrame:
        """Losses: file, cause, unit (events, bytes, blocks, lines, files), count, problem (a sentence or ""); those of
        damaged blocks that reading the run met so far, too."""
        names = [field.name for field in fields(Loss)]
        return self._frame(names, [astuple(loss) for loss in self._known_losses()], ["count"])

    def _known_losses(self) -> list[Loss]:
        known = [Loss(*row) for row in self._catalogue.rows(_LOSSES)]
        stored = {(row.file, row.problem) for row in known}
        for file, _, events, problem in problems.met(self._catalogue.place):
            if (file, problem) not in stored:
                known.append(Loss(file, "damaged", "events", events, problem))
        return known

    @cached_property
    def stages(self) -> pd.DataFrame:
        """Stages by start: workflow, stage (null: untagged), tasks, processes, events, read_bytes, written_bytes (each
        byte once), t0_ns, t1_ns."""
        return self._frame(usage.Stage._fields, usage.stages(self._catalogue), _INTEGERS)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """Tasks by start: workflow, stage, task, job, processes, events, read_bytes, written_bytes, t0_ns, t1_ns, and
        of declared tasks the columns of `declared_tasks`. A declared task without events has null figures."""
        seen = self._usage[self._usage["task"] != ""].groupby(_KEYS, as_index=False).agg(_SUMS)
        seen = seen.merge(self._processes_of(_KEYS), on=_KEYS, how="left")
        declared = self.declared_tasks.rename(columns={"stage": "declared_stage"})
        declared["workflow"] = declared["workflow"].fillna("")
        table = seen.merge(declared, on=["workflow", "task"], how="outer")
        table["stage"] = table["stage"].where(table["stage"].notna(), table["declared_stage"])
        for name in (*_SUMS, "processes"):
            table[name] = table[name].astype("Int64")
        order = [*_KEYS, "processes", *_SUMS, *(c for c in declared.columns if c not in (*_KEYS, "declared_stage"))]
        table = table.assign(first=table["t0_ns"].fillna(table["t_submit_ns"])).sort_values(
            ["first", "task"], kind="stable"
        )
        return _with_nulls(table[order], [name for name in order if table[name].dtype == object])

    def _processes_of(self, keys: list[str]) -> pd.DataFrame:
        names = ", ".join(f"c.{key}" for key in keys)
        return self._table(
            f"SELECT {_texts(keys)}, count(DISTINCT b.process_id) AS processes FROM contexts c"
            " JOIN block_contexts l ON l.context_id = c.id JOIN blocks b ON b.id = l.block_id WHERE b.events > 0"
            f" GROUP BY {names}",
            ["processes"],
        )

    @cached_property
    def _usage(self) -> pd.DataFrame:
        """Events and bytes of each (workflow, stage, task, job), "" for null, since no tag is empty."""
        return self._frame(usage.Usage._fields, usage.rows(self._catalogue), _INTEGERS)

    @cached_property
    def command_ends(self) -> pd.DataFrame:
        """The ends of the commands that `tailrace run` started, by time: host, pid, status (as waitpid(2) gives it),
        end_ns. A command without byte accounting is left out."""
        return self._table(_COMMANDS.format("host, pid, status, t1 AS end_ns"), ["pid", "status", "end_ns"])

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """How each declared task ended, failures first: workflow, stage, task, status, tries, error, begin_ns, end_ns,
        lost_ns; see tailrace.analyzer.model.outcomes.COLUMNS. Reads no events."""
        from tailrace.analyzer.model import outcomes

        return outcomes.table(self)

    # ---- declarations ----

    @cached_property
    def declared_workflows(self) -> pd.DataFrame:
        """Declared workflows: workflow, manager, version, t_ns, config (JSON text)."""
        table = self._table("SELECT * FROM declared_workflows ORDER BY t, workflow", ["t"])
        renamed: pd.DataFrame = table.rename(columns={"t": "t_ns"})
        return renamed

    @cached_property
    def declared_tasks(self) -> pd.DataFrame:
        """Declared tasks: workflow, stage, task, kind, name, executor, parent, t_submit_ns, t_depend_ns (dependencies
        fulfilled), t_launch_ns (of the first try), t_alloc_ns (nodes allocated), t_start_ns, t_end_ns, t_clean_ns,
        status, tries, error, result, nodes (list), ranks, cores, holds (list of other reasons to wait), annotations
        (dict), submitter (dict of host, pid, and waits: who waits for it waits for the task); null where the manager
        declares none."""
        times = ["t_submit", "t_depend", "t_launch", "t_alloc", "t_start", "t_end", "t_clean"]
        query = "SELECT * FROM declared_tasks ORDER BY t_submit, workflow, task"
        table = self._table(query, [*times, "tries", "cores"])
        for name in ("nodes", "holds", "annotations", "submitter"):
            table[name] = pd.Series(headers.documents(table[name].tolist()), dtype=object)
        renamed: pd.DataFrame = table.rename(columns={name: f"{name}_ns" for name in times})
        return renamed

    @cached_property
    def declared_tries(self) -> pd.DataFrame:
        """Tries of declared tasks: workflow, task, try, t_launch_ns; of those that failed t_end_ns, status, error."""
        names = {"t_launch": "t_launch_ns", "t_end": "t_end_ns"}
        table = self._table("SELECT * FROM declared_tries ORDER BY workflow, task, try", ["try", *names])
        renamed: pd.DataFrame = table.rename(columns=names)
        return renamed

    @cached_property
    def declared_deps(self) -> pd.DataFrame:
        """Declared dependencies: workflow, task, dep (the task it waited for), via (future, file, ...), path."""
        return self._table("SELECT * FROM declared_deps ORDER BY workflow, task, dep")

    @cached_property
    def declared_waits(self) -> pd.DataFrame:
        """What the submitting program had waited for before it submitted a task, a row each: workflow, task, and either
        awaited (a task that was over) or after (a task that it had submitted before)."""
        return self._table("SELECT * FROM declared_waits ORDER BY workflow, task, awaited")

    @cached_property
    def declared_files(self) -> pd.DataFrame:
        """Declared inputs and outputs: workflow, task, direction (r or w), path, url."""
        return self._table("SELECT * FROM declared_files ORDER BY workflow, task, direction, path")

    @cached_property
    def declared_problems(self) -> pd.DataFrame:
        """Lines of declared files that could not be used: file, line, problem."""
        return self._table(_PROBLEMS, ["line"])

    @cached_property
    def waits(self) -> pd.DataFrame:
        """The use of each declared task's time: waiting for data, for predecessors, in the queue, I/O, computing; see
        tailrace.analyzer.model.waits.table. Reads events on first use."""
        from tailrace.analyzer.model import waits

        return waits.table(self)

    # ---- overview ----

    @cached_property
    def t0_ns(self) -> int | None:
        """When the first event began; None in a run without events."""
        ((first,),) = self._catalogue.rows("SELECT min(t0) FROM blocks WHERE events > 0")
        return None if first is None else int(first)

    @cached_property
    def t1_ns(self) -> int | None:
        """When the last event ended; None in a run without events."""
        ((last,),) = self._catalogue.rows("SELECT max(t1) FROM blocks WHERE events > 0")
        return None if last is None else int(last)

    def stage_rows(self) -> list[usage.Stage]:
        """The rows of `stages` as plain values, without loading pandas."""
        return usage.stages(self._catalogue)

    def loss_rows(self) -> list[SqlRow]:
        """The rows of `losses`."""
        return self._catalogue.rows(_LOSSES)

    @property
    def problems(self) -> list[str]:
        """What of the run is missing or can't be read, a sentence each; also the damaged blocks that reading it met so
        far, whose events are left out. Empty: nothing is known to be missing."""
        return problems.sentences(self._known_losses())

    def declared_problem_rows(self) -> list[SqlRow]:
        """The rows of `declared_problems`."""
        return self._catalogue.rows(_PROBLEMS)

    def short_accounts(self) -> list[dict[str, Any]]:
        """The rows of `coverage` of processes that were not fully seen; see ledger.short."""
        return ledger.short(self._accounts)

    def info(self) -> dict[str, Any]:
        """An overview of the run, JSON-ready: path, run_id, command, created, foreign (format, title and notes of
        another tracer's trace; None: it is ours), hosts, trace_files, processes, blocks,
        events, totals (lines of them, docs/trace-format.md), totals_since_ns (of the first such block; None: full
        detail), sealing_ns and self_sealing_ns (processor time of sealing, by sealers and by the processes), t0_ns,
        t1_ns, compressed_bytes, raw_bytes, read_bytes, written_bytes, contexts, workflows, stages,
        tasks, declared_tasks, declared_problems, outcomes (status -> declared tasks), outcome (the same and the end of
        the command in words, "" where all went well), losses (list of cause, unit, count), coverage (ledger.totals).
        Reads no events."""
        ((blocks, events, totals, since, t0, t1, raw, read, written, sealing, self_sealing),) = self._catalogue.rows(
            "SELECT count(*), coalesce(sum(calls), 0), coalesce(sum(totals), 0),"
            " min(CASE WHEN totals > 0 THEN t0 END), min(CASE WHEN events > 0 THEN t0 END), max(t1),"
            " coalesce(sum(raw), 0), coalesce(sum(read), 0), coalesce(sum(written), 0),"
            " coalesce(sum(sealing_ns), 0), coalesce(sum(self_sealing_ns), 0) FROM blocks"
        )
        from tailrace.analyzer.model import outcomes

        accounts = self._accounts
        signals = [row["signal"] for row in accounts if row["traced"] and row["signal"] is not None]
        statuses = [status for (status,) in self._catalogue.rows(_COMMANDS.format("status"))]
        declared = self._catalogue.rows("SELECT status, tries FROM declared_tasks")
        ends, said, _ = outcomes.said(declared, statuses, signals)
        hosts = self._catalogue.rows("SELECT DISTINCT host FROM processes ORDER BY host")
        lost = self._catalogue.rows(
            "SELECT cause, unit, sum(count) FROM losses GROUP BY cause, unit ORDER BY cause, unit"
        )
        return {
            "path": str(self.path),
            **{key: self.meta.get(key) for key in ("run_id", "command", "created")},
            "foreign": self._foreign(),
            "hosts": [host for (host,) in hosts],
            **self._counts(),
            "outcomes": ends,
            "outcome": said,
            "blocks": blocks,
            "events": events,
            "totals": totals,
            "totals_since_ns": since,
            "sealing_ns": sealing,
            "self_sealing_ns": self_sealing,
            "t0_ns": t0 if events else None,
            "t1_ns": t1 if events else None,
            "raw_bytes": raw,
            "read_bytes": read,
            "written_bytes": written,
            "coverage": ledger.totals(accounts),
            "losses": [{"cause": cause, "unit": unit, "count": count} for cause, unit, count in lost],
        }

    def _foreign(self) -> dict[str, Any] | None:
        found = self.meta.get("foreign")
        if not isinstance(found, dict):
            return None
        notes = found.get("notes")
        texts = {key: clean(str(found.get(key) or "")) for key in ("format", "title")}
        return {**texts, "notes": [clean(str(note)) for note in notes] if isinstance(notes, list) else []}

    def _counts(self) -> dict[str, Any]:
        queries = {
            "trace_files": "SELECT count(*) FROM files",
            "compressed_bytes": "SELECT coalesce(sum(size), 0) FROM files",
            "processes": "SELECT count(*) FROM processes",
            "contexts": "SELECT count(*) FROM contexts",
            "workflows": "SELECT count(DISTINCT workflow) FROM contexts",
            "stages": "SELECT count(*) FROM (SELECT DISTINCT workflow, stage FROM contexts WHERE stage IS NOT NULL)",
            "tasks": "SELECT count(*) FROM (SELECT DISTINCT workflow, task FROM contexts WHERE task IS NOT NULL)",
            "declared_tasks": "SELECT count(*) FROM declared_tasks",
            "declared_problems": "SELECT count(*) FROM declared_problems",
        }
        return {name: self._catalogue.rows(query)[0][0] for name, query in queries.items()}

    # ---- analyses ----

    def edges(self) -> EdgeTable:
        """The edge table (tailrace.analyzer.edges.edge_table): from the catalogue, updated with new events."""
        from tailrace.analyzer.edges import edge_cache

        return edge_cache.build(self._catalogue, mount_rows(self.meta))

    def dataflow(
        self,
        level: str = "stage",
        stage: Sequence[str] | str = (),
        files: str | None = None,
        datasets: bool = False,
    ) -> Graph:
        """The dataflow graph between workflows, stages, tasks or processes; with `datasets`, HDF5's datasets are nodes,
        parts of their files, and dependencies are between their readers and writers. See
        tailrace.analyzer.model.graphs.graph."""
        from tailrace.analyzer.model import graphs

        return graphs.graph(self, level, files=files, stage=stage, with_datasets=datasets)

    def insights(self) -> Insights:
        """Critical path, conflicts, lifetimes and the other analyses; see tailrace.analyzer.insights."""
        from tailrace.analyzer.insights import insights

        return insights(self)

    def file(self, name: str, *, up: bool = False, down: bool = False, hashed: bool = False) -> FileHistory:
        """The history of a file: names, versions, writers, readers; with `up` and `down` the trees of what it was made
        from and used for, with `hashed` the checksums of what still exists. name: as in `find_files`, a pattern with
        *, ? or [, or an identity. See tailrace.analyzer.insights.file_history.

        Raises:
            QueryError: no event has such a name.
        """
        from tailrace.analyzer.insights.file_history import file_history

        return file_history(self, name, up=up, down=down, hashed=hashed, unmet=self._names_of_no_file)

    def task(self, task: str) -> TaskProfile:
        """A task: status, where its time went, processes, inputs, outputs, neighbours on the critical path, slowest
        calls, what sets it apart. task: its tag, its name, WORKFLOW/TASK, or HOST:PID of a process without a task. See
        tailrace.analyzer.insights.task_profile.

        Raises:
            QueryError: there is no such task, or there are several.
        """
        from tailrace.analyzer.insights.task_profile import task_profile

        return task_profile(self, task)

    def io_summary(self) -> Summary:
        """What ran, on what data, where the time went, and each function's calls, sizes and bandwidth; see
        tailrace.analyzer.summary.io_summary. Reads events."""
        from tailrace.analyzer.summary.io_summary import io_summary

        return io_summary(self)

    def findings(self) -> list[Finding]:
        """The findings by cost; see tailrace.analyzer.insights.findings."""
        return self.insights().findings()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as one self-contained HTML page; see tailrace.analyzer.report.html.write_html."""
        from tailrace.analyzer.report.html import write_html

        write_html(self, Path(path))
