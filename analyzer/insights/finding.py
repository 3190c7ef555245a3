"""What a finding is, and what a rule declares: its words, its thresholds and its source.

    Analyses (analyses.py) -> Rule.find -> Match -> Rule.findings -> Finding

A rule is a file of findings/; tools/findings_docs.py makes the documentation's table from the rules.

Invariants: a finding has a title that says what, how much and where, advice, and a query that shows its data.
Texts hold names as the trace has them, unescaped; in a query a name is quoted for the shell, and `*`, `?` and `[` in
it are literal. From which cost on a finding is told, and from which on it is advice, is said here alone (`LEAST`,
`ADVISED`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from glob import escape as literal

import numpy as np
import pandas as pd

from tailrace.analyzer.insights import finding_list
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.util import shell
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text

EVIDENCE = 5
"""Rows of evidence that a finding carries."""
FAILURE, RACE, ORDER, TIME, SPACE, NOTE, QUALITY = "failure", "race", "order", "time", "space", "note", "quality"
"""What a finding is about: there is no result; the result may depend on the schedule; it did not in this run, and may
in another one; time of the makespan; bytes; what is no fault of this run; data quality."""
RANK = {FAILURE: 0, RACE: 1, ORDER: 2, TIME: 3, SPACE: 3, NOTE: 4, QUALITY: 5}
"""Failures come first, then races: they cost the result. Time and bytes are ranked together, by cost."""
ABOUT = {
    FAILURE: "There is no result, or not all of it.",
    RACE: "Nothing orders these accesses: the result may differ from run to run.",
    ORDER: "In this run the accesses could not overlap; only their times order them.",
    TIME: "Time of the run.",
    SPACE: "Bytes that need not be moved or stored.",
    NOTE: "No fault of this run.",
    QUALITY: "What the trace can't tell.",
}
"""What findings about each mean."""
COSTLESS = {FAILURE: "failed", RACE: "race", ORDER: "order", NOTE: "note", QUALITY: "note"}
"""What reports show in place of a cost."""

IO, GAPS = "critical path I/O", "critical path gaps"
"""The rules that say where time went, but not why."""
SEQUENCE = "tasks one after the other"
"""A note, with which a verdict does not say that there is little to gain."""

Value = str | int | float | bool | None
Evidence = dict[str, Value]


@dataclass(frozen=True)
class Match:
    """One case, or several of one kind, that a rule found.

    title: a sentence; names: what to put into the rule's query, a string as one literal name, a list as arguments;
    cost_ns, cost_bytes: 0 where not known; estimate: whether cost_ns is one; least_ns, most_ns: the interval of an
    estimate, without which it is a bound; count: how many cases; evidence: rows of the analysis, those that cost most;
    query: a template in place of the rule's, where that one can't show the case;
    advice, change: in place of the rule's, where that one is of no use;
    tasks: what it is drawn from (positions in `Inputs.tasks`); empty where it is not drawn from what tasks did;
    fault: something is wrong, whatever it costs: never small;
    where: what stands behind the rule's change in the verdict: "in sort"; "" where that says all.
    """

    title: str
    names: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    cost_ns: int = 0
    cost_bytes: int = 0
    estimate: bool = False
    count: int = 1
    evidence: Sequence[Evidence] = ()
    query: str = ""
    advice: str = ""
    change: str = ""
    tasks: Collection[int] = ()
    fault: bool = False
    where: str = ""
    least_ns: int = 0
    most_ns: int = 0


@dataclass(frozen=True)
class Finding:
    """A conclusion about a run. kind: of its rule; about: a key of `RANK`; query: a command, or
    Python after `import tailrace`; doubts: why it may be wrong, which its title says and for which it is ranked below
    those without; small: it costs less than `ADVISED`; least_ns, most_ns: between these is what its change would
    save; most_ns is cost_ns where that is a bound, 0 where nothing is estimated; the others as in `Match` and `Rule`.
    """

    kind: str
    about: str
    title: str
    advice: str
    query: str
    cost_ns: int = 0
    cost_bytes: int = 0
    estimate: bool = False
    count: int = 1
    evidence: Sequence[Evidence] = ()
    doubts: Sequence[str] = ()
    small: bool = False
    change: str = ""
    where: str = ""
    least_ns: int = 0
    most_ns: int = 0

    @property
    def is_bound(self) -> bool:
        """Whether the cost is what its change would save at most."""
        return self.estimate and self.most_ns <= self.cost_ns

    @property
    def words(self) -> tuple[str, str]:
        """The cost in a few letters (~ about, < at most), or what the finding is where it has none; and the title. An
        amount that is in the title is said once: a title that begins with it goes on after it.
        """
        if self.about in COSTLESS:
            return COSTLESS[self.about], self.title
        is_time = self.about == TIME or bool(self.cost_ns)
        if is_time and not self.cost_ns:
            return "time", self.title
        amount = time_text(self.cost_ns) if is_time else bytes_text(self.cost_bytes)
        if self.title.startswith(f"{amount} "):
            return amount, self.title[len(amount) + 1 :]
        if amount in self.title:
            return ("time" if is_time else "bytes"), self.title
        if not self.estimate or not self.cost_ns:
            return amount, self.title
        return ("<" if self.is_bound else "~") + amount, self.title

    def __repr__(self) -> str:
        return finding_list.finding_text(self)

    def _repr_html_(self) -> str:
        return finding_list.finding_html(self)

    def json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class Threshold:
    """An amount in a unit, from which on a rule reports: 1 "% of the makespan", 2 "hosts"."""

    value: float
    unit: str

    def reached(self, part: int, whole: int) -> bool:
        """Whether a part is at least `value` percent of the whole, and more than 0."""
        return part > 0 and part >= self.value / 100 * whole

    def __str__(self) -> str:
        return f"{self.value:g} {self.unit}"


LEAST = Threshold(1, "% of the makespan")
"""For all rules that estimate time: what costs less is no finding."""
ADVISED = Threshold(3, "% of the makespan")
"""What costs less is no advice: reports fold it into one line (`Finding.small`)."""
FLOOR = Threshold(FLOOR_BYTES >> 10, "KiB")
"""No finding about fewer bytes than this, the cost of a match that is about bytes."""


@dataclass(frozen=True)
class Rule:
    """A kind of finding.

    kind: its name; about: as in `Finding`; title: what is found, in one line; definition: one paragraph;
    advice: what to do about it; source: the paper, tool, manual page or reasoning behind it; query: a template of the
    command, or expression of Python, that shows it, with {run} and the keys of `Match.names`; find: the function that
    finds it; thresholds: all of them must be reached.
    change: the advice in a few words, as the verdict has it ("larger calls"); "" where there is no one change.
    explains: the rules that say where the same time went, but less of why: they stand back (findings/__init__.py).
    absence: it says that something did not happen or that nothing orders two tasks, which events that are missing
        could refute. What other rules count is at least so much.
    """

    kind: str
    about: str
    title: str
    definition: str
    advice: str
    source: str
    query: str
    find: Callable[[Analyses], Iterator[Match]]
    thresholds: tuple[Threshold, ...] = ()
    change: str = ""
    explains: tuple[str, ...] = ()
    absence: bool = False

    def matches(self, found: Analyses) -> Iterator[Match]:
        """The matches of this rule in a run that are large enough to be told."""
        for match in self.find(found):
            if not (self.about == SPACE and FLOOR in self.thresholds and match.cost_bytes < FLOOR_BYTES):
                yield match

    def finding(self, found: Analyses, match: Match, small: bool) -> Finding:
        """What is told of a match."""
        doubts = found.doubts(match.tasks, absence=self.absence, by_time=self.about in (RACE, ORDER, TIME))
        return Finding(
            kind=self.kind,
            about=self.about,
            title=f"{match.title} ({'; '.join(doubts)})" if doubts else match.title,
            advice=match.advice or self.advice,
            query=self.query_of(found.directory, match.names, match.query),
            cost_ns=match.cost_ns,
            cost_bytes=match.cost_bytes,
            estimate=match.estimate,
            count=match.count,
            evidence=match.evidence,
            doubts=doubts,
            small=small,
            change=match.change or self.change,
            where=match.where,
            least_ns=match.least_ns,
            most_ns=(match.most_ns or match.cost_ns) if match.estimate else 0,
        )

    def query_of(self, directory: str, names: Mapping[str, str | Sequence[str]], other: str = "") -> str:
        """The query, or another one, with its names filled in."""
        query = other or self.query
        if not query.startswith("tailrace "):
            return query.format(run=repr(directory), **{key: repr(name) for key, name in names.items()})
        is_pattern = query.startswith("tailrace query ")
        words = {
            key: shell.quoted(literal(name) if is_pattern else name) if isinstance(name, str) else shell.join(name)
            for key, name in names.items()
        }
        return query.format(run=shell.directory(directory), **words)


def rows_of(table: pd.DataFrame, limit: int = EVIDENCE) -> list[Evidence]:
    """The first rows of a table, JSON-ready."""
    rows = table.head(limit).to_dict("records")
    return [{str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items()} for row in rows]


def more(count: int) -> str:
    """What follows the sentence about the first of several cases."""
    return "" if count == 1 else f" (and {count_text(count - 1, 'more case')})"
