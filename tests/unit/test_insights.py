"""The analyses on stories whose truth is worked out by hand beside them."""

from __future__ import annotations

import random
import shlex
from fnmatch import fnmatchcase
from typing import Any

import pytest

from support.flowcase import MS, T0_NS, Story
from support.task_stories import declared, task
from tailrace.analyzer.insights import Insights, insights
from tailrace.analyzer.model import dataflow

SECOND = 1000


@pytest.fixture
def without_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings about the few bytes of a story."""
    monkeypatch.setattr("tailrace.analyzer.insights.finding.FLOOR_BYTES", 0)


def of(story: Story, **values: Any) -> Insights:
    return insights(story.run(2, **values))


class TestDeclared:
    def story(self) -> Story:
        """a 0..10 -> b 10..20 -> c 20..30; x 0..10 writes what c reads undeclared."""
        story = Story()
        task(story, "x", 0, 10, writes="/x")
        task(story, "a", 0, 10, writes="/a")
        task(story, "b", 10, 20, reads="/other", writes="/b")
        task(story, "c", 20, 30, reads="/b /x", writes="/c")
        return story

    def test_time_saved_by_running_in_parallel(self) -> None:
        d = of(self.story(), **declared(("a", "b", "file"), ("b", "c", "file"), ("x", "a", "future"))).declared
        (row,) = d.empty.to_dict("records")
        # x -> a -> b -> c is 40 ms of tasks; without a -> b the longest chain is x -> a or b -> c.
        assert (row["producer"], row["consumer"], row["saved_ns"]) == ("a", "b", 20 * MS)
        assert d.together_ns == 20 * MS

    def test_a_task_that_never_ran_had_nothing_to_read(self) -> None:
        tables = declared(("b", "c", "file"), ("c", "z", "file"))
        tables["declared_tasks"]["tries"] = [0 if name == "z" else 1 for name in tables["declared_tasks"]["task"]]
        found = of(self.story(), **tables)
        assert found.declared.empty.empty and found.declared.together_ns == 0
        assert "dependency without data" not in {finding.kind for finding in found.findings()}

    @pytest.mark.parametrize(("status", "told"), [("done", True), ("failed", False), ("killed", False)])
    def test_a_task_that_failed_might_have_used_its_files(self, status: str, told: bool) -> None:
        """`b` ended before it came to what it was declared to read and to write."""
        tables = declared(("a", "b", "file"), files=(("b", "r", "/a"), ("b", "w", "/out")))
        ends = {"status": [None, status], "tries": 1, "t_launch_ns": T0_NS, "t_end_ns": T0_NS + 20 * MS}
        tables["declared_tasks"] = tables["declared_tasks"].assign(**ends)
        found = of(self.story(), **tables).declared
        assert [len(rows) for rows in (found.empty, found.untouched)] == ([1, 2] if told else [0, 0])

    def test_one_of_two_empty_dependencies_alone_saves_nothing(self) -> None:
        story = self.story()
        task(story, "y", 0, 10, writes="/y")
        d = of(story, **declared(("a", "b", "file"), ("y", "b", "file"), ("b", "c", "file"))).declared
        assert d.empty["saved_ns"].tolist() == [0, 0]
        assert d.together_ns == 10 * MS

    def test_unordered_undeclared_dependencies_are_races(self) -> None:
        i = of(self.story(), **declared(("a", "b", "file"), ("b", "c", "file"), ("x", "z", "future")))
        found = [f for f in i.findings() if f.kind == "undeclared dependency"]
        assert [(f.evidence[0]["producer"], f.evidence[0]["consumer"]) for f in found] == [("x", "c")]
        assert found[0].cost_bytes == 100

    def test_declared_files_that_were_not_accessed(self) -> None:
        files = (("b", "r", "/other"), ("b", "r", "/a"), ("b", "w", "/nowhere"), ("c", "r", "/c"), ("c", "w", "/b"))
        d = of(self.story(), **declared(("a", "b", "file"), ("c", "d", "file"), files=files)).declared
        states = {(r["task"], r["direction"], r["path"]): r["state"] for r in d.untouched.to_dict("records")}
        assert states == {
            ("b", "r", "/a"): "touched by others only",
            ("b", "w", "/nowhere"): "never touched",
            ("c", "r", "/c"): "written, not read",
            ("c", "w", "/b"): "read, not written",
        }

    def test_a_declared_file_that_was_made_anew_is_any_file_of_its_path(self) -> None:
        """A failed try's output is removed, and the next try's may get the first file's place in the table's order."""
        story = Story()
        story.write("/a", 0, 100, task="make", at_ms=0, file="8:1:7")
        story.write("/a", 0, 100, task="make", at_ms=5, file="8:1:8")
        story.read("/a", 0, 100, task="use", at_ms=20, file="8:1:8")
        story.write("/a", 0, 100, task="later", at_ms=30, file="8:1:9")
        files = (("make", "w", "/a"), ("use", "r", "/a"), ("later", "w", "/a"))
        d = of(story, **declared(("make", "use", "file"), files=files)).declared
        assert d.untouched.to_dict("records") == []

    @pytest.mark.parametrize(
        ("exe", "argv", "input_file"),
        [
            ("/w/prog", '["./prog"]', "/w/prog"),
            ("/usr/bin/python3", '["python3", "-u", "/w/step.py"]', "/w/step.py"),
            ("/usr/bin/python3", '["python3", "-c", "0"]', "/w/unit.py"),
            ("/usr/bin/cat", '["cat"]', "/w/libunit.so.1"),
        ],
    )
    def test_code_that_a_task_runs_is_an_input_that_it_used(self, exe: str, argv: str, input_file: str) -> None:
        """A program, a script, a source whose cache was read; what the dynamic linker reads is in no trace."""
        story = Story()
        task(story, "make", 0, 10, writes=input_file)
        story.process(2, exe, argv)
        task(story, "use", 20, 30, reads="/w/__pycache__/unit.cpython-311.pyc", pid=2)
        task(story, "later", 40, 50, reads="/other", pid=3)
        files = (("use", "r", input_file), ("later", "r", "/w/prog"))
        d = of(story, **declared(("make", "use", "file"), ("make", "later", "file"), files=files)).declared
        assert d.untouched[["task", "path"]].to_numpy().tolist() == [["later", "/w/prog"]]

    @pytest.mark.parametrize(("by", "told"), [({}, False), ({"task": "copy"}, True)])
    def test_a_file_that_was_staged_for_its_task_is_used(self, by: dict[str, str], told: bool) -> None:
        """A wrapper without a task copies /in to /w/in and /w/out to /out; a task that does so has files of its own."""
        story = Story()
        story.read("/in", pid=7, **by)
        story.write("/w/in", pid=7, **by)
        story.read("/w/in", task="use", pid=8)
        story.write("/w/out", task="use", pid=8)
        story.read("/w/out", pid=9, **by)
        story.write("/out", pid=9, **by)
        story.read("/other", pid=10)
        story.write("/w/in", pid=10)
        files = (("use", "r", "/in"), ("use", "w", "/out"), ("use", "r", "/other"))
        tables = declared(("use", "later", "file"), files=files)
        d = of(story, manager_processes={("n1", 10, "")}, **tables).declared
        assert set(d.untouched["path"]) == {"/other", *(("/in", "/out") if told else ())}

    def test_a_declared_folder_is_the_files_below_it(self) -> None:
        story = Story()
        story.write("/d/x", 0, 100, task="make", at_ms=0)
        story.read("/d/x", 0, 100, task="use", at_ms=20)
        story.write("/d0/y", 0, 100, task="use", at_ms=30)
        story.event("openat", "/d", fd=3, task="use")
        story.event("mkdir", "/made", task="make", ftype="dir")
        files = (("make", "w", "/d"), ("use", "r", "/d"), ("use", "w", "/d"), ("make", "w", "/made"))
        d = of(story, **declared(("make", "use", "file"), files=files)).declared
        assert d.untouched[["task", "direction", "path"]].to_numpy().tolist() == [["use", "w", "/d"]]


class TestLifetime:
    def story(self) -> Story:
        story = Story()
        story.read("/in", 0, 400, stage="m", task="m", at_ms=0)
        for path, size, at in (("/mid", 300, 10), ("/waste", 50, 20), ("/gone", 70, 25)):
            story.create(path, stage="m", task="m", at_ms=at)
            story.write(path, 0, size, stage="m", task="m", at_ms=at + 1)
        story.event("unlink", "/gone", stage="m", task="m", at_ms=30)
        for at in (40, 45, 50):
            story.read("/mid", 0, 200, stage="u", task="u", at_ms=at)
        story.create("/out", stage="u", task="u", at_ms=60)
        story.write("/out", 0, 10, stage="u", task="u", at_ms=61)
        return story

    def test_files(self) -> None:
        files = of(self.story()).lifetime.files.set_index("path")
        mid = files.loc["/mid"]
        assert (mid["size"], mid["read_bytes"], mid["unique_bytes"], mid["again_bytes"]) == (300, 600, 200, 400)
        assert (mid["writers"], mid["readers"], mid["intermediate"]) == (1, 1, True)
        assert mid["born_ns"] == T0_NS + 10 * MS and mid["last_use_ns"] == T0_NS + 50 * MS + 1000
        assert files["never_read"].to_dict() == {
            "/in": False,
            "/mid": False,
            "/waste": True,
            "/gone": True,
            "/out": True,
        }
        assert files.loc["/gone", "gone_ns"] == T0_NS + 30 * MS + 1000

    def test_the_footprint_is_the_bytes_live_at_a_time(self) -> None:
        life = of(self.story()).lifetime
        # /in ends at once; /mid lives to 50 ms, /waste and /gone for a moment, /out at the end.
        assert life.peak["live_bytes"] == 400
        assert life.peak["held_bytes"] == 400 + 300 + 50 + 70
        assert life.peak["held_at_ns"] == T0_NS + 25 * MS
        at = dict(zip((life.footprint["time_ns"] - T0_NS) // MS, life.footprint["live_bytes"], strict=True))
        assert (at[10], at[60]) == (300, 10)

    @pytest.mark.usefixtures("without_floor")
    def test_findings_name_unread_and_repeated_bytes(self) -> None:
        outputs = declared(("m", "u", "file"), files=(("m", "w", "/mid"),))
        found = {f.kind: f for f in of(self.story(), **outputs).findings()}
        assert found["never read"].cost_bytes == 60 and found["never read"].count == 2
        assert found["written, then deleted unread"].cost_bytes == 70
        assert found["repeated reads"].cost_bytes == 400
        assert found["never read"].query == (
            "tailrace query /runs/story --path /waste --by task,dir --agg sum:size --agg count"
        )

    @pytest.mark.usefixtures("without_floor")
    @pytest.mark.parametrize(("offset", "size", "unread"), [(0, 10, 990), (0, 500, 0), (None, 10, 0)])
    def test_a_deleted_file_of_which_only_a_part_was_read(self, offset: int | None, size: int, unread: int) -> None:
        """Its first bytes; half of it; bytes of it that are not known."""
        story = Story()
        story.create("/all", task="expand", stage="e")
        story.write("/all", 0, 1000, task="expand", stage="e", at_ms=1)
        story.read("/all", offset, size, task="use", stage="u", pid=2, at_ms=2)
        story.event("unlink", "/all", task="tidy", stage="t", pid=3, at_ms=3)
        found = [f.cost_bytes for f in of(story).findings() if f.kind == "written, then deleted unread"]
        assert found == [unread] * bool(unread)

    def test_few_bytes_are_no_finding(self) -> None:
        """They are most of what this run moved, and nothing is gained by not moving them."""
        story = Story()
        story.write("/waste", 0, 431, task="a")
        assert not [f for f in of(story).findings() if f.cost_bytes]

    def test_a_copy_needs_evidence(self) -> None:
        story = Story()

        def moves(pid: int, source: str, target: str, reads: list[int], writes: list[int], **values: Any) -> None:
            for way, path, sizes in ((story.read, source, reads), (story.write, target, writes)):
                for at, size in enumerate(sizes):
                    way(path, sum(sizes[:at]), size, task=f"t{pid}", pid=pid, **values)

        story.process(1, "/bin/cp")
        story.process(9, "/usr/bin/upper")
        moves(1, "/a", "/steps", [60, 30, 0], [60, 30])
        moves(9, "/a", "/transformed", [60, 30, 0], [60, 30])
        moves(2, "/a", "/shorter", [90], [80])
        moves(3, "/a", "/two inputs", [90], [90])
        story.read("/other", 0, 1, task="t3", pid=3)
        moves(4, "/a", "/ranges", [90], [60, 30])
        moves(5, "/a", "/piped in", [90], [90])
        story.event("read", "pipe:[7]", dir="r", size=3, ftype="fifo", task="t5", pid=5)
        moves(6, "/a", "/backward", [30, 60], [30, 60])
        story.rows[-1]["offset"], story.rows[-2]["offset"] = 0, 60
        pair = {"path2": "/kernel", "file2": story.identity("/kernel"), "task": "t7", "pid": 7}
        story.event("copy_file_range", "/a", dir="rw", offset=0, size=90, count=90, ret=90, **pair)
        pair = {"path2": "/clone", "file2": story.identity("/clone"), "task": "t8", "pid": 8}
        story.event("ficlone", "/a", dir="rw", offset=0, size=90, count=90, ret=0, **pair)
        copies = of(story).lifetime.copies
        paths = dataflow.model(story.run()).paths
        assert {paths[r.target]: (paths[r.source], r.bytes, r.evidence) for r in copies.itertuples()} == {
            "/steps": ("/a", 90, "copier"),
            "/transformed": ("/a", 90, "ranges"),
            "/ranges": ("/a", 90, "ranges"),
            "/backward": ("/a", 90, "ranges"),
            "/kernel": ("/a", 90, "kernel"),
        }

    @pytest.mark.usefixtures("without_floor")
    def test_files_of_one_node_are_node_local_candidates(self) -> None:
        story = Story()
        for name, reader in (("/stays", "n1"), ("/goes", "n2")):
            story.write(name, 0, 100, task="w", host="n1", pid=1)
            story.read(name, 0, 100, task=f"r{reader}", host=reader, pid=2)
        i = of(story)
        local = i.lifetime.files.set_index("path")["node_local"].to_dict()
        assert local == {"/stays": True, "/goes": False}
        kinds = {f.kind: f.evidence[0] for f in i.findings()}
        assert kinds["node-local candidate"]["path"] == "/stays"
        assert kinds["co-location candidate"]["bytes"] == 100


class TestPairs:
    PART = 40 << 10

    def streamed(self, reads: list[tuple[str, int]], writes: list[int] | None = None) -> list[tuple[Any, ...]]:
        """The candidates of a run in which `make` writes three parts of files, and `use` reads parts of them."""
        story, part = Story(), self.PART
        for path in dict.fromkeys(path for path, _ in reads):
            for at, place in zip((1, 40, 99), writes or [0, part, 2 * part], strict=True):
                story.write(path, place, part, task="make", at_ms=at)
        step = 39 / max(len(reads) - 1, 1)
        for at, (path, place) in enumerate(reads):
            story.read(path, place, part, task="use", at_ms=110 + at * step)
        i = of(story)
        names = i.inputs.name
        return [(names(r.producer), names(r.consumer), r.path, r.gain_ns // MS) for r in i.streams.itertuples()]

    def test_streaming_candidates(self) -> None:
        part = self.PART
        found = self.streamed([("/once", 0), ("/once", part), ("/once", 2 * part)])
        assert found == [("make", "use", "/once", 39)], "60 ms ahead, but no more than the 39 that it works itself"

    @pytest.mark.parametrize(
        "places",
        [[0, 2, 1], [0, 1], [0, 1, 2, 2], [1, 2], [2, 1, 0]],
        ids=["jumps", "a part", "again", "end", "backward"],
    )
    def test_a_reader_that_does_not_go_from_front_to_back_can_not_stream(self, places: list[int]) -> None:
        assert self.streamed([("/f", place * self.PART) for place in places]) == []

    def test_a_writer_that_goes_back_can_not_stream(self) -> None:
        part = self.PART
        reads = [("/f", 0), ("/f", part), ("/f", 2 * part)]
        assert self.streamed(reads, [part, 0, 2 * part]) == []

    @pytest.mark.parametrize(("again", "found"), [(0, 1), (10, 0)], ids=["once", "and overwritten"])
    def test_a_writer_with_an_inherited_descriptor_goes_on(self, again: int, found: int) -> None:
        story, part = Story(), self.PART
        for at, size in ((1, part), (40, part), (99, part), *([(99.5, again)] if again else [])):
            story.write("/f", None, size, task="make", at_ms=at)
        for at in range(3):
            story.read("/f", at * part, part, task="use", at_ms=110 + 15 * at)
        assert len(of(story).streams) == found

    def test_random_reads_of_half_a_file_are_no_stream(self) -> None:
        """30,000 of 64 bytes were called "once, whole"."""
        story, r = Story(), random.Random(1)
        for at in range(8):
            story.write("/f", at << 18, 1 << 18, task="make", at_ms=1 + at * 10)
        for at in range(2000):
            story.read("/f", r.randrange(1 << 20), 64, task="use", at_ms=100 + at / 20)
        assert len(of(story).streams) == 0

    def test_a_gain_is_not_more_than_the_estimate_of_the_run(self) -> None:
        """Another file that the reader waits for, and that can't be streamed, leaves nothing to gain."""
        story, part = Story(), self.PART
        for at, place in zip((1, 40, 99), (0, part, 2 * part), strict=True):
            story.write("/f", place, part, task="make", at_ms=at)
        story.write("/last", 0, 10, task="make", at_ms=99.5)
        story.read("/last", 0, 10, task="use", at_ms=110)
        for at, place in zip((120, 130, 149), (0, part, 2 * part), strict=True):
            story.read("/f", place, part, task="use", at_ms=at)
        i = of(story)
        assert [(r.path, r.gain_ns) for r in i.streams.itertuples()] == [("/f", 0)]
        assert not [f for f in i.findings() if f.kind == "streaming candidate"]

    def test_fans(self) -> None:
        story = Story()
        for n in range(4):
            task(story, f"p{n}", 0, 10, writes=f"/f{n}")
        task(story, "join", 20, 30, reads="/f0 /f1 /f2 /f3", writes="/all")
        for n in range(3):
            task(story, f"u{n}", 40, 50, reads="/all" + (" /f0" if n == 0 else ""))
        fans = of(story).fans.set_index("stage")
        assert fans.loc["j", ["in_median", "in_max", "out_median", "out_max"]].tolist() == [4, 4, 3, 3]
        assert fans.loc["p", ["in_max", "out_median", "out_max"]].tolist() == [0, 1, 2]
        assert fans.loc["u", ["in_median", "in_max"]].tolist() == [1, 2]

    def test_the_caterpillar(self) -> None:
        story = Story()
        task(story, "side", 0, 5, writes="/s")
        task(story, "a", 0, 20, reads="/in", writes="/a /log")
        task(story, "b", 25, 50, reads="/a /s", writes="/b")
        task(story, "look", 30, 35, reads="/log")
        i = of(story)
        name = lambda t: i.inputs.name(t) if t >= 0 else "(before)"  # noqa: E731
        rows = [(r.role, name(r.task), name(r.other), r.bytes) for r in i.caterpillar.itertuples()]
        assert rows == [
            ("spine", "a", "a", 0),
            ("side input", "a", "(before)", 100),
            ("side output", "a", "look", 100),
            ("spine", "b", "b", 0),
            ("side input", "b", "side", 100),
        ]


