"""Why a process could make no journal, in words, from the `no_journal` fact of its start event
(docs/trace-format.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tailrace import _native


def reason(facts: Mapping[str, object]) -> str:
    """The reason by the facts of a start event; "" for a process with a journal."""
    fact = facts.get("no_journal")
    return _native.journal_reason(json.dumps(fact)) if isinstance(fact, dict) else ""
