"""Estimates on other resources, on stories whose truth is worked out by hand beside them, and on one real run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from support.diagnosis_stories import processes, processor_waits
from support.flowcase import MS, T0_NS, FakeRun, Story
from support.story_run import on_disk
from support.task_stories import declared_jobs, moment, task
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.replay_scene import Change, Scene
from tailrace.analyzer.insights.whatif import FEW_SPREAD, Estimate, Gain, estimate
from tailrace.analyzer.util import intervals
from tailrace.cli import main
from tailrace.errors import QueryError, UsageError


def asked(run: FakeRun, **questions: Any) -> Estimate:
    found = insights(run)
    return estimate(found.inputs, **questions)


def two_steps() -> Story:
    """a 0..100 (50 ms of them writing /a), b 110..200 (30 ms of them reading it)."""
    story = Story()
    moment(story, 0, task="a", stage="a")
    story.create("/a", task="a", stage="a", at_ms=40, dur=0)
    story.write("/a", 0, 1000, task="a", stage="a", at_ms=50, dur=50 * MS)
    moment(story, 100, task="a", stage="a")
    moment(story, 110, task="b", stage="b")
    story.read("/a", 0, 1000, task="b", stage="b", at_ms=110, dur=30 * MS)
    moment(story, 200, task="b", stage="b")
    return story


def line_of_four(**deps: Any) -> FakeRun:
    """Four tasks of a manager in one worker, 100 ms each with 10 ms in between, submitted at once."""
    story = Story()
    for number, name in enumerate(("a1", "a2", "a3", "a4")):
        task(story, name, 110 * number, 110 * number + 100)
    return story.run(**declared_jobs(*deps.get("deps", ()), **dict.fromkeys(("a1", "a2", "a3", "a4"), 0.0)))


class TestTier:
    def test_calls_on_the_files_take_less_time_and_what_follows_comes_earlier(self) -> None:
        twice = asked(two_steps().run(), tier="/a=2x")
        assert twice.makespan_ns == 200 * MS
        assert twice.saved_ns == (50 + 30) // 2 * MS
        assert twice.assumed == ["1 file by '/a' (1.95 KiB in 80.0 ms of calls) 2 times as fast"]
        assert twice.low_ns <= twice.estimate_ns <= twice.high_ns

    def test_without_workers_the_interval_is_that_of_the_tasks(self) -> None:
        found = asked(two_steps().run(), tier="/a=2x")
        assert found.workers is None
        # A stage of one task spreads by a tenth: of 75 ms in a and 75 ms in b as independent, twice.
        assert found.high_ns - found.estimate_ns == pytest.approx(2 * 0.1 * 75 * MS * 2**0.5, rel=0.01)
        assert found.estimate_ns - found.low_ns == pytest.approx(found.high_ns - found.estimate_ns, abs=2)

    def test_a_rate_is_compared_with_the_measured_one(self) -> None:
        measured = 2000 / 80e-3
        assert asked(two_steps().run(), tier=[f"/*={measured * 4:.0f}B/s"]).saved_ns == 60 * MS
        slower = asked(two_steps().run(), tier=[f"/*={measured / 2:.0f}B/s"])
        assert slower.saved_ns == -80 * MS

    def test_a_rate_for_each_task_may_be_shared(self) -> None:
        story = Story()
        for name, pid in (("a", 1), ("b", 2)):
            moment(story, 0, task=name, stage="s", pid=pid)
            story.read(f"/{name}", 0, 1000, task=name, stage="s", pid=pid, at_ms=0, dur=80 * MS)
            moment(story, 100, task=name, stage="s", pid=pid)
        found = asked(story.run(), tier="/*=50000B/s")  # 12,500 B/s were measured
        assert found.estimate_ns == pytest.approx(40 * MS, abs=2)
        # Two tasks at half of the rate each: 40 ms in calls instead of 20.
        assert found.high_ns >= 60 * MS
        assert "shared by those that read or write there at a time (2.0 on average)" in found.interval[0]


class TestTogether:
    def test_a_reader_begins_with_the_first_write(self) -> None:
        found = asked(two_steps().run(), together="a,b")
        # b begins 10 ms after what it waits for, which comes at 40 instead of 100; its 90 ms end at 140.
        assert (found.estimate_ns, found.saved_ns) == (140 * MS, 60 * MS)

    def test_a_reader_is_not_over_before_the_last_write(self) -> None:
        story = two_steps()
        story.rows = [row for row in story.rows if row.get("task") != "b"]
        task(story, "b", 110, 120, reads="/a")
        # b needs 10 ms, and the last write is at 100.
        assert asked(story.run(), together=[("a", "b")]).estimate_ns == 100 * MS


class TestWorkers:
    def test_more_workers_take_what_is_ready(self) -> None:
        run = line_of_four()
        assert asked(run, workers=1).saved_ns == 0
        # Two at a time: a1 and a2 from 0 (a2 10 ms after), a3 10 ms after a1, a4 10 ms after a2.
        assert asked(run, workers=2).estimate_ns == (10 + 100 + 10 + 100) * MS
        assert asked(run, workers=4).estimate_ns == 110 * MS

    def test_more_workers_do_not_break_dependencies(self) -> None:
        chain = line_of_four(deps=[("a1", "a2"), ("a2", "a3"), ("a3", "a4")])
        assert asked(chain, workers=4).saved_ns == 0

    def test_fewer_workers(self) -> None:
        story = Story()
        for name, pid in (("a", 1), ("b", 2)):
            task(story, name, 0, 100, pid=pid)
        found = asked(story.run(**declared_jobs(a=0.0, b=0.0)), workers=1)
        assert (found.workers, found.estimate_ns) == (2, 200 * MS)

    def test_each_host_has_its_own_workers(self) -> None:
        """Four side by side on n1, three one after the other on n2: five workers, not four on each."""
        story = Story()
        spans = [(f"a{n}", "n1", 0) for n in range(4)] + [(f"b{n}", "n2", 100 * n) for n in range(3)]
        for pid, (name, host, start) in enumerate(spans):
            for at in (start, start + 100):
                moment(story, at, task=name, stage=name[0], host=host, pid=pid)
        run = story.run(**declared_jobs(**{name: 0.0 for name, _, _ in spans}))
        found = asked(run, workers=4)
        assert (found.hosts, found.workers) == (2, 4)
        assert found.assumed == ["4 workers on each of 2 hosts, where the run had 1 to 4"]
        # Where they stay on n2, all three run at once; the first of them ran for the whole time then.
        assert found.low_ns <= 100 * MS < found.estimate_ns < found.high_ns
        assert any("of the host on which it ran" in text for text in found.interval)
        same = asked(run, workers=1)
        assert same.high_ns >= 400 * MS, "the four of n1, one after the other"

    def test_the_end_of_the_interval_has_the_calls_share_their_bandwidth(self) -> None:
        story = Story()
        for number, name in enumerate(("a1", "a2")):
            moment(story, 100 * number, task=name, stage="a")
            story.read("/in", 0, 100, task=name, stage="a", at_ms=100 * number, dur=60 * MS)
            moment(story, 100 * number + 100, task=name, stage="a")
        found = asked(story.run(**declared_jobs(a1=0.0, a2=0.0)), workers=2)
        assert found.estimate_ns == 100 * MS
        assert found.high_ns >= 160 * MS

    @pytest.mark.parametrize(("ready_ms", "low_ms"), [(75, 50), (0, 100)])
    def test_what_tasks_waited_for_a_processor_may_go(self, ready_ms: float, low_ms: int) -> None:
        """Eight tasks of 100 ms, four at a time: in two rounds, of which each may have 25 ms of computing alone."""
        found = asked(processor_waits(ready_ms), workers=4)
        assert any("or not at all" in line for line in found.interval) == (ready_ms > 0)
        assert found.low_ns == pytest.approx(low_ms * MS, abs=MS)

    def test_a_task_waits_for_what_its_program_had_awaited(self) -> None:
        story = Story()
        for name, start in (("a1", 0), ("a2", 110), ("b1", 230)):
            task(story, name, start, start + 100)
        waits = [
            {"workflow": "w", "task": "b1", "awaited": "a1", "after": None},
            {"workflow": "w", "task": "b1", "awaited": "a2", "after": None},
        ]
        run = story.run(**declared_jobs(a1=0.0, a2=0.0, b1=215.0), declared_waits=pd.DataFrame(waits))
        # a1 and a2 from 0 and 10, b1 20 ms after the later one.
        assert asked(run, workers=2).estimate_ns == (110 + 20 + 100) * MS

    def test_a_task_with_inner_tasks_takes_no_worker_and_ends_with_them(self) -> None:
        story = Story()
        moment(story, 0, task="outer", stage="o", pid=9)
        for name, start in (("a1", 10), ("a2", 110)):
            task(story, name, start, start + 100)
        moment(story, 240, task="outer", stage="o", pid=9)
        inside = {"a1": "outer", "a2": "outer"}
        run = story.run(**declared_jobs(parents=inside, outer=0.0, a1=5.0, a2=5.0))
        found = asked(run, workers=2)
        # The inner ones from 10 to 110 at once; the outer one is over 30 ms after them.
        assert (found.workers, found.estimate_ns) == (1, 140 * MS)


class TestDrop:
    def run(self) -> FakeRun:
        """b is declared to wait for a, and reads nothing of it; two workers."""
        story = Story()
        task(story, "a", 0, 100, pid=1, writes="/a")
        task(story, "x", 0, 50, pid=2)
        task(story, "b", 110, 200, pid=1, reads="/in")
        return story.run(**declared_jobs(("a", "b"), a=0.0, b=0.0, x=0.0))

    def test_a_dependency_without_data(self) -> None:
        found = asked(self.run(), drop="declared edges without data")
        # b takes the worker that x leaves at 50, 10 ms later.
        assert found.estimate_ns == (50 + 10 + 90) * MS
        assert found.assumed[0].startswith("without 1 declared dependency over which no data passed")
        assert asked(self.run(), drop="a,b").estimate_ns == found.estimate_ns

    @pytest.mark.parametrize(("cpus", "least_ms"), [(["0"] * 2, 200), (["0-1"] * 2, 100), (["0", "1"], 100)])
    def test_an_order_may_have_kept_workers_idle(self, cpus: list[str], least_ms: int) -> None:
        """One after the other, as a chain of tasks makes it: on two processors they may run side by side."""
        story = Story()
        for number, name in enumerate("ab"):
            task(story, name, 100 * number, 100 * number + 100, pid=number + 1, reads="/in")
        ran = processes(*((pid, 99, "/bin/t") for pid in (1, 2)), used_ms=90).assign(cpus=cpus)
        found = asked(story.run(processes=ran, **declared_jobs(("a", "b"), a=0.0, b=0.0)), drop="a,b")
        assert found.estimate_ns == 200 * MS
        assert found.low_ns == pytest.approx(least_ms * MS, abs=30 * MS)

    def test_data_is_still_waited_for(self) -> None:
        story = two_steps()
        run = story.run(**declared_jobs(("a", "b"), a=0.0, b=0.0))
        assert asked(run, drop=[("a", "b")]).saved_ns == 0


class TestProgram:
    """A script that declares nothing: the order in which it started tasks and waited for them."""

    def script(self, *spans: tuple[int, int], executes: bool = False) -> FakeRun:
        """executes: what is forked becomes the task by executing its program."""
        story = Story()
        moment(story, 0, pid=99)
        for pid, (start, end) in enumerate(spans, 1):
            story.event("fork", at_ms=start - 1, pid=99, cat="PROCESS", dur=0, ret=pid)
            if executes:
                moment(story, start - 0.5, pid=pid)
            moment(story, start, pid=pid, stage="s", task=f"s{pid}")
            story.read(f"/in{pid}", 0, 1000, pid=pid, stage="s", task=f"s{pid}", at_ms=start, dur=20 * MS)
            moment(story, end, pid=pid, stage="s", task=f"s{pid}")
            story.event("wait", at_ms=start, pid=99, cat="PROCESS", dur=(end - start + 1) * MS, ret=pid)
        moment(story, max(end for _, end in spans) + 2, pid=99)
        story.rows.sort(key=lambda row: row["ts"])
        facts = {"host": "n1", "exe": "/bin/sh", "argv": None}
        rows = [{**facts, "pid": 99, "ppid": 5}, *({**facts, "pid": pid + 1, "ppid": 99} for pid in range(len(spans)))]
        return story.run(processes=pd.DataFrame(rows))

    @pytest.mark.parametrize("executes", [False, True])
    def test_one_after_the_other_stays_so(self, executes: bool) -> None:
        run = self.script((10, 110), (120, 220), executes=executes)
        found = asked(run, tier="/in1=2x")
        assert (found.workers, found.saved_ns) == (None, 10 * MS)
        with pytest.raises(QueryError, match="no workers known: a program that declares no tasks ran them one at a"):
            asked(run, workers=2)

    def test_a_reader_that_its_program_started_later_is_beside_the_writer(self) -> None:
        """A script runs a, which makes /a 60 ms before its end, and then, 10 ms later, b, which reads it."""
        story = two_steps()
        for row in story.rows:
            row["pid"] = 1 if row["task"] == "a" else 2
        for pid, (start, end) in enumerate(((0, 100), (110, 200)), 1):
            story.event("fork", at_ms=start - 1, pid=99, cat="PROCESS", dur=0, ret=pid)
            story.event("wait", at_ms=start, pid=99, cat="PROCESS", dur=(end - start + 1) * MS, ret=pid)
        moment(story, 205, pid=99)
        story.rows.sort(key=lambda row: row["ts"])
        facts = {"host": "n1", "exe": "/bin/sh", "argv": None}
        rows = [{**facts, "pid": pid, "ppid": 5 if pid == 99 else 99} for pid in (99, 1, 2)]
        run = story.run(processes=pd.DataFrame(rows))
        assert asked(run, together="a,b").saved_ns == 60 * MS

    def test_what_ran_side_by_side_shares_workers(self) -> None:
        run = self.script((10, 110), (11, 111), (120, 220), (121, 221), (230, 330))
        found = asked(run, workers=1)
        assert found.workers == 2
        assert found.estimate_ns >= 5 * 100 * MS


class TestWithoutCalls:
    """a 0..100, b 110..200, which reads what a wrote; beside them c 0..40."""

    def gain(self, task: str, *calls: tuple[float, float]) -> Gain:
        story = two_steps()
        moment(story, 0, task="c", stage="c")
        moment(story, 40, task="c", stage="c")
        found = insights(story.run())
        inputs = found.inputs
        at = inputs.tasks["task"].tolist().index(task)
        begin, end = (np.array([T0_NS + round(ms * MS) for ms in side]) for side in zip(*calls, strict=True))
        rows = intervals.make(np.full(len(calls), at), begin, end)
        return found.replays.without(rows, int((end - begin).sum()))

    def test_the_least_is_what_the_end_of_the_run_waited_for_less_chance(self) -> None:
        found = self.gain("a", (50, 100))
        chance = 2 * FEW_SPREAD * (100**2 + 90**2) ** 0.5
        assert (found.ns, found.most_ns) == (50 * MS, 50 * MS)
        assert found.least_ns == pytest.approx((50 - chance) * MS, rel=1e-6)

    def test_nothing_is_sure_to_be_gained_beside_the_chain(self) -> None:
        assert self.gain("c", (0, 40)) == Gain(40 * MS, 0, 40 * MS)

    def test_what_is_between_calls_of_a_series_may_go_with_them(self) -> None:
        assert self.gain("b", (110, 112), (115, 117), (180, 182)).most_ns == (7 + 2) * MS

    def beside(self, used_ms: float) -> Gain:
        """A task that computes for 98 ms, or as long as it is told; beside it another one, in calls for 40 ms."""
        story = Story()
        task(story, "a", 0, 100, writes="/a", pid=11)
        story.read("/in", task="c", stage="c", pid=12, at_ms=0, dur=40 * MS)
        found = insights(story.run(processes=processes((11, 99, "/bin/a"), (12, 99, "/bin/c"), used_ms=used_ms)))
        at = found.inputs.tasks["task"].tolist().index("c")
        rows = intervals.make(np.array([at]), np.array([T0_NS]), np.array([T0_NS + 40 * MS]))
        return found.replays.without(rows, 80 * MS)

    def test_calls_beside_a_path_that_computes_save_no_more_than_it_waited(self) -> None:
        assert self.beside(used_ms=99).most_ns == 1 * MS
        assert self.beside(used_ms=10).most_ns == 40 * MS

    def test_calls_side_by_side_count_once(self) -> None:
        assert self.beside(used_ms=10).ns == 40 * MS


def test_what_can_not_be_asked_is_refused_with_what_can() -> None:
    run = two_steps().run()
    for questions, kind, said in (
        ({}, UsageError, "say what would be different"),
        ({"tier": "/a"}, UsageError, "is no tier: give PATTERN=SPEED"),
        ({"tier": "/a=fast"}, UsageError, "is no tier"),
        ({"tier": "/a=0x"}, UsageError, "the speed of a tier is above 0"),
        ({"tier": "/a=3parsecs/s"}, UsageError, "'/a=3parsecs/s': '3parsecs' is no whole number of bytes"),
        ({"tier": "/aa*=2x"}, QueryError, r"no event is on a file that fits '/aa\*' \(did you mean "),
        ({"together": "a"}, UsageError, "--together takes two stages"),
        ({"together": "a,bb"}, QueryError, r"no stage 'bb' \(did you mean 'b'\?\); there is 'a', 'b'"),
        ({"together": "b,a"}, QueryError, "no complete file passes from stage 'b' to stage 'a'"),
        ({"drop": "declared edges without data"}, QueryError, "no dependency of the run was declared"),
        ({"workers": 0}, UsageError, "--workers is at least 1"),
    ):
        with pytest.raises(kind, match=said):
            asked(run, **questions)
    with pytest.raises(UsageError, match="--drop takes 'declared edges without data' or two stages"):
        asked(line_of_four(deps=[("a1", "a2")]), drop="all")
    with pytest.raises(QueryError, match="no workers known: nothing of the run is tagged"):
        untagged = Story()
        moment(untagged, 0)
        untagged.read("/in", at_ms=1)
        asked(untagged.run(), workers=2)


def greedy(seed: int) -> tuple[FakeRun, dict[str, int]]:
    """Twelve tasks with files between them on three workers, each begun as soon as it could be; and their ends (ms)."""
    chance = random.Random(seed)
    names = [f"t{number}" for number in range(12)]
    before = {name: chance.sample(names[:at], min(at, chance.randrange(3))) for at, name in enumerate(names)}
    story, free, ends = Story(), [0, 0, 0], dict[str, int]()
    left = list(names)
    while left:
        there = {
            name: max([0, *(ends[one] for one in before[name])]) for name in left if ends.keys() >= {*before[name]}
        }
        name = min(there, key=lambda one: max(there[one], min(free)))
        worker = free.index(min(free))
        start = max(there[name], free[worker]) + (5 if ends else 0)
        free[worker] = ends[name] = start + chance.randrange(4, 90)
        reads = " ".join(f"/{one}" for one in before[name])
        task(story, name, start, ends[name], pid=worker + 1, writes=f"/{name}", reads=reads)
        left.remove(name)
    story.rows.sort(key=lambda row: row["ts"])
    deps = [(one, name) for name in names for one in before[name] if chance.random() < 0.5]
    return story.run(**declared_jobs(*deps, **dict.fromkeys(names, 0.0))), ends


@pytest.mark.parametrize("seed", range(8))
def test_without_a_change_the_replay_has_the_times_of_the_run(seed: int) -> None:
    run, ends = greedy(seed)
    found = insights(run)
    play = Scene(found.inputs).play(Change())
    assert play.forced == 0
    names = found.inputs.tasks["task"].tolist()
    assert {names[t]: (end - T0_NS) // MS for t, end in play.end_ns.items() if t < len(names)} == ends


def test_text_and_json_on_a_run_on_disk(tmp_path: Path) -> None:
    run = on_disk(two_steps().run(), tmp_path / "run")
    text = CliRunner().invoke(main.group, ["whatif", str(run.path), "--tier", "/a=2x", "--together", "a,b"])
    assert text.exit_code == 0, text.output
    assert "Measured: 200 ms" in text.output
    assert "a and b side by side: b takes 1 file of a while they are written" in " ".join(text.output.split())
    assert max(map(len, text.output.splitlines())) <= 80
    found = CliRunner().invoke(main.group, ["whatif", str(run.path), "--tier", "/a=2x", "--format", "json"])
    document = json.loads(found.stdout)
    assert document == {**run.whatif(tier="/a=2x").to_json()}
    assert document["saved_ns"] == 40 * MS
