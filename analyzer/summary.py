"""What a report says, as plain data: made once, shown by the terminal (report.py) and the page (page/).

Everything here is JSON: dicts, lists, str, int, float, bool, None. Times are ms since the run's first event (a
browser's numbers can't hold ns since the epoch), bytes are integers. Lists that may be long are cut at `LIMITS`, and
the cut is told: `shown` of `total`. Names are as the trace has them, unescaped: each renderer escapes for its medium.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer import compare, dataflow, fileclass, ledger, stages, waits
from tailrace.analyzer import edges as et
from tailrace.analyzer.dataflow import Model
from tailrace.analyzer.insights import Insights, insights
from tailrace.analyzer.insights.critical import PARTS
from tailrace.analyzer.words import bytes_text, count_text, percent_text

LIMITS = {
    "tasks": 4000,
    "files": 2000,
    "files_of_flow": 12,
    "tasks_of_flow": 12,
    "never_read": 500,
    "declared": 1000,
    "aliases": 8,
    "below": 50,
    "path": 200,
}
RESULT = "(left at the end)"


def collect(run: Any, model: Model | None = None) -> dict[str, Any]:
    """The report's data; the keys are those of the dict below."""
    m = model or dataflow.model(run)
    table = stages.table(m)
    start_ns, end_ns = _span(table)
    code, parties = dataflow.parties(m, "stage")
    index = _positions(table, parties)
    declared, unread = compare.compare_declared(run, m), stages.never_read(m)
    files = _files(m, code, index)
    found = insights(run, m, declared)
    return {
        "about": _about(run, start_ns),
        "numbers": _numbers(m, table, end_ns - start_ns),
        "stages": [_stage(row, start_ns) for row in table.to_dict("records")],
        "waits": _waits(run, m),
        "flows": _flows(m, code, index),
        "tasks": _tasks(m, code, index, start_ns),
        "files": files,
        "never_read": {"removed": int(unread["removed"].sum()), **_cut(unread.to_dict("records"), "never_read")},
        "declared": {
            "counts": declared["status"].value_counts().to_dict(),
            **_cut(declared.to_dict("records"), "declared"),
        },
        "findings": [_json(finding.json()) for finding in found.findings()],
        "critical": _critical(found, start_ns),
        "footprint": _footprint(found, start_ns),
        "losses": losses(run),
        "coverage": coverage(run, m),
    }


def _span(table: pd.DataFrame) -> tuple[int, int]:
    return (int(table["first_ns"].min()), int(table["last_ns"].max())) if len(table) else (0, 0)


def _critical(found: Insights, start_ns: int) -> dict[str, Any]:
    """The critical path: what the makespan was spent on (ms), by stage, and its pieces, the longest when cut."""
    c, s = found.critical, found.scene
    stages_on = c.stages[c.stages["path_ns"] + c.stages["gap"] > 0]
    longest = (c.path["end_ns"] - c.path["begin_ns"]).sort_values(ascending=False, kind="stable")
    shown = c.path.loc[sorted(longest.index[: LIMITS["path"]])]
    return {
        "makespan_ms": s.makespan_ns / 1e6,
        "bound_ms": c.bound_ns / 1e6,
        "parts_ms": {name: ns / 1e6 for name, ns in c.parts.items()},
        "stages": [
            {
                "stage": str(row["stage"]),
                "tasks": int(row["tasks_on_path"]),
                "least_slack_ms": int(row["least_slack_ns"]) / 1e6,
                **{f"{name}_ms": int(row[name]) / 1e6 for name in PARTS},
            }
            for row in stages_on.to_dict("records")
        ],
        "path": {
            "total": len(c.path),
            "rows": [
                {
                    "task": s.name(int(row["task"])) if row["task"] >= 0 else "",
                    "stage": s.stage_of(int(row["task"])) if row["task"] >= 0 else "",
                    "via": str(row["via"]),
                    "path": str(s.m.paths[_file_of(s.m, int(row["version"]))]) if row["version"] >= 0 else "",
                    "start": (int(row["begin_ns"]) - start_ns) / 1e6,
                    "end": (int(row["end_ns"]) - start_ns) / 1e6,
                    **{f"{name}_ms": int(row[name]) / 1e6 for name in PARTS},
                }
                for row in shown.to_dict("records")
            ],
        },
    }


def _file_of(m: Model, version: int) -> int:
    return int(m.versions.table["file"].to_numpy()[version])


def _footprint(found: Insights, start_ns: int) -> dict[str, Any]:
    """How much data was live and held over time: peak bytes, and steps (ms, bytes)."""
    life = found.lifetime
    steps = life.footprint
    times = ((steps["time_ns"].to_numpy() - start_ns) / 1e6).tolist() if len(steps) else []
    return {
        "peak_live_bytes": life.peak["live_bytes"],
        "peak_held_bytes": life.peak["held_bytes"],
        "ms": times,
        "live_bytes": [int(v) for v in steps["live_bytes"]],
        "held_bytes": [int(v) for v in steps["held_bytes"]],
    }


