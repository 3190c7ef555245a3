"""Tasks that failed, were killed, timed out or were canceled, and those that never ran because of them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.failures import Failure
from tailrace.analyzer.insights.finding import EVIDENCE, FAILURE, Match, Row, Rule
from tailrace.analyzer.model.outcomes import WORDS
from tailrace.analyzer.util import exit_codes
from tailrace.analyzer.util.formatting import count_text

TABLE = "tailrace.open({run}).outcomes"


def find(found: Analyses) -> Iterator[Match]:
    """A match for the tasks of a stage that ended in the same way with the same error; in the end one for the rest."""
    for failure in found.failures:
        first = failure.tasks.iloc[0]
        yield Match(
            title=_title(found, failure) if failure.ways == 1 else _rest(found, failure),
            names={"task": str(first["task"])},
            query="" if first["seen"] and failure.ways == 1 else TABLE,
            count=len(failure.tasks) + failure.blocked,
            evidence=_evidence(found, failure.tasks),
            advice=exit_codes.PIPE_ADVICE if failure.ways == 1 and _ended_by_pipe(failure) else "",
        )


def _title(found: Analyses, failure: Failure) -> str:
    first = failure.tasks.iloc[0]
    others = len(failure.tasks) - 1
    who = found.called(first) + (f" and {count_text(others, 'more task')} of its stage" if others else "")
    passive = first["status"] in ("killed", "canceled")
    were = ("were " if others else "was ") if passive else ""
    tries = f" in each of {first['tries']} tries" if first["tries"] > 1 else ""
    parts = [f"{who} {were}{WORDS[str(first['status'])]}{tries}"]
    if failure.error and not str(first["status"]).startswith(failure.error):  # "canceled: cancel"
        parts.append(f": {failure.error}")
        reason = exit_codes.cause(exit_codes.code_in(failure.error))
        parts.append(f", {reason}" if reason and "SIG" not in failure.error else "")
    if failure.blocked:
        parts.append(f"; {count_text(failure.blocked, 'task')} never ran for it")
    if first["files"]:
        parts.append(f"; last files: {', '.join(first['files'])}")
    return "".join(parts)


def _ended_by_pipe(failure: Failure) -> bool:
    return exit_codes.is_pipe_end(exit_codes.code_in(failure.error))


def _rest(found: Analyses, failure: Failure) -> str:
    """The title of what failed in several ways: how many ended how, and a task of each of the largest groups."""
    number = failure.tasks["status"].map(WORDS).value_counts(sort=False)
    kinds = ", ".join(f"{n:,} {words}" for words, n in number.items())
    groups = failure.tasks.drop_duplicates(["workflow", "stage", "status", "kind"])
    first = [found.called(row) for _, row in groups.head(EVIDENCE).iterrows()] + ["..."] * (len(groups) > EVIDENCE)
    never = f"; {count_text(failure.blocked, 'task')} never ran for them" if failure.blocked else ""
    tasks = count_text(len(failure.tasks), "more task")
    return f"{tasks} ended in {failure.ways} other ways ({kinds}): {', '.join(first)}{never}"


def _evidence(found: Analyses, tasks: pd.DataFrame) -> list[Row]:
    return [
        {
            "task": found.called(row),
            "status": WORDS[str(row["status"])],
            "tries": int(row["tries"]),
            "lost_ns": int(row["lost_ns"]),
            "error": str(row["error"])[:400],
            "last files": ", ".join(row["files"]),
        }
        for _, row in tasks.head(EVIDENCE).iterrows()
    ]


RULE = Rule(
    kind="failed tasks",
    about=FAILURE,
    title="Tasks that failed, were killed, timed out or were canceled",
    definition=(
        "The workflow manager declared that a task ended without a result. Tasks of a stage that ended in the same way,"
        " with errors that differ only in numbers, are one finding; with it are counted the tasks that never ran"
        " because they depend on one of them, directly or over others. Beyond the three largest ones the others are one"
        " finding together. The last files are those that the task read or wrote last."
    ),
    advice="Look at the task's last calls, mend the cause, and run it again with the tasks that depend on it.",
    source="The workflow manager's own word (docs/declared-dag.md), and the trace",
    query="tailrace query {run} --task {task} --columns ts,dur,name,path,size,errno --sort ts --limit 20",
    find=find,
)
