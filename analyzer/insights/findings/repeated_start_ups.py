"""A program that is started again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights import start_ups
from tailrace.analyzer.insights.access_costs import SHORT_NS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import GAPS, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Ints

STARTS = Threshold(10, "starts of a program in a stage")
SHARE = Threshold(20, "% of the program's life")


def find(found: Analyses) -> Iterator[Match]:
    """All programs, as one match."""
    inputs, loads = found.inputs, found.start_ups
    long = np.flatnonzero((loads.length_ns > SHORT_NS) & inputs.works[inputs.of_who] & ~inputs.m.of_manager)
    rows = sorted(_programs(found, long), key=lambda row: -int(str(row["gain_ns"])))
    saved = sum(int(str(row["gain_ns"])) for row in rows)
    if not LEAST.reached(saved, inputs.makespan_ns):
        return
    top = rows[0]
    package = f" ({top['package']})" if top["package"] else ""
    yield Match(
        title=f"{top['stage']}: {top['program']} was started {top['starts']:,} times, and each time took"
        f" {time_text(int(str(top['median_ns'])))} to load itself and its modules{package}{more(len(rows))}",
        names={"stage": found.of_stage(str(top["stage"]))},
        cost_ns=min(saved, inputs.makespan_ns),
        estimate=True,
        count=len(rows),
        evidence=rows[:5],
        tasks=set(inputs.of_who[long].tolist()),
        where=f"in {top['stage']}",
    )


def _programs(found: Analyses, actors: Ints) -> Iterator[Row]:
    inputs, loads = found.inputs, found.start_ups
    lives = (inputs.lives.end - inputs.lives.start)[actors]
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[inputs.of_who]
    names = [file_classes.program(str(inputs.m.who["exe"].iat[actor])) for actor in actors.tolist()]
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    program = np.array([place[name] for name in names], dtype=np.int64)
    code, first = grouping.numbered(grouping.pack(stage[actors], program))
    times = intervals.union(intervals.make(code, loads.begin_ns[actors], loads.end_ns[actors]))
    together = intervals.length(times, len(first))
    for group, at in enumerate(first.tolist()):
        mine = actors[code == group]
        if len(mine) < STARTS.value or not names[at]:
            continue
        if np.median(loads.length_ns[mine]) < SHARE.value / 100 * np.median(lives[code == group]):
            continue
        yield Row(
            stage=str(inputs.stages["stage"].iat[int(stage[actors[at]])]),
            program=names[at],
            starts=len(mine),
            median_ns=int(np.median(loads.length_ns[mine])),
            gain_ns=int(together[group] * (1 - 1 / len(mine))),
            package=start_ups.most_loaded(inputs, mine),
        )


RULE = Rule(
    kind="repeated start-ups",
    about=TIME,
    title="The same program, started again and again",
    definition=(
        f"{STARTS}, each of which took more than {time_text(SHORT_NS)}, and {SHARE}, from its first event to the last"
        " file of software that it read before any data: its libraries and modules. The estimate is the time in"
        " which at least one of them did so, less the share of one: an upper bound of what one process for many"
        " would save."
    ),
    advice=(
        "Let one process do many of these: a loop over its inputs, a pool of workers that stays, or tasks that are"
        " fewer and longer; import only what is used."
    ),
    source="fork(2), execve(2); python -X importtime",
    query="tailrace query {run} {stage} --name 'open*' --by path --agg count --agg sum:dur --sort count --limit 20",
    find=find,
    thresholds=(STARTS, SHARE, LEAST),
    change="one process for many",
    explains=(GAPS,),
)
