"""A question over a store: one SQL statement over the events of its runs, or over their accesses.

    Query --statement()--> base -> [ranges of totals] -> [ranges of time] -> groups -> answer

A row of `base` is a matching event with the columns that keys and figures need. An access (docs/store.md, `edges`) is
like a line of totals: it stands for its calls. Events answer where every run that the conditions on runs leave has a
copy of them, or only they have what is asked for; else accesses, which the answer says.

Invariants: the answer is that of the runs (store/query.py), but that times are since the first event of each run, and
that a line of totals is spread over ranges of time as a whole. No text of the caller becomes SQL: columns and functions
come from tables, values are parameters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os.path import normpath
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.edges import file_names
from tailrace.analyzer.runstore.columns import EVENTS, TABLES
from tailrace.analyzer.store import conditions, group_keys, query, schema, statistic
from tailrace.analyzer.store.conditions import Between, Glob, Not, Wanted
from tailrace.analyzer.store.group_keys import Key
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.store.query import Row
from tailrace.analyzer.store.question import Answer, Query, notes
from tailrace.analyzer.store.statistic import Statistic
from tailrace.analyzer.util.formatting import count_text
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.analyzer.runstore.store import Store


_OF_RUN = {
    **{name: f'r."{name}"' for name in ("user", "project", "account", "queue", "application")},
    "failed": "r.failed",
    "run": "r.path",
    "day": "e.day",
    "owner": "e.owner",
}
_OF_FILE = {"fstype": "f.fstype", "mount": "f.mount"}
ACCESS_COLUMNS = {
    **{name: f"e.{name}" for name in ("workflow", "stage", "task", "host", "pid", "start", "program", "file")},
    "version": "e.version",
    "dir": "e.direction",
    "size": "e.bytes",
    "calls": "e.calls",
    "lines": "e.calls",
    "ts": "e.first_ns",
    "span": "(e.last_ns - e.first_ns)",
    "last_ns": "e.last_ns",
    "path": "f.path",
    "ftype": "f.ftype",
    "job": "r.job",
    "accesses": "1",
    **_OF_FILE,
    **_OF_RUN,
}
"""Column of an access -> its expression."""
EVENT_COLUMNS = {
    **{name: f'e."{name}"' for name in TABLES[EVENTS].columns if name not in ("run", "entry", "tags")},
    "last_ns": "(e.ts + coalesce(e.span, e.dur))",
    "program": "p.program",
    **_OF_FILE,
    **_OF_RUN,
}
"""Column of an event -> its expression."""
_ONLY_ACCESSES = frozenset(ACCESS_COLUMNS) - frozenset(EVENT_COLUMNS)
_JOINS = {
    "r": " JOIN runs r USING (owner, run)",
    "f": " LEFT JOIN files f ON f.owner = e.owner AND f.run = e.run AND f.file = e.file",
    "p": " LEFT JOIN processes p ON p.owner = e.owner AND p.run = e.run AND p.host = e.host AND p.pid = e.pid"
    " AND p.start = e.start",
}
_UPPER = ", ".join(f"'{name}'" for name in sorted(schema.UPPER_LAYERS))
_MOST = 2**63 - 1


@dataclass(frozen=True)
class _Source:
    """Accesses or events."""

    row: str
    table: str
    columns: Mapping[str, str]

    @property
    def of_events(self) -> bool:
        return self.table == EVENTS

    def column(self, name: str, put: Put) -> str:
        """The expression of a column. Raises QueryError."""
        if name.startswith(schema.TAG_PREFIX) and self.of_events:
            key = name.removeprefix(schema.TAG_PREFIX).replace('"', '\\"')
            return "json_extract_string(e.tags, " + put(f'$."{key}"') + ")"
        if name not in self.columns:
            raise QueryError(
                f"{self.row}{'es' if self.row == 'access' else 's'} in a store have no column {name!r}; they have"
                f" {', '.join(self.columns)}"
            )
        return self.columns[name]


_ACCESSES = _Source("access", "edges", ACCESS_COLUMNS)
_EVENTS = _Source("event", EVENTS, EVENT_COLUMNS)
_RUNS = _Source("run", "runs", _OF_RUN)


@dataclass
class Put:
    """The parameters of a statement; a call adds one and gives its place."""

    values: list[Any] = field(default_factory=list)

    def __call__(self, value: Any) -> str:
        self.values.append(_text(value) if isinstance(value, str) else value)
        return f"${len(self.values)}"


def _text(text: str) -> str:
    """As the tables have it: bytes that are not UTF-8 are U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ---- the answer ----


