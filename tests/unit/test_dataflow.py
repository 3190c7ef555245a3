"""Versions, flows, classes and the declared DAG: against a byte-by-byte simulation, and stories with known ends."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from tailrace.analyzer.edges import edge_table, event_fold, file_classes
from tailrace.analyzer.model import dataflow, declared_vs_observed, graphs
from tailrace.errors import QueryError


def flow_sums(run: Any, level: str = "task", column: str = "bytes") -> dict[tuple[str, str], int]:
    """(producer label, consumer label) -> bytes."""
    m = dataflow.model(run)
    labels = [*dataflow.activities(m, level)[1]["label"], dataflow.BEFORE_RUN]  # position -1 is "before the run"
    out: dict[tuple[str, str], int] = {}
    for row in dataflow.flow_table(m, level).itertuples():
        key = (labels[row.producer], labels[row.consumer])
        out[key] = out.get(key, 0) + getattr(row, column)
    return {key: n for key, n in out.items() if n}


def turns(seed: int) -> tuple[Story, dict[tuple[str, str], int]]:
    """One file, units that take turns (read, maybe truncate, write), and how many bytes of whom each one read."""
    r, story = random.Random(seed), Story()
    owners: list[str] = [dataflow.BEFORE_RUN] * 20
    wanted: dict[tuple[str, str], int] = {}
    for turn in range(r.randint(2, 6)):
        me, seen = f"t{turn}", set()
        for _ in range(r.randint(0, 3)):
            start = r.randint(0, len(owners))
            size = r.randint(0, len(owners) - start)
            story.read("/f", start, size, task=me)
            seen |= set(range(start, start + size))
        for owner in (owners[at] for at in seen):
            wanted[(owner, me)] = wanted.get((owner, me), 0) + 1
        if r.random() < 0.3:
            story.create("/f", task=me)
            owners = []
        for _ in range(r.randint(0, 3)):
            start, size = r.randint(0, len(owners)), r.randint(1, 12)
            story.write("/f", start, size, task=me)
            owners[start : start + size] = [me] * size
    return story, wanted


class TestFlows:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 100_000), st.integers(1, 4))
    def test_bytes_come_from_their_last_writer(self, seed: int, partitions: int) -> None:
        story, wanted = turns(seed)
        run = story.run(partitions)
        assert flow_sums(run, column="unique_bytes") == wanted
        assert sum(flow_sums(run).values()) == sum(row["size"] for row in story.rows if row.get("dir") == "r")

    def test_rereading_counts_again_and_is_shared_in_proportion(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", 0, 60, task="a")
        story.write("/f", 60, 40, task="b")
        for _ in range(3):
            story.read("/f", 0, 100, task="c")
        assert flow_sums(story.run()) == {("a", "c"): 180, ("b", "c"): 120}

    def test_unread_bytes_of_a_writer_are_no_flow(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", 0, 100, task="a")
        story.write("/f", 100, 100, task="b")
        story.read("/f", 150, 20, task="c")
        assert flow_sums(story.run()) == {("b", "c"): 20}

    def test_unknown_offsets_are_shared_by_what_was_written(self) -> None:
        story = Story()
        story.create("/f", task="a", at_ms=1)
        story.write("/f", None, 75, task="a", at_ms=2, dur=10 * MS)
        story.write("/f", None, 25, task="b", at_ms=3, dur=MS)
        story.read("/f", None, 100, task="c", at_ms=20)
        assert flow_sums(story.run()) == {("a", "c"): 75, ("b", "c"): 25}

    def test_a_pipe_joins_processes_however_they_interleave(self) -> None:
        story = Story()
        for i in range(5):
            story.write("pipe:[7]", None, 10, ftype="fifo", pid=1, task="a", at_ms=2 * i + 1)
            story.read("pipe:[7]", None, 10, ftype="fifo", pid=2, task="b", at_ms=2 * i + 1.5)
        assert flow_sums(story.run(3)) == {("a", "b"): 50}

    def test_a_pipe_that_comes_from_outside_is_no_input(self) -> None:
        story = Story()
        story.read("pipe:[7]", None, 10, ftype="fifo", task="b")
        assert flow_sums(story.run()) == {}

    def test_own_bytes_are_no_flow_but_processes_of_a_task_exchange(self) -> None:
        story = Story()
        story.create("/f", task="a", pid=1, stage="s")
        story.write("/f", task="a", pid=1, stage="s")
        story.read("/f", task="a", pid=2, stage="s")
        assert flow_sums(story.run(), "task") == {}
        assert flow_sums(story.run(), "stage") == {}
        assert list(flow_sums(story.run(), "process").values()) == [100]

    def test_tasks_of_one_stage_make_a_loop_at_its_stage(self) -> None:
        story = Story()
        story.create("/f", task="a", stage="s")
        story.write("/f", task="a", stage="s")
        story.read("/f", task="b", stage="s")
        assert flow_sums(story.run(), "stage") == {("s", "s"): 100}

    def test_a_rename_keeps_the_file_and_a_rename_over_makes_another(self) -> None:
        story = Story()
        story.create("/out", task="old")
        story.write("/out", task="old")
        story.create("/out.tmp", task="new")
        story.write("/out.tmp", task="new")
        story.rename("/out.tmp", "/out", task="new")
        story.read("/out", task="c")
        assert flow_sums(story.run()) == {("new", "c"): 100}

    def test_an_empty_file_made_in_the_run_is_produced_and_consumed(self) -> None:
        story = Story()
        story.identities["/done"] = f"n1:8:1:5:{T0_NS + MS}"
        story.event("openat", "/done", flags=0o101, task="a")
        story.read("/done", 0, 0, task="b")
        edges = graphs.graph(story.run(), "task").edges(data="kind")
        assert sorted(kind for _, _, kind in edges) == ["read", "write"]
        story.identities["/done"] = "n1:8:1:5:1600000000000000000"  # born long before the run
        before = Story(identities=story.identities)
        before.event("openat", "/done", flags=0o101, task="a")
        assert graphs.graph(before.run(), "task").number_of_edges() == 0


def naive_versions(ops: list[tuple[str, int, int, bool, bool]]) -> list[int]:
    """The rule of versions.py, word by word: ops are (unit, start, end, writes, truncates), each a burst of its own."""
    writes = sorted((o for o in ops if o[3]), key=lambda o: (o[1], not o[4]))
    begun: list[tuple[int, list[Any]]] = []
    for i, op in enumerate(writes):
        unit, start = op[0], op[1]
        if begun and not op[4]:
            members = begun[-1][1]
            units = {m[0] for m in members}
            end = max(m[2] for m in members)
            era = writes[i + 1 :]
            era = era[: next((k for k, o in enumerate(era) if o[4]), len(era))]
            goes_on = end >= start or any(o[0] in units and o[2] >= start for o in era)
            seen = any(not o[3] and o[0] not in units and o[1] < start and o[2] > end for o in ops)
            if unit in units or end >= start or (goes_on and not seen):
                members.append(op)
                continue
        begun.append((start, [op]))
    number: dict[int, int] = {id(o): n for n, (_, members) in enumerate(begun, 1) for o in members}
    return [number[id(o)] if o[3] else sum(1 for start, _ in begun if start <= o[1]) for o in ops]


@st.composite
def burst_ops(draw: st.DrawFn) -> list[tuple[str, int, int, bool, bool]]:
    starts = draw(st.lists(st.integers(0, 60), min_size=1, max_size=9, unique=True))
    return [
        (
            draw(st.sampled_from("abc")),
            s,
            s + draw(st.integers(0, 9)),
            w := draw(st.booleans()),
            w and draw(st.integers(0, 4)) == 0,
        )
        for s in starts
    ]


class TestVersions:
    @settings(max_examples=60, deadline=None)
    @given(burst_ops())
    def test_versions_follow_their_definition(self, ops: list[tuple[str, int, int, bool, bool]]) -> None:
        # bursts of one (unit, direction) that overlap become one; the naive rule has no bursts, so they are kept apart
        for i, a in enumerate(ops):
            for b in ops[:i]:
                if (a[0], a[3]) == (b[0], b[3]) and a[1] <= b[2] and b[1] <= a[2]:
                    return
        story = Story()
        for unit, start, end, writes, truncates in ops:
            values = {"task": unit, "at_ms": start, "dur": (end - start) * MS}
            (story.create if truncates else story.write if writes else story.read)("/f", **values)
        m = dataflow.model(story.run(2))
        got = {}
        for burst, version in zip(m.bursts.to_dict("records"), m.version, strict=True):
            unit = m.who["task"].iat[burst["who"]]
            start = (burst["first_ns"] - T0_NS) // MS
            got[(unit, start, burst["dir"] == edge_table.WRITE)] = int(m.versions.table["number"].iat[version])
        assert [got[(o[0], o[1], o[3])] for o in ops] == naive_versions(ops)

    @settings(max_examples=30, deadline=None)
    @given(burst_ops())
    def test_no_read_belongs_to_a_later_version(self, ops: list[tuple[str, int, int, bool, bool]]) -> None:
        story = Story()
        for unit, start, end, writes, truncates in ops:
            values = {"task": unit, "at_ms": start, "dur": (end - start) * MS}
            (story.create if truncates else story.write if writes else story.read)("/f", **values)
        m = dataflow.model(story.run())
        begin = m.versions.table["begin_ns"].to_numpy()[m.version]
        reads = m.bursts["dir"].to_numpy() == edge_table.READ
        assert (begin[reads] <= m.bursts["first_ns"].to_numpy()[reads]).all()

    def test_an_update_in_place_makes_no_cycle(self) -> None:
        story = Story()
        story.create("/state", task="init")
        story.write("/state", task="init")
        for step in range(4):
            story.read("/state", task=f"step{step}")
            story.write("/state", task=f"step{step}")
        g = graphs.graph(story.run(), "task")
        assert nx.is_directed_acyclic_graph(g)
        assert sum(1 for _, d in g.nodes(data=True) if d["kind"] == "file") == 5

    def test_a_truncated_file_has_no_bytes_of_the_previous_version(self) -> None:
        for truncate, wanted in ((True, []), (False, ["base"])):
            story = Story()
            story.write("/f", task="a")
            story.create("/f", task="b") if truncate else None
            story.write("/f", task="b")
            kinds = [kind for *_, kind in graphs.graph(story.run(), "task").edges(data="kind")]
            assert [kind for kind in kinds if kind == "base"] == wanted

    def test_a_read_that_begins_with_a_version_is_of_it(self) -> None:
        story = Story()
        for task, at_ms in (("a", 1), ("b", 2)):
            story.create("/f", task=task, at_ms=at_ms)
        story.read("/f", task="c", at_ms=2)
        m = dataflow.model(story.run())
        reads = m.bursts["dir"].to_numpy() == edge_table.READ
        assert m.versions.table["number"].to_numpy()[m.version[reads]].tolist() == [2]

    def test_writers_of_one_shared_file_share_a_version(self) -> None:
        story = Story()
        for i in range(20):
            story.write("/shared", i * 10, 10, task=f"rank{i % 4}")
        assert dataflow.model(story.run(3)).versions.table["number"].tolist() == [1]

    def test_a_read_in_the_pause_separates_them(self) -> None:
        story = Story()
        story.write("/f", 0, 10, task="a")
        story.read("/f", 0, 10, task="b")
        story.write("/f", 10, 10, task="b")
        story.write("/f", 20, 10, task="a")
        assert dataflow.model(story.run()).versions.table["number"].max() == 3

    def test_a_read_that_a_writer_overtakes_is_marked(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", task="a")
        story.read("/f", task="r", at_ms=10, dur=10 * MS)
        story.write("/f", task="b", at_ms=15)
        edges = [d for *_, d in graphs.graph(story.run(), "task").edges(data=True) if d["kind"] == "read"]
        assert [d["raced"] for d in edges] == [True]


class TestClasses:
    def classes(self, story: Story, **values: Any) -> dict[tuple[int, str], str]:
        table = event_fold.build(story.run())
        processes = story.run().processes
        m = dataflow.build(table, processes, **values)
        who = m.who["pid"].to_numpy()[m.bursts["who"]]
        paths = m.paths[m.bursts["file"].to_numpy()]
        return {(int(p), str(f)): file_classes.CLASSES[c] for p, f, c in zip(who, paths, m.cls, strict=True)}

    @pytest.mark.parametrize(
        ("exe", "argv", "path", "wanted"),
        [
            ("/usr/bin/python3.11", "python3 x.py", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/python3.11", "python3 /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -c pass /srv/flow.py", "/srv/flow.py", "data"),
            ("/usr/bin/perl", "perl -ne print /srv/x.pl", "/srv/x.pl", "data"),
            ("/usr/bin/perl", "perl -I lib /srv/x.pl", "/srv/x.pl", "software"),
            ("/usr/bin/bash", "bash -c true /srv/x.sh", "/srv/x.sh", "data"),
            ("/usr/bin/bash", "bash -ec true /srv/x.sh", "/srv/x.sh", "data"),
            ("/usr/bin/bash", "bash -e /srv/x", "/srv/x", "software"),
            ("/usr/bin/bash", "bash -euo pipefail /srv/x", "/srv/x", "software"),
            ("/usr/bin/dash", "sh +x -- /srv/x", "/srv/x", "software"),
            ("/usr/bin/dash", "sh - /srv/x", "/srv/x", "software"),
            ("/usr/bin/python3.11", "python3 - /srv/x.txt", "/srv/x.txt", "data"),
            ("/usr/bin/python3.11", "python3 -W ignore -u /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -Wignore /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -Im mod /srv/flow.py", "/srv/flow.py", "data"),
            ("/usr/bin/gcc", "gcc /srv/main.c", "/srv/main.c", "data"),
            ("/usr/bin/bash", "bash /srv/x.sh", "/srv/x.sh", "software"),
            ("/usr/bin/python3.11", "", "/usr/lib/python3.11/site-packages/a-1.dist-info/METADATA", "software"),
            ("/srv/bin/prog", "/srv/bin/prog", "/srv/bin/prog", "software"),
            ("/usr/bin/wc", "wc -l", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/indexer", "indexer /usr/lib/python3.11", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/python3.11", "python3 count.py /usr/share/dict/words", "/usr/share/dict/words", "data"),
            ("/usr/bin/hmmsearch", "hmmsearch db", "/usr/share/hmmer/x.tab", "software"),
            ("/usr/bin/sort", "sort", "/usr/share/dict/words", "data"),
            ("/usr/bin/sort", "sort", "/usr/share/locale/de/LC_MESSAGES/coreutils.mo", "system"),
            ("", "", "/usr/lib/python3.11/os.py", "software"),
            ("/usr/bin/python3.11", "", "/home/u/venv/lib/python3.11/site-packages/numpy/core/_core.so", "software"),
            ("/usr/bin/python3.11", "", "/home/u/flow.py", "data"),
            ("/usr/bin/cat", "", "/home/u/__pycache__/flow.cpython-311.pyc", "software"),
            ("/usr/bin/cat", "", "/proc/self/maps", "system"),
            ("/usr/bin/cat", "", "/dev/shm/segment", "data"),
            ("/usr/bin/python3.11", "", "/dev/shm/sem.mp-7a3xq1", "system"),
            ("/home/u/ranks", "", "/dev/shm/vader_segment.vm.0.6db70001.3", "system"),
            ("/home/u/ranks", "", "/tmp/ompi.vm.0/pid.329/0/debugger_attach_fifo", "system"),
            ("/home/u/ranks", "", "/home/u/ompi.vm.0", "data"),
            ("/usr/bin/python3.11", "", "/dev/shm/pym-15313-79mfz6hh", "system"),
            ("/usr/bin/python3.11", "", "/tmp/pymp-21tnsrmt/pym-15313-79mfz6hh", "system"),
            ("/usr/bin/python3.11", "", "/dev/shm/psm_4cfd7b21", "data"),
            ("/usr/bin/cat", "", "/etc/passwd", "system"),
            ("/usr/bin/gcc", "", "/usr/include/stdio.h", "software"),
        ],
    )
    def test_reads(self, exe: str, argv: str, path: str, wanted: str) -> None:
        story = Story()
        story.process(1, exe, argv)
        story.read(path)
        assert self.classes(story) == {(1, path): wanted}

    @pytest.mark.parametrize(
        ("path", "wanted"),
        [
            ("/w/runinfo/000/parsl.log", "manager"),
            ("/w/runinfo/000/task_logs/0.stdout", "data"),
            ("/w/runinfo/results.dat", "data"),
            ("/w/.snakemake/log/1.log", "manager"),
            ("/dev/shm/plasma7P95iL", "manager"),
            ("/home/u/airflow/airflow.db-wal", "manager"),
            ("/w/.snakemake/shadow/x/out.dat", "data"),
            ("/w/work/ab/cdef/.command.run", "manager"),
            ("/w/work/ab/cdef/out.dat", "data"),
            ("/tmp/dask-scratch-space/global.lock", "manager"),
            ("/tmp/dask-scratch-space-0/worker-1a2b.dirlock", "manager"),
            ("/w/dask-scratch-space/worker-1a2b/storage/%28%27sum-9c%27%2C%200%29#0", "manager"),
            ("/w/dask-scratch-space/worker-1a2b/own.dat", "data"),
            ("/tmp/worker-0-71/cache/file-7-59f2d2d7cc0b902aebfb88c118c3b7f9-a", "manager"),
            ("/tmp/worker-0-71/t.3/result", "manager"),
            ("/tmp/worker-0-71/task.3/argument", "manager"),
            ("/tmp/worker-0-71/trash/jlsuqyo.1795460204525807/map", "manager"),
            ("/tmp/worker-0-71/trash/hgrfgvi.1795460229730398", "manager"),
            ("/tmp/worker-0-71/func.4/.taskvine.stdout", "manager"),
            ("/tmp/worker-0-71/libr.3/library_code.py", "manager"),
            ("/w/runinfo/vine/vine-cache/vine-library-cache/cd6f436947a8/library_info.clpk", "manager"),
            ("/tmp/worker-0-71/worker.stdout.v6UIkW", "manager"),
            ("/tmp/worker-0-71/t.3/scratch", "data"),
            ("/tmp/worker-0-71/trash/jlsuqyo.1795460204525807/scratch", "data"),
            ("/tmp/lost-ada-20261123185700838974-fgvopoi3/0000/argument", "manager"),
            ("/shared/1795460.9/wq/function_data/0003/function", "manager"),
            ("/w/runinfo/vine/2026-11-23T185701/vine-logs/transactions", "manager"),
            ("/elsewhere/of-parsl/htex/interchange.log", "manager"),
            ("/elsewhere/of-parsl/declared.dat", "data"),
        ],
    )
    def test_a_managers_own_files_are_no_data(self, path: str, wanted: str) -> None:
        """Whoever writes them: a join body's log lines are written under its task."""
        story = Story()
        story.write(path, task="t", stage="s")
        declared = ["/elsewhere/of-parsl/declared.dat"]
        assert self.classes(story, declared=declared, manager=["/elsewhere/of-parsl"]) == {(1, path): wanted}

    def test_one_file_may_be_software_to_one_and_data_to_another(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/perl")
        story.process(2, "/usr/bin/wc")
        story.read("/usr/share/perl/5.36/Config.pm", pid=1)
        story.read("/usr/share/perl/5.36/Config.pm", pid=2)
        assert set(self.classes(story).values()) == {"software", "data"}

    @pytest.mark.parametrize("task", ["t", None])
    def test_a_source_is_software_to_its_importer(self, task: str | None) -> None:
        story, lib = Story(), "/usr/lib/python3.11"
        story.process(1, "/usr/bin/python3")
        cache = f"{lib}/json/__pycache__/tool.cpython-311.pyc"
        story.event("openat", cache, file=None, ftype="none", errno=2, ret=-1)
        story.read(f"{lib}/json/tool.py", task=task)  # no .pyc: imported
        story.read("/srv/app/__pycache__/made.cpython-311.pyc.140")
        story.write("/srv/app/__pycache__/made.cpython-311.pyc.140")
        story.rename("/srv/app/__pycache__/made.cpython-311.pyc.140", "/srv/app/__pycache__/made.cpython-311.pyc")
        story.read("/srv/app/made.py", task=task)  # the .pyc was written: imported
        story.read(f"{lib}/__pycache__/ast.cpython-311.opt-1.pyc")
        story.read(f"{lib}/ast.py", task=task)  # a good .pyc: inspected, or, in a task, read as text
        story.read(f"{lib}/csv.py", task=task)  # never imported: read as text
        got = {path: cls for (_, path), cls in self.classes(story).items() if path.endswith(".py")}
        assert got == {
            f"{lib}/json/tool.py": "software",
            "/srv/app/made.py": "software",
            f"{lib}/ast.py": "data" if task else "software",
            f"{lib}/csv.py": "data",
        }

    def test_a_virtual_environment_is_a_prefix_of_software(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/python3")
        for path in ("/srv/env-1/pyvenv.cfg", "/srv/env-1/share/tool.json", "/srv/env-12/x.json"):
            story.read(path)
        assert [self.classes(story)[(1, p)] for p in ("/srv/env-1/share/tool.json", "/srv/env-12/x.json")] == [
            "software",
            "data",
        ]

    def test_the_runs_own_files_are_not_its_data(self) -> None:
        story = Story()
        story.write("/runs/story/declared/x.jsonl")
        story.write("/runs/story-2/x.jsonl")
        got = self.classes(story, own=["/runs/story"])
        assert [got[(1, p)] for p in ("/runs/story/declared/x.jsonl", "/runs/story-2/x.jsonl")] == ["system", "data"]

    def test_declared_written_and_named_files_are_data(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/python3")
        for path in ("/usr/lib/app/a.tab", "/opt/app/made.so", "/usr/share/app/b.tab", "/opt/app/c.tab"):
            story.read(path)
        story.write("/opt/app/made.so")
        got = self.classes(story, declared=["/usr/lib/app/a.tab"], data=["/usr/share/app/*"], software=["*.so"])
        assert [got[(1, p)] for p in sorted(p for _, p in got)] == ["software", "software", "data", "data"]

    def test_a_pipe_is_a_stream(self) -> None:
        story = Story()
        story.read("pipe:[5]", None, ftype="fifo")
        assert set(self.classes(story).values()) == {"stream"}


class TestGraph:
    def story(self) -> Story:
        story = Story()
        story.process(1, "/usr/bin/gen")
        story.create("/d/a", stage="make", task="m1", pid=1)
        story.write("/d/a", stage="make", task="m1", pid=1)
        story.read("/d/a", stage="use", task="u1", pid=2)
        story.write("/d/private", stage="use", task="u1", pid=2)
        story.read("/usr/lib/libm.so", stage="use", task="u1", pid=2)
        return story

    def test_stage_level_has_flows(self) -> None:
        g = graphs.graph(self.story().run(2))
        assert [(s, t, d["bytes"], d["files"]) for s, t, d in g.edges(data=True)] == [
            ("stage:w/make", "stage:w/use", 100, 1)
        ]

    def test_files_all_shared_and_classes(self) -> None:
        run = self.story().run()
        paths = lambda g: sorted(d["path"] for _, d in g.nodes(data=True) if d["kind"] == "file")  # noqa: E731
        assert paths(graphs.graph(run, "task")) == ["/d/a", "/d/private"]
        assert paths(graphs.graph(run, "stage", files="shared")) == ["/d/a"]
        assert "/usr/lib/libm.so" in paths(graphs.graph(run, "task", classes=("data", "software")))

    def test_edges_have_the_observed_attributes(self) -> None:
        g = graphs.graph(self.story().run(), "process")
        (read,) = [d for s, _, d in g.edges(data=True) if d["kind"] == "read" and g.nodes[s]["path"] == "/d/a"]
        assert (read["bytes"], read["calls"], read["extents"], read["exact"], read["own"]) == (
            100,
            1,
            [[0, 100]],
            True,
            False,
        )
        assert g.nodes["process:w/make/m1/n1/1"]["exe"] == "/usr/bin/gen"

    @pytest.mark.parametrize(
        "values",
        [{"level": "job"}, {"files": "some"}, {"classes": ("dta",)}, {"level": "workflow", "stage": "make"}],
    )
    def test_a_wrong_word_is_named_with_the_choices(self, values: dict[str, Any]) -> None:
        with pytest.raises(QueryError, match=r"stage|shared|software"):
            graphs.graph(self.story().run(), **values)

    def test_runs_without_stages_show_programs(self) -> None:
        story = Story()
        for pid, exe in ((1, "/usr/bin/sort"), (2, "/usr/bin/uniq")):
            story.process(pid, exe)
        story.write("pipe:[1]", None, ftype="fifo", pid=1)
        story.read("pipe:[1]", None, ftype="fifo", pid=2)
        assert flow_sums(story.run(), "stage") == {("(sort)", "(uniq)"): 100}

    def test_names_of_activities_are_distinct(self) -> None:
        story = Story()
        story.write("/a", stage="x/y", task="z")
        story.write("/b", stage="x", task="y/z")
        assert graphs.graph(story.run(), "task", files="none").number_of_nodes() == 2


class TestDeclared:
    def run(self) -> Any:
        story = Story()
        story.create("/a", task="make")
        story.write("/a", task="make")
        story.read("/a", task="use")
        story.read("/a", pid=9)
        story.create("/copy", pid=9)
        story.write("/copy", pid=9)
        story.read("/copy", task="staged")
        story.create("/b", task="inner")
        story.write("/b", task="inner")
        story.read("/b", task="after")
        story.create("/c", task="use")
        story.write("/c", task="use")
        story.read("/c", task="after")
        story.read("/a", task="after")
        names = ("make", "use", "staged", "inner", "after", "join", "value", "lost")
        tasks = pd.DataFrame(
            {"workflow": "w", "stage": "s", "task": t, "parent": "join" if t == "inner" else None} for t in names
        )
        deps = [
            ("use", "make", "file"),
            ("use", "make", "future"),
            ("staged", "make", "file"),
            ("after", "join", "future"),
        ]
        deps += [("value", "use", "future"), ("lost", "use", "file"), ("after", "value", "future")]
        deps += [("lost", "value", "afterok"), ("lost", "make", "afterany"), ("lost", "make", "future")]
        rows = [{"workflow": "w", "task": t, "dep": d, "via": v, "path": None} for t, d, v in deps]
        return story.run(declared_tasks=tasks, declared_deps=pd.DataFrame(rows))

    def test_every_status(self) -> None:
        table = declared_vs_observed.compare_declared(self.run())
        got = {(r.producer, r.consumer): (r.status, r.through.split(" ")[0], r.order) for r in table.itertuples()}
        assert got == {
            ("make", "use"): ("observed", "", "declared"),
            ("make", "staged"): ("observed", "process", "declared"),
            ("join", "after"): ("observed", "inner", "declared"),
            ("use", "value"): ("value only", "", "declared"),
            ("value", "after"): ("value only", "", "declared"),
            ("use", "lost"): ("untraced", "", "declared"),
            ("value", "lost"): ("order only", "", "declared"),
            ("make", "lost"): ("value only", "", "declared"),
            ("use", "after"): ("undeclared", "", "declared"),
            ("make", "after"): ("undeclared", "", "declared"),
        }
        assert set(table["producer_stage"]) | set(table["consumer_stage"]) == {"s"}
        assert table[table["status"] == "observed"].set_index("consumer").at["use", "via"] == "future+file"

    def test_inner_tasks_are_ordered_with_their_outer_task(self) -> None:
        """make -> instance [ first -> second ] -> end: what passes into the instance and out of it was declared."""
        story = Story()
        pairs = (("make", "first"), ("make", "second"), ("first", "second"), ("second", "end"), ("instance", "first"))
        for writer, reader in pairs:
            story.create(f"/{writer}-{reader}", task=writer)
            story.write(f"/{writer}-{reader}", task=writer)
            story.read(f"/{writer}-{reader}", task=reader)
        for writer, reader in (("make", "end"), ("first", "stranger")):
            story.read(f"/{writer}-{'first' if writer == 'make' else 'second'}", task=reader)
        inner = {"first": "instance", "second": "instance"}
        names = ("make", "instance", "first", "second", "end", "stranger")
        tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": t, "parent": inner.get(t)} for t in names)
        deps = [{"task": t, "dep": d} for t, d in (("instance", "make"), ("end", "instance"), ("second", "first"))]
        rows = pd.DataFrame(deps).assign(workflow="w", via="afterok", path=None)
        table = declared_vs_observed.compare_declared(story.run(declared_tasks=tasks, declared_deps=rows))
        got = {(r.producer, r.consumer): (r.status, r.through, r.bytes, r.order) for r in table.itertuples()}
        assert got == {
            ("make", "instance"): ("observed", "first and 1 more", 200, "declared"),
            ("first", "second"): ("observed", "", 100, "declared"),
            ("instance", "end"): ("observed", "second", 100, "declared"),
            ("make", "end"): ("undeclared", "", 100, "declared"),
            ("instance", "first"): ("undeclared", "", 100, "declared"),
            ("first", "stranger"): ("undeclared", "", 100, "none"),
        }

    def test_nothing_declared_makes_an_empty_table(self) -> None:
        assert len(declared_vs_observed.compare_declared(Story().run())) == 0
