"""What a run's dataflow says about the run: the analyses, and the findings made from them.

    insights(run).findings()        conclusions, in order of their cost (findings/)
    insights(run).verdict           what bounds the run, and what could be gained (verdict.py)
    insights(run).critical          the critical path through data (critical.py)
    insights(run).declared          declared against observed (declared_savings.py)
    insights(run).failures          tasks that failed, by how (failures.py)
    insights(run).accesses("stage") what the I/O is like: sizes, order, metadata, balance (access_patterns.py)
    insights(run).conflicts         unordered accesses of the same bytes (conflicts.py)
    insights(run).lifetime          lifetime, reuse, copies, footprint (lifetime.py)
    insights(run).streams, .apart, .fans, .caterpillar      producers and consumers (pairs.py)
    whatif.estimate(inputs, ...)    the makespan on other resources (whatif.py, replay.py)
    run_comparison.compare(groups)  runs against runs (run_comparison.py)

Each is a pure function of the inputs (inputs.py): the edge table with versions, the tasks, the declared DAG.
"""

from __future__ import annotations

import weakref
from functools import cached_property

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import call_places, verdict
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import Finding
from tailrace.analyzer.insights.finding_list import Findings
from tailrace.analyzer.insights.findings import ranked
from tailrace.analyzer.insights.inputs import Inputs, inputs_of
from tailrace.analyzer.model import dataflow, outcomes
from tailrace.analyzer.model.declared_vs_observed import compare_declared
from tailrace.analyzer.util.html import lines

__all__ = ["Finding", "Inputs", "Insights", "insights"]


class Insights(Analyses):
    """The analyses of a run and the findings made from them."""

    def __repr__(self) -> str:
        names = ", ".join(f".{name}" for name in analyses_of(type(self)))
        tasks = f"{len(self.inputs.tasks):,} tasks and processes"
        return lines(f"insights of {self.directory}: .findings(), and the analyses of {tasks}: {names}")

    def _repr_html_(self) -> str:
        return self.findings()._repr_html_()

    def findings(self) -> Findings:
        """All findings, in order of their cost: a list."""
        return Findings(self._ranked)

    @cached_property
    def verdict(self) -> verdict.Verdict:
        """What bounds the run, and the best single change (verdict.py)."""
        return verdict.verdict(self, self.findings())

    @cached_property
    def _ranked(self) -> Findings:
        return ranked(self)


def analyses_of(kind: type[Analyses]) -> list[str]:
    """The names of its analyses."""
    public = {name: value for name, value in vars(Analyses).items() if not name.startswith("_")} | vars(kind)
    return sorted(n for n, value in public.items() if isinstance(value, cached_property) and not n.startswith("_"))


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
        table = compare_declared(run, m) if declared is None else declared
        made = inputs_of(
            m,
            table,
            run,
            declared_workflows=run.declared_workflows,
            declared_tasks=run.declared_tasks,
            declared_tries=run.declared_tries,
            declared_waits=run.declared_waits,
            declared_files=run.declared_files,
            declared_deps=run.declared_deps,
            outcomes=outcomes.table(run),
            command_ends=run.command_ends,
            ranks=run.process_ranks,
            **{call_places.TABLE: call_places.table(run)},
        )
        _found[run] = Insights(made, str(run.path))
    return _found[run]