def answer(store: Store, asked: Query) -> Answer:
    """The answer from the events, or the accesses, of all runs. Raises QueryError."""
    where = conditions.where(**asked.where)
    runs, lacking, took = _runs(store, where)
    keys = [] if asked.columns is not None else group_keys.keys_of(asked.by, 0, took)
    names = _names(asked, keys)
    source = _source(names, runs > 0 and not lacking)
    _check_values(store, source, where)
    put = Put()
    tests = [*_tests(store, source, where, put), *_times(source, asked, put)]
    said: tuple[str, ...] = ()
    if not source.of_events:
        if lacking and not names & _ONLY_ACCESSES:
            said = (
                f"of accesses to data files: {count_text(lacking, 'run')} of the store without a copy of the events,"
                " which `tailrace index --events STORE RUN...` makes",
            )
        if where.needs_each:
            said = (*said, "conditions on sizes and calls are on the sums of whole accesses")
    if asked.columns is not None:
        table = store.sql(_events(source, asked, tests, put), put.values)
        return Answer(asked.fields(()), _rows(table), None, said)
    layered = source.of_events and query.needs_layer(asked.by, asked.statistics)
    table = store.sql(_totals(source, asked, keys, tests, layered, put), put.values)
    return _answer(table, source, asked, keys, said)


def _answer(table: pa.Table, source: _Source, asked: Query, keys: Sequence[Key], said: tuple[str, ...]) -> Answer:
    fields = asked.fields(keys)
    if not table.num_rows:
        zeros = [tuple(0 if one.how in statistic.ZERO else None for one in asked.statistics)] if not asked.by else []
        return Answer(fields, zeros[: asked.limit], False, said)
    hidden = {name: table[name][0].as_py() for name in ("matched", "totals", "layers")}
    left_out = query.others(hidden["layers"], dict(asked.where)) if hidden["layers"] else ()
    each = any(one.needs_each for one in asked.statistics) or any(key.ranges_each for key in keys)
    timed = group_keys.time_of(keys) is not None
    totals = int(hidden["totals"] or 0)
    said = (*said, *notes(totals if each else 0, totals if timed else 0, left_out, source.row))
    rows = islice(_rows(table.select(list(range(len(fields))))), asked.limit)
    return Answer(fields, rows, bool(hidden["matched"]), said)


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _names(asked: Query, keys: Sequence[Key]) -> set[str]:
    """The columns that the question has."""
    names = {*(key.column for key in keys), *(asked.columns or ()), *asked.where}
    if asked.columns is None:
        names |= {name for one in asked.statistics for name in (one.column, one.per) if name is not None}
        if any(one.how == "rate" for one in asked.statistics) and group_keys.time_of(keys) is None:
            names.add("dur")
    return names


def _source(names: Iterable[str], copied: bool) -> _Source:
    """copied: all runs that are asked about have a copy of their events. Raises QueryError."""
    only_accesses = sorted(_ONLY_ACCESSES.intersection(names))
    only_events = sorted(name for name in names if name not in ACCESS_COLUMNS)
    if only_accesses and only_events:
        raise QueryError(
            f"column {only_accesses[0]} is of accesses and {only_events[0]} of events: ask for one of them"
        )
    return _EVENTS if only_events or (copied and not only_accesses) else _ACCESSES


def _runs(store: Store, where: conditions.Where) -> tuple[int, int, int]:
    """The runs that the conditions on columns of runs leave, those of them without a copy of their events, and the
    longest time of one (ns)."""
    put = Put()
    tests = _tests(store, _RUNS, conditions.Where(tuple(one for one in where.values if one[0] in _OF_RUN)), put)
    lacking = "count(*) FILTER (e.events > 0 AND e.event_rows IS NULL)"
    text = f"SELECT count(*) AS runs, {lacking} AS lacking, max(e.t1_ns - e.t0_ns) AS took{_from(_RUNS, (), tests)}"
    (row,) = store.sql(text, put.values).to_pylist()
    return row["runs"], row["lacking"], row["took"] or 0


