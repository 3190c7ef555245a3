"""The content of a report as plain data: made once, shown by the terminal and the page (report/).

    model -> numbers, stage table, flows, tasks, files, heat maps, declared, losses -> one dict of JSON

Everything here is JSON: dicts, lists, str, int, float, bool, None. Times are ms since the run's first event (a
browser's numbers can't hold ns since the epoch), bytes are integers. Lists that may be long are cut at limits.LIMITS,
with `total` beside the rows. Names are as the trace has them, unescaped: each renderer escapes for its medium.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import insights
from tailrace.analyzer.model import dataflow, order, outcomes, regions, stages, waits
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.declared_vs_observed import STATUSES, WORKFLOW_OF, compare_declared
from tailrace.analyzer.store import samples
from tailrace.analyzer.summary import (
    access,
    files,
    fold,
    heat,
    histories,
    insight,
    io_summary,
    numbers,
    outcome,
    sampled,
    seen,
    stageflows,
    task_details,
    tasks,
    untagged,
)
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, cut, ms, plain
from tailrace.analyzer.summary.seen import losses
from tailrace.analyzer.summary.stageflows import RESULT
from tailrace.analyzer.util.types import Ints, Row

__all__ = ["RESULT", "collect", "losses"]


def collect(run: AnalyzedRun, model: Model | None = None) -> JsonObject:
    """The report's data; the keys are those of the dict below."""
    whole = model or dataflow.model(run)
    m = fold.folded(whole)
    table = stages.table(m)
    start_ns = int(table["first_ns"].min()) if len(table) else 0
    code, activities = dataflow.activities(m, "stage")
    index = _positions(table, activities)
    declared, unread = compare_declared(run, whole), stages.never_read(whole)
    shown_tasks = tasks.tasks(m, whole, code, index, start_ns, run.declared_tasks)
    task_row = shown_tasks.pop("activity")
    found, coverage = insights(run, whole, declared), seen.coverage(run, whole)
    declared = found.declared.table
    for row, slack in insight.slack_ms(found, task_row).items():
        shown_tasks["rows"][row]["slack"] = slack
    ended = outcome.outcome(run, found, whole, start_ns, task_row)
    outcome.add_to_tasks(shown_tasks["rows"], ended["rows"])
    used, of_burst = access.accesses(m)
    shown_files = files.files(m, code, index, task_row, access.of_files(used), start_ns)
    task_details.add_files(m, shown_tasks["rows"], shown_files, task_row)
    row_of = dict(zip(outcomes.task_keys(found.inputs.tasks), task_row.tolist(), strict=True))
    task_details.add_waits(run, whole, shown_tasks["rows"], row_of)
    task_details.add_arguments(run, shown_tasks["rows"], row_of)
    shown_processes = task_details.add_processes(whole, shown_tasks["rows"], task_row, start_ns)
    shown_files.pop("codes")
    return {
        "about": numbers.about(run, whole, start_ns),
        "numbers": {**numbers.numbers(run, m, table, found, coverage), "workflows": _workflows(whole)},
        "outcome": ended,
        "overview": numbers.overview(),
        "prelude": numbers.PRELUDE,
        "functions": [one.to_json() for one in io_summary.functions(m.table)],
        "stages": [_stage(m, row, start_ns) for row in table.to_dict("records")],
        "untagged": untagged.untagged(run, whole),
        "levels": untagged.levels(run),
        "folded": untagged.folded(whole),
        "regions": _regions(run),
        "waits": _waits(run, whole),
        "flows": stageflows.flows(m, code, index),
        "files": shown_files,
        "access": access.by_stage(m, used, of_burst, index[code]),
        "processes": shown_processes,
        "histories": histories.histories(m, index, start_ns),
        "tasks": shown_tasks,
        "samples": sampled.sampled(samples.read(run.path), start_ns),
        "heat": heat.over_time(m, code, index, start_ns, _window(table), len(table)),
        "families": heat.families(m, code, index, len(table)),
        "never_read": {"removed": int(unread["removed"].sum()), **cut(unread, "never_read")},
        "declared": {
            "counts": declared["status"].value_counts().to_dict(),
            "statuses": STATUSES,
            "order_words": order.WORDS,
            "orders": declared.loc[declared["status"] == "undeclared", "order"].value_counts().to_dict(),
            **cut(_with_names(whole, declared), "declared"),
        },
        "verdict": insight.verdict(found),
        "findings": insight.findings(found),
        "critical": insight.critical(found, start_ns, shown_tasks["rows"], task_row),
        "footprint": insight.footprint(found, start_ns),
        "losses": losses(run),
        "coverage": coverage,
    }


