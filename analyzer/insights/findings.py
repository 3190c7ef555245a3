"""Findings: what is worth a look in a run, in plain sentences, in order of what it costs.

    Scene -> the analyses -> Finding (kind, sentence, cost, evidence, query)

A cost is in ns of makespan where an analysis can say so, else in bytes. To put both in one order, bytes count as the
time that the run's own I/O took for so many (`Ranker`). Races come first: what they cost is the result.

What always holds: every finding carries evidence (rows of the analysis it is from) and the query that shows it in the
trace; texts are made of names as the trace has them, unescaped. Names in a query are `literal`: *, ? and [ begin a
pattern.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from glob import escape as literal
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.insights import conflicts as co
from tailrace.analyzer.insights import declared_savings as de
from tailrace.analyzer.insights import lifetime as li
from tailrace.analyzer.insights import pairs
from tailrace.analyzer.insights.critical import REST, Critical, critical
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import stages as stage_table
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text, with_stage

EVIDENCE = 5
"""Rows of evidence that a finding carries."""
WORTH_NS = 0.01
"""Findings of less than this share of the makespan are left out, but for races."""
WORTH_BYTES = 0.01
"""The same for bytes, of all bytes that were moved."""
RACE, TIME, SPACE, HONESTY = "race", "time", "space", "honesty"


@dataclass(frozen=True)
class Finding:
    """One finding.

    kind: which of `KINDS`; about: `RACE`, `TIME`, `SPACE` or `HONESTY` (what the trace can't tell); title: a sentence;
    cost_ns and cost_bytes: what it costs (0: not known), an estimate where `estimate`; count: how many cases;
    evidence: rows of the analysis; query: a command (or Python) that shows it.
    """

    kind: str
    about: str
    title: str
    cost_ns: int = 0
    cost_bytes: int = 0
    estimate: bool = False
    count: int = 1
    evidence: list[dict[str, Any]] = field(default_factory=list)
    query: str = ""

    def json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass
class Insights:
    """Every analysis of a scene, each worked out when it is first asked for."""

    inputs: Inputs
    directory: str = "RUN"
    _made: dict[str, Any] = field(default_factory=dict)

    def _get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    @property
    def critical(self) -> Critical:
        """The critical path: what the makespan was spent on, and who had time to spare (critical.py)."""
        found: Critical = self._get("critical", lambda: critical(self.inputs))
        return found

    @property
    def declared(self) -> de.Declared:
        """The declared DAG held against what was observed (declared.py)."""
        found: de.Declared = self._get("declared", lambda: de.declared(self.inputs))
        return found

    @property
    def conflicts(self) -> co.Conflicts:
        """Accesses of the same bytes that nothing orders (conflicts.py)."""
        found: co.Conflicts = self._get("conflicts", lambda: co.conflicts(self.inputs))
        return found

    @property
    def lifetime(self) -> li.Lifetime:
        """How long data lives, how often it is read, how much there is at a time (lifetime.py)."""
        found: li.Lifetime = self._get("lifetime", lambda: li.lifetime(self.inputs))
        return found

    @property
    def streams(self) -> pd.DataFrame:
        """Pairs of tasks that could stream; columns of `pairs.streams`."""
        found: pd.DataFrame = self._get("streams", lambda: pairs.streams(self.inputs, self.critical))
        return found

    @property
    def apart(self) -> pd.DataFrame:
        """Stages between which bytes went from host to host; columns of `pairs.apart`."""
        found: pd.DataFrame = self._get("apart", lambda: pairs.apart(self.inputs))
        return found

    @property
    def fans(self) -> pd.DataFrame:
        """From and to how many tasks the tasks of each stage had data; columns of `pairs.fans`."""
        found: pd.DataFrame = self._get("fans", lambda: pairs.fans(self.inputs))
        return found

    @property
    def caterpillar(self) -> pd.DataFrame:
        """The critical path with what hangs on it; columns of `pairs.caterpillar`."""
        found: pd.DataFrame = self._get("caterpillar", lambda: pairs.caterpillar(self.inputs, self.critical))
        return found

    def findings(self) -> list[Finding]:
        """All findings, in order of what they cost."""
        found: list[Finding] = self._get("findings", lambda: _ranked(self))
        return found

    def of_task(self, task: int) -> list[str]:
        """Arguments of `tailrace query` for a task's events, or a process's."""
        row = self.inputs.tasks.iloc[task]
        if row["task"]:
            return ["--task", literal(str(row["task"]))]
        start = ["--start", str(row["start"])] if row["bearers"] > 1 else []
        return ["--host", str(row["host"]), "--pid", str(row["pid"]), *start]

    def of_stage(self, name: str) -> list[str]:
        """The same for a stage as it is shown."""
        return [literal(word) for word in stage_table.filters(self.inputs.m, name)]

    def query(self, *arguments: str) -> str:
        """A `tailrace query` command line on this run."""
        return shlex.join(["tailrace", "query", self.directory, *arguments])


def _ranked(i: Insights) -> list[Finding]:
    found = [finding for make in KINDS.values() for finding in make(i)]
    rate = _rate(i.inputs)
    cost = {id(f): f.cost_ns + f.cost_bytes * rate for f in found}
    first = {RACE: 0, TIME: 1, SPACE: 1, HONESTY: 2}
    return sorted(found, key=lambda f: (first[f.about], -cost[id(f)], f.kind, f.title))


def _rate(inputs: Inputs) -> float:
    """ns of I/O a byte, as the run's own I/O was."""
    counts = inputs.m.table.counts
    moved = int(counts["read_bytes"].sum() + counts["written_bytes"].sum())
    return stage_table.io_ns(inputs.m) / moved if moved else 0.0


def _worth(i: Insights, ns: int) -> bool:
    return ns > 0 and ns >= WORTH_NS * i.inputs.makespan_ns


def _large(i: Insights, moved: int) -> bool:
    counts = i.inputs.m.table.counts
    return moved > 0 and moved >= WORTH_BYTES * int(counts["read_bytes"].sum() + counts["written_bytes"].sum())


def rows_of(table: pd.DataFrame, limit: int = EVIDENCE) -> list[dict[str, Any]]:
    """The first rows of a table, JSON-ready."""
    out = []
    for row in table.head(limit).to_dict("records"):
        out.append({str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items()})
    return out


# --- races -----------------------------------------------------------------------------------------------------------


def _races(i: Insights) -> Iterator[Finding]:
    for kind, rows in i.conflicts.rows.groupby("kind", sort=False):
        top = rows.iloc[0]
        first, second = (i.inputs.called(int(top[end])) for end in ("first", "second"))
        when = "at the same time" if bool(top["overlap"]) else "one after the other, by luck"
        words = {
            co.DURING: f"{first} read {top['path']} while {second} wrote the same bytes",
            co.BEFORE: f"{first} read {top['path']} before {second} wrote the same bytes, and nothing orders them",
            co.WRITERS: f"{first} and {second} wrote the same bytes of {top['path']} {when}, and nothing orders them",
        }
        named = rows.assign(first=[i.inputs.called(int(t)) for t in rows["first"]])
        named["second"] = [i.inputs.called(int(t)) for t in rows["second"]]
        for end in ("first", "second"):
            named[f"{end}_began_s"] = (rows[f"{end}_ns"] - i.inputs.start_ns) / 1e9
        yield Finding(
            kind=str(kind),
            about=RACE,
            title=words[str(kind)] + _more(len(rows)),
            cost_bytes=int(rows["bytes"].sum()),
            count=len(rows),
            evidence=rows_of(named.drop(columns=["file", "first_ns", "second_ns"])),
            query=i.query("--path", literal(str(top["path"])), "--columns", "ts,dur,name,task,pid,offset,size"),
        )


def _undeclared(i: Insights) -> Iterator[Finding]:
    rows = i.declared.undeclared
    rows = rows[~rows["ordered"].astype(bool)] if len(rows) else rows
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    producer, consumer = _ends(i, top)
    yield Finding(
        kind="undeclared",
        about=RACE,
        title=f"{consumer} read {bytes_text(int(top['bytes']))} that {producer} wrote, no dependency is declared and"
        f" none orders them{_more(len(rows))}",
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "bytes", "files"]]),
        query=i.query(
            "--task", literal(str(top["producer"])), "--task", literal(str(top["consumer"])), "--by", "task,path,dir"
        ),
    )


