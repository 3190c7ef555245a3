"""Findings about the trace: what it could not tell for certain."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import QUALITY, Match, Rule
from tailrace.analyzer.util.formatting import count_text, time_text


def clock_skew(found: Analyses) -> Iterator[Match]:
    """All corrected clocks, as one match."""
    ahead = found.inputs.m.ahead
    if not ahead:
        return
    host, ns = max(ahead.items(), key=lambda item: abs(item[1]))
    yield Match(
        title=f"The clock of {host} is {time_text(abs(ns))} {'ahead' if ns > 0 else 'behind'}: files were read before"
        f" they were written. Times of {count_text(len(ahead), 'host')} are corrected",
        count=len(ahead),
        evidence=[{"host": name, "ahead_ns": offset} for name, offset in ahead.items()],
    )


CLOCK_SKEW = Rule(
    kind="clock skew",
    about=QUALITY,
    title="Hosts whose clocks contradict each other",
    definition=(
        "Bytes were read on one host before another host wrote them, by the hosts' clocks. The least correction"
        " under which every file is written before it is read is taken off the times of the run."
    ),
    advice="Synchronize the clocks of the hosts (chronyd, ntpd) before the next run.",
    source="Lamport 1978, clock condition: a message is received after it was sent; analyzer/edges/clocks.py",
    query="tailrace host {run}",
    find=clock_skew,
)


def unchecked_accesses(found: Analyses) -> Iterator[Match]:
    """All such pairs, as one match."""
    count = found.conflicts.unknown + found.conflicts.unchecked
    if count:
        yield Match(
            title=f"{count_text(count, 'pair')} of accesses could not be checked for conflicts: bytes or times"
            " not exactly known, or too many pairs",
            count=count,
        )


UNCHECKED_ACCESSES = Rule(
    kind="unchecked accesses",
    about=QUALITY,
    title="Accesses that could not be checked for conflicts",
    definition=(
        "Two tasks accessed one file, one of them writing, and which bytes or when is not exactly known (offsets that"
        " are not, mapped files, lines of totals), or they share memory in which they may have locks, or the run has"
        " more such accesses than are read again and compared (`MAX_PAIRS`, `MAX_WALKED` and `MAX_EVENTS` in"
        " analyzer/insights/conflicts.py)."
    ),
    advice="Make sure that a dependency orders these tasks, or that they use separate files.",
    source="The limits of the conflict analysis",
    query="(c := tailrace.open({run}).insights().conflicts).unknown + c.unchecked",
    find=unchecked_accesses,
)


def unordered_handovers(found: Analyses) -> Iterator[Match]:
    """All hand-overs that the critical path leaves out, as one match."""
    count = found.inputs.unresolved + found.critical.dropped
    if count:
        are = "is" if count == 1 else "are"
        yield Match(
            title=f"{count_text(count, 'hand-over')} with contradictory times {are} left out of the critical path",
            count=count,
        )


UNORDERED_HANDOVERS = Rule(
    kind="unordered hand-overs",
    about=QUALITY,
    title="Hand-overs whose times contradict each other",
    definition=(
        "By the clocks, a task took something before another task gave it, or tasks gave to each other in a circle"
        " at one moment. Such hand-overs are left out of the critical path."
    ),
    advice="Check the clocks of the hosts, and files that several tasks write at the same time.",
    source="A cause precedes its effect (Lamport 1978)",
    query="(i := tailrace.open({run}).insights()).inputs.unresolved + i.critical.dropped",
    find=unordered_handovers,
)


RULES = (
    CLOCK_SKEW,
    UNCHECKED_ACCESSES,
    UNORDERED_HANDOVERS,
)
