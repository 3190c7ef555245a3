"""Estimates of the makespan on other resources: `tailrace whatif`.

    questions (tier, together, drop, workers) --> one Change --replay_scene.py--> Estimate

The estimate is the run's makespan and what the replay with all changes differs by from the replay without. Its interval
has two sources. One is what the trace doesn't tell, by a replay with the one and one with the other assumption:

    tier in bytes/s   each task has so many for itself, or all tasks that are inside such calls at a time share them
    workers           tasks beside each other don't slow each other down, or their calls on files share the bandwidth
                      that they had, and their computing the processors that they could run on; on several hosts a
                      task takes a worker of any, or of the one on which it ran
    another order     tasks beside other ones than before wait for a processor as long as they did, or not at all

The other is chance: twice the spread of the tasks of a stage (median absolute deviation, scaled as for a normal
distribution; a tenth of the duration in a stage of fewer than `LEAST_SIBLINGS` tasks), over the tasks on the replay's
chain as independent.

    tier        time inside reads and writes (not metadata calls) of the named files is divided by a factor, or by the
                given rate over the measured one (bytes by time in calls on these files)
    together    the consumers of a stage take each file of the producers as it is written: begin after its first byte,
                end after its last, as through a pipe, and don't wait for the declared end of the producer
    drop        a declared order does not count; what a task read still does
    workers     so many on each host

`Replays` is what findings ask the same replay: what the run would take less without some calls of its tasks, as a
`Gain`, or where one hand-over is a stream, which the bound of the critical path (critical.py) limits, too: any number
of workers, no delays.

Without calls, the least is by the replay, less chance: only what the trace tells waits for the task, and the time in
which a task was ready in a call, while others had the processors, stays. Of that the estimate leaves what the task's
computing waits for anyway. The most is by another assumption, that what the programs do between such calls is for them
and goes, too: to format a record, or an interpreter's own way to the call. Calls that follow each other within
`SERIES_NS` are taken for such. It is no more than what the critical path can lose: its time in such calls, and what it
did not compute, as it may have waited for what these calls took of processors and devices. That limit is none of calls
for which another program works, as a server does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, name_table
from tailrace.analyzer.edges.file_names import FileNames
from tailrace.analyzer.insights import critical, processors
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.replay import Play
from tailrace.analyzer.insights.replay_scene import Change, Scene, at_a_time
from tailrace.analyzer.model import time_model
from tailrace.analyzer.model.order import DATA, DECLARED, writes
from tailrace.analyzer.store.conditions import Glob
from tailrace.analyzer.util import intervals, nearest, quantities
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Floats, Ints
from tailrace.errors import QueryError, UsageError

WITHOUT_DATA = "declared edges without data"
"""What `drop` takes beside a pair of stages."""
LEAST_SIBLINGS = 4
FEW_SPREAD = 0.1
SERIES_NS = 10_000_000
_NORMAL = 1.4826
"""Median absolute deviation of a normal distribution -> its standard deviation."""
_SPEED = re.compile(r"\s*(?:(?P<factor>\d+(?:\.\d*)?|\.\d+)\s*x|(?P<rate>.+?)\s*/\s*s)\s*", re.IGNORECASE)
_MOST_NAMES = 5000
"""Names that are searched for one that is like a pattern without files."""


@dataclass(frozen=True)
class Part:
    """A stage on the chain of tasks that determines the makespan: how many of its tasks, and their time; of the run,
    and with the change."""

    stage: str
    tasks: int
    ns: int
    tasks_then: int
    ns_then: int


@dataclass(frozen=True)
class Estimate:
    """makespan_ns: as measured. estimate_ns, low_ns, high_ns: as estimated. workers: of the run, on that of `hosts`
    hosts that had most; None: not known. assumed: each change, in words. kept: what the replay leaves as it was.
    interval: where its ends come from. parts: the chain by stage, the longest first."""

    makespan_ns: int
    estimate_ns: int
    low_ns: int
    high_ns: int
    workers: int | None
    hosts: int
    assumed: list[str]
    kept: list[str]
    interval: list[str]
    parts: list[Part]

    @property
    def saved_ns(self) -> int:
        """How much shorter the run would be; negative: longer."""
        return self.makespan_ns - self.estimate_ns

    def to_json(self) -> dict[str, Any]:
        """The same, JSON-ready, with `saved_ns`."""
        return {**asdict(self), "saved_ns": self.saved_ns}


@dataclass
class _Question:
    """change: as estimated; others: each makes the same with another assumption; in words: assumed, interval."""

    change: Change
    others: list[Callable[[Change], Change]]
    assumed: list[str]
    interval: list[str]


def estimate(
    inputs: Inputs,
    tier: Sequence[str] | str = (),
    together: Sequence[str | tuple[str, str]] | str = (),
    drop: Sequence[str | tuple[str, str]] | str = (),
    workers: int | None = None,
) -> Estimate:
    """The makespan with all of these changes at once.

    Args:
        tier: "PATTERN=RATE/s" or "PATTERN=FACTORx": "/scratch/*=2GB/s", "/scratch/*=4x".
        together: pairs of stages, producer and consumer, as tuples or "a,b".
        drop: `WITHOUT_DATA`, or pairs of stages between which declared dependencies are dropped.
        workers: on each host.

    Raises:
        UsageError: nothing is asked, or not in this form.
        QueryError: the run has no such stage or file, or its number of workers is not known.
    """
    scene = Scene(inputs)
    asked = _Question(Change(), [], [], [])
    for text in _several(tier):
        _tier(inputs, asked, text)
    for pair in _several(together):
        _together(inputs, asked, pair)
    for pair in _several(drop):
        _drop(inputs, asked, pair)
    if workers is not None:
        _workers(scene, asked, workers)
    elif drop:
        _idle_workers(scene, asked)
    if not asked.assumed:
        raise UsageError("say what would be different: --tier, --together, --drop or --workers")
    return _answer(scene, asked)


def _several(words: Sequence[Any] | str) -> Sequence[Any]:
    return [words] if isinstance(words, str) else words


def _answer(scene: Scene, asked: _Question) -> Estimate:
    inputs = scene.inputs
    before, after = scene.play(Change()), scene.play(asked.change)
    if asked.change.workers is not None:
        _contention(scene, asked, before, after)
    if asked.change.workers is not None or asked.change.streams or asked.change.undeclared:
        _processors_of_others(scene, asked)
    last = int(scene.end[scene.works].max(initial=inputs.start_ns))
    times = [inputs.makespan_ns + after.over_ns - before.over_ns]
    for other in asked.others:
        change = other(asked.change)
        as_it_was = scene.play(Change(at_home=True)) if change.at_home else before
        times.append(inputs.makespan_ns + scene.play(change).over_ns - as_it_was.over_ns)
    spread = round(2 * _spread(inputs, scene, after))
    chance = spread + abs(before.over_ns - last)
    asked.interval.append(f"twice the spread of tasks of one stage, over the tasks on the chain: {time_text(spread)}")
    kept = [
        "each task computes for as long as it did, and does the rest of its I/O at the speed it had",
        "the time between the moment at which a task could begin and its begin stays (dispatch, start-up)",
    ]
    if asked.change.quicker:
        kept.append("opening, looking up and changing names takes as long as it did: a tier is for reads and writes")
    if scene.workers is not None:
        kept.append("of the tasks that are ready, the one that began first in the run takes the next free worker")
    return Estimate(
        makespan_ns=inputs.makespan_ns,
        estimate_ns=max(times[0], 0),
        low_ns=max(min(times) - chance, 0),
        high_ns=max(times) + chance,
        workers=scene.workers,
        hosts=scene.hosts,
        assumed=asked.assumed,
        kept=kept,
        interval=asked.interval,
        parts=_parts(inputs, before, after),
    )


def _processors_of_others(scene: Scene, asked: _Question) -> None:
    """Tasks that run beside other ones than they did may wait for a processor for as long, or not at all."""
    ready = int(scene.inputs.spent.parts()[time_model.READY].to_numpy()[scene.works].sum())
    if ready:
        asked.others.append(lambda change: replace(change, unready=True))
        asked.interval.append(f"tasks wait for a processor for as long as they did ({time_text(ready)}), or not at all")


def _spread(inputs: Inputs, scene: Scene, play: Play) -> float:
    stage = inputs.tasks["stage_code"].to_numpy()
    long = scene.end - scene.start
    spreads: dict[int, float] = {}
    total = 0.0
    for task in (t for t in play.chain if t < len(stage)):
        code = int(stage[task])
        if code not in spreads:
            mine = long[(stage == code) & scene.works]
            middle = float(np.median(mine))
            by_rule = _NORMAL * float(np.median(np.abs(mine - middle))) / middle if middle else 0.0
            spreads[code] = by_rule if len(mine) >= LEAST_SIBLINGS else FEW_SPREAD
        total += (spreads[code] * (play.end_ns[task] - play.start_ns[task])) ** 2
    return float(np.sqrt(total))


def _parts(inputs: Inputs, before: Play, after: Play) -> list[Part]:
    sums: dict[str, list[int]] = {}
    for at, play in ((0, before), (2, after)):
        for task in (t for t in play.chain if t < len(inputs.tasks)):
            row = sums.setdefault(inputs.stage_of(task), [0, 0, 0, 0])
            row[at] += 1
            row[at + 1] += play.end_ns[task] - play.start_ns[task]
    parts = [Part(stage, *row) for stage, row in sums.items()]
    return sorted(parts, key=lambda part: -max(part.ns, part.ns_then))


# --- the questions ---------------------------------------------------------------------------------------------------


def _tier(inputs: Inputs, asked: _Question, text: str) -> None:
    pattern, sign, speed = text.rpartition("=")
    match = _SPEED.fullmatch(speed)
    if not sign or not pattern or match is None:
        raise UsageError(f"{text!r} is no tier: give PATTERN=SPEED, as in '/scratch/*=2GB/s' or '/scratch/*=4x'")
    factor = float(match["factor"] or 0)
    try:
        rate = quantities.whole(match["rate"], "bytes") if match["rate"] else 0
    except QueryError as error:
        raise UsageError(f"{text!r}: {error}") from error
    if factor <= 0 and rate <= 0:
        raise UsageError(f"{text!r}: the speed of a tier is above 0")
    pick = _data_of(inputs, pattern)
    inside = io_cover(inputs, pick)
    io_ns, moved = int(inside.length().sum()), int(inputs.m.bursts["bytes"].to_numpy()[pick].sum())
    files = count_text(len(np.unique(inputs.m.bursts["file"].to_numpy()[pick])), "file")
    measured = moved / io_ns * 1e9 if io_ns else 0.0
    was = f"{bytes_text(moved)} in {time_text(io_ns)} of calls"
    if rate:
        factor = rate / measured if measured else 1.0
        side_by_side = max(io_ns / max(_wall(inside.rows), 1), 1.0)
        how = f"at {bytes_text(rate)}/s for each task, {factor:.3g} times the measured {bytes_text(measured)}/s"
        if side_by_side > 1.01:
            at, slower = len(asked.change.quicker), (inside, factor / side_by_side)
            asked.others.append(lambda c: replace(c, quicker=(*c.quicker[:at], slower, *c.quicker[at + 1 :])))
            asked.interval.append(
                f"{bytes_text(rate)}/s for each task, or shared by those that read or write there at a time"
                f" ({side_by_side:.1f} on average)"
            )
    else:
        how = f"{factor:g} times as fast"
    asked.change = replace(asked.change, quicker=(*asked.change.quicker, (inside, factor)))
    asked.assumed.append(f"{files} by {pattern!r} ({was}) {how}")


def _data_of(inputs: Inputs, pattern: str) -> Bools:
    """The bursts of the data files that fit a pattern."""
    names = FileNames(name_table.of(inputs.m.table))
    try:
        codes = names.codes_of([Glob(pattern)])
    except QueryError as error:
        known = {str(path) for path in inputs.m.paths[np.unique(inputs.m.bursts["file"])].tolist()[:_MOST_NAMES]}
        known |= {f"{path.rpartition('/')[0]}/*" for path in known if "/" in path}
        raise QueryError(f"{error}{nearest.hint(pattern, known)}") from error
    named = np.isin(np.arange(len(inputs.m.paths)), codes)
    pick: Bools = named[inputs.m.bursts["file"].to_numpy()] & inputs.m.classed(("data",))
    if not pick.any():
        raise QueryError(f"no data file of the run fits {pattern!r}: only programs, system or manager files do")
    return pick


def io_cover(inputs: Inputs, pick: Bools) -> intervals.Cover:
    """When each task was inside calls of the bursts of `pick`."""
    times = inputs.m.table.times
    # Files that were created and never written have a burst without calls, after the table's own.
    keep = pick[: len(inputs.m.table.bursts)][times.group]
    task = inputs.of_who[inputs.m.table.bursts["who"].to_numpy()[times.group[keep]]]
    rows = intervals.Intervals(task, times.start[keep], times.end[keep], times.weight[keep])
    return intervals.cover(intervals.union(rows), len(inputs.tasks))


def _stages(inputs: Inputs, pair: str | tuple[str, str], option: str) -> tuple[str, str]:
    words = tuple(word.strip() for word in pair.split(",")) if isinstance(pair, str) else tuple(pair)
    if len(words) != 2:
        raise UsageError(f"{option} takes two stages, as in {option} make,use, not {','.join(words)!r}")
    names = sorted(set(inputs.stages["stage"].astype(str)))
    for name in words:
        if name not in names:
            there = ", ".join(map(repr, names))
            raise QueryError(f"no stage {name!r}{nearest.hint(name, names)}; there is {there}")
    return words[0], words[1]


def _together(inputs: Inputs, asked: _Question, pair: str | tuple[str, str]) -> None:
    producer, consumer = _stages(inputs, pair, "--together")
    names = inputs.stages["stage"].astype(str).to_numpy(dtype=object)
    stage = names[inputs.tasks["stage_code"].to_numpy()]
    rows = inputs.handovers
    waited = (stage[rows["producer"]] == producer) & (stage[rows["consumer"]] == consumer)
    whole = (rows["given_ns"] == rows["since_ns"]).to_numpy() & (rows["via"] == DATA).to_numpy()
    between = np.asarray(waited & whole, dtype=np.bool_)
    if not between.any():
        raise QueryError(f"no complete file passes from stage {producer!r} to stage {consumer!r}")
    before = np.zeros(len(rows), dtype=np.bool_) if asked.change.streamed is None else asked.change.streamed
    codes = [np.flatnonzero(names == name).tolist() for name in (producer, consumer)]
    pairs = frozenset((a, b) for a in codes[0] for b in codes[1])
    asked.change = replace(asked.change, streamed=before | between, beside=asked.change.beside | pairs)
    files = inputs.m.versions.table["file"].to_numpy()[rows["version"].to_numpy()[between]]
    asked.assumed.append(
        f"{producer} and {consumer} side by side: {consumer} takes {count_text(len(np.unique(files)), 'file')} of"
        f" {producer} while they are written, as through a pipe"
    )


def _drop(inputs: Inputs, asked: _Question, pair: str | tuple[str, str]) -> None:
    table = inputs.declared
    if len(table) == 0:
        raise QueryError("no dependency of the run was declared: there is none to drop")
    declared = (table["status"] != "undeclared").to_numpy()
    if pair == WITHOUT_DATA:
        mine = table["status"].isin(("not observed", "order only")).to_numpy()
        what = "over which no data passed"
    elif isinstance(pair, str) and "," not in pair:
        raise UsageError(f"--drop takes {WITHOUT_DATA!r} or two stages (--drop make,use), not {pair!r}")
    else:
        producer, consumer = _stages(inputs, pair, "--drop")
        ends = (table["producer_stage"] == producer) & (table["consumer_stage"] == consumer)
        mine, what = ends.to_numpy() & declared, f"from {producer} to {consumer}"
    if not mine.any():
        raise QueryError(f"no declared dependency {what}: there is none to drop")
    keys = zip(*(table.loc[mine, n].fillna("").astype(str) for n in ("workflow", "producer", "consumer")), strict=True)
    gone = asked.change.undeclared | frozenset(keys)
    asked.change = replace(asked.change, undeclared=gone)
    count = int(mine.sum())
    noun = "dependency" if count == 1 else "dependencies"
    asked.assumed.append(f"without {count:,} declared {noun} {what}; what a task read it still waits for")


def _workers(scene: Scene, asked: _Question, workers: int) -> None:
    if workers < 1:
        raise UsageError(f"--workers is at least 1, not {workers}")
    if not scene.tagged:
        raise QueryError("no workers known: nothing of the run is tagged with a stage or task, so it has no tasks")
    if scene.workers is None:
        raise QueryError(
            "no workers known: a program that declares no tasks ran them one at a time, so nothing tells which of them"
            " could have run side by side (docs/declared-dag.md)"
        )
    where = "" if scene.hosts == 1 else f" on each of {scene.hosts} hosts"
    asked.change = replace(asked.change, workers=workers)
    least = min(scene.workers_of.values(), default=scene.workers)
    had = f"{scene.workers}" if least == scene.workers else f"{least} to {scene.workers}"
    asked.assumed.append(f"{count_text(workers, 'worker')}{where}, where the run had {had}")
    if scene.hosts > 1:
        asked.others.append(lambda c: replace(c, at_home=True))
        asked.interval.append("a task takes the next free worker of any host, or of the host on which it ran")


def _contention(scene: Scene, asked: _Question, before: Play, after: Play) -> None:
    """Adds the replay in which tasks slow each other down as much as their number changes."""
    busy = []
    for play in (before, after):
        mine = [t for t in scene.slot_tasks if t in play.end_ns]
        spans = (np.array([ends[t] for t in mine], dtype=np.int64) for ends in (play.start_ns, play.end_ns))
        busy.append(max(at_a_time(*spans), 1) / max(scene.hosts, 1))
    ratio = busy[1] / busy[0]
    cores = _processors(scene.inputs)
    work = max(1.0, busy[1] / cores) / max(1.0, busy[0] / cores) if cores else 1.0
    if ratio == 1:
        return
    asked.others.append(lambda c: replace(c, io_stretch=ratio, work_stretch=work))
    shared = f", and {cores} processors are shared by what computes" if work != 1 else ""
    asked.interval.append(
        f"tasks beside each other ({busy[1]:g} at a time, {busy[0]:g} in the run) don't slow each other down, or share"
        f" the bandwidth that their calls had{shared}"
    )


def _idle_workers(scene: Scene, asked: _Question) -> None:
    """The run's workers are those that had tasks at a time: an order that is dropped may have kept others idle."""
    cores = _processors(scene.inputs)
    if scene.workers is not None and scene.workers < cores:
        asked.others.append(lambda change: replace(change, workers=cores))
        asked.interval.append(f"{scene.workers} at a time, as tasks ran, or one for each of {cores} processors")