def _ends(i: Insights, row: pd.Series[Any]) -> tuple[str, str]:
    """Producer and consumer of a dependency as people call them."""
    producer, consumer = (
        with_stage(i.inputs.m.task_name(str(row["workflow"]), str(row[end])), str(row[f"{end}_stage"]))
        for end in ("producer", "consumer")
    )
    return producer, consumer


def _more(count: int) -> str:
    return "" if count == 1 else f" (and {count_text(count - 1, 'more case')})"


# --- time ------------------------------------------------------------------------------------------------------------


def _waits(i: Insights) -> Iterator[Finding]:
    c, span = i.critical, i.inputs.makespan_ns
    gap = c.parts["gap"]
    if _worth(i, gap):
        rows = c.path.sort_values("gap", ascending=False, kind="stable")
        yield Finding(
            kind="gaps",
            about=TIME,
            title=f"{time_text(gap)} of {time_text(span)} no task ran on the critical path: start-up, scheduling, tasks"
            " that had all they needed and were not started yet",
            cost_ns=gap,
            evidence=_pieces(i, rows, "gap"),
            query=f"tailrace.open({i.directory!r}).insights().critical.path",
        )
    io = c.parts["io"]
    if _worth(i, io):
        stage = c.stages.sort_values("io", ascending=False, kind="stable").iloc[0]
        yield Finding(
            kind="critical io",
            about=TIME,
            title=f"{time_text(io)} of {time_text(span)} the critical path was inside file I/O, most of it"
            f" in {stage['stage']} ({time_text(int(stage['io']))})",
            cost_ns=io,
            evidence=rows_of(c.stages[["stage", "io", "compute", "stream", "gap"]]),
            query=i.query(*i.of_stage(str(stage["stage"])), "--by", "path", "--agg", "sum:dur", "--sort", "sum_dur"),
        )