# ---- which rows ----


def _times(source: _Source, asked: Query, put: Put) -> list[str]:
    """The tests of --since and --until, each run by its own first event."""
    tests = []
    if asked.since is not None:
        tests.append(f"{source.columns['last_ns']} >= r.t0_ns + {put(round(asked.since * 1e9))}")
    if asked.until is not None:
        tests.append(f"{source.columns['ts']} < r.t0_ns + {put(round(asked.until * 1e9))}")
    return tests


def _tests(store: Store, source: _Source, where: conditions.Where, put: Put) -> list[str]:
    tests = []
    for name, wanted in where.values:
        if name == "path":
            tests.append(_path_test(store, source, wanted, put))
        else:
            tests.append(_test(schema.column(name), source.column(name, put), wanted, put))
    if where.needs_each and source.of_events:
        tests.append("e.lines <= 1")
    return tests


def _test(spec: schema.Column, column: str, wanted: Iterable[Wanted], put: Put) -> str:
    """Whether a value is one that is wanted."""
    compared = f"CAST({column} AS VARCHAR)" if spec.kind == schema.FLAG else column
    if spec.kind == schema.DAY:
        compared = f"(CAST({column} AS DATE) - DATE '0001-01-01' + 1)"
    either = ["false"]
    for one in wanted:
        if isinstance(one, Not):
            either.append(f"NOT coalesce({_test(spec, column, one.values, put)}, false)")
        elif isinstance(one, Between):
            bounds = [f"{compared} >= {put(one.low)}"] if one.low is not None else []
            bounds += [f"{compared} < {put(one.high)}"] if one.high is not None else []
            either.append(f"({' AND '.join(bounds)})" if bounds else f"{compared} IS NOT NULL")
        elif isinstance(one, Glob):
            either.append(f"{column} = {put(one.pattern)} OR regexp_full_match({column}, {put(_regex(one))})")
        elif one == "":
            either.append(f"{column} IS NULL")
        else:
            either.append(f"{compared} = {put(one)}")
    return f"({' OR '.join(either)})"


def _regex(pattern: Glob) -> str:
    """A shell pattern as RE2 takes it; fnmatch's own has groups that RE2 lacks."""
    text, at, made = _text(pattern.pattern), 0, ["(?s)"]
    while at < len(text):
        end = text.find("]", at + (3 if text[at + 1 : at + 2] == "!" else 2)) if text[at] == "[" else -1
        if end > 0:
            inner = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            made.append(f"[{'^' + inner[1:] if inner[0] == '!' else inner.replace('^', chr(92) + '^', 1)}]")
            at = end
        else:
            made.append({"*": ".*", "?": "."}.get(text[at]) or re.escape(text[at]))
        at += 1
    return "".join(made)


def _check_values(store: Store, source: _Source, where: conditions.Where) -> None:
    """Raises QueryError for a stage, task, host, ... that no row has."""
    for name, wanted in where.values:
        named = conditions.named(wanted)
        if named and name in (*schema.TAGS, *PROCESS):
            put = Put()
            column = source.column(name, put)
            joins = _JOINS["r"] if column.startswith("r.") else ""
            text = (
                f"SELECT DISTINCT {column} AS value FROM {source.table} e{joins} WHERE {column} IS NOT NULL ORDER BY 1"
            )
            conditions.check_known(store.path, name, named, store.sql(text)["value"].to_pylist())


# ---- files by name ----

_Named = list[tuple[int, str, str]]
"""Owner, run and name."""