def _regions(run: AnalyzedRun) -> JsonObject:
    """The regions by path (model/regions.py), in the order of their first begin, with times in ms."""
    if not run.has_regions:
        return {"total": 0, "rows": []}
    table = regions.of(run).table()
    times = [name for name in table.columns if name.endswith("_ns")]
    rows = [
        {
            **{str(key): plain(value) for key, value in row.items() if key not in times},
            **{f"{name[:-3]}_ms": None if pd.isna(row[name]) else ms(row[name]) for name in times},
        }
        for row in table.head(LIMITS["regions"]).to_dict("records")
    ]
    return {"total": len(table), "rows": rows}


def _workflows(m: Model) -> int:
    names = m.who["workflow"]
    return int(names[names != ""].nunique())


def _positions(table: pd.DataFrame, activities: pd.DataFrame) -> Ints:
    """The position in the stage table (ordered by time) of each activity."""
    place = pd.MultiIndex.from_frame(table[["workflow", "stage"]])
    return np.asarray(place.get_indexer(pd.MultiIndex.from_frame(activities[["workflow", "stage"]])), dtype=np.int64)


def _window(table: pd.DataFrame) -> tuple[int, int]:
    """From the first event to the last of the stages; of the run, when there is no stage. ns since the epoch."""
    named = table[table["stage"] != dataflow.UNTAGGED]
    rows = named if len(named) else table
    return (int(rows["first_ns"].min()), int(rows["last_ns"].max())) if len(rows) else (0, 0)


def _stage(m: Model, row: Row, start_ns: int) -> JsonObject:
    """A row of the stage table with times in ms. filters: arguments of `tailrace query` for its events, where they are
    not `--stage NAME`: for untagged processes."""
    out = {str(k): plain(v) for k, v in row.items() if not str(k).endswith("_ns")}
    filters = stages.filters(m, str(row["stage"]))
    if filters[1:] != [row["stage"]]:
        out["filters"] = filters
    out["start_ms"], out["end_ms"] = ms(row["first_ns"] - start_ns), ms(row["last_ns"] - start_ns)
    for name in ("span", "io", "read", "write", "metadata", "stream"):
        out[f"{name}_ms"] = ms(row[f"{name}_ns"])
    return out


def _with_names(m: Model, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `declared_vs_observed.compare_declared` with their tasks as the manager names them."""
    for end, workflow in WORKFLOW_OF.items():
        named = [m.task_name(str(w), str(task)) for w, task in zip(rows[workflow], rows[end], strict=True)]
        rows = rows.assign(**{end: pd.Series(named, dtype=object, index=rows.index)})
    return rows


def _waits(run: AnalyzedRun, m: Model) -> list[JsonObject]:
    """Where the tasks' time went, a row a declared stage with any known time, in ms; null where unknown."""
    table = waits.by_stage(waits.table(run, m))
    out = []
    for row in table[table[list(waits.TIMES)].notna().any(axis=1)].to_dict("records"):
        times = {f"{n[:-3]}_ms": None if pd.isna(row[n]) else ms(row[n]) for n in waits.TIMES}
        out.append({key: plain(row[key]) for key in ("workflow", "stage", "tasks", "known")} | times)
    return out
