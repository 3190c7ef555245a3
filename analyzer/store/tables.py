"""The tables of a run: what the catalogue has, as pandas frames.

Invariants: frames are computed on first use, in a stable order; times are ns since the epoch, sizes bytes. Figures of
stages and tasks are exact: headers give them for blocks of one context, and only blocks that mix contexts are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import clock_steps, headers, ledger, missing, problems, usage
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.processes import PROCESS, Process, SignalEnd
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.losses import Loss
from tailrace.analyzer.util.types import SqlRow, SqlValue

if TYPE_CHECKING:
    import pandas as pd
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
# The facts of a damaged trace may be no JSON.
_WORLD_SIZE = (
    "CASE json_valid(p.facts) WHEN 1 THEN CASE json_type(p.facts, '$.world_size') WHEN 'integer'"
    " THEN json_extract(p.facts, '$.world_size') END END"
)
COMMANDS = "SELECT {} FROM reaped WHERE process_id IS NULL AND NOT is_task ORDER BY t1, host, pid"
"""The ends of the commands that `tailrace run` started."""
_OUTERMOST = re.compile(r"[/_+].*", re.DOTALL)
"""What follows the id of an outermost job: the path of a job in it (Flux), the index in an array or in a heterogeneous
job (Slurm)."""
_TASKS_OF_A_PROCESS = (
    "SELECT DISTINCT c.workflow, c.task FROM processes p JOIN blocks b ON b.process_id = p.id"
    " JOIN block_contexts l ON l.block_id = b.id JOIN contexts c ON c.id = l.context_id"
    " WHERE p.host = ? AND p.pid = ? AND p.start = ?"
)
_USAGE = {
    "utime_ns": "utime",
    "stime_ns": "stime",
    "maxrss_kib": "maxrss",
    **{name: name for name in ("minflt", "majflt", "inblock", "oublock")},
}
"""Columns of processes, and their keys in the `exit` event."""
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
"""The cgroups of containers of Docker, Podman, containerd and CRI-O, which contain the container's id."""


def _own_processes(config: object) -> bool | list[tuple[str, int]]:
    """What a workflow's configuration (JSON) says of its manager's processes: that they are those that declared it, or
    which they are."""
    try:
        value = json.loads(config) if isinstance(config, str) else None
    except ValueError:
        value = None
    told = value.get("own_processes") if isinstance(value, dict) else None
    if not isinstance(told, list):
        return told is True
    rows = [(row.get("host"), row.get("pid")) for row in told if isinstance(row, dict)]
    return [(host, pid) for host, pid in rows if isinstance(host, str) and isinstance(pid, int)]


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _texts(keys: Sequence[str]) -> str:
    return ", ".join(f"coalesce(c.{key}, '') AS {key}" for key in keys)


