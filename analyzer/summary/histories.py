"""The versions of files that were written more than once: how each began, its writers and its readers."""

from __future__ import annotations

import pandas as pd

from tailrace.analyzer.model import histories as states
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms, plain
from tailrace.analyzer.util.types import Ints


def histories(m: Model, index: Ints, start_ns: int) -> JsonObject:
    """`total` and `shown` (files), and rows by file and state: path, state, how, bytes, read_bytes, start (ms); wrote
    and read: the first of those who did, as {name, stage, ms}; writers and readers: how many they are.

    A file whose last state would be cut is left out.
    """
    table = states.histories(m)
    last = table.reset_index().groupby("path", sort=False)["index"].max()
    shown = table[table["path"].isin(last.index[last < LIMITS["histories"]])]
    who = states.actors(m, shown["version"].to_numpy())
    who = who.assign(stage=index[who["stage"]], ms=[ms(ns - start_ns) for ns in who["first_ns"]])
    of_version = dict(iter(who.groupby("version")))
    rows = []
    for row in shown.to_dict("records"):
        its = of_version[row["version"]]
        wrote, read = its[~its["reads"]], its[its["reads"]]
        rows.append(
            {
                **{name: plain(row[name]) for name in ("path", "state", "how", "bytes", "read_bytes")},
                "start": ms(row["begin_ns"] - start_ns),
                "wrote": _first(wrote),
                "writers": len(wrote),
                "read": _first(read),
                "readers": len(read),
            }
        )
    return {"total": len(last), "shown": int(shown["path"].nunique()), "rows": rows}


def _first(actors: pd.DataFrame) -> list[JsonObject]:
    return [plain(row) for row in actors[["name", "stage", "ms"]].head(LIMITS["actors"]).to_dict("records")]
