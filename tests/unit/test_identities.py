"""Identities that come again: against a file system that reuses inodes, and in stories with known ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, FakeRun, Story, frame
from support.story_run import on_disk
from tailrace.analyzer.edges import edge_table, event_fold, identities
from tailrace.analyzer.model import dataflow, datasets, stages

CREATE, EXCLUSIVE, TEMPORARY = 0o101, 0o301, 0o20200002
LOCK = "n1:8:1:77:1763600000000000000"


def sums(table: edge_table.EdgeTable) -> dict[tuple[str, str], int]:
    """(identity, direction) -> bytes."""
    found: dict[tuple[str, str], int] = {}
    for row in edge_table.frame(table).itertuples():
        if row.bytes:
            found[row.file, row.direction] = found.get((row.file, row.direction), 0) + row.bytes
    return found


def paths(table: edge_table.EdgeTable) -> dict[str, str]:
    """identity -> the path by which it is shown."""
    return dict(zip(table.files["file"], edge_table.last_paths(table), strict=True))


@dataclass(eq=False)
class Inode:
    """A file of the simulated file system; `name` is the identity that tailrace should find for it."""

    identity: str
    name: str
    names: int = 1
    users: int = 0


@dataclass
class FileSystem:
    """A file system that gives a new file the identity of the one that was freed last, with all its events."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    entries: dict[str, Inode] = field(default_factory=dict)
    open: list[tuple[int, Inode, str]] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    uses: dict[str, int] = field(default_factory=dict)
    wanted: dict[tuple[str, str], int] = field(default_factory=dict)

    def event(self, name: str, pid: int, inode: Inode, path: str, **values: Any) -> None:
        row = {"name": name, "cat": "POSIX", "host": "n1", "pid": pid, "tid": pid, "path": path, "ret": 0}
        row |= {"file": inode.identity, "ftype": "reg", "dur": 1000, "ts": T0_NS + len(self.rows) * MS}
        self.rows.append(row | values)

    def make(self) -> Inode:
        identity = self.free.pop() if self.free else f"n1:8:1:{len(self.uses)}:"
        use = self.uses[identity] = self.uses.get(identity, 0) + 1
        return Inode(identity, identity if use == 1 else f"{identity}~{use}")

    def open_file(self, pid: int, path: str, flags: int) -> None:
        if flags == TEMPORARY:
            inode, path = self.make(), f"/#{len(self.rows)}"  # the kernel's name of a file without one
            inode.names = 0
        elif path in self.entries and flags == EXCLUSIVE:
            return
        else:
            inode = self.entries.setdefault(path, self.entries.get(path) or self.make())
        inode.users += 1
        self.open.append((pid, inode, path))
        self.event("openat", pid, inode, path, flags=flags, ret=3)

    def use_file(self, at: int, way: str, size: int) -> None:
        pid, inode, path = self.open[at]
        name = {"r": "read", "w": "write"}[way]
        self.event(name, pid, inode, path, dir=way, size=size, count=size, offset=0, ret=size)
        key = (inode.name, way)
        self.wanted[key] = self.wanted.get(key, 0) + size

    def close(self, at: int) -> None:
        pid, inode, path = self.open.pop(at)
        self.event("close", pid, inode, path)
        inode.users -= 1
        self.drop(inode)

    def unlink(self, pid: int, path: str) -> None:
        inode = self.entries.pop(path)
        self.event("unlink", pid, inode, path)
        inode.names -= 1
        self.drop(inode)

    def link(self, pid: int, path: str, new: str) -> None:
        if new not in self.entries:
            inode = self.entries[new] = self.entries[path]
            inode.names += 1
            self.event("link", pid, inode, path, path2=new, file2=inode.identity)

    def rename(self, pid: int, path: str, new: str) -> None:
        inode, old = self.entries[path], self.entries.get(new)
        if inode is old:
            return
        self.event("rename", pid, inode, path, path2=new, file2=inode.identity)
        self.entries[new] = self.entries.pop(path)
        if old is not None:
            old.names -= 1
            self.drop(old)

    def drop(self, inode: Inode) -> None:
        if not inode.names and not inode.users:
            self.free.append(inode.identity)