def _path_test(store: Store, source: _Source, wanted: Sequence[Wanted], put: Put) -> str:
    """Whether a row is of one of these files, by any of their names; see edges/file_names.py."""
    unwanted = [value for one in wanted if isinstance(one, Not) for value in one.values]
    chosen = [one for one in wanted if not isinstance(one, Not)]
    tests = [_on_files(source, _named(store, source, chosen, False), "" in chosen, put)] if chosen else []
    if unwanted:
        test = _on_files(source, _named(store, source, unwanted, True), "" in unwanted, put)
        tests.append(f"NOT coalesce({test}, false)")
    return f"({' AND '.join(tests)})"


def _named(store: Store, source: _Source, wanted: Sequence[object], may_lack: bool) -> _Named:
    """The names that are meant, run by run. Raises QueryError where no run has one, unless it `may_lack`."""
    found: _Named = []
    for one in wanted:
        if one == "" or not isinstance(one, str | Glob):
            continue
        named = _named_by(store, source, one)
        if not named and isinstance(one, str) and (target := os.path.realpath(one)) != one:
            named = _named_by(store, source, target)
        if not named and not may_lack:
            known = store.sql("SELECT DISTINCT path FROM files WHERE path IS NOT NULL")["path"].to_pylist()
            raise file_names.not_found(one, known)
        found += named
    return found


def _named_by(store: Store, source: _Source, one: str | Glob) -> _Named:
    text = _text(one.pattern if isinstance(one, Glob) else one)
    end = text if isinstance(one, Glob) else normpath(text)
    while end.startswith("../"):
        end = end[3:]
    put = Put()
    whole, ending = put(end), put(f"/{end}")
    test = f"name = {whole} OR ends_with(name, {ending})"
    if isinstance(one, Glob):
        test = f"{test} OR regexp_full_match(name, {put(_regex(Glob(end)))})"
        test += "" if end.startswith("/") else f" OR regexp_full_match(name, {put(_regex(Glob(f'*/{end}')))})"
    tables = ["SELECT owner, run, path AS name FROM files", "SELECT owner, run, unnest(names) FROM files"]
    if source.of_events:
        tables += [f"SELECT owner, run, {name} FROM {EVENTS}" for name in ("path", "path2")]
    rows = store.sql(
        f"SELECT DISTINCT n.owner, n.run, n.name, r.cwd FROM ({' UNION ALL '.join(tables)}) n"
        f" JOIN runs r USING (owner, run) WHERE {test}",
        put.values,
    ).to_pylist()
    names: dict[tuple[int, str, str], list[str]] = {}
    for row in rows:
        names.setdefault((row["owner"], row["run"], row["cwd"] or ""), []).append(row["name"])
    spelled = Glob(text) if isinstance(one, Glob) else text
    return [
        (owner, run, name)
        for (owner, run, cwd), known in names.items()
        if (found := file_names.search(spelled, known, cwd)) is not None
        for name in found.names
    ]


def _on_files(source: _Source, named: _Named, unnamed: bool, put: Put) -> str:
    """Whether a row is of a file that has one of these names, or of none where `unnamed`."""
    columns: list[list[Any]] = [list(column) for column in zip(*named, strict=True)] if named else [[], [], []]
    owners, runs, names = (put(column) for column in columns)
    listed = f"SELECT unnest({owners}::BIGINT[]), unnest({runs}::VARCHAR[]), unnest({names}::VARCHAR[])"
    either = [f"{source.columns['path']} IS NULL"] if unnamed else ["false"]
    # An inode that was used again in the run has several files, which events tell apart by their names alone.
    files = (
        "SELECT owner, run, {} FROM (SELECT *, unnest(list_append(coalesce(names, []::VARCHAR[]), path)) AS name FROM"
        " (SELECT *, count(*) OVER (PARTITION BY owner, run, identity) AS uses FROM files)) WHERE {} AND"
        f" (owner, run, name) IN ({listed})"
    )
    if not source.of_events:
        either.append(f"(e.owner, e.run, e.file) IN ({files.format('file', 'true')})")
        return f"({' OR '.join(either)})"
    again = "SELECT owner, run, identity FROM files WHERE file <> identity"
    known = [files.format("identity", "uses = 1")]
    for path, file in (("path", "file"), ("path2", "file2")):
        known.append(
            f"SELECT owner, run, {file} FROM {EVENTS} WHERE {file} IS NOT NULL AND (owner, run, {path}) IN ({listed})"
            f" AND (owner, run, {file}) NOT IN ({again})"
        )
    chosen = " UNION ALL ".join(known)
    for path, file, guard in (("path", "file", ""), ("path2", "file2", "coalesce(e.dir, '') NOT IN ('r', 'w') AND ")):
        either.append(
            f"{guard}((e.owner, e.run, e.{path}) IN ({listed})"
            f" OR (e.{file} IS NOT NULL AND (e.owner, e.run, e.{file}) IN ({chosen})))"
        )
    return f"({' OR '.join(f'({one})' for one in either)})"


