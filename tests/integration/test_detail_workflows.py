"""The workflows under full detail, totals and auto, which changes over in the midst: one recording of each, sealed to
the three. Tables, graphs, sums, coverage and findings must be equal, times and identities included.

What follows from the order in which threads of one process interleaved on one file is left out: lines of totals are a
thread's. Nor do they have where in a burst the time in its calls was (docs/trace-format.md, "Totals").
"""

import itertools
import math
import re
import sys
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("parsl", reason="the workflows need Parsl: pip install 'tailrace[parsl]'")

from test_ensemble import obstacle
from test_workflows import WORKFLOWS, skip_without

import tailrace
from support.details import AUTO, FULL, TOTALS, actors, covered, plain, record, sealed, trace_bytes
from tailrace.analyzer.insights.finding import RANK
from tailrace.analyzer.insights.findings import RULES
from tailrace.analyzer.model import declared_vs_observed, stages
from tailrace.integrations import rundir

KEY = ["who", "file", "dir"]
SUMS = {
    **dict.fromkeys(("bytes", "calls", "loose_bytes", "mapped_bytes", "relayed_bytes"), "sum"),
    "first_ns": "min",
    "last_ns": "max",
}
OF_A_MAKESPAN = 0.01
"""By how much of the run's time what rests on the times in calls may differ."""
LEAST = {
    rule.kind: limit.value / 100 for rule in RULES for limit in rule.thresholds if limit.unit == "% of the makespan"
}
"""Kind of finding -> which share of the makespan it must cost at least."""

Runs = dict[str, tailrace.Run]


