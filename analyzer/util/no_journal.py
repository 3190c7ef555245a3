"""Why a process could make no journal, in words, from the `no_journal` fact of its start event
(docs/trace-format.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath

from tailrace.analyzer.util.formatting import clean

NO_JOURNAL = "no journal"
"""What `reason` begins with."""
_ERRNOS = range(1, 4096)


def reason(facts: Mapping[str, object]) -> str:
    """The reason by the facts of a start event; "" for a process with a journal."""
    fact = facts.get("no_journal")
    if not isinstance(fact, dict):
        return ""
    directory, number = fact.get("dir"), fact.get("errno")
    # Below the place are the user's directory and the run's.
    place = PurePosixPath(clean(directory)).parent.parent if isinstance(directory, str) else "its directory"
    why = os.strerror(number) if isinstance(number, int) and number in _ERRNOS else "unknown error"
    return f"{NO_JOURNAL}: {place}: {why}"
