"""What `tailrace query` answers, in Python: `Run.query` and `Run.explain`.

Conditions and keys are the texts that the command takes; values by column are those of `Run.events`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.analyzer.store import figures, group_keys, query
from tailrace.analyzer.store.conditions import AllOf
from tailrace.analyzer.store.loader import CountedSource
from tailrace.analyzer.store.partitions import Block
from tailrace.analyzer.store.typed_conditions import conditions_of, times_of
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.analyzer.util.html import lines
from tailrace.analyzer.util.lazy import lazy
from tailrace.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")


class AskedRun(CountedSource, Protocol):
    """What of `Run` is asked."""

    def blocks(self, **where: Any) -> list[Block]:
        """The blocks that can hold a matching event; see `Run.blocks`."""


@dataclass(frozen=True)
class Reading:
    """What an answer reads of the trace. blocks and bytes: what would be read, of all; headers: the answer is in the
    headers alone; files: trace file -> blocks, events, bytes that would be read."""

    blocks: int
    of_blocks: int
    bytes: int
    of_bytes: int
    headers: bool
    files: dict[str, tuple[int, int, int]]

    def sentence(self) -> str:
        """The answer in words."""
        if self.headers:
            return f"No block is read: the headers of {count_text(self.blocks, 'block')} have the answer."
        others = "; the headers of the others rule them out" if self.blocks < self.of_blocks else ""
        return (
            f"{self.blocks:,} of {count_text(self.of_blocks, 'block')} would be read, {bytes_text(self.bytes)} of"
            f" {bytes_text(self.of_bytes)}{others}."
        )

    def __repr__(self) -> str:
        return lines(self.sentence())


def names_of(names: str | Sequence[str]) -> list[str]:
    """Names from a list, or from one text with commas between them."""
    return [name for name in (names.split(",") if isinstance(names, str) else names) if name]


def asked_where(
    run: CountedSource, where: str | Sequence[str], since: float | None, until: float | None, values: dict[str, Any]
) -> dict[str, Any]:
    """The predicates of `Run.events` for conditions as texts, times in s of the run, and values by column."""
    typed = conditions_of([where] if isinstance(where, str) else where, {})
    both = {name: AllOf((typed[name], values[name])) for name in typed if name in values}
    for name in both:
        inner = typed[name].conditions if isinstance(typed[name], AllOf) else (typed[name],)
        both[name] = AllOf((*inner, values[name]))
    return {**typed, **values, **both, **times_of(run.t0_ns, since, until)}


def answer(
    run: AskedRun,
    by: str | Sequence[str],
    aggs: str | Sequence[str] | None,
    columns: str | Sequence[str] | None,
    sort: str | None,
    limit: int | None,
    where: dict[str, Any],
) -> pd.DataFrame:
    """Totals of the matching events, or the events themselves where `columns` are given; see `Run.query`."""
    if columns is not None:
        if by or aggs:
            raise UsageError("columns ask for events, by and aggs for totals: give one or the other")
        names = [key.label for key in (group_keys.parse(name, None) for name in names_of(columns))]
        return pd.concat(list(query.rows(run, names, sort, limit, **where)), ignore_index=True)
    wanted = [figures.parse(text) for text in names_of(aggs or "count")]
    table = query.ordered(query.aggregate(run, names_of(by), wanted, **where), sort)
    return table if limit is None else table.head(limit)


def reading(
    run: AskedRun, by: str | Sequence[str], aggs: str | Sequence[str] | None, totals: bool, where: dict[str, Any]
) -> Reading:
    """What `answer` reads; totals: False where it is the events."""
    every, found = run.blocks(), run.blocks(**where)
    wanted = list(dict.fromkeys(map(figures.parse, names_of(aggs or "count"))))
    headers = totals and query.counted(run, names_of(by), wanted, **where) is not None
    files: dict[str, tuple[int, int, int]] = {}
    for file, _, member_bytes, _, events in found:
        blocks, of_events, size = files.get(file, (0, 0, 0))
        files[file] = (blocks + 1, of_events + events, size + member_bytes)
    sizes = [sum(block[2] for block in blocks) for blocks in (found, every)]
    return Reading(len(found), len(every), sizes[0], sizes[1], headers, files)
