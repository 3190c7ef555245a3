"""The timeline for Perfetto: a slice for each call and task, arrows for flows, counters for stages."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest

from support.chrome_trace import Timeline
from support.export_runs import NAMES, hostile_run, loop_run, written
from support.flowcase import MS, T0_NS, Story
from support.socket_stories import end, talk
from tailrace.analyzer.exports import lineage, perfetto


class TestPerfetto:
    def test_a_flow_goes_from_the_write_to_the_read(self) -> None:
        timeline = Timeline(written("perfetto", hostile_run()))
        assert len(timeline.flows) == len(NAMES)
        for ends in timeline.flows.values():
            source, sink = ends["s"]["slice"], ends["f"]["slice"]
            assert (source["name"], sink["name"]) == ("write", "read")
            assert source["args"]["path"] == sink["args"]["path"]
            assert source["ts"] < sink["ts"]
            assert (timeline.names[source["pid"]], timeline.names[sink["pid"]]) == ('s"< / t 1\n', "s2 / t%2")

    def test_every_event_is_there_in_whole_ns(self) -> None:
        run = hostile_run()
        timeline = Timeline(written("perfetto", run))
        calls = [event for event in timeline.slices if event["cat"] != "task"]
        assert len(calls) == len(run.rows)
        assert {round(event["ts"] * 1000) for event in calls} == {row["ts"] - T0_NS - 1_000_000 for row in run.rows}
        assert {event["args"]["path"] for event in calls} == {lineage.clean(name) for name in NAMES}

    def test_a_task_has_a_track_of_its_own(self) -> None:
        timeline = Timeline(written("perfetto", loop_run()))
        tasks = [event for event in timeline.slices if event["cat"] == "task"]
        assert [event["name"] for event in tasks] == ["step / t0", "step / t1", "step / t2", "end / last"]
        assert len({event["pid"] for event in tasks}) == 4

    def test_partitions_change_nothing(self) -> None:
        one, many = (written("perfetto", hostile_run(partitions)).replace(",\n", "\n") for partitions in (1, 7))
        assert sorted(one.splitlines()) == sorted(many.splitlines())

    def test_one_partition_is_in_memory_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = hostile_run(5)
        sizes = [len(part) for part in perfetto._partitions(run)]
        assert len(sizes) == 5
        assert max(sizes) <= len(run.rows) // 5 + 1

    def test_the_area_below_a_counter_is_what_its_stage_moved(self) -> None:
        story = Story()
        moved = {"make": 0, "use": 0}
        for at, size, dur in ((0, 1 << 20, 400 * MS), (450, 3 << 20, MS), (451, 1000, 20 * MS)):
            story.write("/d/a", moved["make"], size, stage="make", task="m", pid=1, at_ms=at, dur=dur)
            moved["make"] += size
        story.read("/d/a", 0, 2 << 20, stage="use", task="u", pid=2, at_ms=900, dur=100 * MS)
        timeline = Timeline(written("perfetto", story.run(2)))
        assert set(timeline.counters) == {"make: written MiB/s", "use: read MiB/s"}
        for name, wanted in (("make: written MiB/s", moved["make"]), ("use: read MiB/s", 2 << 20)):
            series = timeline.counters[name]
            assert series[-1][1] == 0
            area = sum(rate * (later[0] - at) / 1e6 for (at, rate), later in pairwise(series)) * (1 << 20)
            assert area == pytest.approx(wanted, rel=1e-4)

    def test_a_call_that_failed_has_a_name_and_a_category_of_its_own(self) -> None:
        story = Story()
        story.write("/d/a", stage="s", task="t")
        story.event("openat", "/d/none", stage="s", task="t", ret=-1, errno=2)
        calls = [event for event in Timeline(written("perfetto", story.run())).slices if event["cat"] != "task"]
        assert [(event["name"], event["cat"]) for event in calls] == [
            ("write", "POSIX"),
            ("openat (ENOENT)", "POSIX,failed"),
        ]
        assert calls[1]["args"]["error"] == "ENOENT"

    def test_a_flow_without_an_arrow_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = hostile_run()
        partitions = perfetto._partitions
        monkeypatch.setattr(
            perfetto, "_partitions", lambda run: (part[part["name"] != "read"] for part in partitions(run))
        )
        timeline = Timeline(written("perfetto", run))
        assert len(timeline.instants) == len(NAMES)
        for instant in timeline.instants:
            assert instant["args"]["why there is no arrow"].startswith("the call of the read is not among the events")
            assert instant["args"]["from"] == 's"< / t 1\n'
        assert {instant["args"]["path"] for instant in timeline.instants} == {lineage.clean(name) for name in NAMES}

    def test_a_connection_has_arrows_from_end_to_end(self) -> None:
        story = Story()
        talk(story, "127.0.0.1:4000", "127.0.0.1:80", end("ask", 5), end("answer", 6))
        timeline = Timeline(written("perfetto", story.run()))
        arrows = {
            tuple(timeline.names[ends[way]["slice"]["pid"]] for way in "sf"): ends["s"]["slice"]["args"]["size"]
            for ends in timeline.flows.values()
        }
        ask, answer = "(untagged) / ask", "(untagged) / answer"
        assert arrows == {(ask, answer): 10, (answer, ask): 1}
        assert timeline.instants == []

    def test_a_task_has_the_command_lines_of_its_processes(self) -> None:
        story = Story()
        story.write("/d/a", stage="s", task="t", pid=1)
        rows = [{"host": "n1", "pid": 1, "exe": "/bin/sort", "argv": ["sort", "-o", "a b"]}]
        (task,) = [
            event
            for event in Timeline(written("perfetto", story.run(processes=pd.DataFrame(rows)))).slices
            if event["cat"] == "task"
        ]
        assert task["args"]["commands"] == ["sort -o 'a b'"]

    def test_threads_of_two_hosts_with_one_id_stay_apart(self) -> None:
        story = Story()
        for host in ("n1", "n2"):
            story.write(f"/d/{host}", stage="s", task="mpi", pid=7, tid=7, host=host, at_ms=5)
        timeline = Timeline(written("perfetto", story.run()))
        assert {name for key, name in timeline.names.items() if isinstance(key, tuple)} == {"task", "n1 7", "n2 7"}

    def test_readers_during_the_writing_have_an_arrow_forward(self) -> None:
        story = Story()
        for _ in range(3):
            story.write("/d/stream", None, ftype="fifo", stage="s", task="a", pid=1)
            story.read("/d/stream", None, ftype="fifo", stage="s", task="b", pid=2)
        ((_, ends),) = Timeline(written("perfetto", story.run())).flows.items()
        assert ends["s"]["ts"] < ends["f"]["ts"]
