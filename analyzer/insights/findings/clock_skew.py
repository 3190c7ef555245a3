"""Hosts whose clocks contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import QUALITY, Match, Rule
from tailrace.analyzer.util.formatting import count_text, time_text


def find(found: Analyses) -> Iterator[Match]:
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


RULE = Rule(
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
    find=find,
)
