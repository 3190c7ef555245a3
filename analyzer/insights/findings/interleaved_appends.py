"""Tasks that append to one file at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import NOTE, Match, Rule, more


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows, called = found.conflicts.appended, found.inputs.called
    if len(rows) == 0:
        return
    files = rows.drop_duplicates("file")
    top = rows.iloc[0]
    first, second, path = called(int(top["first"])), called(int(top["second"])), str(top["path"])
    yield Match(
        title=f"{first} and {second} appended to {path} at the same time: no byte is lost, but lines of the two may"
        f" stand between each other{more(len(files))}",
        names={"path": path},
        count=len(files),
        evidence=[{"path": str(row["path"]), "first": called(int(row["first"]))} for row in files.to_dict("records")],
        tasks={*rows["first"].tolist(), *rows["second"].tolist()},
    )


RULE = Rule(
    kind="interleaved appends",
    about=NOTE,
    title="Tasks that append to one file at the same time",
    definition=(
        "Two tasks that nothing orders wrote to a file that both had opened to append (O_APPEND), during the same time,"
        " and not each under a lock. The kernel gives each write bytes of its own behind the end of the file, so"
        " nothing is overwritten. In which order the parts stand depends on the schedule, and a line that is written in"
        " several calls may be torn apart."
    ),
    advice=(
        "It is as it should be for a log whose lines tell who wrote them, each in one call; else let each task write a"
        " file of its own."
    ),
    source="POSIX.1-2017, write(): O_APPEND",
    query="tailrace query {run} --path {path} --where dir=w --by task --agg count --agg sum:size",
    find=find,
)
