"""The declared DAG compared with the observed one (declared_vs_observed.py), with the cost of each difference.

    undeclared      data passed and no dependency was declared for it. `order` says what puts the producer first
                    (model/order.py). With nothing, it is a race, with the right order in this run.
    empty           a dependency by a file over which no data passed to a task that ran, and did not fail. Without it
                    the consumer could have begun earlier: `saved_ns` is by how much the run's longest chain of tasks
                    would be shorter, `together_ns` the same for all such dependencies at once.
    untouched       a declared input that the task never read or ran, a declared output that it never wrote; not of a
                    task that failed, which might have, nor a file that was staged: an untagged process that read it
                    wrote what the task read (Nextflow's `stageInMode 'copy'`), or the other way round

The chain is the longest path over declared dependencies, each task weighing its time from first to last event; gaps
between tasks weigh nothing. So a saving is an upper bound with enough processors. Declared tasks without events weigh
nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.file_classes import SHARED_OBJECT
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util import csr
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Ints

MAX_SINGLE = 200
"""Dependencies for which the saving is computed one by one."""
STATES = ("never touched", "written, not read", "read, not written", "touched by others only")


@dataclass(frozen=True, repr=False)
class Declared(Tabular):
    """
    table: `declared_vs_observed.compare_declared` of the run.
    undeclared: its rows with status "undeclared", by bytes.
    empty: rows with status "not observed" of consumers that succeeded, and saved_ns (-1 where it was not computed); the
    largest saving first.
    together_ns: saved without any of `empty`.
    untouched: workflow, task, direction, path, state (`STATES`).
    """

    table: pd.DataFrame
    undeclared: pd.DataFrame
    empty: pd.DataFrame
    together_ns: int
    untouched: pd.DataFrame


def declared(inputs: Inputs) -> Declared:
    """Declared against observed; empty tables where nothing was declared."""
    table = inputs.declared
    if len(table) == 0:
        nothing: pd.DataFrame = pd.DataFrame(columns=["status", "saved_ns"])
        return Declared(table, nothing, nothing, 0, untouched(inputs))
    undeclared = table[table["status"] == "undeclared"].sort_values(
        "bytes", ascending=False, kind="stable", ignore_index=True
    )
    empty, together_ns = savings(inputs)
    return Declared(table, undeclared, empty, together_ns, untouched(inputs))


def savings(inputs: Inputs) -> tuple[pd.DataFrame, int]:
    """`Declared.empty` and `Declared.together_ns`."""
    rows = inputs.declared[inputs.declared["status"] != "undeclared"].reset_index(drop=True)
    keys = [list(zip(rows["workflow"], rows[end], strict=True)) for end in ("producer", "consumer")]
    codes, names = pd.factorize(pd.MultiIndex.from_tuples([*keys[0], *keys[1]])) if len(rows) else (np.empty(0), [])
    source, target = np.asarray(codes[: len(rows)], dtype=np.int64), np.asarray(codes[len(rows) :], dtype=np.int64)
    weight = _weights(inputs, [tuple(name) for name in names])
    ends = inputs.tables.get("outcomes")
    never = _never_ran(inputs.tables.get("declared_tasks")) | _unended(ends) | _failed(ends)
    carries = (rows["status"] != "not observed").to_numpy() | np.array([key in never for key in keys[1]], dtype=bool)
    empty = np.flatnonzero(~carries)
    g = csr.build(len(weight), source, target)
    found = csr.longest(g, weight)
    whole = int(found.length[found.reached].max(initial=0))
    rest = csr.longest(csr.reverse(g), weight).length
    saved = np.zeros(len(rows), dtype=np.int64)
    # Only the removal of a dependency on the longest chain can make it shorter.
    tight = empty[found.length[source[empty]] + rest[target[empty]] == whole]
    for i in tight[:MAX_SINGLE].tolist():
        keep = np.arange(len(rows)) != i
        saved[i] = whole - _chain(source[keep], target[keep], weight)
    saved[tight[MAX_SINGLE:]] = -1
    together = whole - _chain(source[carries], target[carries], weight) if len(empty) else 0
    out = rows.iloc[empty].assign(saved_ns=saved[empty])
    out = out.sort_values("saved_ns", ascending=False, kind="stable", ignore_index=True)
    return out, int(together)


def _never_ran(tasks: pd.DataFrame | None) -> set[tuple[str, str]]:
    """(workflow, task) of the declared tasks without a try."""
    if tasks is None or "tries" not in tasks:
        return set()
    rows = tasks[tasks["tries"] == 0]
    return set(zip(rows["workflow"], rows["task"], strict=True))


def _unended(rows: pd.DataFrame | None) -> set[tuple[str, str]]:
    """(workflow, task) of the tasks without a declared end, of managers that declare when tasks begin: they may read
    yet, and what their processes recorded last may not be in the trace."""
    if rows is None or not len(rows):
        return set()
    told = rows["workflow"].isin(set(rows.loc[rows["begin_ns"].notna(), "workflow"]))
    return set(outcomes.task_keys(rows[told & rows["status"].isna()]))


def _failed(rows: pd.DataFrame | None) -> set[tuple[str, str]]:
    """(workflow, task) of the tasks that failed, perhaps before they came to a file."""
    return (
        set() if rows is None or not len(rows) else set(outcomes.task_keys(rows[rows["status"].isin(outcomes.FAILED)]))
    )


def _weights(inputs: Inputs, names: list[tuple[str, ...]]) -> Ints:
    """ns of each (workflow, task); 0 for one without events."""
    long = (inputs.tasks["end_ns"] - inputs.tasks["start_ns"]).to_numpy(dtype=np.int64).tolist()
    spans = dict(zip(zip(inputs.tasks["workflow"], inputs.tasks["task"], strict=True), long, strict=True))
    return np.array([spans.get((str(name[0]), str(name[1])), 0) for name in names], dtype=np.int64)


def _chain(source: Ints, target: Ints, weight: Ints) -> int:
    """The longest chain, ns."""
    found = csr.longest(csr.build(len(weight), source, target), weight)
    return int(found.length[found.reached].max(initial=0))


def untouched(inputs: Inputs) -> pd.DataFrame:
    """`Declared.untouched`: by any path that a file had in the run; what another task of the workflow did to it is in
    the state. Only tasks with events, which did not fail, are compared."""
    columns = ["workflow", "task", "direction", "path", "state"]
    files = inputs.tables.get("declared_files")
    if files is None or len(files) == 0:
        return pd.DataFrame(columns=columns)
    # Several files had a path where one was replaced: the output of a failed try, removed before the next one.
    codes_of: dict[str, list[int]] = {}
    for path, code in zip(inputs.m.table.aliases["path"], inputs.m.table.aliases["file"].tolist(), strict=True):
        codes_of.setdefault(path, []).append(code)
    paths = sorted(codes_of)
    folders = set(np.flatnonzero((inputs.m.table.files["ftype"] == "dir").to_numpy()).tolist())
    who = inputs.m.who
    bursts = inputs.m.bursts
    names = list(zip(who["workflow"].to_numpy()[bursts["who"]], who["task"].to_numpy()[bursts["who"]], strict=True))
    did = set(zip(names, bursts["file"].tolist(), bursts["dir"].tolist(), strict=True))
    by_anyone = set(bursts["file"].tolist())
    staging = _Staging(inputs)
    ran = set(zip(who["workflow"], who["task"], strict=True)) - _failed(inputs.tables.get("outcomes"))
    made = set(files["path"][files["direction"] == "w"])
    rows = []
    for row in files.to_dict("records"):
        name = (str(row["workflow"] or ""), str(row["task"]))
        if name not in ran or not isinstance(row["path"], str):
            continue
        codes = [*codes_of.get(row["path"], ()), *_below(paths, codes_of, row["path"])]
        # What its maker never made is said of the maker: a target of make that is phony, though nothing says so.
        if row["direction"] == "r" and not codes and row["path"] in made:
            continue
        read, wrote = (any((name, code, way) in did for code in codes) for way in (edge_table.READ, edge_table.WRITE))
        wanted = wrote if row["direction"] == "w" else read
        # A folder is made, and others may fill it.
        if wanted or (row["direction"] == "w" and not folders.isdisjoint(codes)):
            continue
        if staging.carried(name, codes, str(row["direction"])):
            continue
        # What the dynamic linker loads is in no trace.
        if row["direction"] == "r" and SHARED_OBJECT.search(row["path"]):
            continue
        state = STATES[0]
        if read:
            state = STATES[2]
        elif wrote or not by_anyone.isdisjoint(codes):
            state = STATES[3] if not wrote else STATES[1]
        rows.append((*name, row["direction"], row["path"], state))
    return pd.DataFrame(rows, columns=columns)


class _Staging:
    """What untagged processes read and wrote: those that a manager starts, not itself, which does it for many tasks."""

    def __init__(self, inputs: Inputs) -> None:
        m = inputs.m
        run = inputs.run
        managers = m.of_processes({*run.manager_processes, *run.own_processes} if run else ())
        untagged = (m.who["task"] == "").to_numpy(dtype=np.bool_) & ~managers
        self._files: dict[tuple[object, int], set[int]] = {}
        self._carriers: dict[tuple[int, int], set[int]] = {}
        names = outcomes.task_keys(m.who)
        rows = m.bursts.loc[m.classed(("data",)), ["who", "file", "dir"]].drop_duplicates()
        for who, file, way in zip(*(rows[name].tolist() for name in ("who", "file", "dir")), strict=True):
            self._files.setdefault((who if untagged[who] else names[who], way), set()).add(file)
            if untagged[who]:
                self._carriers.setdefault((file, way), set()).add(who)

    def carried(self, task: tuple[str, str], codes: list[int], direction: str) -> bool:
        """Whether a process that read one of the files wrote what the task read ("r"), or wrote one of them and read
        what the task wrote ("w")."""
        near, far = (edge_table.READ, edge_table.WRITE) if direction == "r" else (edge_table.WRITE, edge_table.READ)
        moved = self._files.get((task, near), set()).difference(codes)
        carriers = {who for code in codes for who in self._carriers.get((code, near), ())}
        return any(not moved.isdisjoint(self._files.get((who, far), ())) for who in carriers)


def _below(paths: list[str], codes_of: Mapping[str, list[int]], folder: str) -> list[int]:
    """The files below a declared folder, of which nobody reads or writes itself. paths: those of `codes_of`, sorted."""
    begin = folder.rstrip("/") + "/"
    first, last = (bisect_left(paths, text) for text in (begin, begin[:-1] + chr(ord("/") + 1)))
    return [code for path in paths[first:last] for code in codes_of[path]]