# ---- the statement ----


def _from(source: _Source, picked: Iterable[str], tests: Sequence[str]) -> str:
    used = " ".join([*picked, *tests])
    joins = "".join(text for name, text in _JOINS.items() if re.search(rf"\b{name}\.", used))
    return f" FROM {source.table} e{joins}" + (f" WHERE {' AND '.join(tests)}" if tests else "")


def _events(source: _Source, asked: Query, tests: Sequence[str], put: Put) -> str:
    names = list(asked.columns or ())
    picked = [source.column(name, put) for name in names]
    order = _order(asked.sort, names, [f"{at} ASC NULLS LAST" for at in range(1, len(names) + 1)])
    order = order if asked.sort is not None else ""
    columns = ", ".join(f"{text} AS k{at}" for at, text in enumerate(picked))
    return f"SELECT {columns}{_from(source, picked, tests)}{order}{_limit(asked)}"


def _limit(asked: Query, least: int = 0) -> str:
    """least: rows without which something is not known."""
    return "" if asked.limit is None else f" LIMIT {max(int(asked.limit), least)}"


def _order(sort: str | None, names: Sequence[str], others: Sequence[str]) -> str:
    """By a column of the answer, else and then by `others`. Raises QueryError."""
    terms = list(others)
    if sort is not None:
        up, name = query.direction(sort, names)
        terms.insert(0, f"{names.index(name) + 1} {'ASC' if up else 'DESC'} NULLS LAST")
    return f" ORDER BY {', '.join(terms)}" if terms else ""


def _totals(source: _Source, asked: Query, keys: Sequence[Key], tests: Sequence[str], layered: bool, put: Put) -> str:
    """The statement for totals: a CTE a step."""
    values = list(dict.fromkeys(name for one in asked.statistics for name in _values(one)))
    time, histogram = group_keys.time_of(keys), group_keys.histogram_of(keys) if source.of_events else None
    lines = source.columns["lines"]
    made = {"lines": lines, "known": f"greatest({lines}, 1)", "total": f"CASE WHEN {lines} > 1 THEN 1 ELSE 0 END"}
    made |= {f"c{at}": _value(source, name, put) for at, name in enumerate(values)}
    made |= {f"k{at}": _key(source, key, put) for at, key in enumerate(keys) if key.kind != group_keys.TIMES}
    if layered:
        made["layer"] = f"CASE WHEN e.cat IN ({_UPPER}) THEN e.cat ELSE '' END"
    if time is not None:
        made["begin"] = f"({source.columns['ts']} - r.t0_ns)"
        took = "coalesce(e.span, e.dur, 0)" if source.of_events else source.columns["span"]
        made["took"] = f"greatest({took}, 0)"
    columns = list(made)
    if histogram is not None:
        made["histogram"] = f"e.{group_keys.HISTOGRAMS[histogram.column]}"
    steps = {"base": f"SELECT {_listed(made)}{_from(source, made.values(), tests)}"}
    if histogram is not None:
        steps["told"] = _by_histogram(columns, f"k{list(keys).index(histogram)}", len(values))
    if time is not None:
        steps["timed"] = _over_time(columns, list(steps)[-1], time, list(keys).index(time), len(values))
    steps["grouped"] = _groups(list(steps)[-1], asked, keys, values, layered, time is not None)
    listed = ", ".join(f"{name} AS ({text})" for name, text in steps.items())
    return f"WITH {listed} {_finished(asked, keys, values, layered)}"


