"""Figures of each stage: its tasks and processes, times, bytes, and the fates of its files.

Times are unions, not sums: a stage's I/O time is the wall time during which at least one of its actors was inside an
I/O call. Waiting on pipes and sockets is separate (`stream_ns`), since it is the other end's time. Every byte is
counted once, in all classes of files; file counts are of data files only (file_classes.py).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store.processes import PROCESS, count
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.types import Ints

COLUMNS = {
    "workflow": 'the run of a workflow, "" when not set',
    "stage": 'display name: the tag, "(untagged)", or a program in parentheses',
    "tasks": "distinct task tags",
    "processes": "distinct (host, pid, start)",
    "first_ns": "start of the first event, ns since the epoch",
    "last_ns": "end of the last event, ns since the epoch",
    "span_ns": "last_ns - first_ns",
    "io_ns": "wall time with at least one read, write or metadata call running",
    "read_ns": "the same for reads of files",
    "write_ns": "the same for writes of files",
    "metadata_ns": "the same for calls that move no bytes",
    "stream_ns": "the same for calls on pipes and sockets",
    "read_bytes": "bytes read, streams included",
    "written_bytes": "bytes written, streams included",
    "read_calls": "calls that read files",
    "write_calls": "calls that wrote files",
    "metadata_calls": "calls that moved no bytes",
    "stream_calls": "calls on pipes and sockets",
    "failed_calls": "of these calls, those that returned an error",
    "unnamed_bytes": "bytes moved through descriptors of unknown files; in no edge",
    "files_read": "data files read",
    "files_written": "data files written",
    "files_passed_on": "data files written whose bytes another unit read",
    "files_external": "data files read that contained bytes from before the run",
    "files_never_read": "data files written that no actor (process in a task) but their writers read, and that no"
    " manager declared as outputs",
}


def table(run: AnalyzedRun | Model) -> pd.DataFrame:
    """One row per stage, in the order of first events; columns `COLUMNS` (int64 except workflow and stage)."""
    m = run if isinstance(run, Model) else dataflow.model(run)
    code, stages = dataflow.activities(m, "stage")
    out = stages[["workflow", "stage"]].copy()
    who = m.who.assign(activity=code)
    out["tasks"] = _distinct(who[who["task"] != ""], ["workflow", "stage", "task"], len(out))
    out["processes"] = _distinct(who, PROCESS, len(out))
    for name, values in {**_sums(m, code, len(out)), **_times(m, code, len(out)), **_files(m, code, len(out))}.items():
        out[name] = values
    out["span_ns"] = out["last_ns"] - out["first_ns"]
    return out[list(COLUMNS)].sort_values("first_ns", kind="stable", ignore_index=True)


def _distinct(who: pd.DataFrame, key: list[str], size: int) -> Ints:
    pairs = who[["activity", *key]].drop_duplicates()
    return np.bincount(pairs["activity"], minlength=size).astype(np.int64)


def _sums(m: Model, code: Ints, size: int) -> dict[str, Ints]:
    counts = m.table.counts
    activity, kinds = code[counts["who"].to_numpy()], counts["kind"].to_numpy()
    first, last, calls = (counts[name].to_numpy() for name in ("first_ns", "last_ns", "calls"))
    out = {
        "first_ns": grouping.least(activity, first, size, 0),
        "last_ns": grouping.most(activity, last, size, 0),
        "failed_calls": grouping.sums(activity, counts["failed"].to_numpy(), size),
    }
    for name in ("read_bytes", "written_bytes", "unnamed_bytes"):
        out[name] = grouping.sums(activity, counts[name].to_numpy(), size)
    for kind, name in enumerate(("read_calls", "write_calls", "metadata_calls", "stream_calls")):
        out[name] = grouping.sums(activity[kinds == kind], calls[kinds == kind], size)
    return out


def _times(m: Model, code: Ints, size: int) -> dict[str, Ints]:
    kinds = {
        "read_ns": (edge_table.READ,),
        "write_ns": (edge_table.WRITE,),
        "metadata_ns": NAMES,
        "stream_ns": edge_table.STREAMS,
        "io_ns": edge_table.FILES,
    }
    return {name: covered(m, code, of, size) for name, of in kinds.items()}


NAMES = (edge_table.META, edge_table.FLUSH)
"""I/O time but for the moving of bytes."""


def covered(m: Model, code: Ints, kinds: Collection[int], size: int) -> Ints:
    """Wall time (ns) in calls of these kinds (`edge_table.KINDS`) of each code 0 .. size - 1 of actors, -1: of none."""
    return intervals.length(edge_table.spent(m.table.busy, kinds, code), size)


def running_ns(m: Model, kinds: Collection[int]) -> int:
    """Wall time of the run with at least one call of these kinds (`edge_table.KINDS`) running anywhere."""
    return int(covered(m, np.zeros(len(m.who), dtype=np.int64), kinds, 1)[0])


def io_ns(m: Model) -> int:
    """Wall time of the run with at least one read, write or metadata call running anywhere."""
    return running_ns(m, edge_table.FILES)


def transfer_ns(m: Model) -> int:
    """The same for reads and writes alone."""
    return running_ns(m, (edge_table.READ, edge_table.WRITE))


def _files(m: Model, code: Ints, size: int) -> dict[str, Ints]:
    fates = file_fates(m)
    data = m.classed(("data",))
    bursts = pd.DataFrame(
        {"activity": code[m.bursts["who"].to_numpy()], "file": m.bursts["file"], "dir": m.bursts["dir"]}
    )[data]
    pairs = bursts.drop_duplicates()
    wrote, read = pairs[pairs["dir"] == edge_table.WRITE], pairs[pairs["dir"] == edge_table.READ]
    flows = dataflow.flow_table(m, "stage", ("data",))
    external = flows[flows["producer"] < 0][["consumer", "file"]].drop_duplicates()
    passed, unread = fates["passed_on"].to_numpy(), fates["never_read"].to_numpy()

    def count(activity: pd.Series) -> Ints:
        return np.bincount(activity, minlength=size).astype(np.int64)

    return {
        "files_read": count(read["activity"]),
        "files_written": count(wrote["activity"]),
        "files_passed_on": count(wrote["activity"][passed[wrote["file"].to_numpy()]]),
        "files_external": count(external["consumer"]),
        "files_never_read": count(wrote["activity"][unread[wrote["file"].to_numpy()]]),
    }


def file_fates(m: Model) -> pd.DataFrame:
    """The fate of each file: one row per file code.

    read_bytes, written_bytes, versions; writers and readers (units); removed; cls (as file_classes.CLASSES, or -1).
    passed_on: a unit read bytes that another one wrote. never_read: written, and read by no actor (process in a task)
    except its writers: a file that one process of a task hands to another counts as read. result: such a file that the
    workflow manager declared as an output and that was kept, which is not never_read.
    """
    if "fates" not in m._flows:
        m._flows["fates"] = _file_fates(m)
    return m._flows["fates"]


def _file_fates(m: Model) -> pd.DataFrame:
    size = len(m.table.files)
    file, who, way, moved = (m.bursts[name].to_numpy() for name in ("file", "who", "dir", "bytes"))
    read, wrote = way == edge_table.READ, way == edge_table.WRITE
    version, unit = np.asarray(m.version), np.asarray(m.unit)
    pair = grouping.pack(file, who)
    by_others = np.unique(file[read & ~np.isin(pair, pair[wrote])])
    flows = dataflow.flow_table(m, "task", ("data", "stream"))
    writers = grouping.distinct(file[wrote], unit[wrote], size)
    # Who only opened what another one filled (a shell's redirection) wrote nothing of it.
    filled = wrote & ((moved > 0) | (m.bursts["mapped_bytes"].to_numpy() > 0))
    wrote_it = filled | (wrote & ~np.isin(file, file[filled]))
    passed_on, seen_by_others, removed, declared = (np.zeros(size, dtype=np.bool_) for _ in range(4))
    passed_on[flows["file"].to_numpy()[(flows["producer"] >= 0).to_numpy()]] = True
    seen_by_others[by_others] = True
    removed[identities.removals(m.table)["file"].to_numpy()] = True
    declared[[code for code in m.outputs if 0 <= code < size]] = True
    unread = (writers > 0) & ~seen_by_others & ~passed_on
    result = unread & ~removed & declared
    return pd.DataFrame(
        {
            "read_bytes": grouping.sums(file[read], moved[read], size),
            "written_bytes": grouping.sums(file[wrote], moved[wrote], size),
            "versions": grouping.distinct(file, version, size),
            "writers": grouping.distinct(file[wrote_it], unit[wrote_it], size),
            "readers": grouping.distinct(file[read], unit[read], size),
            "passed_on": passed_on,
            "never_read": unread & ~result,
            "removed": removed,
            "result": result,
            "cls": grouping.least(file, np.asarray(m.cls), size, -1),
        }
    )


def never_read(m: Model) -> pd.DataFrame:
    """Data files that were written and read by no actor except their writers, declared outputs left out: path,
    written_bytes, stages, removed.

    Removed files are last; otherwise the largest is first.
    """
    fates = file_fates(m)
    rows = fates[fates["never_read"] & (fates["cls"] == 0)]
    code, stages = dataflow.activities(m, "stage")
    wrote = (m.bursts["dir"].to_numpy() == edge_table.WRITE) & np.isin(
        m.bursts["file"].to_numpy(), rows.index.to_numpy()
    )
    pairs = pd.DataFrame({"file": m.bursts["file"].to_numpy()[wrote], "who": m.bursts["who"].to_numpy()[wrote]})
    pairs["stage"] = code[pairs["who"]]
    pairs = pairs.drop_duplicates(["file", "stage"])
    names = [str(name) for name in stages["stage"].to_numpy(dtype=object)]
    by_file: dict[int, set[str]] = {}
    for file, stage in zip(pairs["file"].tolist(), pairs["stage"].tolist(), strict=True):
        by_file.setdefault(file, set()).add(names[stage])
    out = pd.DataFrame({"path": m.paths[rows.index], "written_bytes": rows["written_bytes"].to_numpy()})
    out["stages"] = pd.Series([sorted(by_file[code]) for code in rows.index], dtype=object)
    out["removed"] = rows["removed"].to_numpy()
    return out.sort_values(["removed", "written_bytes", "path"], ascending=[True, False, True], ignore_index=True)


MAX_PROCESS_FILTERS = 20
"""The largest number of processes that a query selects by pid."""


def filters(m: Model, label: str) -> list[str]:
    """Arguments of `tailrace query` for the events of a stage, by display name; patterns are not escaped. Few untagged
    processes are selected by host and pid, and by start where another process had one of the pids."""
    own = m.who[(m.who["label"] == label).to_numpy()]
    tag = str(own["stage"].iat[0]) if len(own) else label
    if tag or count(own) > MAX_PROCESS_FILTERS or len(own) == len(m.who):
        return ["--stage", tag]
    several = bool((own["pid_uses"] > 1).any())
    values = {name: sorted(own[name].unique().tolist()) for name in (PROCESS if several else PROCESS[:2])}
    return ["--stage", "", *(word for name in values for value in values[name] for word in (f"--{name}", str(value)))]
