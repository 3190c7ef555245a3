"""A file from before the run that a task read, and nobody declared."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from posixpath import basename, dirname, splitext

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, ORDER, Match, Rule, more, rows_of
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util.formatting import bytes_text


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows = _read(found)
    if not len(rows):
        return
    named = rows.assign(task=[found.inputs.called(int(task)) for task in rows["task"]])
    top = named.iloc[0]
    yield Match(
        title=f"{top['task']} read {bytes_text(int(top['bytes']))} of {top['path']}, which is from before the run and"
        f" declared by no task{more(named['path'].nunique())}",
        names={"path": str(top["path"])},
        cost_bytes=int(rows["bytes"].sum()),
        count=int(named["path"].nunique()),
        evidence=rows_of(named[["task", "path", "bytes"]]),
        tasks=set(rows["task"].tolist()),
    )


def _read(found: Analyses) -> pd.DataFrame:
    """task, path, bytes: what tasks with declared inputs read of such files, the most bytes first."""
    inputs, m = found.inputs, found.inputs.m
    declared = inputs.tables.get("declared_files")
    none: pd.DataFrame = pd.DataFrame(columns=["task", "path", "bytes"])
    if declared is None or not len(declared) or "path" not in declared:
        return none
    known = frozenset(str(path) for path in declared["path"].dropna())
    takes = declared[declared["direction"] == "r"]
    owners = set(outcomes.task_keys(takes.assign(workflow=takes["workflow"].fillna(""))))
    files = found.lifetime.files
    external = files[(files["writers"] == 0) & (files["read_bytes"] >= FLOOR_BYTES)]
    near = _places(known)
    mine = [file for file, path in external["path"].items() if _unknown(str(path), known, near)]
    pick = m.bursts["file"].isin(mine).to_numpy() & (m.bursts["dir"] == edge_table.READ).to_numpy()
    pick &= m.classed(("data",))
    rows = pd.DataFrame(
        {
            "task": inputs.of_who[m.bursts["who"].to_numpy()[pick]],
            "path": m.paths[m.bursts["file"].to_numpy()[pick]],
            "bytes": m.bursts["bytes"].to_numpy()[pick],
        }
    )
    names = outcomes.task_keys(inputs.tasks)
    rows = rows[np.array([names[task] in owners for task in rows["task"].tolist()], dtype=np.bool_)]
    sums = rows.groupby(["task", "path"], as_index=False, sort=False)["bytes"].sum()
    result: pd.DataFrame = sums[sums["bytes"] > 0].sort_values(
        "bytes", ascending=False, kind="stable", ignore_index=True
    )
    return result


def _places(known: Collection[str]) -> tuple[str, ...]:
    """The directory that all declared files are in, with a slash: where the workflow keeps its data."""
    parts = [dirname(path).split("/") for path in known if path.startswith("/")]
    common: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ("/".join(common) + "/",) if len(common) > 1 else ()


def _unknown(path: str, known: frozenset[str], near: tuple[str, ...]) -> bool:
    """Whether a file lies among the declared ones and is neither one, nor in a declared directory, nor hidden, nor
    named after one (an index: ref.fa.fai, ref.dict of ref.fa)."""
    if path in known or not path.startswith(near) or not near or re.search(r"/\.", path):
        return False
    if any(path[: at.start()] in known for at in re.finditer(r"[/.-]", path)):
        return False
    stem = splitext(path)[0]
    return basename(path) != "" and not any(splitext(one)[0] == stem for one in known)


RULE = Rule(
    kind="undeclared input",
    about=ORDER,
    title="A file from before the run that a task read, and nobody declared",
    definition=(
        f"A task that declares inputs read {FLOOR} or more of a data file that nobody wrote in the run and no task"
        " declares, in the directory below which all declared files are. It is of an earlier run or made by hand: when"
        " it changes, nothing is made anew, and when it is stale, nobody sees it. Hidden files, and those that are"
        " named after a declared one (an index), are left out."
    ),
    advice="Declare it as an input of the task, or make it in the workflow; check that it is the version you mean.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md)",
    query="tailrace file {run} {path}",
    find=find,
)
