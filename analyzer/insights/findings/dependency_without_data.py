"""A declared dependency over which no data passed."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import TIME, Match, Rule, more, rows_of
from tailrace.analyzer.util.formatting import time_text


def find(found: Analyses) -> Iterator[Match]:
    """All dependencies without data, as one match."""
    rows = found.declared.empty
    if len(rows) == 0:
        return
    # With enough processors, and with the workers that the run may have had.
    estimate = whatif.estimate(found.inputs, drop=[whatif.WITHOUT_DATA])
    saved = max(min(found.declared.together_ns, found.inputs.makespan_ns - estimate.low_ns), 0)
    top = rows.iloc[0]
    producer, consumer = found.ends(top.to_dict())
    them = "it" if len(rows) == 1 else "them"
    gain = f"; without {them} the run could be up to {time_text(saved)} shorter" if saved else ""
    yield Match(
        title=f"{consumer} waited for {producer}, but read nothing that it wrote{more(len(rows))}{gain}",
        cost_ns=saved,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "via", "path", "saved_ns"]]),
        tasks=found.tagged(rows, "producer", "consumer"),
    )


RULE = Rule(
    kind="dependency without data",
    about=TIME,
    title="A declared dependency on a file over which no data passed",
    definition=(
        "A task was declared to need a file of another task, ran without failing, and read nothing that the other"
        " wrote. The cost is by how much the longest chain of declared tasks would be shorter without all such"
        " dependencies, gaps between tasks left out, and no more than `tailrace whatif` estimates at most, with the"
        " workers that had tasks at a time, or one for each processor: an upper bound."
    ),
    advice="Remove the dependency, unless it stands for an effect that no file shows.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md); Kelley and Walker 1959",
    query="tailrace whatif {run} --drop 'declared edges without data'",
    find=find,
    change="no dependency without data",
    absence=True,
)