def _listed(made: Mapping[str, str]) -> str:
    return ", ".join(f"{text} AS {name}" for name, text in made.items())


def _values(one: Statistic) -> list[str]:
    names = [one.column] if one.column is not None else []
    return [*names, *one.summed()]


def _value(source: _Source, name: str, put: Put) -> str:
    """A column for figures: the written end of a copy is no call."""
    if not source.of_events and name == "dur":
        return "NULL::BIGINT"
    column = source.column(name, put)
    return f"CASE WHEN e.lines > 0 THEN {column} END" if source.of_events and name in schema.OF_CALL else column


def _key(source: _Source, key: Key, put: Put) -> str:
    column = source.column(key.column, put)
    if key.kind == group_keys.COLUMN:
        return column
    if source.of_events and key.column in schema.EACH:
        column = f"CASE WHEN e.lines <= 1 THEN {column} END"
    if key.kind == group_keys.WIDTHS:
        return f"{_floored(column, key.width)} * {int(key.width)}"
    power = f"(1::BIGINT << least(floor(log2(greatest({column}, 1)))::BIGINT, 62))"
    return f"CASE WHEN {column} > 0 THEN CASE WHEN {power} > {column} THEN {power} >> 1 ELSE {power} END" + (
        f" WHEN {column} = 0 THEN 0 END"
    )


def _floored(number: str, width: int) -> str:
    """A whole number by another one, rounded down."""
    return f"(({number}) // {int(width)} - CASE WHEN ({number}) % {int(width)} < 0 THEN 1 ELSE 0 END)"


def _by_histogram(columns: Sequence[str], key: str, values: int) -> str:
    """Each line of totals as a row a power of two, which counts its calls, and one with its sums and no key; as
    totals_ranges.py."""
    sums_of = {name: name for name in columns} | {"lines": "0", "known": "0"}
    nothing = {f"c{at}": "NULL" for at in range(values)}
    digits = "least(calls[n], 63)"
    counted = {name: name for name in columns} | nothing | {"lines": "calls[n + 1]", "known": "0", "total": "0"}
    counted[key] = f"CASE WHEN {digits} > 0 THEN 1::BIGINT << ({digits} - 1) ELSE 0 END"
    return (
        f"SELECT {', '.join(columns)} FROM base WHERE total = 0"
        f" UNION ALL SELECT {_listed(sums_of)} FROM base WHERE total = 1"
        f" UNION ALL SELECT {_listed(counted)} FROM (SELECT *, unnest(generate_series(1, len(calls) - 1, 2)) AS n FROM"
        " (SELECT *, try_cast(histogram AS BIGINT[]) AS calls FROM base WHERE total = 1))"
    )


def _over_time(columns: Sequence[str], rows: str, time: Key, place: int, values: int) -> str:
    """Each row as a row a range of time that it covers, with its part of the sums; all else is in the first one."""
    width, is_first = int(time.width), "t.range_at = t.range_first"
    before = f"CASE WHEN {is_first} THEN 0.0::DOUBLE ELSE {_up_to('t.range_at', width)} END"
    after = f"CASE WHEN t.range_at = t.range_last THEN 1.0::DOUBLE ELSE {_up_to('(t.range_at + 1)', width)} END"
    made = {name: f"t.{name}" for name in columns if name not in ("begin", "took")}
    made |= {name: f"CASE WHEN {is_first} THEN t.{name} ELSE 0 END" for name in ("lines", "known", "total")}
    made |= {f"c{at}": f"CASE WHEN {is_first} THEN t.c{at} END" for at in range(values)}
    made |= {f"s{at}": _part(f"t.c{at}", before, after) for at in range(values)}
    made[f"k{place}"] = "t.range_at"
    begins, ends = _floored("begin", width), _floored("begin + took - 1", width)
    return (
        f"SELECT {_listed(made)} FROM (SELECT *, unnest(generate_series(range_first, range_last)) AS range_at FROM"
        f" (SELECT *, {begins} AS range_first, greatest({ends}, {begins}) AS range_last FROM {rows})) t"
    )