def _pieces(i: Insights, rows: pd.DataFrame, part: str) -> list[dict[str, Any]]:
    out = []
    for row in rows.head(EVIDENCE).to_dict("records"):
        task = int(row["task"])
        name = i.inputs.called(task) if task >= 0 else f"({'end' if row['via'] == REST else 'start'} of the run)"
        begin = (int(row["begin_ns"]) - i.inputs.start_ns) / 1e9
        out.append({"task": name, "begin_s": begin, f"{part}_ns": int(row[part]), "via": str(row["via"])})
    return out


def _empty(i: Insights) -> Iterator[Finding]:
    rows, saved = i.declared.empty, i.declared.together_ns
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    gain = (
        f"; without {'it' if len(rows) == 1 else 'them'} the run could be {time_text(saved)} shorter" if saved else ""
    )
    producer, consumer = _ends(i, top)
    yield Finding(
        kind="empty dependency",
        about=TIME,
        title=f"{consumer} waits for {producer} and reads nothing that it wrote{_more(len(rows))}{gain}",
        cost_ns=saved,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "via", "path", "saved_ns"]]),
        query=i.query("--task", literal(str(top["consumer"])), "--by", "path,dir"),
    )


def _streams(i: Insights) -> Iterator[Finding]:
    rows = i.streams[i.streams["critical"]] if len(i.streams) else i.streams
    if len(rows) == 0 or not _worth(i, int(rows["gain_ns"].sum())):
        return
    top = rows.iloc[0]
    producer, consumer = (i.inputs.called(int(top[end])) for end in ("producer", "consumer"))
    named = rows.assign(producer=[i.inputs.called(int(t)) for t in rows["producer"]])
    named["consumer"] = [i.inputs.called(int(t)) for t in rows["consumer"]]
    yield Finding(
        kind="could stream",
        about=TIME,
        title=f"{consumer} read {top['path']} once, whole, after {producer} had written it: as a stream it could begin"
        f" up to {time_text(int(top['gain_ns']))} earlier" + _more(len(rows)),
        cost_ns=int(rows["gain_ns"].max()),
        estimate=True,
        count=len(rows),
        evidence=rows_of(named[["producer", "consumer", "path", "bytes", "gain_ns"]]),
        query=i.query("--path", literal(str(top["path"])), "--by", "task,dir", "--agg", "min:ts", "--agg", "sum:size"),
    )


