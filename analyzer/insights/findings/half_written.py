"""Files that a process had open for writing when it was cut short."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes, identities
from tailrace.analyzer.insights import cut_short
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.cut_short import End
from tailrace.analyzer.insights.finding import FAILURE, Match, Rule, more, rows_of
from tailrace.analyzer.model import calls
from tailrace.analyzer.util.formatting import bytes_text

MOST_EVENTS = 1_000_000
"""Of the processes that were killed; past it those with most events are left out."""


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match; those that others read come first."""
    rows = _half_written(found)
    if not len(rows):
        return
    inputs = found.inputs
    named = rows.assign(
        task=[inputs.called(int(task)) for task in rows["task"]],
        readers=[", ".join(inputs.called(int(task)) for task in tasks) for tasks in rows["readers"]],
    )
    top = named.iloc[0]
    read = f", and {top['readers']} read it" if top["readers"] else ""
    who = str(top["task"])
    by = "" if top["program"] in who else f"{top['program']} of "
    yield Match(
        title=f"{by}{who} {top['end']} while it wrote {top['path']}: the"
        f" {bytes_text(int(top['bytes']))} that are there may be half of it{read}{more(len(rows))}",
        names={"path": str(top["path"])},
        # The writers' own results are what failed tasks and commands tell of.
        count=max(len({task for tasks in rows["readers"] for task in tasks}), 1),
        evidence=rows_of(named[["task", "program", "end", "path", "bytes", "readers"]]),
        tasks={*rows["task"].tolist(), *(task for tasks in rows["readers"] for task in tasks)},
    )


def _cut_short(found: Analyses) -> dict[int, End]:
    """Actor as which a process that was cut short was seen last -> how; without managers' own processes and pools,
    which end so when all is done."""
    inputs, m = found.inputs, found.inputs.m
    out: dict[int, End] = {}
    for process, end in cut_short.ends(inputs).items():
        actors = inputs.lives.actors[process]
        served = {int(inputs.of_who[actor]) for actor in actors if inputs.works[inputs.of_who[actor]]}
        if len(served) == 1 and not m.of_manager[actors].any():
            out[inputs.lives.last(process)] = end
    return out


def _half_written(found: Analyses) -> pd.DataFrame:
    """task, program, end (in words), path, bytes, readers (tasks), of files that were open when their writer was cut
    short, are still there and were not written anew, and, where its end was not seen, were read then; those that were
    read first, then the largest."""
    inputs, m = found.inputs, found.inputs.m
    ended = _cut_short(found)
    columns = ["task", "program", "end", "path", "bytes", "readers"]
    wrote = m.classed(("data",)) & (m.bursts["dir"] == edge_table.WRITE).to_numpy()
    mine = wrote & m.bursts["who"].isin(ended).to_numpy() & (m.bursts["bytes"] > 0).to_numpy()
    pairs = m.bursts.loc[mine].groupby(["who", "file"], as_index=False)["bytes"].sum()
    still_open = _open_at_the_end(found, pairs)
    rows = []
    removed = m.table.facts[(m.table.facts["what"] == "unlink") & (m.table.facts["file"] >= 0)]
    for who, file, size in pairs[["who", "file", "bytes"]].itertuples(index=False):
        end = int(inputs.lives.end[who])
        others = m.bursts[(m.bursts["file"] == file).to_numpy() & (m.bursts["first_ns"] > end).to_numpy()]
        anew = (others["dir"] == edge_table.WRITE).any() or (removed["file"] == file).any()
        if (who, file) not in still_open or anew:
            continue
        readers = inputs.of_who[others["who"].to_numpy()[(others["dir"] == edge_table.READ).to_numpy()]]
        program = file_classes.program(str(m.who["exe"].iat[who])) or "?"
        users = sorted({int(task) for task in readers} - {int(inputs.of_who[who])})
        if users or ended[who].seen:
            rows.append((int(inputs.of_who[who]), program, ended[who].words, str(m.paths[file]), int(size), users))
    out: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    unread = np.array([not readers for readers in out["readers"]], dtype=np.bool_)
    order = np.lexsort((-out["bytes"].to_numpy(dtype=np.int64), unread))
    result: pd.DataFrame = out.iloc[order].reset_index(drop=True)
    return result


def _open_at_the_end(found: Analyses, pairs: pd.DataFrame) -> set[tuple[int, int]]:
    """Of pairs of actors and files those that the actor opened more often than it closed them."""
    inputs, m = found.inputs, found.inputs.m
    if inputs.run is None or not len(pairs):
        return set()
    events = m.table.counts.groupby("who")["calls"].sum().reindex(pairs["who"].unique(), fill_value=0).sort_values()
    chosen = events.index[events.cumsum() <= MOST_EVENTS].to_numpy(dtype=np.int64)
    if not len(chosen):
        return set()
    processes = inputs.lives.process[chosen]
    who = np.isin(inputs.lives.process, processes)
    uses = calls.read(inputs.run, m, who, pairs["file"].to_numpy(dtype=np.int64)).uses
    step = uses["what"].map({calls.OPEN: 1, calls.CLOSE: -1}).fillna(0).astype(int)
    balance = step.groupby([inputs.lives.process[uses["who"].to_numpy(dtype=np.int64)], uses["file"]]).sum().to_dict()
    names = m.table.files["file"].astype(str).to_numpy()
    return {
        (int(actor), int(file))
        for actor, file in pairs[["who", "file"]].itertuples(index=False)
        if balance.get((int(inputs.lives.process[actor]), identities.raw(names[file])), 0) > 0
    }


RULE = Rule(
    kind="half-written output",
    about=FAILURE,
    title="Files that a process had open for writing when it was cut short",
    definition=(
        "A signal ended a process (not SIGPIPE) that had written a data file and not closed it, the file is still"
        " there, and nobody wrote it anew. It may end in the middle. Or such a process has no recorded end, and did"
        " nothing any more after a signal had ended its parent, so that nobody waited for it; then the file is told"
        " if another task read it later. Processes that serve several tasks, which their manager ends when all is"
        " done, are left out."
    ),
    advice=(
        "Remove it and run the task again, with all that read it; write to a temporary name and rename the file when it"
        " is complete."
    ),
    source="signal(7); rename(2) is atomic",
    query="tailrace file {run} {path}",
    find=find,
)
