"""A run's rows in a store.

    run --Model, stages, outcomes, findings--> {table: pyarrow.Table} of columns.py, without `entry`

Invariants: whatever a trace says fits the types: numbers are clamped, texts are valid UTF-8 and cut at `MOST_TEXT`
bytes, lists at `MOST_WORDS`. Reads no events but those of the edge table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from posixpath import basename
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tailrace.analyzer.edges import edge_table, file_classes, identities
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import insights
from tailrace.analyzer.model import dataflow, outcomes, stages
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.runstore.columns import (
    FLAG,
    FLOAT,
    INT,
    MOST_TEXT,
    MOST_WORDS,
    TABLES,
    TEXT,
    TEXTS,
    VERSION,
    Column,
    arrow_schema,
)
from tailrace.analyzer.store import mounts
from tailrace.analyzer.store.layout import layout
from tailrace.analyzer.util.types import Bools, Ints
from tailrace.base.text import clean
from tailrace.errors import TagError
from tailrace.tags import decode

_BIG = 2**63 - 1


def run_key(run: AnalyzedRun) -> str:
    """The id of a run: 32 hexadecimal digits."""
    own = run.meta.get("run_id")
    if isinstance(own, str) and len(own) == 32 and not set(own) - set("0123456789abcdef"):
        return own
    return hashlib.sha256(os.path.realpath(run.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def state_of(directory: str | os.PathLike[str]) -> str:
    """A hash of the names, sizes, times and inodes of a run's files, and of the tables' version: 16 hexadecimal digits.
    Raises NotARunError."""
    where = layout(directory)
    found = hashlib.sha256(str(VERSION).encode())
    for source in (*where.others(), *where.traces()):
        found.update(f"{source.name}\0{source.stamp}\0".encode("utf-8", "surrogateescape"))
    return found.hexdigest()[:16]


def rows_of(run: AnalyzedRun) -> dict[str, pa.Table]:
    """The tables of a run, `entry` null. Raises RunError."""
    m = dataflow.model(run)
    key = run_key(run)
    stage_table = stages.table(m)
    files, versions = _files(run, m), _versions(m)
    found: dict[str, Mapping[str, Sequence[Any]]] = {
        "runs": {name: [value] for name, value in _run(run, m, stage_table).items()},
        "stages": {name: stage_table[name].tolist() for name in TABLES["stages"].columns if name in stage_table},
        "tasks": _tasks(run),
        "processes": _processes(run),
        "files": files,
        "versions": versions,
        "edges": _edges(m),
        "findings": _findings(run, m),
    }
    return {name: _arrow(name, key, columns) for name, columns in found.items()}


# --- the run ---------------------------------------------------------------------------------------------------------


def _run(run: AnalyzedRun, m: Model, stage_table: pd.DataFrame) -> dict[str, Any]:
    meta, info = run.meta, run.info()
    ends, said, failed = outcomes.news(run)
    losses = run.losses
    command = [word for word in _list(info.get("command")) if isinstance(word, str)]
    tags = meta.get("tags") if isinstance(meta.get("tags"), str) else ""
    batch = next((b for part in mounts.descriptions(meta) if isinstance(b := part.get("batch"), Mapping)), {})
    tasks: pd.DataFrame = getattr(run, "tasks", pd.DataFrame())
    jobs = tasks["job"].dropna().unique().tolist() if "job" in tasks else []
    coverage = info.get("coverage")
    versions = meta.get("versions")
    return {
        "path": os.path.realpath(run.path),
        "created_ns": created_ns(meta),
        "t0_ns": info.get("t0_ns"),
        "t1_ns": info.get("t1_ns"),
        "user": meta.get("user"),
        "project": _tag(str(tags), "project") or batch.get("account"),
        **{name: batch.get(name) for name in ("account", "queue")},
        "job": None if info.get("jobs") else _job(batch, str(tags), jobs),
        "application": _application(command),
        "command": command,
        "cwd": meta.get("cwd"),
        "tags": tags,
        "workflows": sorted({str(name) for name in m.who["workflow"].unique() if name}),
        "managers": _managers(run),
        "nodes": info.get("hosts"),
        "undescribed": [] if "foreign" in meta else mounts.without_mounts(meta, map(str, _list(info.get("hosts")))),
        "kernel": meta.get("kernel"),
        "tailrace": versions.get("tailrace") if isinstance(versions, Mapping) else None,
        "failed": failed,
        "outcome": said,
        "failed_tasks": sum(ends.get(name, 0) for name in (*outcomes.FAILED, outcomes.NEVER_RAN)),
        **{name: info.get(name) for name in ("tasks", "processes", "events", "read_bytes", "written_bytes")},
        "io_ns": stages.io_ns(m),
        **{
            name: int(stage_table[name].sum())
            for name in ("read_calls", "write_calls", "metadata_calls", "failed_calls")
        },
        "coverage": coverage.get("share") if isinstance(coverage, Mapping) else None,
        "lost": int(losses["count"][losses["unit"] == "events"].sum()) if len(losses) else 0,
        "problems": getattr(run, "problems", []),
    }


def created_ns(meta: Mapping[str, object]) -> int | None:
    """When a run began, by its run.json."""
    try:
        began = datetime.fromisoformat(str(meta.get("created", "")).replace("Z", "+00:00"))
        return round((began if began.tzinfo else began.replace(tzinfo=timezone.utc)).timestamp() * 1e6) * 1000
    except (ValueError, OverflowError, OSError):
        return None


def _job(batch: Mapping[str, Any], tags: str, jobs: Sequence[str]) -> Any:
    """The batch job of a run that is no other job's."""
    return batch.get("job") or _tag(tags, "job") or (jobs[0] if len(jobs) == 1 else None)