# --- space -----------------------------------------------------------------------------------------------------------


def _files(i: Insights) -> Iterator[Finding]:
    files = i.lifetime.files
    cases = (
        (
            "never read",
            files[files["never_read"] & ~files["removed"]],
            "written_bytes",
            "{n} written, kept and read by nobody in the run ({b}), largest {path}",
        ),
        (
            "written in vain",
            files[files["never_read"] & files["removed"]],
            "written_bytes",
            "{n} written and removed without anybody reading them ({b}), largest {path}",
        ),
        (
            "read again",
            files[files["again_bytes"] > 0],
            "again_bytes",
            "{b} were read again by tasks that had read the same bytes before, most of {path}",
        ),
    )
    for kind, rows, column, words in cases:
        moved = int(rows[column].sum())
        if not _large(i, moved):
            continue
        rows = rows.sort_values(column, ascending=False, kind="stable")
        path = str(rows["path"].iat[0])
        text = words.format(n=count_text(len(rows), "file"), b=bytes_text(moved), path=path)
        shown = rows[["path", column, "readers", "writers"]]
        query = i.query("--path", literal(path), "--by", "task,dir", "--agg", "sum:size", "--agg", "count")
        yield Finding(kind, SPACE, text, cost_bytes=moved, count=len(rows), evidence=rows_of(shown), query=query)


def _copies(i: Insights) -> Iterator[Finding]:
    rows = i.lifetime.copies
    moved = int(rows["bytes"].sum()) if len(rows) else 0
    if not _large(i, moved):
        return
    paths = i.inputs.m.paths
    named = pd.DataFrame({"source": paths[rows["source"]], "target": paths[rows["target"]], "bytes": rows["bytes"]})
    top = named.iloc[0]
    yield Finding(
        kind="copies",
        about=SPACE,
        title=f"{bytes_text(moved)} read and as much written went into plain copies, the largest from {top['source']}"
        f" to {top['target']}" + _more(len(rows)),
        cost_bytes=2 * moved,
        count=len(rows),
        evidence=rows_of(named),
        query=i.query("--path", literal(str(top["target"])), "--by", "task,dir", "--agg", "sum:size"),
    )


def _node_local(i: Insights) -> Iterator[Finding]:
    files = i.lifetime.files
    rows = files[files["node_local"] & ~files["local"] & files["intermediate"]]
    moved = int((rows["written_bytes"] + rows["read_bytes"]).sum())
    if i.inputs.m.who["host"].nunique() < 2 or not _large(i, moved):
        return
    rows = rows.sort_values("written_bytes", ascending=False, kind="stable")
    path = str(rows["path"].iat[0])
    yield Finding(
        kind="could stay on the node",
        about=SPACE,
        title=f"{count_text(len(rows), 'intermediate file')} on a shared file system used from one host each"
        f" ({bytes_text(moved)} moved), largest {path}",
        cost_bytes=moved,
        count=len(rows),
        evidence=rows_of(rows[["path", "written_bytes", "read_bytes"]]),
        query=i.query("--path", literal(path), "--by", "host,task,dir", "--agg", "sum:size"),
    )


