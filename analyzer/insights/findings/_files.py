"""What the findings about single files share."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import Match, Threshold, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.analyzer.util.types import Bools

LEAST = Threshold(1, "% of all bytes read and written")
QUERY = "tailrace query {run} --path {path} --by task,dir --agg sum:size --agg count"


def matches(found: Analyses, files: pd.DataFrame, column: str, words: str, absent: bool = False) -> Iterator[Match]:
    """One match for the rows of `Lifetime.files` in `files`.

    Args:
        column: what they cost, bytes.
        words: the sentence, with {files} (how many), {bytes} (of all), and {path} and {most} (bytes) of the largest.
        absent: it says that no task did something, and is drawn from all of them.
    """
    cost = int(files[column].sum())
    if not LEAST.reached(cost, found.moved_bytes):
        return
    rows = files.sort_values(column, ascending=False, kind="stable")
    path = str(rows["path"].iat[0])
    yield Match(
        title=words.format(
            files=count_text(len(rows), "file"),
            bytes=bytes_text(cost),
            path=path,
            most=bytes_text(int(rows[column].iat[0])),
        ),
        names={"path": path},
        cost_bytes=cost,
        count=len(rows),
        evidence=rows_of(rows[["path", column, "readers", "writers"]]),
        tasks=found.every_task if absent else found.users_of(rows.index),
        where=f"{path.rpartition('/')[2]} once",
    )


def bytes_by_process(rows: pd.DataFrame) -> dict[int, dict[int, int]]:
    """Process -> file -> bytes, of rows of bursts with a column process."""
    out: dict[int, dict[int, int]] = {}
    sums = rows.groupby(["process", "file"], sort=False)["bytes"].sum()
    for (process, file), moved in zip(sums.index, sums.to_numpy(), strict=True):
        out.setdefault(int(process), {})[int(file)] = int(moved)
    return out


def named_after(paths: pd.Series, known: Collection[str]) -> Bools:
    """Which of the paths are a known one with a suffix (-journal, .lock)."""
    return np.array([any(stem in known for stem in file_classes.stems(path)) for path in paths], dtype=np.bool_)
