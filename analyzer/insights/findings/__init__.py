"""The rules that make findings: one file each, this folder is the table.

    Analyses -> ranked() -> [Finding], by what they are about (`RANK`), then by cost

A file declares `RULE`, a `finding.Rule`; names that begin with `_` are what several rules share. To add a finding, add
its file, its case in tests/support/finding_cases.py and its number in tests/unit/test_findings.py, and run
tools/findings_docs.py.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from math import inf
from operator import itemgetter

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FAILURE, RANK, Finding, Rule
from tailrace.analyzer.insights.finding_list import Findings
from tailrace.analyzer.model import stages


def _rules() -> tuple[Rule, ...]:
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found = [import_module(f"{__name__}.{name}").RULE for name in names]
    return tuple(sorted(found, key=lambda rule: (list(RANK).index(rule.about), rule.kind)))


RULES = _rules()
"""Every rule, by what it is about and by kind."""


def ranked(found: Analyses) -> Findings:
    """The findings of a run: failures, races, what was in order in this run alone, time and bytes by cost, notes, data
    quality.

    Among those about the same, what is drawn from tasks that were wholly seen comes before the rest. Bytes count as
    the time that the run's own I/O took for so many, failures by the tasks that have no result; of one kind they are in
    the order of their rule, since the last one may be the sum of many small ones.
    """
    rate = stages.io_ns(found.inputs.m) / found.moved_bytes if found.moved_bytes else 0.0
    keyed: list[tuple[tuple[int, bool, float, str, int], Finding]] = []
    for rule in RULES:
        most = inf
        for place, f in enumerate(rule.findings(found)):
            most = min(most, f.count)
            cost = most if f.about == FAILURE else f.cost_ns + f.cost_bytes * rate
            keyed.append(((RANK[f.about], bool(f.doubts), -cost, f.kind, place), f))
    return Findings(f for _, f in sorted(keyed, key=itemgetter(0)))