def _up_to(at: str, width: int) -> str:
    """The part of a call up to the begin of a range."""
    return f"({at} * {width} - t.begin)::DOUBLE / greatest(t.took, 1)"


def _part(value: str, before: str, after: str) -> str:
    """Of the sums up to here, so that the parts of a call add up to it. try_cast: a column of text is only counted."""
    number = f"try_cast({value} AS BIGINT)"
    return (
        f"CASE WHEN {after} = 1 THEN {number} ELSE trunc({number} * ({after}))::BIGINT END"
        f" - trunc({number} * ({before}))::BIGINT"
    )


def _groups(rows: str, asked: Query, keys: Sequence[Key], values: Sequence[str], layered: bool, timed: bool) -> str:
    """The partial sums of each group."""
    by = [f"k{at}" for at in range(len(keys))] + (["layer"] if layered else [])
    made = {name: name for name in by} | {
        "calls": "coalesce(sum(lines), 0)",
        "matched": "count(*)",
        "totals": "coalesce(sum(total), 0)",
    }
    for at, name in enumerate(values):
        if schema.column(name).is_number:
            made[f"sum{at}"] = f"coalesce(sum({'s' if timed else 'c'}{at}), 0)"
    for number, one in enumerate(asked.statistics):
        if one.column is None or one.how in ("sum", "share", "rate", "ratio"):
            continue
        value = f"c{values.index(one.column)}"
        if one.how == "mean":
            made[f"f{number}"] = _divided(f"sum({value})", f"sum(known) FILTER ({value} IS NOT NULL)")
        elif one.how == "nunique":
            made[f"f{number}"] = f"count(DISTINCT {value})"
        elif one.how in statistic.QUANTILES:
            made[f"f{number}"] = f"quantile_cont({value}::DOUBLE, {statistic.QUANTILES[one.how]})"
        else:
            made[f"f{number}"] = f"{one.how}({value})::BIGINT"
    return f"SELECT {_listed(made)} FROM {rows}" + (f" GROUP BY {', '.join(by)}" if by else "")


def _finished(asked: Query, keys: Sequence[Key], values: Sequence[str], layered: bool) -> str:
    """The figures of the groups of one layer, sorted."""
    time = group_keys.time_of(keys)
    width = None if time is None else time.width
    shown = [
        f"k{at}::DOUBLE * {int(key.width)} / 1e9" if key.kind == group_keys.TIMES else f"k{at}"
        for at, key in enumerate(keys)
    ]
    shown += [_figure(number, one, values, width) for number, one in enumerate(asked.statistics)]
    columns = ", ".join(f"{text} AS a{at}" for at, text in enumerate(shown))
    hidden = "sum(matched) OVER () AS matched, sum(totals) OVER () AS totals"
    layers = "(SELECT list(DISTINCT layer ORDER BY layer) FROM grouped)" if layered else "NULL"
    picked = " WHERE layer = (SELECT min(layer) FROM grouped)" if layered else ""
    nulls = [f"{at + 1} ASC NULLS {'FIRST' if key.is_text else 'LAST'}" for at, key in enumerate(keys)]
    order = _order(asked.sort, [one.name for one in asked.fields(keys)], nulls)
    return f"SELECT {columns}, {hidden}, {layers} AS layers FROM grouped{picked}{order}{_limit(asked, 1)}"


def _figure(number: int, one: Statistic, values: Sequence[str], width_ns: int | None) -> str:
    def total(name: str | None) -> str:
        return "calls" if name is None else f"sum{values.index(name)}"

    if one.how in ("count", "sum"):
        return f"greatest(least({total(one.column)}, {_MOST}), -{_MOST} - 1)::BIGINT"
    if one.how == "share":
        return _divided(total(one.column), f"sum({total(one.column)}) OVER ()")
    if one.how == "ratio":
        return _divided(total(one.column), total(one.per))
    if one.how == "rate":
        return _divided(total(one.column), f"({total('dur') if width_ns is None else int(width_ns)} / 1e9)")
    return f"f{number}"


def _divided(above: str, below: str) -> str:
    """Null where there is nothing to divide by."""
    return f"CASE WHEN {below} > 0 THEN ({above})::DOUBLE / {below} END"
