"""A program that is started again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights import failures, start_ups
from tailrace.analyzer.insights.access_costs import SHORT_NS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import GAPS, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import own_time
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Ints

STARTS = Threshold(10, "starts of a program in a stage")
SHARE = Threshold(20, "% of the program's life")


_FAILING = (
    "Look why it fails: no result of it is used. Where it cannot work here, leave it out; test once whether it can, not"
    " for each item."
)


def find(found: Analyses) -> Iterator[Match]:
    """All programs, as one match."""
    inputs, loads = found.inputs, found.start_ups
    long = np.flatnonzero((loads.length_ns > SHORT_NS) & inputs.works[inputs.of_who] & ~inputs.m.of_manager)
    rows = sorted(_programs(found, long), key=lambda row: -int(str(row["gain_ns"])))
    saved = sum(int(str(row["gain_ns"])) for row in rows)
    if not LEAST.reached(saved, inputs.makespan_ns):
        return
    top = rows[0]
    failed = int(str(top["failed"]))
    ends = f"; {failed:,} of these ended with exit code {top['exit']}" if 2 * failed > int(str(top["starts"])) else ""
    package = f" ({top['package']})" if top["package"] else ""
    yield Match(
        title=f"{top['stage']}: {top['program']} was started {top['starts']:,} times, and each time took"
        f" {time_text(int(str(top['median_ns'])))} to load itself and its modules{package}{ends}{more(len(rows))}",
        names={"stage": found.of_stage(str(top["stage"]))},
        cost_ns=min(saved, inputs.makespan_ns),
        most_ns=min(sum(int(str(row["most_ns"])) for row in rows), inputs.makespan_ns),
        estimate=True,
        count=len(rows),
        evidence=rows[:5],
        tasks=set(inputs.of_who[long].tolist()),
        where=f"in {top['stage']}",
        advice=_FAILING if ends else "",
        change="no program that fails" if ends else "",
    )


def _programs(found: Analyses, actors: Ints) -> Iterator[Row]:
    inputs, loads = found.inputs, found.start_ups
    lives = (inputs.lives.end - inputs.lives.start)[actors]
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[inputs.of_who]
    names = [file_classes.program(str(inputs.m.who["exe"].iat[actor])) for actor in actors.tolist()]
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    program = np.array([place[name] for name in names], dtype=np.int64)
    code, first = grouping.numbered(grouping.pack(stage[actors], program))
    spans = (
        _spans(inputs, actors, begin, end)
        for begin, end in ((loads.begin_ns, loads.end_ns), (loads.begin_ns, loads.work_ns))
    )
    together, most = (
        intervals.length(intervals.union(rows._replace(group=code[rows.group])), len(first)) for rows in spans
    )
    code_of = failures.ends(inputs).code[inputs.lives.process]
    for group, at in enumerate(first.tolist()):
        mine = actors[code == group]
        if len(mine) < STARTS.value or not names[at]:
            continue
        if np.median(loads.length_ns[mine]) < SHARE.value / 100 * np.median(lives[code == group]):
            continue
        others = 1 - 1 / len(mine)
        yield Row(
            stage=str(inputs.stages["stage"].iat[int(stage[actors[at]])]),
            program=names[at],
            starts=len(mine),
            median_ns=int(np.median(loads.length_ns[mine])),
            gain_ns=int(together[group] * others),
            most_ns=int(most[group] * others),
            package=start_ups.most_loaded(inputs, mine),
            **_failed(code_of[mine]),
        )


def _failed(codes: Ints) -> Row:
    """How many of these exit codes are not 0, and which of them most are."""
    counts = Counter(codes[codes != 0].tolist())
    return {"failed": counts.total(), "exit": counts.most_common(1)[0][0] if counts else 0}


def _spans(inputs: Inputs, actors: Ints, begin: Ints, end: Ints) -> Intervals:
    """From the fork of each actor's process to the end of its start-up, and from its last event until it was waited
    for, which is its end if that is soon; groups: positions in actors."""
    whole, over = own_time.lives(inputs.m), inputs.lives.end
    gone = np.where(whole.end - over <= SHORT_NS, np.maximum(whole.end, over), over)
    every = np.arange(len(actors), dtype=np.int64)
    first = np.minimum(np.minimum(begin, whole.start)[actors], end[actors])
    return intervals.joined(
        [intervals.make(every, first, end[actors]), intervals.make(every, over[actors], gone[actors])]
    )


RULE = Rule(
    kind="repeated start-ups",
    about=TIME,
    title="The same program, started again and again",
    definition=(
        f"{STARTS}, each of which took more than {time_text(SHORT_NS)}, and {SHARE}, from its first event to the last"
        " file of software that it read before any data: its libraries and modules. The estimate is the time in"
        " which at least one of them did so, or was made by its parent or ending, less the share of one; at most it is"
        " all of the time before a process touched data, in which what it loaded may have set itself up."
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
