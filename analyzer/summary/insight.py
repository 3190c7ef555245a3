"""The results of the analyses (tailrace.analyzer.insights) for the report: verdict, findings, critical path,
footprint.
"""

from __future__ import annotations

from itertools import groupby

from tailrace.analyzer.insights import Inputs, Insights
from tailrace.analyzer.insights.critical import PARTS, TASK_PARTS
from tailrace.analyzer.insights.finding import ABOUT
from tailrace.analyzer.insights.verdict import COMPUTING, words_of
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms, plain
from tailrace.analyzer.util.types import Ints

OUTSIDE = {
    "start": "(start-up, before the first task)",
    "rest": "(stop, after the last task)",
    "silent": "(tasks without a recorded call)",
}
"""Pieces of the critical path that no task is on."""


def findings(found: Insights) -> JsonObject:
    """`total`; `about`, what each kind of them means; and rows as `Finding.json` has them, with `Finding.words` (cost,
    words), in order of what they cost."""
    found_rows = found.findings()
    rows = []
    for finding in found_rows[: LIMITS["findings"]]:
        cost, words = finding.words
        rows.append(plain({**finding.json(), "cost": cost, "words": words}))
    return {"total": len(found_rows), "rows": rows, "about": ABOUT}


def verdict(found: Insights) -> JsonObject:
    """The first sentences of a report; parts: ns of the makespan by what it was spent on."""
    one = found.verdict
    return {"text": one.text, "parts_ns": dict(one.parts), "change": one.change, "gain_ns": one.gain_ns}


def critical(found: Insights, start_ns: int, tasks: list[JsonObject], task_row: Ints) -> JsonObject:
    """The critical path: what the makespan was spent on (ms; account_ms: the same with what is not known apart, words:
    its names and what they stand for), by stage, and its pieces, the longest when cut.

    Args:
        tasks: the rows that the report has.
        task_row: the row of each task in `tasks`, -1: cut.
    """
    c, inputs = found.critical, found.inputs
    on = c.stages[c.stages["path_ns"] + c.stages["gap"] > 0]
    length = (c.path["end_ns"] - c.path["begin_ns"]).sort_values(ascending=False, kind="stable")
    shown = c.path.loc[sorted(length.index[: LIMITS["path"]])]
    rows = []
    for row in shown.to_dict("records"):
        task, version = int(row["task"]), int(row["version"])
        shown_as = int(task_row[task]) if task >= 0 else -1
        rows.append(
            {
                "task": shown_as,
                "name": inputs.name(task) if task >= 0 else OUTSIDE.get(str(row["via"]), "(nothing ran yet)"),
                "stage": tasks[shown_as]["stage"] if shown_as >= 0 else -1,
                "via": str(row["via"]),
                "path": _path_of(inputs.m, version),
                "start": ms(row["begin_ns"] - start_ns),
                "end": ms(row["end_ns"] - start_ns),
                **{COMPUTING if name == "compute" else name: ms(row[name]) for name in PARTS},
            }
        )
    return {
        "makespan_ms": ms(inputs.makespan_ns),
        "bound_ms": ms(c.bound_ns),
        "parts_ms": {name: ms(ns) for name, ns in c.parts.items()},
        "account_ms": {name: ms(ns) for name, ns in found.verdict.parts.items()},
        "words": {name: list(words) for name, words in words_of(found).items()},
        "stages": [
            {
                "stage": str(row["stage"]),
                "tasks": int(row["tasks_on_path"]),
                "path_ms": ms(row["path_ns"]),
                "least_slack_ms": ms(row["least_slack_ns"]),
                **{f"{name}_ms": ms(row[name]) for name in TASK_PARTS},
            }
            for row in on.to_dict("records")
        ],
        "through": _through(found),
        "total": len(c.path),
        "rows": rows,
    }


def _through(found: Insights) -> list[str]:
    """The tasks of the path in order, with their stages where the names don't say them, once for several in a row; of
    many the first and last."""
    inputs, half = found.inputs, LIMITS["through"] // 2
    on = [task for task in found.critical.path["task"].tolist() if task >= 0]
    on = [task for task, before in zip(on, [-1, *on], strict=False) if task != before]
    names: list[str] = []
    for stage, tasks in groupby(on, lambda task: _prefix(inputs, task)):
        row = [inputs.name(task) for task in tasks]
        if stage and len(row) > LIMITS["in_a_row"]:
            row = [*row[:2], f"({len(row) - 3} more)", row[-1]]
        names += [f"{stage} {', '.join(row)}"] if stage else row
    return names if len(names) <= 2 * half else [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]


def _prefix(inputs: Inputs, task: int) -> str:
    """The stage that stands in front of a task's name; "" where the name says it, or it is a process."""
    return "" if inputs.called(task) == inputs.name(task) else inputs.stage_of(task)


def _path_of(m: Model, version: int) -> str:
    return str(m.paths[int(m.versions.table["file"].to_numpy()[version])]) if version >= 0 else ""


def slack_ms(found: Insights, task_row: Ints) -> dict[int, float]:
    """Row in `tasks` -> how much longer the task could have worked without a longer longest chain of work."""
    slack = found.critical.tasks["slack_ns"].tolist()
    return {int(row): ms(ns) for row, ns in zip(task_row, slack, strict=True) if row >= 0}


def footprint(found: Insights, start_ns: int) -> JsonObject:
    """How much data was live and held over time: peak bytes, and steps (ms, bytes)."""
    life = found.lifetime
    steps = life.footprint
    return {
        "peak_live_bytes": life.peak["live_bytes"],
        "peak_held_bytes": life.peak["held_bytes"],
        "ms": [ms(ns - start_ns) for ns in steps["time_ns"].tolist()],
        "live_bytes": [int(v) for v in steps["live_bytes"]],
        "held_bytes": [int(v) for v in steps["held_bytes"]],
    }