@pytest.fixture(scope="module", params=["hmmer", "genomics", "montage", "ensemble"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The runs of one recording by detail."""
    name, place = request.param, tmp_path_factory.mktemp(request.param)
    words = [sys.executable, WORKFLOWS / name / "workflow.py", place]
    if name == "ensemble":
        if obstacle():
            pytest.skip(obstacle())
        words = [sys.executable, WORKFLOWS / name / "run_local.py", place / "files", "--rounds", "1"]
    else:
        skip_without(name)
    run, journals, kept = rundir.open_run_directory(place / "run", [name], ""), place / "journals", place / "kept"
    record(words, run, journals, kept)
    full = sealed(run, journals, kept, FULL)
    made = {"full": full, "totals": sealed(run, journals, kept, TOTALS)}
    made["auto"] = sealed(run, journals, kept, AUTO, trace_bytes(full) // 3)
    return {detail: tailrace.open(path) for detail, path in made.items()}


@pytest.fixture(params=["totals", "auto"])
def pair(request: pytest.FixtureRequest, runs: Runs) -> tuple[tailrace.Run, tailrace.Run]:
    return runs["full"], runs[request.param]


def test_each_is_what_it_is_called(runs: Runs) -> None:
    infos = {detail: run.info() for detail, run in runs.items()}
    assert len({info["events"] for info in infos.values()}) == 1 and infos["full"]["events"] > 50_000
    assert infos["full"]["totals"] == 0
    assert infos["totals"]["totals"] > infos["auto"]["totals"] > 1000


def shared_by_threads(run: tailrace.Run) -> set[tuple[str, str]]:
    """(process, file) that several threads of a process used."""
    events = run.events(columns=["host", "pid", "start", "file", "tid"]).compute().dropna(subset=["file"])
    threads = events.astype({"start": str}).groupby(["host", "pid", "start", "file"], observed=True)["tid"].nunique()
    return {(f"{host} {pid} {start}", file) for host, pid, start, file in threads[threads > 1].index}


def test_the_edge_table_is_the_same(pair: tuple[tailrace.Run, tailrace.Run]) -> None:
    full, other = pair[0].edges(), pair[1].edges()
    for name in ("who", "files", "aliases", "facts", "process_events", "counts"):
        pd.testing.assert_frame_equal(plain(full, name), plain(other, name))
    ours, theirs = plain(full, "bursts"), plain(other, "bursts")
    pd.testing.assert_frame_equal(ours.groupby(KEY).agg(SUMS), theirs.groupby(KEY).agg(SUMS))
    shared = shared_by_threads(pair[0])
    process = dict(zip(actors(full), full.who[["host", "pid", "start"]].astype(str).agg(" ".join, axis=1), strict=True))
    ordered = [
        frame[[(process[who], file) not in shared for who, file in zip(frame["who"], frame["file"], strict=True)]]
        for frame in (ours, theirs)
    ]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in ordered))
    assert len(ordered[0]) > 0.8 * len(ours)
    keys = set(ordered[0][[*KEY, "first_ns"]].itertuples(index=False, name=None))
    for name in ("extents", "times"):
        a, b = (covered(table, getattr(table, name), name) for table in (full, other))
        assert {key: a.get(key) for key in keys} == {key: b.get(key) for key in keys}


@pytest.mark.parametrize("level", ["task", "process"])
def test_graphs_are_the_same(pair: tuple[tailrace.Run, tailrace.Run], level: str) -> None:
    full, other = (run.dataflow(level) for run in pair)
    assert dict(full.nodes(data=True)) == dict(other.nodes(data=True))
    assert list_of(full) == list_of(other) and len(list_of(full)) > 100


def list_of(graph: Any) -> list[tuple[Any, ...]]:
    """The edges, with all that is known of each, in an order."""
    return sorted(((a, b, key, data) for a, b, key, data in graph.edges(keys=True, data=True)), key=repr)


def test_sums_and_coverage_are_the_same(pair: tuple[tailrace.Run, tailrace.Run]) -> None:
    for name in ("processes", "tasks", "stages", "coverage", "declared_tasks"):
        pd.testing.assert_frame_equal(*(getattr(run, name) for run in pair))
    pd.testing.assert_frame_equal(*(declared_vs_observed.compare_declared(run) for run in pair))
    for key in ("coverage", "lost", "processes", "tasks"):
        assert pair[0].info().get(key) == pair[1].info().get(key)


def test_the_critical_path_and_findings_are_the_same(pair: tuple[tailrace.Run, tailrace.Run]) -> None:
    full, other = (run.insights().critical for run in pair)
    makespan_ns = sum(full.parts.values())
    apart = {part: abs(full.parts[part] - other.parts[part]) for part in full.parts}
    assert not any(apart[part] for part in ("gap", "startup", "stop"))
    assert max(apart.values()) < OF_A_MAKESPAN * makespan_ns
    assert full.bound_ns == other.bound_ns and full.dropped == other.dropped
    tasks = ["start_ns", "end_ns", "work_ns", "slack_ns", "path_ns", "critical"]
    pd.testing.assert_frame_equal(*(in_order(one.tasks[tasks]) for one in (full, other)))
    points = ["via", "begin_ns", "end_ns", "gap"]
    pd.testing.assert_frame_equal(*(one.path[points] for one in (full, other)))
    check_findings(*pair, OF_A_MAKESPAN * makespan_ns, makespan_ns)


def check_findings(full: tailrace.Run, other: tailrace.Run, apart_ns: float, makespan_ns: int) -> None:
    """They say the same, but for what a difference of `apart_ns` in a cost makes, prevents, or ranks otherwise."""
    ours, theirs = ({without_times(one, run): one for one in run.findings()} for run in (full, other))
    for key in ours.keys() ^ theirs.keys():
        one = ours.get(key) or theirs[key]
        assert abs(one.cost_ns - LEAST.get(one.kind, math.inf) * makespan_ns) < apart_ns, one
    common = [key for key in ours if key in theirs]
    for key in common:
        assert abs(ours[key].cost_ns - theirs[key].cost_ns) < apart_ns, key
    found = full.insights()
    rate = stages.io_ns(found.inputs.m) / found.moved_bytes
    place = {key: at for at, key in enumerate(theirs)}
    for before, after in itertools.pairwise(common):
        one, then = ours[before], ours[after]
        cost_ns = one.cost_ns - then.cost_ns + (one.cost_bytes - then.cost_bytes) * rate
        assert place[before] < place[after] or (RANK[one.about] == RANK[then.about] and cost_ns < apart_ns), before


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(list(frame), ignore_index=True)


def without_times(finding: Any, run: tailrace.Run) -> tuple[Any, ...]:
    """What a finding says, but for the numbers of a title about time, and where the run is."""
    title = re.sub(r"[0-9.]+", "0", finding.title) if finding.cost_ns else finding.title
    query = str(finding.query).replace(str(run.path), "")
    return finding.kind, finding.about, title, finding.count, finding.cost_bytes, query
