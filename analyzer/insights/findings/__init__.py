"""The rules that make findings, a file for each family.

    Analyses -> ranked() -> [Finding], by what they are about (`RANK`), then by cost

A file begins with what its rules share; each rule is a function and, below it, its `finding.Rule`; `RULES` ends the
file. To add a finding, add it there, its case in tests/support/finding_cases.py and its number in
tests/unit/test_findings.py, and run tools/findings_docs.py.

No rules, though Drishti has them: shares of reads, writes and consecutive calls, which are no fault (`tailrace access`
shows them); that MPI-IO is not used, since most workflows have no MPI; nonblocking calls and the settings of
aggregators, which no trace has.
"""

from __future__ import annotations

from math import inf
from operator import itemgetter

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import ADVISED, FAILURE, GAPS, IO, RANK, SPACE, TIME, Finding, Match, Rule
from tailrace.analyzer.insights.finding_list import Findings
from tailrace.analyzer.insights.findings import calls, failures, files, order, quality, races, tasks, waits

FAMILIES = (failures, races, order, waits, tasks, calls, files, quality)
RULES: tuple[Rule, ...] = tuple(
    sorted(
        (rule for family in FAMILIES for rule in family.RULES),
        key=lambda rule: (list(RANK).index(rule.about), rule.kind),
    )
)
"""Every rule, by what it is about and by kind."""


COVERED = 0.5
"""Of the time that a general rule tells of, from which on the rules that say why tell enough of it."""


def ranked(found: Analyses) -> Findings:
    """The findings of a run: failures, races, what was in order in this run alone, time and bytes by cost, notes, data
    quality; then the small ones of all (`ADVISED`).

    Among those about the same, faults come first, then what is drawn from tasks that were wholly seen, and what
    says where time went, but not why, last. Bytes count as the time that the run's own reads and writes took for so
    many, failures by the tasks that have no result; of one kind they are in the order of their rule, since the last
    one may be the sum of many small ones.
    """
    keyed: list[tuple[tuple[bool, int, bool, bool, bool, float, str, int], Finding]] = []
    most: dict[str, float] = {}
    for place, (rule, match) in enumerate(_told(found)):
        cost = found.cost(match)
        small = rule.about in (TIME, SPACE) and not match.fault
        small = small and not ADVISED.reached(round(cost), found.inputs.makespan_ns)
        f = rule.finding(found, match, small)
        if f.about == FAILURE:
            cost = most[f.kind] = min(most.get(f.kind, inf), f.count)
        general = f.kind in (IO, GAPS)
        key = (small, RANK[f.about], not match.fault, general, bool(f.doubts), -cost, f.kind, place)
        keyed.append((key, f))
    return Findings(f for _, f in sorted(keyed, key=itemgetter(0)))


def _told(found: Analyses) -> list[tuple[Rule, Match]]:
    """All matches, without those of whose time others say why it went there: a fault in one of the same tasks, or rules
    whose costs in these are most of it."""
    rows = [(rule, match) for rule in RULES for match in rule.matches(found)]

    def explained(rule: Rule, match: Match) -> bool:
        mine = set(match.tasks)
        why = [other for one, other in rows if rule.kind in one.explains and not mine.isdisjoint(other.tasks)]
        fault = rule.kind in (IO, GAPS) and any(one.fault for one in why)
        return fault or (len(why) > 0 and sum(map(found.cost, why)) >= COVERED * match.cost_ns)

    return [(rule, match) for rule, match in rows if not explained(rule, match)]