def _apart(i: Insights) -> Iterator[Finding]:
    rows = i.apart
    moved = int(rows["bytes"].sum()) if len(rows) else 0
    if not _large(i, moved):
        return
    names = i.inputs.stages["stage"].to_numpy()
    named = rows.assign(producer=names[rows["producer"]], consumer=names[rows["consumer"]])
    top = named.iloc[0]
    yield Finding(
        kind="could be co-located",
        about=SPACE,
        title=f"{bytes_text(moved)} went from host to host, most from {top['producer']} to {top['consumer']}"
        f" ({bytes_text(int(top['bytes']))} between {count_text(int(top['pairs']), 'pair')} of tasks)",
        cost_bytes=moved,
        count=int(rows["pairs"].sum()),
        evidence=rows_of(named),
        query=i.query(*i.of_stage(str(top["consumer"])), "--by", "host,path", "--agg", "sum:size"),
    )


def _untouched(i: Insights) -> Iterator[Finding]:
    rows = i.declared.untouched
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    what = "read" if top["direction"] == "r" else "wrote"
    of_task = (i.inputs.tasks["workflow"] == top["workflow"]) & (i.inputs.tasks["task"] == top["task"])
    who = i.inputs.called(int(np.flatnonzero(of_task)[0]))
    yield Finding(
        kind="declared, not touched",
        about=HONESTY,
        title=f"{who} declared {top['path']} and never {what} it" + _more(len(rows)),
        count=len(rows),
        evidence=rows_of(rows),
        query=i.query("--task", literal(str(top["task"])), "--by", "path,dir"),
    )


# --- what the trace can't tell ---------------------------------------------------------------------------------------


def _clocks(i: Insights) -> Iterator[Finding]:
    inputs = i.inputs
    if inputs.m.ahead:
        host, ns = max(inputs.m.ahead.items(), key=lambda item: abs(item[1]))
        yield Finding(
            kind="clocks apart",
            about=HONESTY,
            title=f"the clock of {host} is {time_text(abs(ns))} {'ahead' if ns > 0 else 'behind'}, by files that were"
            f" read before they were written; times of {count_text(len(inputs.m.ahead), 'host')} were put right",
            count=len(inputs.m.ahead),
            evidence=[{"host": h, "ahead_ns": n} for h, n in inputs.m.ahead.items()],
            query=i.query("--by", "host", "--agg", "min:ts", "--agg", "max:ts"),
        )
    if inputs.unresolved or i.critical.dropped:
        count = inputs.unresolved + i.critical.dropped
        rest = f"can't be put in time order, and {'is' if count == 1 else 'are'} left out of the critical path"
        yield Finding(
            kind="order not known",
            about=HONESTY,
            title=f"{count_text(count, 'handover')} {rest}",
            count=count,
            query=f"tailrace.open({i.directory!r}).insights().scene.handovers",
        )
    unknown = i.conflicts.unknown + i.conflicts.unchecked
    if unknown:
        yield Finding(
            kind="conflicts not examined",
            about=HONESTY,
            title=f"{count_text(unknown, 'pair')} of accesses could not be examined for conflicts (offsets not known,"
            " or too many)",
            count=unknown,
            query=f"tailrace.open({i.directory!r}).insights().conflicts",
        )


KINDS: dict[str, Callable[[Insights], Iterator[Finding]]] = {
    "conflicts": _races,
    "undeclared": _undeclared,
    "critical path": _waits,
    "empty dependencies": _empty,
    "streams": _streams,
    "files": _files,
    "copies": _copies,
    "node-local": _node_local,
    "co-location": _apart,
    "untouched": _untouched,
    "honesty": _clocks,
}
"""Every kind of finding and what makes it."""
