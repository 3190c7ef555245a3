"""What the runs of a store did, by user, project, application, file system and day, and what changed on a day.

    store --a query a section--> plain data, shown by the terminal and the page (report/store_page.py)

Invariants: every table is the answer of one SQL query over the documented views, which is shown with it. Names are as
the store has them, unescaped. A run without a value is in the group "(none)".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.store import Store

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
ROWS = 20
"""Rows of a table."""
UNITS = {"ns": "time", "bytes": "bytes", "share": "share"}
"""End of a column's name -> its unit; any other column is a name or a count."""
_SUMS = """count(*) AS runs, count(*) FILTER (failed) AS failed, sum(t1_ns - t0_ns) AS wall_ns, sum(io_ns) AS io_ns,
  sum(read_bytes) AS read_bytes, sum(written_bytes) AS written_bytes,
  sum(read_calls + write_calls) AS calls, sum(metadata_calls) AS metadata_calls"""


@dataclass(frozen=True)
class Section:
    """A table of the report. query: with {days}, a condition on `day`."""

    key: str
    title: str
    hint: str
    query: str


def _by(key: str, column: str, title: str) -> Section:
    hint = (
        "Wall time is from the first event of a run to its last; I/O time the part of it with a call on a file running."
    )
    query = f"""SELECT coalesce({column}, '(none)') AS {key}, {_SUMS}
FROM runs WHERE {{days}} GROUP BY ALL ORDER BY io_ns DESC, 1 LIMIT {ROWS}"""
    return Section(f"by_{key}", title, hint, query)


SECTIONS = (
    _by("user", '"user"', "By user"),
    _by("project", "project", "By project"),
    _by("application", "application", "By application"),
    Section(
        "by_file_system",
        "By file system",
        "Files of all kinds, programs and libraries included. Small reads load a file system more than bytes say."
        " (no file): what calls moved that met no known file, as those in which libc reads its locales.",
        f"""WITH each AS (SELECT * FROM files WHERE {{days}}),
  known AS (SELECT owner, run, sum(read_bytes) AS r, sum(written_bytes) AS w FROM each GROUP BY ALL),
  rest AS (SELECT owner, run, read_bytes - coalesce(r, 0) AS r, written_bytes - coalesce(w, 0) AS w
    FROM runs LEFT JOIN known USING (owner, run) WHERE {{days}})
SELECT CASE WHEN class = 'stream' THEN '(pipes, sockets)' ELSE coalesce(fstype, '(none)') END AS type,
  CASE WHEN class = 'stream' THEN '(none)' ELSE coalesce(mount, '(none)') END AS mount,
  count(DISTINCT (owner, run)) AS runs, count(*) AS files,
  sum(read_bytes) AS read_bytes, sum(written_bytes) AS written_bytes,
  sum(read_calls) AS reads, sum(read_bytes) // nullif(sum(read_calls), 0) AS mean_read_bytes,
  sum(write_calls) AS writes, sum(written_bytes) // nullif(sum(write_calls), 0) AS mean_write_bytes
FROM each GROUP BY ALL UNION ALL
SELECT '(no file)', '(none)', count(*), 0, sum(r), sum(w), NULL, NULL, NULL, NULL FROM rest
WHERE r > 0 OR w > 0 HAVING count(*) > 0
ORDER BY reads + writes DESC NULLS LAST, type, mount LIMIT {ROWS}""",
    ),
    Section(
        "by_day",
        "By day",
        "The days on which the runs began, UTC, the last ones.",
        f"SELECT day, {_SUMS}\nFROM runs WHERE {{days}} GROUP BY ALL ORDER BY day DESC LIMIT {ROWS}",
    ),
    Section(
        "stages",
        "Where the I/O time goes",
        "Stages of all runs, by the wall time with at least one of their calls on a file running.",
        f"""SELECT coalesce(application, '(none)') AS application, s.stage, count(*) AS runs, sum(s.io_ns) AS io_ns,
  sum(s.read_ns) AS reading_ns, sum(s.write_ns) AS writing_ns, sum(s.metadata_ns) AS metadata_ns,
  sum(s.read_bytes) AS read_bytes, sum(s.written_bytes) AS written_bytes
FROM stages s JOIN runs r USING (owner, run) WHERE r.{{days}} GROUP BY ALL ORDER BY io_ns DESC, 1, 2 LIMIT {ROWS}""",
    ),
    Section(
        "failed",
        "What failed",
        "The last runs with a failed command or task.",
        f"""SELECT day, "user", coalesce(job, '') AS job, coalesce(application, '(none)') AS application,
  failed_tasks, outcome, path
FROM runs WHERE failed AND {{days}} ORDER BY t0_ns DESC, path, run LIMIT {ROWS}""",
    ),
    Section(
        "findings",
        "The worst patterns",
        "Findings of all runs by what they cost together, each with the run that it cost most. Those about data quality"
        " are left out.",
        f"""SELECT kind, count(DISTINCT (f.owner, f.run)) AS runs, sum(count) AS cases, sum(cost_ns) AS cost_ns,
  sum(cost_bytes) AS cost_bytes, arg_max(r.path, (cost_ns, cost_bytes, r.path, title)) AS worst_run,
  arg_max(title, (cost_ns, cost_bytes, r.path, title)) AS there
FROM findings f JOIN runs r USING (owner, run) WHERE about <> 'quality' AND r.{{days}}
GROUP BY ALL ORDER BY cost_ns DESC, cost_bytes DESC, kind LIMIT {ROWS}""",
    ),
)
_NUMBERS = """SELECT count(*) AS runs, count(*) FILTER (failed) AS failed, count(DISTINCT "user") AS users,
  sum(tasks) AS tasks, sum(processes) AS processes, sum(events) AS events, sum(io_ns) AS io_ns,
  sum(read_bytes) AS read_bytes, sum(written_bytes) AS written_bytes,
  count(*) FILTER (lost > 0 OR len(problems) > 0) AS incomplete, min(day) AS first, max(day) AS last
FROM runs WHERE {days}"""