def _application(command: Sequence[str]) -> str | None:
    """The program of a command; of an interpreter's, the script."""
    if not command:
        return None
    first = basename(command[0])
    if first.rstrip("0123456789.") in ("python", "Rscript", "perl", "bash", "sh", "julia"):
        script = next((word for word in command[1:] if not word.startswith("-")), "")
        if len(command) > 1 and script and not command[1].startswith("-c"):
            return basename(script)
    return first


def _tag(tags: str, key: str) -> str | None:
    try:
        return decode(tags).get(key)
    except (TagError, ValueError):
        return None


def _managers(run: AnalyzedRun) -> list[str]:
    table = run.declared_workflows
    if not len(table):
        return []
    rows = zip(table["manager"].fillna("").tolist(), table["version"].fillna("").tolist(), strict=True)
    return sorted({f"{name} {version}".strip() for name, version in rows if name})


# --- tasks and processes ---------------------------------------------------------------------------------------------


def _tasks(run: AnalyzedRun) -> dict[str, list[Any]]:
    table: pd.DataFrame = getattr(run, "tasks", pd.DataFrame())
    ended = outcomes.table(run)
    columns = {name: table[name].tolist() for name in TABLES["tasks"].columns if name in table}
    if len(ended) and columns:
        status = dict(zip(outcomes.task_keys(ended), ended["status"].tolist(), strict=True))
        keys = zip(table["workflow"].fillna("").tolist(), table["task"].fillna("").tolist(), strict=True)
        columns["status"] = [status.get((str(workflow), str(task))) for workflow, task in keys]
    return columns


def _processes(run: AnalyzedRun) -> dict[str, list[Any]]:
    table = run.processes
    own = {"program": "exe", "command": "argv", "coverage": "share"}
    names = {name: own.get(name, name) for name in TABLES["processes"].columns}
    return {name: table[column].tolist() for name, column in names.items() if column in table}


# --- files -----------------------------------------------------------------------------------------------------------


