"""Reads of code that no recorded call shows: the kernel maps a program, an interpreter loads a source's compiled cache.

    bursts + programs of the actors --with_code()--> bursts, with an empty read for each such use

A task that executes `./prog` uses what its producer built as one that reads data does: so the use is a burst like any
other, of no bytes and no calls, and versions, flows and declared inputs follow from it. Only files that were written in
the run or declared have such bursts: of all others nobody asks who ran them.

What the dynamic linker loads is in no trace (`file_classes.SHARED_OBJECT`): whether a task used it is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import BURST_ORDER, BURST_SUMS, READ, WRITE, EdgeTable
from tailrace.analyzer.edges.file_classes import COMPILED, Program
from tailrace.analyzer.store import processes

_Use = tuple[int, str, int, int]
"""(actor, path, first_ns, last_ns)."""


def with_code(
    table: EdgeTable, bursts: pd.DataFrame, programs: Sequence[Program], declared: Collection[str]
) -> pd.DataFrame:
    """The bursts, and an empty read for each (actor, file) that the actor ran and did not read by calls.

    Args:
        bursts: of `versions.with_created`.
        programs: the program of each actor (`file_classes.programs`).
        declared: paths that a workflow manager declared.
    """
    wrote = np.zeros(len(table.files), dtype=np.bool_)
    wrote[bursts["file"].to_numpy()[(bursts["dir"] == WRITE).to_numpy()]] = True
    aliases = table.aliases
    wanted = aliases[wrote[aliases["file"].to_numpy()] | aliases["path"].isin(list(declared)).to_numpy()]
    names = {
        str(path): list(zip(rows["first_ns"].tolist(), rows["file"].tolist(), strict=True))
        for path, rows in wanted.sort_values("first_ns", kind="stable").groupby("path")
    }
    if not names:
        return bursts
    reads = bursts[(bursts["dir"] == READ).to_numpy()]
    known = set(zip(reads["who"].tolist(), reads["file"].tolist(), strict=True))
    rows: list[tuple[int, int, int, int]] = []
    for who, path, first_ns, last_ns in (*_executed(table, programs), *_compiled(table, reads)):
        of_path = names.get(path, ())
        file = next((code for since, code in reversed(of_path) if since <= first_ns), of_path[0][1] if of_path else -1)
        if file >= 0 and (who, file) not in known:
            known.add((who, file))
            rows.append((who, file, first_ns, last_ns))
    if not rows:
        return bursts
    more = pd.DataFrame(rows, columns=["who", "file", "first_ns", "last_ns"]).assign(
        dir=READ, fresh=False, cut=False, hides=False, exact=True, **dict.fromkeys(BURST_SUMS, 0), **BURST_ORDER
    )
    return pd.concat([bursts, more], ignore_index=True)[list(bursts.columns)]


def _executed(table: EdgeTable, programs: Sequence[Program]) -> Iterator[_Use]:
    """Programs and scripts, by the actor that each process was first: the one that it executed them as."""
    seen = table.counts.groupby("who")["first_ns"].min()
    began = seen.reindex(range(len(table.who)), fill_value=np.iinfo(np.int64).max).to_numpy(dtype=np.int64)
    process = processes.numbers(table.who)
    order = np.lexsort((began, process))
    firsts = order[np.unique(process[order], return_index=True)[1]]
    for who in firsts.tolist():
        for path in {programs[who].exe, programs[who].script} - {""}:
            yield who, path, int(began[who]), int(began[who])


def _compiled(table: EdgeTable, reads: pd.DataFrame) -> Iterator[_Use]:
    """Python's sources whose caches were read: an interpreter with a valid one does not open the source."""
    caches = table.aliases[table.aliases["path"].str.contains(".py", regex=False).to_numpy(dtype=np.bool_)]
    read = reads[["who", "file", "first_ns", "last_ns"]].merge(caches[["file", "path"]], on="file")
    for who, path, first_ns, last_ns in zip(
        *(read[name].tolist() for name in ("who", "path", "first_ns", "last_ns")), strict=True
    ):
        if match := COMPILED.match(str(path)):
            yield int(who), f"{match[1]}{match[2]}.py", int(first_ns), int(last_ns)
