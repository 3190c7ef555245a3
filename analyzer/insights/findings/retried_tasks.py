"""Tasks that succeeded, but not at their first try."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.failures import first_line
from tailrace.analyzer.insights.finding import EVIDENCE, GAPS, TIME, Match, Rule
from tailrace.analyzer.model.outcomes import RETRIED
from tailrace.analyzer.util.formatting import count_text, time_text


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    rows = found.outcomes[found.outcomes["status"] == RETRIED]
    if len(rows) == 0:
        return
    rows = rows.sort_values("lost_ns", ascending=False, kind="stable")
    first, lost = rows.iloc[0], int(rows["lost_ns"].sum())
    why = first_line(str(first["error"]))
    who = f"{count_text(len(rows), 'task')} needed more than one try, most of all {found.called(first)}"
    who = who if len(rows) > 1 else f"{found.called(first)} needed {first['tries']} tries"
    took = f"; the failed tries ended {time_text(lost)} after their launch" if lost else ""
    yield Match(
        title=f"{who}{f': {why}' if why else ''}{took}",
        cost_ns=lost,
        estimate=True,
        fault=True,
        names={"task": str(first["task"])},
        count=len(rows),
        evidence=[
            {
                "task": found.called(row),
                "tries": int(row["tries"]),
                "lost_ns": int(row["lost_ns"]),
                "error": str(row["error"])[:400],
            }
            for _, row in rows.head(EVIDENCE).iterrows()
        ],
    )


RULE = Rule(
    kind="retried tasks",
    about=TIME,
    title="Tasks that succeeded at a later try",
    definition=(
        "The workflow manager started a task again after it had failed, and then it succeeded. The cost is the time of"
        " the failed tries, from launch to end: waiting for a worker included, so it is an upper bound."
    ),
    advice="Mend what made the first try fail: a retry costs its time, and hides a fault that may come again.",
    source="The workflow manager's own word (docs/declared-dag.md)",
    query="tailrace task {run} {task}",
    find=find,
    change="no failed tries",
    explains=(GAPS,),
)
