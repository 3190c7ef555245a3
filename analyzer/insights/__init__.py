"""What a run's dataflow says about the run: the analyses, and the findings made of them.

    insights(run).findings()        what is worth a look, in order of what it costs (findings.py)
    insights(run).critical          the critical path through data (critical.py)
    insights(run).declared          declared against observed (declared.py)
    insights(run).conflicts         unordered accesses of the same bytes (conflicts.py)
    insights(run).lifetime          lifetime, reuse, copies, footprint (lifetime.py)
    insights(run).streams, .apart, .fans, .caterpillar      producers and consumers (pairs.py)
    whatif.tier(scene, ...), whatif.together(scene, ...)    estimates (whatif.py)
    runs.compare(groups)            runs against runs (runs.py)

Each is a pure function over the scene (scene.py): the edge table with versions, the tasks, the declared DAG.
"""

from __future__ import annotations

from typing import Any

from tailrace.analyzer.insights.findings import Finding, Insights
from tailrace.analyzer.insights.inputs import Inputs, inputs_of
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model import declared_vs_observed as compare

__all__ = ["Finding", "Inputs", "Insights", "insights"]


def insights(run: Any, model: dataflow.Model | None = None, declared: Any = None) -> Insights:
    """The analyses of a run (or of a `Model` without one); remembered as long as the model lives.

    Args:
        declared: `compare.compare_declared` of the run, where it is there already.
    """
    m = model or (run if isinstance(run, dataflow.Model) else dataflow.model(run))
    if m.insights is None:
        table = compare.compare_declared(run, m) if declared is None else declared
        tables = {name: getattr(run, name, None) for name in ("declared_tasks", "declared_files")}
        made = inputs_of(m, table, **tables)
        m.remember(Insights(made, str(getattr(run, "path", "") or "RUN")))
    found: Insights = m.insights
    return found