def days(since: str | None, until: str | None) -> str:
    """The condition for runs that began on a day from `since` to `until`, both included. Raises UsageError."""
    for option, day in (("--after", since), ("--before", until)):
        if day is not None and not _DAY.fullmatch(day):
            raise UsageError(f"{option} {day!r}: give a day as 2026-11-22")
    return f"day BETWEEN '{since or '0000-00-00'}' AND '{until or '9999-99-99'}'"


def collect(store: Store, since: str | None = None, until: str | None = None) -> dict[str, Any]:
    """The report's data: `numbers`, `sections` with columns and rows, `problems`."""
    condition = days(since, until)
    asked = [(section, section.query.format(days=condition)) for section in SECTIONS]
    answers = store.answers([_NUMBERS.format(days=condition), *(query for _, query in asked)])
    (numbers,) = answers[0].to_pylist()
    sections = []
    for (section, query), table in zip(asked, answers[1:], strict=True):
        rows = [list(row.values()) for row in table.to_pylist()]
        shown = {"key": section.key, "title": section.title, "hint": section.hint, "query": query}
        sections.append({**shown, "columns": table.column_names, "rows": rows})
    return {"store": str(store.path), "numbers": numbers, "sections": sections, "problems": store.problems}


def unit(column: str) -> str:
    """The unit of a column, by the end of its name; "" for a name or a count."""
    return UNITS.get(column.rsplit("_", 1)[-1], "")


# --- before and after ------------------------------------------------------------------------------------------------

FIGURES = {
    "wall_ns": "avg(t1_ns - t0_ns)",
    "io_ns": "avg(io_ns)",
    "read_bytes": "avg(read_bytes)",
    "written_bytes": "avg(written_bytes)",
    "calls": "avg(read_calls + write_calls)",
    "metadata_calls": "avg(metadata_calls)",
    "failed_share": "avg(CASE WHEN failed THEN 1.0 ELSE 0.0 END)",
}
"""Figure of a run -> its mean."""


def compare(store: Store, before: str, after: str) -> list[dict[str, Any]]:
    """How the runs that began on `after` or later differ from those that began on `before` or earlier, by application:
    rows of application (null: all runs; "(none)": those without one), figure, runs_before, runs_after, before, after
    (means of a run), change (their ratio less 1; null where the mean before is 0). Those that changed most are first.
    Raises UsageError, QueryError."""
    sides = [days(None, before), days(after, None)]
    if before >= after:
        raise UsageError(f"--before {before} --after {after}: both have runs of {after}: give an earlier day before")
    means = ", ".join(f"{mean} AS {name}" for name, mean in FIGURES.items())
    query = f"""SELECT application, count(*) AS runs, {means}
FROM (SELECT * REPLACE (coalesce(application, '(none)') AS application) FROM runs WHERE {{}})
GROUP BY GROUPING SETS ((), (application)) ORDER BY application NULLS FIRST"""
    tables = store.answers([query.format(side) for side in sides])
    of = [{row["application"]: row for row in table.to_pylist()} for table in tables]
    rows = [
        _difference(application, figure, *(side[application] for side in of))
        for application in of[0]
        if application in of[1] and of[0][application]["runs"] and of[1][application]["runs"]
        for figure in FIGURES
    ]
    return sorted(rows, key=lambda row: (row["application"] is not None, -abs(row["change"] or 0)))


def _difference(application: str | None, figure: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    before, after = float(a[figure] or 0), float(b[figure] or 0)
    return {
        "application": application,
        "figure": figure,
        "runs_before": a["runs"],
        "runs_after": b["runs"],
        "before": before,
        "after": after,
        "change": after / before - 1 if before else None,
    }