def _with_nulls(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """`table` renumbered, with None for "" and NaN in the text columns `names`."""
    texts = {name: pd.Series([_or_none(value) for value in table[name].tolist()], dtype=object) for name in names}
    return table.reset_index(drop=True).assign(**texts)


def _or_none(value: Any) -> Any:
    """The value, None for "", NaN and NA; what a manager declared may be a list or a dict."""
    missing = value is None or value is pd.NA or (isinstance(value, (str, float)) and (value == "" or value != value))
    return None if missing else value


def _int64(value: Any) -> Any:
    """A number in the range of its column, which only sums of a damaged trace exceed."""
    return value if value is None else max(-(2**63), min(value, 2**63 - 1))


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
    return table.assign(**columns)


class Tables:
    """The part of a run (tailrace.analyzer.run.Run) that the catalogue answers; `stages` and `tasks` read blocks that
    mix contexts, too."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.path: Path = catalogue.layout.given
        rows = catalogue.rows("SELECT json FROM meta")
        self.meta: dict[str, Any] = json.loads(rows[0][0]) if rows else {}

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
        return pd.DataFrame(data)

    @cached_property
    def has_regions(self) -> bool:
        """Whether the program marked a region. Reads no events."""
        query = "SELECT EXISTS (SELECT 1 FROM contexts WHERE ',' || tags LIKE '%,region=%')"
        return bool(self._catalogue.rows(query)[0][0])

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
        `coverage` signal, kernel_read, kernel_written, captured_read, captured_written, ahead, share, cause,
        cause_key, run_ns, ready_ns, ready_of_ns. Unknown values are null."""
        integers = ["pid", "ppid", "uid", "t0_ns", "t1_ns", "exit", "events", "read_bytes", "written_bytes"]
        table = self._table(
            "SELECT p.host, p.pid, p.start, p.ppid, p.exe, p.argv, p.cwd, p.uid, p.facts, p.t0 AS t0_ns, p.t1 AS t1_ns,"
            " p.exit, p.account, coalesce(sum(b.calls), 0) AS events, coalesce(sum(b.read), 0) AS read_bytes,"
            " coalesce(sum(b.written), 0) AS written_bytes FROM processes p JOIN blocks b ON b.process_id = p.id"
            " GROUP BY p.id ORDER BY p.t0, p.host, p.pid, p.start",
            integers,
        )
        for name in ("argv", "account", "facts"):
            table[name] = pd.Series(headers.documents(table[name].tolist()), dtype=object)
        table = _with_facts(table, table.pop("facts"))
        more = ["signal", *(name for name in ledger.COLUMNS if name.startswith(("kernel", "captured")))]
        more += ["ahead", "share", "cause", "cause_key", *headers.Time._fields]
        seen = self.coverage.loc[self.coverage["traced"], [*PROCESS, *more]]
        return table.merge(seen, on=PROCESS, how="left")

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

    @property
    def manager_processes(self) -> set[Process]:
        """The traced processes that declared tasks: the workflow managers (docs/declared-dag.md)."""
        return set().union(*self._declarers.values())

    @cached_property
    def own_processes(self) -> set[Process]:
        """Those of the managers that declared that nothing of them is the user's but the tasks (`own_processes`)."""
        found: set[Process] = set()
        for manager, text in self._catalogue.rows("SELECT DISTINCT manager, config FROM declared_workflows"):
            own = _own_processes(text)
            if own is True:
                found |= self._declarers.get(str(manager), set())
            for host, pid in own if isinstance(own, list) else ():
                rows = self._catalogue.rows("SELECT start FROM processes WHERE host = ? AND pid = ?", (host, pid))
                found.update((host, pid, str(start)) for (start,) in rows)
        return found

    @cached_property
    def _declarers(self) -> dict[str, set[Process]]:
        """The traced processes that wrote declared files, by the manager in the files' names. Of several processes with
        the pid in a name it is the one alive at the time in the name; all of those that were."""
        rows = self._catalogue.rows("SELECT path FROM sources WHERE path LIKE 'declared/%'")
        seen: dict[tuple[str, str], list[tuple[Process, int]]] = {}
        for host, pid, start, t1 in self._catalogue.rows("SELECT host, pid, start, t1 FROM processes"):
            named = (re.sub(r"[^A-Za-z0-9._]", "_", str(host)), str(pid))
            seen.setdefault(named, []).append(((str(host), int(pid), str(start)), int(t1 or 0)))
        found: dict[str, set[Process]] = {}
        for (path,) in rows:
            # <manager>-<host>-<pid>-<ns in hex>.jsonl
            *_, manager, host, pid, opened = ("", "", "", *PurePosixPath(str(path)).stem.rsplit("-", 3))
            when = _hex(opened)
            begun = [row for row in seen.get((host, pid), []) if _hex(row[0][2]) <= when]
            # The last one counts as alive, since the blocks of its last events may not be written yet.
            last = max(begun, key=lambda row: _hex(row[0][2]), default=None)
            mine = found.setdefault(manager, set())
            mine.update(process for process, t1 in begun if t1 >= when or (process, t1) == last)
        return found

    @cached_property
    def process_ranks(self) -> pd.DataFrame:
        """The processes that have a rank of a parallel program: host, pid, start, rank (text; with which the last
        program was executed), world_size (how many ranks were started; null: not known)."""
        return self._table(
            "SELECT p.host, p.pid, p.start, coalesce(p.rank, min(c.rank)) AS rank,"
            f" {_WORLD_SIZE} AS world_size FROM processes p JOIN blocks b ON b.process_id = p.id"
            " JOIN block_contexts l ON l.block_id = b.id JOIN contexts c ON c.id = l.context_id"
            " WHERE c.rank IS NOT NULL GROUP BY p.id ORDER BY p.host, p.pid, p.start",
            ["pid", "world_size"],
        )

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
        return self._table(COMMANDS.format("host, pid, status, t1 AS end_ns"), ["pid", "status", "end_ns"])

    @cached_property
    def sharing_jobs(self) -> list[str]:
        """The batch jobs that share the run, if one of them made it: then run.json's `command` and `batch` are that
        job's, not the run's. Empty for the run of one job, and of `tailrace run` with what its command submits;
        the jobs of an array, and those in an instance in a job, are one."""
        batch, tags = self.meta.get("batch"), self.meta.get("tags")
        own = batch.get("job") if isinstance(batch, dict) else None
        # Of `tailrace run` in a job the tags have none.
        if not isinstance(own, str) or not re.search("(?:^|,)job=", str(tags or "")):
            return []
        rows = self._catalogue.rows("SELECT DISTINCT job FROM contexts WHERE job IS NOT NULL")
        jobs = {_OUTERMOST.sub("", str(job).strip("/")) for job in (own, *(job for (job,) in rows))}
        return sorted(jobs) if len(jobs) > 1 else []

    @cached_property
    def signal_ends(self) -> list[SignalEnd]:
        """The traced processes that a signal ended."""
        ended = [row for row in self._accounts if row["traced"] and row["signal"] is not None]
        keys = [(str(row["host"]), int(row["pid"]), str(row["start"] or "")) for row in ended]
        return [SignalEnd(row["signal"], self._tasks_of(key), key) for row, key in zip(ended, keys, strict=True)]

    def _tasks_of(self, process: Sequence[SqlValue]) -> set[tuple[str, str | None]]:
        rows = self._catalogue.rows(_TASKS_OF_A_PROCESS, process)
        return {(str(workflow or ""), task) for workflow, task in rows}

    # ---- declarations ----

    @cached_property
    def declared_workflows(self) -> pd.DataFrame:
        """Declared workflows: workflow, manager, version, t_ns, config (JSON text)."""
        table = self._table("SELECT * FROM declared_workflows ORDER BY t, workflow, manager, config", ["t"])
        return table.rename(columns={"t": "t_ns"})

    @cached_property
    def declared_tasks(self) -> pd.DataFrame:
        """Declared tasks: workflow, stage, task, kind, name, executor, parent, parent_workflow (null: the same),
        t_submit_ns, t_depend_ns (dependencies fulfilled), t_launch_ns (of the first try), t_alloc_ns (nodes
        allocated), t_start_ns, t_end_ns, t_clean_ns, status, tries, error, result, nodes (list), ranks, cores, holds
        (list of other reasons to wait), annotations (dict), submitter (dict of host, pid, and waits: who waits for it
        waits for the task); null where the manager declares none."""
        times = ["t_submit", "t_depend", "t_launch", "t_alloc", "t_start", "t_end", "t_clean"]
        query = "SELECT * FROM declared_tasks ORDER BY t_submit, workflow, task"
        table = self._table(query, [*times, "tries", "cores"])
        for name in ("nodes", "holds", "annotations", "submitter"):
            table[name] = pd.Series(headers.documents(table[name].tolist()), dtype=object)
        return table.rename(columns={name: f"{name}_ns" for name in times})

    @cached_property
    def declared_tries(self) -> pd.DataFrame:
        """Tries of declared tasks: workflow, task, try, t_launch_ns; of those that failed t_end_ns, status, error."""
        names = {"t_launch": "t_launch_ns", "t_end": "t_end_ns"}
        table = self._table("SELECT * FROM declared_tries ORDER BY workflow, task, try", ["try", *names])
        return table.rename(columns=names)

    @cached_property
    def declared_deps(self) -> pd.DataFrame:
        """Declared dependencies: workflow, task, dep (the task it waited for), via (future, file, ...), path."""
        return self._table("SELECT * FROM declared_deps ORDER BY workflow, task, dep, via, path")

    @cached_property
    def declared_waits(self) -> pd.DataFrame:
        """What the submitting program had waited for before it submitted a task, a row each: workflow, task, and either
        awaited (a task that was over) or after (a task that it had submitted before)."""
        return self._table("SELECT * FROM declared_waits ORDER BY workflow, task, awaited, after")

    @cached_property
    def declared_files(self) -> pd.DataFrame:
        """Declared inputs and outputs: workflow, task, direction (r or w), path, url."""
        return self._table("SELECT * FROM declared_files ORDER BY workflow, task, direction, path, url")

    @cached_property
    def declared_problems(self) -> pd.DataFrame:
        """Lines of declared files that could not be used: file, line, problem."""
        return self._table(_PROBLEMS, ["line"])

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

    @cached_property
    def host_rows(self) -> list[SqlRow]:
        """Of each host: host, processes, ns of processor time that sealing took, by sealers and by the processes."""
        return self._catalogue.rows(
            "SELECT p.host, count(DISTINCT p.id), coalesce(sum(b.sealing_ns), 0), coalesce(sum(b.self_sealing_ns), 0)"
            " FROM processes p LEFT JOIN blocks b ON b.process_id = p.id GROUP BY p.host ORDER BY p.host"
        )

    @cached_property
    def host_losses(self) -> list[SqlRow]:
        """Losses by host: host (null: not known), cause, unit, count, problem. Of a trace file whose damaged part names
        no process, they are those of the host whose other blocks it has."""
        of_file = (
            "SELECT min(q.host) FROM files f JOIN blocks b ON b.file_id = f.id JOIN processes q ON q.id = b.process_id"
            " WHERE f.file = l.file"
        )
        return self._catalogue.rows(
            "SELECT CASE WHEN l.file LIKE 'hosts/%' THEN substr(l.file, 7) ELSE"
            f" coalesce(p.host, ({of_file})) END AS host, l.cause, l.unit, sum(l.count), max(l.problem) FROM losses l"
            " LEFT JOIN processes p ON p.id = l.process_id GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )

    @property
    def problems(self) -> list[str]:
        """What of the run is missing or can't be read, a sentence each; also the damaged blocks that reading it met so
        far, whose events are left out. Empty: nothing is known to be missing."""
        return problems.sentences(self._known_losses())

    def declared_problem_rows(self) -> list[SqlRow]:
        """The rows of `declared_problems`."""
        return self._catalogue.rows(_PROBLEMS)

    def coverage_causes(self) -> list[ledger.CauseGroup]:
        """The processes of `coverage` that were not fully seen, by cause; see ledger.by_cause."""
        return ledger.by_cause(self._accounts)