def _positions(table: pd.DataFrame, parties: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The position in the stage table (ordered by time) of each party."""
    place = pd.MultiIndex.from_frame(table[["workflow", "stage"]])
    return np.asarray(place.get_indexer(pd.MultiIndex.from_frame(parties[["workflow", "stage"]])), dtype=np.int64)


def _cut(rows: list[Any], what: str) -> dict[str, Any]:
    return {"total": len(rows), "rows": [_json(row) for row in rows[: LIMITS[what]]]}


def _json(value: Any) -> Any:
    """numpy and pandas scalars as JSON's."""
    if isinstance(value, Mapping):
        return {str(k): _json(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_json(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return None if value is pd.NA or value is pd.NaT else value


def _about(run: Any, start_ns: int) -> dict[str, Any]:
    """What was run, by run.json; everything may be absent."""
    info = getattr(run, "meta", {})
    command = info.get("command")
    versions = info.get("versions")
    return {
        "title": " ".join(str(part) for part in command) if isinstance(command, list) else str(command or ""),
        "directory": str(getattr(run, "path", "") or ""),
        "run_id": str(info.get("run_id") or ""),
        "created": str(info.get("created") or pd.Timestamp(start_ns, unit="ns", tz="UTC").isoformat()),
        "host": str(info.get("host") or ""),
        "user": str(info.get("user") or ""),
        "version": str(versions.get("tailrace", "")) if isinstance(versions, Mapping) else "",
    }


def _numbers(m: Model, table: pd.DataFrame, span_ns: int) -> dict[str, Any]:
    counts = m.table.counts
    io_ns = stages.io_ns(m)
    tasks = m.units[m.units["task"] != ""]
    return {
        "stages": len(table),
        "tasks": len(tasks),
        "processes": len(m.who[["host", "pid"]].drop_duplicates()),
        "hosts": int(m.who["host"].nunique()),
        "files": int(np.unique(m.spells["file"][m.classed(("data",))]).size),
        "read_bytes": int(counts["read_bytes"].sum()),
        "written_bytes": int(counts["written_bytes"].sum()),
        "unnamed_bytes": int(counts["unnamed_bytes"].sum()),
        "calls": int(counts["calls"].sum()),
        "span_ms": span_ns / 1e6,
        "io_ms": io_ns / 1e6,
        "io_share": io_ns / span_ns if span_ns else 0.0,
    }


def _stage(row: Mapping[Any, Any], start_ns: int) -> dict[str, Any]:
    """A row of the stage table with times in ms."""
    out = {str(k): _json(v) for k, v in row.items() if not str(k).endswith("_ns")}
    out["start_ms"] = (row["first_ns"] - start_ns) / 1e6
    out["end_ms"] = (row["last_ns"] - start_ns) / 1e6
    for name in ("span", "io", "read", "write", "metadata", "stream"):
        out[f"{name}_ms"] = row[f"{name}_ns"] / 1e6
    return out


def _waits(run: Any, m: Model) -> list[dict[str, Any]]:
    """Where the tasks' time went, a row a declared stage of which any time is known, in ms; null where it is not."""
    table = waits.by_stage(waits.table(run, m))
    out = []
    for row in table[table[list(waits.TIMES)].notna().any(axis=1)].to_dict("records"):
        times = {f"{n[:-3]}_ms": None if pd.isna(row[n]) else int(row[n]) / 1e6 for n in waits.TIMES}
        out.append({key: _json(row[key]) for key in ("workflow", "stage", "tasks", "known")} | times)
    return out


def _flows(m: Model, code: Any, index: Any) -> list[dict[str, Any]]:
    """Stage to stage, with its largest files; source -1 is "before the run", target -1 is "left at the end"."""
    rows = dataflow.flow_table(m, "stage")[["producer", "consumer", "file", "bytes"]]
    rows = pd.concat([rows, _left(m, code)], ignore_index=True)
    pairs = _task_pairs(m, code)
    partial = dataflow.partial_parties(m, code)
    out = []
    for (producer, consumer), group in rows.groupby(["producer", "consumer"], sort=True):
        files = group.groupby("file")["bytes"].sum().sort_values(ascending=False, kind="stable")
        largest = files.head(LIMITS["files_of_flow"])
        out.append(
            {
                "source": int(index[producer]) if producer >= 0 else -1,
                "target": int(index[consumer]) if consumer >= 0 else -1,
                "bytes": int(files.sum()),
                "files": len(files),
                "confidence": _confidence(partial, producer, consumer),
                "largest": [{"path": str(m.paths[f]), "bytes": int(b)} for f, b in largest.items()],
                **pairs.get((producer, consumer), {"pairs": 0, "tasks": []}),
            }
        )
    return out


def _confidence(partial: set[int] | None, *parties: int) -> str:
    """As the graph's edges have it (dataflow.graph); "" without accounts."""
    if partial is None:
        return ""
    return "partial" if partial & {int(party) for party in parties} else "complete"


def _task_pairs(m: Model, code: Any) -> dict[tuple[int, int], dict[str, Any]]:
    """(producer stage, consumer stage) -> how many pairs of units the flow is made of, and the largest ones."""
    task_code, parties = dataflow.parties(m, "task")
    stage = np.zeros(len(parties), dtype=np.int64)
    stage[task_code] = code
    rows = dataflow.flow_table(m, "task").groupby(["producer", "consumer"], as_index=False).agg({"bytes": "sum"})
    rows["source"] = np.where(rows["producer"] < 0, -1, stage[rows["producer"]])
    rows["target"] = stage[rows["consumer"]]
    rows = rows.sort_values("bytes", ascending=False, kind="stable")
    labels = parties["label"].to_numpy()
    out = {}
    for (source, target), group in rows.groupby(["source", "target"]):
        largest = group.head(LIMITS["tasks_of_flow"]).to_dict("records")
        names = [("" if r["producer"] < 0 else str(labels[r["producer"]]), str(labels[r["consumer"]])) for r in largest]
        tasks = [
            {"producer": a, "consumer": b, "bytes": int(r["bytes"])} for (a, b), r in zip(names, largest, strict=True)
        ]
        out[(int(source), int(target))] = {"pairs": len(group), "tasks": tasks}
    return out


def _left(m: Model, code: Any) -> pd.DataFrame:
    """What each stage wrote that no other unit read and nobody removed: rows producer, consumer -1, file, bytes."""
    fates = stages.file_fates(m)
    kept = (fates["never_read"] & ~fates["removed"] & (fates["cls"] == fileclass.DATA)).to_numpy()
    pick = (m.spells["dir"].to_numpy() == et.WRITE) & kept[m.spells["file"].to_numpy()]
    spells = m.spells[pick]
    rows = pd.DataFrame({"producer": code[spells["who"].to_numpy()], "file": spells["file"], "bytes": spells["bytes"]})
    result: pd.DataFrame = rows.groupby(["producer", "file"], as_index=False).agg({"bytes": "sum"}).assign(consumer=-1)
    return result


def _tasks(m: Model, code: Any, index: Any, start_ns: int) -> dict[str, Any]:
    """Bars of the timeline, the longest first when they have to be cut; an untagged process is a bar, too."""
    task_code, parties = dataflow.parties(m, "task")
    counts = m.table.counts.assign(party=task_code[m.table.counts["who"].to_numpy()])
    sums = counts.groupby("party").agg(
        first=("first_ns", "min"), last=("last_ns", "max"), read=("read_bytes", "sum"), wrote=("written_bytes", "sum")
    )
    stage = np.zeros(len(parties), dtype=np.int64)
    stage[task_code] = index[code]
    order = (sums["last"] - sums["first"]).sort_values(ascending=False, kind="stable").index[: LIMITS["tasks"]]
    shown = sums.loc[order].assign(stage=stage[order], label=parties["label"].to_numpy(dtype=object)[order])
    rows = [
        {
            "stage": int(row["stage"]),
            "name": str(row["label"]),
            "start": (int(row["first"]) - start_ns) / 1e6,
            "end": (int(row["last"]) - start_ns) / 1e6,
            "read": int(row["read"]),
            "wrote": int(row["wrote"]),
        }
        for row in shown.sort_values(["stage", "first"], kind="stable").to_dict("records")
    ]
    return {"total": len(sums), "rows": rows}


def _files(m: Model, code: Any, index: Any) -> dict[str, Any]:
    """Data files and streams by bytes moved, with the stages that wrote and read them."""
    fates = stages.file_fates(m)
    fates = fates[fates["cls"].isin((fileclass.DATA, fileclass.STREAM))]
    fates = fates.assign(moved=fates["read_bytes"] + fates["written_bytes"]).sort_values(
        "moved", ascending=False, kind="stable"
    )
    shown = fates.head(LIMITS["files"])
    spells = pd.DataFrame(
        {"file": m.spells["file"], "dir": m.spells["dir"], "stage": index[code[m.spells["who"].to_numpy()]]}
    )
    spells = spells[spells["file"].isin(shown.index)].drop_duplicates()
    stages_of = spells.groupby(["file", "dir"])["stage"].agg(lambda s: sorted(int(v) for v in s))
    aliases = m.table.aliases[m.table.aliases["file"].isin(shown.index)]
    aliases = aliases.sort_values("last_ns").groupby("file")["path"].agg(list)
    rows = []
    for file, row in shown.iterrows():
        path = str(m.paths[file])
        others = [str(a) for a in aliases.get(file, []) if a != path]
        rows.append(
            {
                "path": path,
                "aliases": others[-LIMITS["aliases"] :],
                "cls": fileclass.CLASSES[int(row["cls"])],
                "read_bytes": int(row["read_bytes"]),
                "written_bytes": int(row["written_bytes"]),
                "versions": int(row["versions"]),
                "writers": int(row["writers"]),
                "readers": int(row["readers"]),
                "wrote": stages_of.get((file, et.WRITE), []),
                "read": stages_of.get((file, et.READ), []),
                "removed": bool(row["removed"]),
            }
        )
    return {"total": len(fates), "rows": rows}


LOSSES = {
    "no_journal": "not recorded: no buffer could be had (journal directory full or not writable)",
    "not_written": "recorded, but the run directory could not take them (full, gone, not permitted)",
    "torn": "cut off: the process died, or the file ends, in the middle of a record",
    "unnamed": "without a file: it was closed and its number reused while the call ran",
    "ambiguous": "without a file: the trace gives two names one hash",
    "not_json": "not JSON",
    "foreign": "not files of a tracer that is known",
    "version": "of a newer format version",
}
"""cause -> words; a cause that is not here is shown by its name."""


def losses(run: Any) -> list[dict[str, Any]]:
    """What the run lost, by `run.losses` (cause, unit, count): cause, unit, count, files, text."""
    rows = getattr(run, "losses", None)
    if rows is None or len(rows) == 0:
        return []
    out = []
    for (cause, unit), group in rows.groupby(["cause", "unit"], sort=True):
        number = int(group["count"].sum())
        text = f"{number:,} {unit} {LOSSES.get(cause, cause)}"
        out.append({"cause": str(cause), "unit": str(unit), "count": number, "files": len(group), "text": text})
    return out


def coverage(run: Any, m: Model) -> dict[str, Any]:
    """What the trace can answer for: `text`, and the numbers it is made of.

    The share is that of `ledger.totals`: processes without an account are counted and left out of it, processes that
    were waited for and left no trace are in it with nothing captured. `below` lists the least seen, with the cause.
    """
    counts = m.table.counts
    moved = int(counts["read_bytes"].sum() + counts["written_bytes"].sum())
    unnamed = int(counts["unnamed_bytes"].sum())
    named = (
        f"{1 - unnamed / moved:.1%} of the {bytes_text(moved)} in recorded calls are on known files"
        if moved
        else "no bytes were moved"
    )
    table = getattr(run, "coverage", None)
    total = ledger.totals(table) if table is not None else {}
    kernel = total.get("kernel_read", 0) + total.get("kernel_written", 0)
    captured = total.get("captured_read", 0) + total.get("captured_written", 0)
    text = f"Coverage: {named}{_share_text(total, captured, kernel)}."
    return {
        "text": text,
        "moved_bytes": moved,
        "unnamed_bytes": unnamed,
        "kernel_bytes": kernel,
        "captured_bytes": captured,
        "processes": total.get("processes", 0),
        "accounted": total.get("accounted", 0),
        "untraced": total.get("untraced", 0),
        "below": below(table) if table is not None else [],
    }


def _share_text(total: Mapping[str, Any], captured: int, kernel: int) -> str:
    if not kernel:
        return ""
    notes = []
    missing = total["processes"] - total["accounted"]
    if missing:
        notes.append(f"{missing} of {total['processes']} processes left no account")
    if total["untraced"]:
        notes.append(f"{count_text(total['untraced'], 'process', 'es')} not traced")
    if total["left_out"]:
        notes.append(f"without {count_text(total['left_out'], 'process', 'es')} left out by TAILRACE_UNTRACED")
    told = f" ({'; '.join(notes)})" if notes else ""
    return f"; {percent_text(captured, kernel)} of the bytes that the kernel counted were captured{told}"


def below(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The processes seen to less than `ledger.COMPLETE_SHARE`, those that miss most first, cut at `LIMITS`."""
    rows = []
    for row in table[(table["share"] < ledger.COMPLETE_SHARE).fillna(False)].to_dict("records"):
        kernel = int(row["kernel_read"] + row["kernel_written"])
        seen = round(kernel * float(row["share"]))
        place = {"host": str(row["host"]), "pid": int(row["pid"]), "exe": str(row["exe"] or ""), "cause": row["cause"]}
        rows.append({**place, "kernel_bytes": kernel, "missing_bytes": kernel - seen, "share": float(row["share"])})
    rows.sort(key=lambda r: (-r["missing_bytes"], r["host"], r["pid"]))
    return rows[: LIMITS["below"]]