def _files(run: AnalyzedRun, m: Model) -> dict[str, Sequence[Any]]:
    """Every file with an access: what a run only looked at is in its trace."""
    bursts = m.bursts
    sums = pd.DataFrame({name: bursts[name] for name in ("file", "dir", "bytes", "calls", "first_ns", "last_ns")})
    writes = (sums["dir"] == edge_table.WRITE).to_numpy()
    codes, of_row = np.unique(sums["file"].to_numpy(), return_inverse=True)
    size = len(codes)

    def total(name: str, pick: Bools) -> list[int]:
        found = np.zeros(size, dtype=np.int64)
        np.add.at(found, of_row[pick], sums[name].to_numpy(dtype=np.int64)[pick])
        return list(map(int, found))

    first, last = np.full(size, _BIG), np.zeros(size, dtype=np.int64)
    np.minimum.at(first, of_row, sums["first_ns"].to_numpy())
    np.maximum.at(last, of_row, sums["last_ns"].to_numpy())
    ends = np.zeros(len(bursts), dtype=np.int64)
    if len(m.table.extents.group):
        np.maximum.at(ends, m.table.extents.group, m.table.extents.end)
    extent = np.zeros(size, dtype=np.int64)
    np.maximum.at(extent, of_row, ends)
    np.maximum.at(extent, *_written_sizes(m, codes, writes))
    kind = np.full(size, len(file_classes.CLASSES))
    np.minimum.at(kind, of_row, m.cls)
    removed = identities.removals(m.table).sort_values("ns", kind="stable")
    gone = dict(zip(removed["file"].tolist(), removed["ns"].tolist(), strict=True))
    versions = m.versions.table
    written = versions[versions["number"] > 0].groupby("file").size()
    every = [str(name) for name in m.table.files["file"].to_numpy()[codes]]
    paths = [str(path) for path in m.paths[codes]]
    places = mounts.finder(run.meta)
    hosts = m.table.who["host"].to_numpy()
    host_of = np.empty(size, dtype=object)
    host_of[of_row] = hosts[bursts["who"].to_numpy()]
    kinds = m.table.files["ftype"].to_numpy()[codes]
    # A pipe or socket has no place, and its name is none.
    found = [
        None if kind in edge_table.STREAM_TYPES else places(str(host), path)
        for host, path, kind in zip(host_of, paths, kinds, strict=True)
    ]
    return {
        "file": every,
        "identity": [identities.raw(name) for name in every],
        "path": paths,
        "names": _other_names(m, codes.tolist(), paths),
        "ftype": [str(kind) for kind in kinds],
        "class": [file_classes.CLASSES[int(code)] for code in kind],
        "mount": [one.point if one else None for one in found],
        "fstype": [one.fstype if one else None for one in found],
        "size_bytes": extent.tolist(),
        "read_bytes": total("bytes", ~writes),
        "written_bytes": total("bytes", writes),
        "read_calls": total("calls", ~writes),
        "write_calls": total("calls", writes),
        "versions": [int(written.get(code, 0)) for code in codes.tolist()],
        "first_ns": first.tolist(),
        "last_ns": last.tolist(),
        "gone_ns": [gone.get(code) for code in codes.tolist()],
    }


def _written_sizes(m: Model, codes: Ints, writes: Bools) -> tuple[Ints, Ints]:
    """The bytes that were written of each version, and the places of their files in `codes`: a version is no smaller,
    wherever its writes went (an inherited descriptor's position is not known)."""
    versions = m.versions.table
    size = np.zeros(len(versions), dtype=np.int64)
    of = np.asarray(m.version)
    pick = writes & (of >= 0)
    np.add.at(size, of[pick], m.bursts["bytes"].to_numpy(dtype=np.int64)[pick])
    files = versions["file"].to_numpy()
    at = np.searchsorted(codes, files)
    known = (at < len(codes)) & (codes[np.minimum(at, max(len(codes) - 1, 0))] == files) if len(codes) else at < 0
    return at[known], size[known]


def _other_names(m: Model, codes: list[int], paths: list[str]) -> list[list[str]]:
    aliases = m.table.aliases.sort_values("first_ns", kind="stable")
    of: dict[int, dict[str, None]] = {}
    for code, path in zip(aliases["file"].tolist(), aliases["path"].tolist(), strict=True):
        of.setdefault(code, {})[str(path)] = None
    return [[name for name in of.get(code, {}) if name != path] for code, path in zip(codes, paths, strict=True)]


