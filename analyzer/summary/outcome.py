"""How the run and its tasks ended, for the report: the sentence at its head, and the tasks that are not simply done."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import Insights, failures
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Ints

LONGEST_ERROR = 1000
FAILED, NOTED, FINE = "failed", "noted", ""
"""Whether something has no result; whether something else is to be said."""


def outcome(run: AnalyzedRun, found: Insights, m: Model, start_ns: int, task_row: Ints) -> JsonObject:
    """How the run ended.

    text (a sentence, "" where all went well), level (`FAILED`, `NOTED`, `FINE`), verdict (one or two words) and words
    (a sentence in any case), counts (`outcomes.counts`), done (whether every declared task is), total and rows: those
    of `outcomes.table` that are not done at the first try: workflow, stage, task (as shown), status (as shown), tries,
    error, start, end, lost (ms, null where unknown), and row (in `tasks`, -1: none).

    Args:
        task_row: the row of each task in `tasks`, -1: cut.
    """
    ends = found.outcomes
    counts, text, bad = outcomes.news(run, failures.dismissed(found.inputs))
    news = ends[ends["status"] != outcomes.DONE]
    shown = news.head(LIMITS["outcomes"])
    inputs = found.inputs
    place = dict(zip(outcomes.task_keys(inputs.tasks), task_row.tolist(), strict=True))
    rows = [
        {
            "workflow": str(row["workflow"]),
            "stage": str(row["stage"]),
            "task": m.task_name(str(row["workflow"]), str(row["task"])),
            "status": outcomes.WORDS.get(str(row["status"]), str(row["status"] or outcomes.UNENDED)),
            "tries": int(row["tries"]),
            "error": str(row["error"])[:LONGEST_ERROR],
            "start": _since(row["begin_ns"], start_ns),
            "end": _since(row["end_ns"], start_ns),
            "lost": ms(row["lost_ns"]),
            "row": place.get(key, -1),
        }
        for key, row in zip(outcomes.task_keys(shown), shown.to_dict("records"), strict=True)
    ]
    level = FAILED if bad else NOTED if text else FINE
    verdict, words = _verdict(level, text, counts, len(run.command_ends) > 0)
    return {
        "text": text,
        "level": level,
        "verdict": verdict,
        "words": words,
        "counts": counts,
        "done": bool(counts) and set(counts) == {outcomes.DONE},
        "total": len(news),
        "rows": rows,
    }


def _verdict(level: str, text: str, counts: Mapping[str, int], ended: bool) -> tuple[str, str]:
    """What to say of a run in any case. ended: whether a traced command's end is known (and no fault, where `text` is
    empty)."""
    if level == FAILED:
        return "Failed", text
    if outcomes.OPEN in counts:
        return "Not over", text
    if text:
        return "Succeeded", text
    told = [f"All {count_text(sum(counts.values()), 'task')} were done."] if sum(counts.values()) > 1 else []
    told += ["Its task was done."] if sum(counts.values()) == 1 else []
    told += ["The command ended with exit code 0."] if ended else []
    if told:
        return "Succeeded", " ".join(told)
    return "End unknown", "Neither a workflow manager nor a traced command said how the run ended."


def _since(ns: object, start_ns: int) -> float | None:
    return ms(int(ns) - start_ns) if isinstance(ns, int | np.integer) else None


def add_to_tasks(tasks: list[JsonObject], outcome_rows: list[JsonObject]) -> None:
    """Adds to the rows of `tasks` status, tries and error of those that have a row of `outcome`."""
    for row in outcome_rows:
        if row["row"] >= 0:
            tasks[row["row"]].update({key: row[key] for key in ("status", "tries", "error")})
