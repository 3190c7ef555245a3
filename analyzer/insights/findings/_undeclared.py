"""What the findings about undeclared dependencies share."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.early_reads import EarlyRead
from tailrace.analyzer.insights.finding import Match, more, rows_of
from tailrace.analyzer.insights.findings import _races
from tailrace.analyzer.model.order import NONE, UNTOLD
from tailrace.analyzer.model.partly_declared import PartlyDeclared
from tailrace.analyzer.util.formatting import bytes_text

SOURCE = "The declared DAG compared with the observed one (docs/declared-dag.md)"
QUERY = "tailrace query {run} {task} --where dir=r --by path --agg count --agg sum:size --sort sum_size"


def matches(found: Analyses, order: str, words: str) -> Iterator[Match]:
    """One match for the undeclared dependencies of an order (`order.ORDERS`); it tells of the largest, of early reads
    where there are any.

    Args:
        words: the end of the sentence about the two tasks and the bytes, with {producer} and {consumer}; of `UNTOLD`
            also with {manager} and {declares} (partly_declared.py).
    """
    rows = found.declared.undeclared
    rows = rows[rows["order"] == order] if len(rows) else rows
    if len(rows) == 0:
        return
    early = _early(found, rows) if order == NONE else {}
    first = next(iter(early), 0)
    top = rows.iloc[first]
    producer, consumer = found.ends(top.to_dict())
    names = {"producer": producer, "consumer": consumer}
    if order == UNTOLD:
        partly = PartlyDeclared(found.inputs.tables.get("declared_workflows"), None)
        names["manager"], names["declares"] = partly.words(str(top["workflow"]))
    read = f"{consumer} read {bytes_text(int(top['bytes']))} that {producer} wrote"
    if early:
        read = _races.early_words(found, early[first])
    yield Match(
        title=f"{read}{words.format(**names)}{more(len(rows))}",
        advice=_races.EARLY if early else "",
        names={"task": found.of_tag(str(top["consumer_workflow"]), str(top["consumer"]))},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "bytes", "files"]]),
        tasks=found.tagged(rows, "producer", "consumer"),
    )


def _early(found: Analyses, rows: pd.DataFrame) -> dict[int, EarlyRead]:
    """Position -> the early read of the row's two tasks, if there is one."""
    known = {read[:2]: read for read in reversed(found.early_reads)}
    pairs = _races.pairs_of(found, rows)
    return {at: known[pair] for at, pair in enumerate(pairs) if pair in known}