def _versions(m: Model) -> dict[str, Sequence[Any]]:
    """The versions of data files."""
    table = m.versions.table
    used = np.zeros(len(table), dtype=np.bool_)
    used[m.version[m.classed(["data"])]] = True
    number, base = table["number"].to_numpy(), table["base"].to_numpy()
    at = np.flatnonzero(used)
    names = m.table.files["file"].to_numpy()
    return {
        "file": [str(name) for name in names[table["file"].to_numpy()[at]]],
        "version": number[at].tolist(),
        "begin_ns": [ns or None for ns in table["begin_ns"].to_numpy()[at].tolist()],
        "end_ns": [ns or None for ns in table["end_ns"].to_numpy()[at].tolist()],
        "continues": [int(number[b]) if b >= 0 else None for b in base[at].tolist()],
        "whole": [bool(whole) for whole in m.whole[at]],
    }


def _edges(m: Model) -> dict[str, Sequence[Any]]:
    code = np.arange(len(m.who), dtype=np.int64)
    rows, _ = dataflow.access_table(m, code, ["data"])
    who = m.who.iloc[rows["activity"].to_numpy(dtype=np.int64)] if len(rows) else m.who.iloc[:0]
    states = m.versions.table
    at = rows["version"].to_numpy(dtype=np.int64)
    names = m.table.files["file"].to_numpy()
    return {
        **{name: who[name].tolist() for name in ("workflow", "stage", "task", "host", "pid", "start")},
        "program": who["exe"].tolist(),
        "file": [str(name) for name in names[states["file"].to_numpy()[at]]],
        "version": states["number"].to_numpy()[at].tolist(),
        "direction": ["w" if way == edge_table.WRITE else "r" for way in rows["dir"].tolist()],
        **{name: rows[name].tolist() for name in ("bytes", "calls", "first_ns", "last_ns", "exact")},
    }


def _findings(run: AnalyzedRun, m: Model) -> dict[str, list[Any]]:
    found = insights(run, m).findings()
    names = ("kind", "about", "title", "advice", "query", "cost_ns", "cost_bytes", "estimate", "count", "doubts")
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in found] for name in names}
    return {"place": list(range(1, len(found) + 1)), **columns}


# --- to Arrow --------------------------------------------------------------------------------------------------------


def _arrow(table: str, key: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    schema = arrow_schema(table)
    size = len(next(iter(columns.values()), ()))
    arrays = []
    for name, column in TABLES[table].columns.items():
        values = [key] * size if name == "run" else columns.get(name)
        fitted = [None] * size if values is None else _fitted(column, values)
        arrays.append(pa.array(fitted, schema.field(name).type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _fitted(column: Column, values: Iterable[Any]) -> list[Any]:
    return list(map(_FIT[column.kind], values))


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _as_int(value: Any) -> int | None:
    if _missing(value) or not isinstance(value, (int, float, np.integer)):
        return None
    return max(-_BIG - 1, min(int(value), _BIG))


def _as_float(value: Any) -> float | None:
    return None if _missing(value) or not isinstance(value, (int, float, np.number)) else float(value)


def _as_flag(value: Any) -> bool | None:
    return None if _missing(value) else bool(value)


def short_text(value: Any) -> str | None:
    """None for "", as in the tables of a run."""
    if _missing(value) or not isinstance(value, (str, int)) or value == "":
        return None
    text = clean(str(value))
    if len(text) <= MOST_TEXT // 4:
        return text
    data = text.encode()
    return text if len(data) <= MOST_TEXT else data[:MOST_TEXT].decode("utf-8", "ignore")


def _as_texts(value: Any) -> list[str] | None:
    if isinstance(value, np.ndarray | tuple):
        value = list(value)
    if not isinstance(value, list):
        return None
    kept: list[str] = []
    left = MOST_TEXT
    for word in value[:MOST_WORDS]:
        text = short_text(word) or ""
        left -= len(text.encode())
        if left < 0:
            break
        kept.append(text)
    return kept


_FIT: dict[str, Callable[[Any], Any]] = {
    TEXT: short_text,
    INT: _as_int,
    FLOAT: _as_float,
    FLAG: _as_flag,
    TEXTS: _as_texts,
}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