def random_system(seed: int) -> FileSystem:
    r, system = random.Random(seed), FileSystem()
    for _ in range(r.randint(5, 60)):
        pid, path, new = r.randint(1, 3), f"/{r.choice('abc')}", f"/{r.choice('abc')}"
        action = r.choice(
            ["open", "open", "open", "use", "use", "use", "close", "close", "unlink", "unlink", "link", "rename"]
        )
        if action == "open":
            system.open_file(pid, path, r.choice([CREATE, CREATE, EXCLUSIVE, TEMPORARY]))
        elif action in ("use", "close") and system.open:
            at = r.randrange(len(system.open))
            system.close(at) if action == "close" else system.use_file(at, r.choice("rw"), r.randint(1, 9))
        elif path in system.entries and action == "unlink":
            system.unlink(pid, path)
        elif path in system.entries and action == "link":
            system.link(pid, path, new)
        elif path in system.entries and action == "rename":
            system.rename(pid, path, new)
    return system


class TestFileSystem:
    @settings(max_examples=40, deadline=None)
    @given(seed=st.integers(0, 10**9), way=st.sampled_from(["whole", "by process", "by time"]))
    def test_every_byte_belongs_to_the_file_that_had_it(self, seed: int, way: str) -> None:
        system = random_system(seed)
        parts = {"whole": [system.rows], "by process": [[], [], []], "by time": [system.rows[:20], system.rows[20:]]}
        for row in system.rows:
            parts["by process"][row["pid"] - 1].append(row)
        chunks = [event_fold.chunk(frame(part)) for part in parts[way] if part]
        if not chunks:
            return
        table = identities.resolve(edge_table.combine(chunks))
        assert sums(table) == system.wanted
        again = identities.resolve(table)
        assert sums(again) == system.wanted and paths(again) == paths(table)


def lock_then_result(story: Story, lock: dict[str, Any], result: dict[str, Any], flags: int = CREATE) -> None:
    """A lock file is made, written and removed; the result gets its identity, and is read."""
    same = {"file": LOCK}
    story.event("openat", "/d/t.lock", flags=flags, **same, **lock)
    story.event("write", "/d/t.lock", dir="w", offset=0, size=1, **same, **lock)
    story.event("unlink", "/d/t.lock", **same, **lock)
    story.event("openat", "/d/keep.bin", flags=flags, **same, **result)
    story.event("write", "/d/keep.bin", dir="w", offset=0, size=4000, **same, **result)
    story.event("read", "/d/keep.bin", dir="r", offset=0, size=4000, **same, pid=9, task="user")


