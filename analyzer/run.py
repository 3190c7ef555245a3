"""An opened run: its tables (store/tables.py), its events (store/events.py), and what is computed from them on first
use.

Invariant: a Run is the state of the directory when it was opened (`refresh` opens it again).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import conditions, engine, ledger, loader
from tailrace.analyzer.store.catalogue import open_catalogue
from tailrace.analyzer.store.events import Events
from tailrace.analyzer.store.mounts import mount_rows
from tailrace.analyzer.store.tables import COMMANDS
from tailrace.analyzer.util.named_files import may_open
from tailrace.analyzer.util.types import Graph
from tailrace.base.text import clean
from tailrace.hashed_names import fingerprint_in

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.edges.edge_table import EdgeTable
    from tailrace.analyzer.edges.file_names import FileNames, Row
    from tailrace.analyzer.insights import Insights
    from tailrace.analyzer.insights.access_patterns import Accesses
    from tailrace.analyzer.insights.file_history import FileHistory
    from tailrace.analyzer.insights.finding_list import Findings
    from tailrace.analyzer.insights.group_profile import GroupProfile
    from tailrace.analyzer.insights.host_facts import HostFacts
    from tailrace.analyzer.insights.rank_groups import RankGroup
    from tailrace.analyzer.insights.task_profile import TaskProfile
    from tailrace.analyzer.insights.whatif import Estimate
    from tailrace.analyzer.model.collectives import Collectives
    from tailrace.analyzer.model.regions import Regions
    from tailrace.analyzer.notebook.inline_report import InlineReport
    from tailrace.analyzer.notebook.plots import Plots
    from tailrace.analyzer.store.samples import Samples
    from tailrace.analyzer.summary.io_summary import Summary


def open(directory: str | os.PathLike[str]) -> Run:
    """Opens a run directory, finished or being written, or the trace of another tracer (docs/foreign-traces.md).

    Raises NotARunError when it is neither; RunError when it can't be read.
    """
    return Run(open_catalogue(directory))


def _unmet(part: loader.Part) -> set[str]:
    """The names of a partition's calls that met no file."""
    frame = part()
    names = [frame[path][frame[file].isna()].dropna() for file, path in (("file", "path"), ("file2", "path2"))]
    return {str(name) for column in names for name in column.unique()}