def _processors(inputs: Inputs) -> int:
    """How many processors of a host the run could use, at most; 0: unknown."""
    return max(processors.by_host(inputs).values(), default=0)


# --- what findings ask -----------------------------------------------------------------------------------------------


class Costs(TypedDict):
    cost_ns: int
    least_ns: int
    most_ns: int
    estimate: bool


@dataclass(frozen=True)
class Gain:
    """What a run would take less, ns: as estimated, at least, and at most."""

    ns: int
    least_ns: int
    most_ns: int

    @property
    def costs(self) -> Costs:
        """As a finding's match has it."""
        return {"cost_ns": self.ns, "least_ns": self.least_ns, "most_ns": self.most_ns, "estimate": True}


class Replays:
    """Replays of one run with single changes."""

    def __init__(self, inputs: Inputs, path: pd.DataFrame) -> None:
        """path: `Critical.path`."""
        self.inputs, self.path = inputs, path

    @cached_property
    def _scene(self) -> Scene:
        return Scene(self.inputs)

    @cached_property
    def _over_ns(self) -> int:
        return self._scene.play(Change()).over_ns

    @cached_property
    def _chance_ns(self) -> int:
        """By how much a rerun may differ: the run is one of many, too, so what it would take less is no surer."""
        return round(2 * _spread(self.inputs, self._scene, self._scene.play(Change())))

    def without(self, left_out: Intervals, ns: int, whole: Intervals | None = None) -> Gain:
        """Without some calls. left_out: when tasks (the groups) were in them, by weight how long each would take less;
        ns: the time in which at least one of them ran, by the same shares, or more; whole: of calls for which another
        program works, too, when tasks did what may go with them."""
        rows = intervals.union(left_out)
        ready = self.inputs.spent.inside(rows.group, rows.start, rows.end)[time_model.READY].to_numpy()
        surely = intervals.cover(_less(rows, ready), len(self.inputs.tasks))
        after = self._scene.play(Change(quicker=((surely, np.inf),)))
        rows = _less(rows, ready * self._stays[rows.group])
        series = _series(rows)
        most = self._most(series) if whole is None else _wall(intervals.joined([series, whole]))
        gain = min(ns, _wall(rows) * int(rows.weight.sum()) // max(int((rows.end - rows.start).sum()), 1), most)
        return Gain(gain, max(min(self._over_ns - after.over_ns - self._chance_ns, gain), 0), most)

    @cached_property
    def _stays(self) -> Floats:
        """Of the time for which each task was ready in calls on files, the share that its computing waits for anyway:
        it is ready in proportion to its time on a processor, whether that is just after a call or not."""
        inputs, size = self.inputs, len(self.inputs.tasks)
        parts = inputs.spent.parts()
        computing, ready = (
            parts[name].to_numpy(dtype=np.float64)[:size] for name in (time_model.COMPUTING, time_model.READY)
        )
        run = inputs.time.on_processor(inputs.of_who, size).astype(np.float64)
        rows = inputs.cover(*edge_table.FILES).rows
        inside = inputs.spent.inside(rows.group, rows.start, rows.end)[time_model.READY].to_numpy()
        in_calls = np.bincount(rows.group, inside, size)
        with_computing = ready * np.where(run > 0, np.minimum(computing / np.maximum(run, 1), 1), 0)
        return np.clip(with_computing - (ready - in_calls), 0, in_calls) / np.maximum(in_calls, 1)

    def _most(self, series: Intervals) -> int:
        """What the run can lose with these times of tasks, ns: the time with at least one of them, and in which the
        critical path was ready else, as these may have had the processors; no more than what it did not compute else.
        """
        pieces = self.path[(self.path["task"] >= 0).to_numpy()]
        task, begin, end = (pieces[name].to_numpy(dtype=np.int64) for name in ("task", "begin_ns", "end_ns"))
        mine = intervals.cover(series, len(self.inputs.tasks))
        inside = mine.inside(task, begin, end)
        spent = self.inputs.spent.inside(task, begin, end)
        computing = np.minimum(spent[time_model.COMPUTING].to_numpy(), np.maximum(end - begin - inside, 0))
        ready = spent[time_model.READY].to_numpy() * (1 - inside / np.maximum(end - begin, 1))
        return min(_wall(series) + int(ready.sum()), int(self.inputs.makespan_ns - computing.sum()))

    def unawaited(self, tasks: Collection[int], most_ns: int) -> Gain:
        """With tasks that the program submits without waiting for others before, at most so much."""
        after = self._scene.play(Change(unawaited=frozenset(tasks)))
        ns = min(max(self._over_ns - after.over_ns, 0), most_ns)
        return Gain(ns, max(ns - self._chance_ns, 0), most_ns)

    def streamed(self, producer: int, consumer: int, file: int) -> int:
        """Two tasks side by side, one of which reads a file while the other one writes it: by how many ns the run would
        have been shorter, on any resources at the most, and on its own by the replay that `estimate` makes."""
        rows = self.inputs.handovers
        ends = ((rows["producer"] == producer) & (rows["consumer"] == consumer)).to_numpy()
        of_file = self.inputs.m.versions.table["file"].to_numpy()[rows["version"]] == file
        complete = (rows["given_ns"] == rows["since_ns"]).to_numpy()
        between = ends & of_file & (rows["via"] == DATA).to_numpy() & complete
        most = _saved_side_by_side(self.inputs, between, ends)
        if most <= 0:
            return 0
        change = Change(streamed=between, pairs=frozenset({(producer, consumer)}))
        return max(min(most, self._over_ns - self._scene.play(change).over_ns), 0)


def _less(rows: Intervals, ns: Floats | Ints) -> Intervals:
    """Times without so much of each, of their weights in proportion."""
    share = 1 - np.minimum(ns / np.maximum(rows.end - rows.start, 1), 1)
    return rows._replace(weight=(rows.weight * share).astype(np.int64))


def _series(rows: Intervals) -> Intervals:
    """When tasks were in series of calls, with what is between these."""
    until = rows.end.copy()
    follows = (rows.group[1:] == rows.group[:-1]) & (rows.start[1:] - rows.end[:-1] <= SERIES_NS)
    until[:-1][follows] = rows.start[1:][follows]
    return intervals.union(intervals.make(rows.group, rows.start, until))


def _wall(rows: Intervals) -> int:
    """ns with at least one interval of any group."""
    one = intervals.union(intervals.make(np.zeros_like(rows.group), rows.start, rows.end))
    return int(one.weight.sum())


def _saved_side_by_side(inputs: Inputs, between: Bools, waited: Bools) -> int:
    """What the bound loses where the hand-overs of `between` happen while their files are written. Those of `waited`
    that were declared are left out: side by side, a consumer waits for the bytes and not for the producer's end."""
    rows = inputs.handovers
    wrote = writes(inputs.m, inputs.of_who)
    at = wrote.index.get_indexer(pd.MultiIndex.from_frame(rows.loc[between, ["producer", "version"]]))
    begun = np.where(at >= 0, wrote["first_ns"].to_numpy()[at], rows["given_ns"].to_numpy()[between])
    head, tail = rows.copy(), rows[between].copy()
    head.loc[between, "given_ns"] = begun
    head = head[~(waited & (head["via"] == DECLARED).to_numpy())]
    tail["taken_ns"] = inputs.tasks["end_ns"].to_numpy()[tail["consumer"]]
    changed = pd.concat([head, tail], ignore_index=True)
    return critical.bound(inputs).ns - critical.bound(inputs, handovers=changed).ns