class TestFindings:
    def test_races_first_then_by_cost(self) -> None:
        story = Story()
        task(story, "a", 0, 10, writes="/a")
        task(story, "b", 500, 600, reads="/a", writes="/big", io=40)
        story.write("/a", 0, 5, task="late", stage="l", at_ms=501, pid=2)
        found = of(story).findings()
        abouts = [f.about for f in found]
        assert abouts[:2] == ["race", "race"] and "race" not in abouts[2:]
        times = [f.cost_ns for f in found if f.about == "time" and f.cost_ns]
        assert times == sorted(times, reverse=True)
        assert next(f for f in found if f.kind == "critical path gaps").cost_ns == 490 * MS
        for finding in found:
            assert finding.title and finding.query

    def test_a_gap_as_long_as_the_start_of_a_program_is_none(self) -> None:
        story = Story()
        task(story, "a", 0, 10, writes="/a")
        task(story, "b", 59, 65, reads="/a")
        assert of(story).critical.parts["gap"] == 49 * MS
        assert "critical path gaps" not in {one.kind for one in of(story).findings()}

    def test_corrected_clocks_are_reported(self) -> None:
        story = Story()
        story.create("/f", task="a", host="n1", at_ms=100)
        story.write("/f", task="a", host="n1", at_ms=101)
        story.read("/f", task="b", host="n2", pid=2, at_ms=50)
        (finding,) = [f for f in of(story).findings() if f.kind == "clock skew"]
        assert "The clock of n2 is 51.0 ms behind" in finding.title

    @pytest.mark.usefixtures("without_floor")
    def test_names_in_a_query_are_literal(self) -> None:
        path, name = "/out dir/part[1]*.dat", "take what? 'now'"
        story = Story()
        task(story, "a", 0, 10, writes="/a")
        story.write(path, 0, 300, task=name, stage="t[0]", at_ms=20)
        i = of(story, **declared(("a", "b", "file"), files=(("a", "w", "/a"),)))
        (finding,) = [f for f in i.findings() if f.kind == "never read"]
        asked = shlex.split(finding.query)
        assert fnmatchcase(path, asked[asked.index("--path") + 1])
        assert not fnmatchcase("/out dir/part1 x.dat", asked[asked.index("--path") + 1])
        code = i.inputs.tasks.index[i.inputs.tasks["task"] == name][0]
        asked = i.of_task(code)
        assert asked[:3] == ["--workflow", "w", "--task"]
        assert fnmatchcase(name, asked[3]) and not fnmatchcase(name.replace("?", "s"), asked[3])
        assert i.of_stage("t[0]") == ["--stage", "t[[]0]"]

    def test_an_empty_run_has_none(self) -> None:
        assert of(Story()).findings() == []