class Run(Events):
    """One run. Make it with `tailrace.open`.

    Attributes:
        path: its directory, or the other tracer's trace.
        meta: run.json as a dict, {} when there is none; `hosts`: the descriptions in hosts/.
    """

    def __repr__(self) -> str:
        return f"tailrace.open({str(self.path)!r})"

    def refresh(self) -> Run:
        """A new Run with the current state of the directory."""
        return Run(open_catalogue(self.path))

    # ---- files by name ----

    @cached_property
    def _file_names(self) -> FileNames:
        from tailrace.analyzer.edges import name_table
        from tailrace.analyzer.edges.file_names import FileNames

        cwd = self.meta.get("cwd")
        names = name_table.load(self._catalogue) or name_table.kept(self._catalogue, self.edges())
        return FileNames(names, cwd if isinstance(cwd, str) else "", self._names_of_no_file, may_open(self.path))

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

    def named_files(self, name: str | conditions.Glob) -> list[Row]:
        """The rows of `find_files`, without pandas. Raises QueryError likewise."""
        return self._file_names.rows(name)

    def _choose_files(self, names: Sequence[conditions.Wanted], may_lack: bool = False) -> conditions.Files:
        return self._file_names.choose(names, may_lack)

    # ---- tasks ----

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """How each declared task ended, failures first: workflow, stage, task, status, tries, error, begin_ns, end_ns,
        lost_ns; see tailrace.analyzer.model.outcomes.COLUMNS. Reads no events."""
        from tailrace.analyzer.model import outcomes

        return outcomes.table(self)

    @cached_property
    def regions(self) -> Regions:
        """What the program itself said that it was doing (docs/regions.md): `regions.table()` has a row for each path,
        with its time, its I/O, and how much of that no computing hid; `regions.steps()` and `regions.epochs()` for each
        step and epoch; `regions.instances` each one. Reads events on first use, if the run has a region."""
        from tailrace.analyzer.model import regions

        return regions.of(self, self.has_regions)

    @cached_property
    def samples(self) -> Samples:
        """What the launcher sampled with `TAILRACE_SAMPLE`: memory, processor time, context switches and pressure of
        the node (`samples.node`, `samples.node_rates()`) and of processes (`samples.processes`,
        `samples.process_rates()`); see tailrace.analyzer.store.samples. Without rows where nothing was sampled."""
        from tailrace.analyzer.store import samples

        return samples.read(self.path)

    @cached_property
    def collectives(self) -> Collectives:
        """The collective calls of MPI-IO: `collectives.calls` has a row for each rank's call, with the part of its time
        in system calls, before the last rank came, and in the rest; `collectives.table()` sums them by rank and
        function. Reads events on first use, if a function of MPI-IO was called."""
        from tailrace.analyzer.model import collectives

        return collectives.of_model(self, self.insights().inputs.m)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """The use of each declared task's time: waiting for data, for predecessors, in the queue, I/O, computing; see
        tailrace.analyzer.model.waits.table. Reads events on first use."""
        from tailrace.analyzer.model import waits

        return waits.table(self)

    # ---- overview ----

    def info(self) -> dict[str, Any]:
        """An overview of the run, JSON-ready: path, run_id, command (None: jobs share the run), jobs (those), created,
        foreign (format, title and notes of another tracer's trace; None: it is ours), hosts, trace_files, processes,
        blocks, events, totals (lines of them, docs/trace-format.md), totals_since_ns (of the first such block; None:
        full detail), sealing_ns and self_sealing_ns (processor time of sealing, by sealers and by the processes),
        t0_ns, t1_ns, compressed_bytes, raw_bytes, read_bytes, written_bytes, contexts, workflows, stages, tasks,
        declared_tasks, declared_problems, outcomes (status -> declared tasks), outcome (the same and the end of the
        command in words, "" where all went well), losses (list of cause, unit, count), coverage (ledger.totals,
        and causes: ledger.by_cause).
        Reads no events."""
        ((blocks, events, totals, since, t0, t1, raw, read, written, sealing, self_sealing),) = self._catalogue.rows(
            "SELECT count(*), coalesce(sum(calls), 0), coalesce(sum(totals), 0),"
            " min(CASE WHEN totals > 0 THEN t0 END), min(CASE WHEN events > 0 THEN t0 END), max(t1),"
            " coalesce(sum(raw), 0), coalesce(sum(read), 0), coalesce(sum(written), 0),"
            " coalesce(sum(sealing_ns), 0), coalesce(sum(self_sealing_ns), 0) FROM blocks"
        )
        from tailrace.analyzer.model import outcomes

        accounts = self._accounts
        statuses = [status for (status,) in self._catalogue.rows(COMMANDS.format("status"))]
        declared = self._catalogue.rows("SELECT workflow, task, status, tries FROM declared_tasks")
        workflows = self._catalogue.rows("SELECT workflow, config FROM declared_workflows")
        ends, said, _ = outcomes.said(declared, workflows, statuses, self.signal_ends)
        hosts = self._catalogue.rows("SELECT DISTINCT host FROM processes ORDER BY host")
        lost = self._catalogue.rows(
            "SELECT cause, unit, sum(count) FROM losses GROUP BY cause, unit ORDER BY cause, unit"
        )
        return {
            "path": str(self.path),
            **{key: self.meta.get(key) for key in ("run_id", "created")},
            "command": None if self.sharing_jobs else self.meta.get("command"),
            "jobs": self.sharing_jobs,
            "foreign": self._foreign(),
            "hashed_names": fingerprint_in(self.meta),
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
            "coverage": {**ledger.totals(accounts), "causes": [group.json() for group in ledger.by_cause(accounts)]},
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
            QueryError: no event has such a name; `hashed`, and the run's names are hashed, or it is another user's.
        """
        from tailrace.analyzer.insights.file_history import file_history
        from tailrace.analyzer.insights.present_files import check

        if hashed:
            check(self.path, self.meta)
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

    def whatif(
        self,
        *,
        tier: Sequence[str] | str = (),
        together: Sequence[str | tuple[str, str]] | str = (),
        drop: Sequence[str | tuple[str, str]] | str = (),
        workers: int | None = None,
    ) -> Estimate:
        """The makespan on other resources, with all of these changes at once: files on a faster tier
        ("/scratch/*=2GB/s", "/scratch/*=4x"), stages side by side ("make,use"), without declared dependencies
        ("declared edges without data", or those between two stages), another number of workers on each host. See
        tailrace.analyzer.insights.whatif.

        Raises:
            UsageError: nothing is asked, or not in this form.
            QueryError: the run has no such stage or file, or its number of workers is not known.
        """
        from tailrace.analyzer.insights.whatif import estimate

        return estimate(self.insights().inputs, tier, together, drop, workers)

    def stage(self, name: str) -> GroupProfile:
        """A stage: tasks and how they ended, time by kind of call, files, accesses, the stages that feed it and that it
        feeds. See tailrace.analyzer.insights.group_profile.

        Raises:
            QueryError: there is no such stage.
        """
        return self._group("stage", name)

    def host(self, name: str) -> GroupProfile:
        """A host, likewise, beside the others, with its `facts` (see `hosts`). Raises QueryError."""
        facts = next((one for one in self.hosts() if one.host == name), None)
        return replace(self._group("host", name), facts=facts)

    def hosts(self) -> list[HostFacts]:
        """The hosts by name: mounts and how fast they were, processor time of sealing, losses by cause, clock. See
        tailrace.analyzer.insights.host_facts."""
        from tailrace.analyzer.insights.host_facts import host_facts

        return host_facts(self, self.insights().inputs)

    def ranks(self) -> list[RankGroup]:
        """The parallel programs by their first call: ranks, how many were started, hosts, what differs between the
        ranks. See tailrace.analyzer.insights.rank_groups."""
        from tailrace.analyzer.insights.rank_groups import rank_groups

        return rank_groups(self.insights().inputs)

    def rank(self, number: int | str) -> GroupProfile:
        """A rank of a parallel program, likewise, beside the others. Raises QueryError."""
        return self._group("rank", str(number))

    def _group(self, kind: str, name: str) -> GroupProfile:
        from tailrace.analyzer.insights.group_profile import group_profile

        return group_profile(self, kind, name)

    def accesses(self, by: str = "stage") -> Accesses:
        """What the I/O is like: sizes, order, ranges used again, metadata calls, balance. by: stage, program, task,
        rank, host or file. See tailrace.analyzer.insights.access_patterns.

        Raises:
            QueryError: there is no such `by`.
        """
        return self.insights().accesses(by)

    def io_summary(self) -> Summary:
        """What ran, on what data, where the time went, and each function's calls, sizes and bandwidth; see
        tailrace.analyzer.summary.io_summary. Reads events."""
        from tailrace.analyzer.summary.io_summary import io_summary

        return io_summary(self)

    def findings(self) -> Findings:
        """The findings by cost: a list of `Finding`, which a console shows as lines and a notebook as a table with what
        to do about each; see tailrace.analyzer.insights.findings."""
        return self.insights().findings()

    # ---- to look at ----

    def report(self, path: str | os.PathLike[str] | None = None) -> InlineReport:
        """The report as one self-contained HTML page, which a notebook shows in the cell; with `path`, written there
        (UTF-8), too. See tailrace.analyzer.notebook.inline_report.

        Raises:
            OSError: the file can't be written; RunError: the trace can't be read.
        """
        from tailrace.analyzer.notebook.inline_report import InlineReport

        return InlineReport(self, path)

    @cached_property
    def plot(self) -> Plots:
        """Figures of matplotlib (extra `tailrace[notebook]`): `plot.timeline()`, `plot.bandwidth()`, `plot.sizes()`,
        `plot.heat_map()`, `plot.flows()`; see tailrace.analyzer.notebook.plots.Plots."""
        from tailrace.analyzer.notebook.plots import Plots

        return Plots(self)

    def _repr_html_(self) -> str:
        from tailrace.analyzer.notebook import run_overview

        return run_overview.markup(self)
