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

import weakref

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights.findings import Finding, Insights
from tailrace.analyzer.insights.inputs import Inputs, inputs_of
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model import declared_vs_observed as compare

__all__ = ["Finding", "Inputs", "Insights", "insights"]


_found: weakref.WeakKeyDictionary[AnalyzedRun, Insights] = weakref.WeakKeyDictionary()


def insights(
    run: AnalyzedRun | dataflow.Model, model: dataflow.Model | None = None, declared: pd.DataFrame | None = None
) -> Insights:
    """The analyses of a run, remembered as long as the run lives; or of a `Model` alone, made anew each time.

    Args:
        model: the run's model, where it is there already.
        declared: `declared_vs_observed.compare_declared` of the run, where it is there already.
    """
    if isinstance(run, dataflow.Model):
        return Insights(inputs_of(run, declared), "RUN")
    m = model or dataflow.model(run)
    if run not in _found or _found[run].inputs.m is not m:
        table = compare.compare_declared(run, m) if declared is None else declared
        made = inputs_of(m, table, declared_tasks=run.declared_tasks, declared_files=run.declared_files)
        _found[run] = Insights(made, str(run.path))
    return _found[run]
