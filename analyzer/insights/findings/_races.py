"""What the findings about unordered accesses of the same bytes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import Match, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Row

Words = Callable[[str, str, str, str, bool], str]
"""(first task, second task, path, bytes, whether they overlapped in time) -> the sentence."""

SOURCE = "Lamport 1978 (happens-before); POSIX.1-2017, write(), rationale: concurrent writes are not specified"
QUERY = "tailrace query {run} --path {path} --columns ts,dur,name,dir,task,host,pid,offset,size,flags"


def matches(found: Analyses, kind: str, words: Words) -> Iterator[Match]:
    """One match for all conflicts of a kind that overlapped, or could have; it tells of the largest."""
    rows = found.conflicts.rows
    rows = rows[(rows["kind"] == kind) & ~(rows["in_time"] | rows["ranks"]).astype(bool)]

    def title(top: Row) -> str:
        amount = bytes_text(int(top["bytes"]))
        return words(str(top["first"]), str(top["second"]), str(top["path"]), amount, bool(top["overlap"]))

    return of_rows(found, rows, title)


def of_rows(found: Analyses, rows: pd.DataFrame, title: Callable[[Row], str]) -> Iterator[Match]:
    """One match for rows of `Conflicts.rows`. title: of the first one, as `with_names` has it."""
    if len(rows) == 0:
        return
    named = with_names(found, rows)
    top: Row = named.iloc[0].to_dict()
    yield Match(
        title=title(top) + more(len(rows)),
        names={"path": str(top["path"])},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(named),
        tasks={*rows["first"], *rows["second"]},
    )


def with_names(found: Analyses, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `Conflicts.rows` as evidence: tasks by name, times in s of the run."""
    inputs = found.inputs
    named: pd.DataFrame = rows.drop(columns=["file", "first_ns", "second_ns", "in_time", "ranks"])
    for end in ("first", "second"):
        named[end] = [inputs.called(int(task)) for task in rows[end]]
    for end in ("first", "second"):
        named[f"{end}_began_s"] = (rows[f"{end}_ns"] - inputs.start_ns) / 1e9
    return named