class TestReuse:
    @pytest.mark.parametrize("partitions", [1, 2, 6])
    def test_a_result_that_exists_is_not_the_lock_file_whose_inode_it_has(self, partitions: int) -> None:
        story = Story()
        lock_then_result(story, {"pid": 1, "task": "a"}, {"pid": 2, "task": "b"})
        m = dataflow.model(story.run(partitions))
        fates = stages.file_fates(m).set_index(m.paths)
        assert fates["removed"].to_dict() == {"/d/t.lock": True, "/d/keep.bin": False}
        flow = dataflow.flow_table(m, "task")
        assert m.paths[flow["file"]].tolist() == ["/d/keep.bin"] and flow["bytes"].tolist() == [4000]

    def test_a_dataset_belongs_to_the_file_that_has_the_inode_at_the_time(self, tmp_path: Path) -> None:
        story = Story()
        for path, size in (("/d/a.h5", 8), ("/d/b.h5", 16)):
            story.event("openat", path, flags=EXCLUSIVE, file=LOCK, task="t")
            story.event("write", path, dir="w", offset=0, size=100, file=LOCK, task="t")
            story.event("H5Dwrite", path, cat="HDF5", dir="w", size=size, object="/x", file=LOCK, task="t", ret=0)
            story.event("unlink", path, file=LOCK, task="t")
        run = on_disk(story.run(), tmp_path / "run")
        m = dataflow.model(run)
        found = datasets.accesses(run, m)
        file = m.versions.table["file"].to_numpy()[found["version"]]
        assert dict(zip(m.paths[file], found["bytes"], strict=True)) == {"/d/a.h5": 8, "/d/b.h5": 16}

    def test_a_descriptor_that_stays_open_belongs_to_the_removed_file(self) -> None:
        story, same = Story(), {"file": LOCK}
        story.event("openat", "/d/a", flags=CREATE, **same)
        story.event("unlink", "/d/a", **same)
        story.event("write", "/d/a", dir="w", offset=0, size=5, **same)
        story.event("openat", "/d/b", flags=CREATE, pid=2, **same)
        story.event("write", "/d/b", dir="w", offset=0, size=7, pid=2, **same)
        assert sums(story.run(2).edges()) == {(LOCK, "w"): 5, (LOCK + "~2", "w"): 7}

    def test_a_second_name_keeps_the_file(self) -> None:
        story, same = Story(), {"file": LOCK}
        story.event("openat", "/d/a", flags=CREATE, **same)
        story.event("link", "/d/a", path2="/d/b", file2=LOCK, **same)
        story.event("unlink", "/d/a", **same)
        story.event("openat", "/d/b", flags=CREATE, **same)
        story.event("write", "/d/b", dir="w", offset=0, size=7, **same)
        assert sums(story.run().edges()) == {(LOCK, "w"): 7}

    def test_a_creation_that_waited_for_the_removal_follows_it(self) -> None:
        story, same = Story(), {"file": LOCK}
        story.event("openat", "/d/lock", flags=EXCLUSIVE, **same)
        story.event("write", "/d/lock", dir="w", offset=0, size=1, **same)
        story.event("openat", "/d/lock", flags=EXCLUSIVE, at_ms=10, dur=5 * MS, pid=2, **same)
        story.event("unlink", "/d/lock", at_ms=11, **same)
        story.event("write", "/d/lock", at_ms=16, dir="w", offset=0, size=2, pid=2, **same)
        story.event("openat", "/d/lock", at_ms=17, flags=CREATE, pid=3, **same)
        story.event("write", "/d/lock", at_ms=18, dir="w", offset=0, size=4, pid=3, **same)
        assert sums(story.run().edges()) == {(LOCK, "w"): 1, (LOCK + "~2", "w"): 6}

    def test_a_certain_creation_begins_a_file_where_no_removal_was_seen(self) -> None:
        story, same = Story(), {"file": LOCK}
        story.event("openat", "/d/a", flags=EXCLUSIVE, **same)
        story.event("write", "/d/a", dir="w", offset=0, size=1, **same)
        story.event("openat", "/d/b", flags=EXCLUSIVE, **same)
        story.event("write", "/d/b", dir="w", offset=0, size=2, **same)
        assert sums(story.run().edges()) == {(LOCK, "w"): 1, (LOCK + "~2", "w"): 2}

    def test_a_reader_whose_clock_is_behind_reads_the_same_file(self) -> None:
        """Its read is stamped before the creation, which proves nothing about another host's clock."""
        story, same = Story(), {"file": "nfs:/export:77:"}
        story.event("read", "/d/a", at_ms=5, dir="r", offset=0, size=3, host="n2", pid=2, **same)
        story.event("openat", "/d/a", at_ms=7, flags=EXCLUSIVE | 0o1000, **same)
        story.event("write", "/d/a", at_ms=8, dir="w", offset=0, size=3, **same)
        assert sums(story.run().edges()) == {("nfs:/export:77:", "r"): 3, ("nfs:/export:77:", "w"): 3}

    def test_a_call_of_a_layer_is_on_the_file_that_is_opened_in_it(self) -> None:
        story, same = Story(), {"file": LOCK}
        story.event("MPI_File_open", "/d/out", at_ms=1, dur=30 * MS, cat="MPIIO", **same)
        story.event("openat", "/d/out.lock", at_ms=2, flags=CREATE, **same)
        story.event("write", "/d/out.lock", at_ms=3, dir="w", offset=0, size=1, **same)
        story.event("unlink", "/d/out.lock", at_ms=4, **same)
        story.event("openat", "/d/out", at_ms=5, flags=CREATE, **same)
        story.event("write", "/d/out", at_ms=6, dir="w", offset=0, size=2, **same)
        for partitions in (1, 6):
            assert paths(story.run(partitions).edges()) == {LOCK: "/d/out.lock", LOCK + "~2": "/d/out"}

    def test_other_tracers_files_are_known_by_their_paths(self) -> None:
        run = FakeRun([])
        story, same = Story(), {"file": "path:/d/a"}
        story.event("open", "/d/a", flags=CREATE, **same)
        story.event("unlink", "/d/a", **same)
        story.event("open", "/d/a", flags=CREATE, **same)
        run.rows = story.rows
        assert list(run.edges().files["file"]) == ["path:/d/a"]
