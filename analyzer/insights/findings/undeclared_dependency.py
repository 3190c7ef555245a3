"""An undeclared dependency."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import RACE, Match, Rule, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text


def find(found: Analyses) -> Iterator[Match]:
    """All undeclared dependencies that no declared path orders, as one match."""
    rows = found.declared.undeclared
    rows = rows[~rows["ordered"].astype(bool)] if len(rows) else rows
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    producer, consumer = found.ends(top.to_dict())
    yield Match(
        title=f"{consumer} read {bytes_text(int(top['bytes']))} that {producer} wrote, but no dependency is declared"
        f" and nothing orders them{more(len(rows))}",
        names={"producer": str(top["producer"]), "consumer": str(top["consumer"])},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "bytes", "files"]]),
    )


RULE = Rule(
    kind="undeclared dependency",
    about=RACE,
    title="Data passed between tasks that no declared dependency orders",
    definition=(
        "A task read what another task wrote, and no declared dependency, direct or over other tasks, puts the"
        " writer first. In this run the order was right. Tasks of a run that declares nothing are not reported."
    ),
    advice="Declare the dependency: with another schedule the consumer starts before its data exists.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md)",
    query="tailrace query {run} --task {producer} --task {consumer} --by task,path,dir",
    find=find,
)
