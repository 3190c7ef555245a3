"""The collective calls of ranks, as `tailrace rank` and `tailrace access --by rank` print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.analyzer.util.formatting import count_text, time_text
from tailrace.cli.lines import put, put_left_out

MOST = 5
"""Functions that are listed for each rank."""


def put_collectives(rows: Sequence[Mapping[str, Any]], indent: int = 0) -> None:
    """Prints what the time of a rank's collective calls was, from the rows of `Collectives.of_rank`."""
    if not rows:
        return
    calls = count_text(sum(row["calls"] for row in rows), "call")
    put(f"collective calls of MPI-IO: {calls}, {_parts(_total(rows))}", indent)
    for row in rows[:MOST]:
        put(f"{row['name']}: {count_text(row['calls'], 'call')}, {_parts(row)}{_arrival(row)}", indent + 2)
    put_left_out(len(rows) - MOST, f"and {count_text(len(rows) - MOST, 'other function')}", indent + 2)


def collective_text(total: Mapping[str, int]) -> str:
    """The sums over all ranks (`Collectives.total`), in words."""
    return f"{count_text(total['calls'], 'call')} of {count_text(total['ranks'], 'rank')} of MPI-IO, {_parts(total)}"


def _total(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {name: sum(row[name] for row in rows) for name in ("time_ns", "io_ns", "waited_ns", "rest_ns")}


def _parts(row: Mapping[str, Any]) -> str:
    return (
        f"{time_text(row['time_ns'])}: {time_text(row['io_ns'])} in system calls on the file,"
        f" {time_text(row['waited_ns'])} before the last rank came, {time_text(row['rest_ns'])} within MPI"
    )


def _arrival(row: Mapping[str, Any]) -> str:
    if row["after_ns"] is None:
        return "; no call has all its ranks in the trace"
    missing = row["calls"] - row["matched"]
    unknown = f"; of {count_text(missing, 'call')} the arrival of all ranks is not known" if missing else ""
    came = f"; came last to {row['last']:,}, {time_text(row['after_ns'])} after the first on average"
    return f"{came if row['last'] else ''}{unknown}"
