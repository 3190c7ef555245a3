"""Limits of a report's long lists. A list that is cut has its `total` beside the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

JsonObject: TypeAlias = dict[str, Any]
"""A part of the report; the function that makes it documents its keys."""

LIMITS = {
    "tasks": 120_000,
    "files": 10_000,
    "units_of_file": 5,
    "files_of_task": 8,
    "processes": 20_000,
    "processes_of_task": 12,
    "argument_text": 800_000,
    "command": 600,
    "command_text": 1_200_000,
    "files_of_flow": 12,
    "tasks_of_flow": 12,
    "never_read": 500,
    "declared": 1000,
    "aliases": 4,
    "causes": 50,
    "findings": 50,
    "regions": 200,
    "outcomes": 2000,
    "heat_rows": 40,
    "histories": 600,
    "actors": 6,
    "path": 2000,
    "through": 12,
    "in_a_row": 4,
    "sampled_nodes": 16,
}
"""A page of 10,000 tasks and as many files is below 4 MB with these."""


def cut(rows: pd.DataFrame, what: str) -> JsonObject:
    """The first rows as JSON, and how many there are."""
    return {"total": len(rows), "rows": [plain(row) for row in rows.head(LIMITS[what]).to_dict("records")]}


def plain(value: object) -> Any:
    """numpy and pandas scalars as JSON's."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    return None if value is pd.NA or value is pd.NaT else value


def ms(ns: float) -> float:
    """ns as ms, to the microsecond: three decimals are what a picture can show and a page should carry."""
    return round(float(ns) / 1e6, 3)
