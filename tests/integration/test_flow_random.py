"""Random programs of tasks and files, run for real: the dataflow graph is the generator's, no edge more or less.

Each step is one process (a pipe is two) that copies, appends, renames, truncates, updates in place or maps; the
generator records the writer of every byte of every file, from which the flows between processes follow.
"""

import json
import random
import sys

import pytest

import tailrace
from tailrace.analyzer.insights import insights
from tailrace.analyzer.model import dataflow

# Runs the steps one after the other, and prints the pid of each.
DRIVER = """
import json, subprocess, sys
pids = []
for step in json.load(open(sys.argv[1])):
    with subprocess.Popen(step) as process:
        pass
    assert process.returncode == 0, step
    pids.append(process.pid)
json.dump(pids, open(sys.argv[2], "w"))
"""
MAPPED = """
import mmap, sys
source, target = sys.argv[1:]
with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    with open(target, "wb") as out:
        out.write(data[:])
"""
IN_PLACE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
start, size = int(sys.argv[2]), int(sys.argv[3])
data = os.pread(fd, size, start)
assert os.pwrite(fd, bytes(len(data)), start) == len(data)
"""


class Program:
    """Steps, and for each file the step that wrote each byte; `reads`: (producer step, consumer step) -> bytes."""

    def __init__(self, seed, folder):
        self.random, self.folder = random.Random(seed), folder
        self.files, self.steps, self.reads, self.made = {}, [], {}, 0
        for _ in range(2):
            self.make()
        kinds = (
            self.make,
            self.copy,
            self.append,
            self.rename,
            self.over,
            self.empty,
            self.pipe,
            self.map,
            self.update,
        )
        for _ in range(12):
            self.random.choice(kinds)()

    def name(self):
        self.made += 1
        return f"{self.folder}/f{self.made}"

    def some(self):
        full = sorted(name for name, owners in self.files.items() if owners)
        if not full:
            self.make()
            return self.some()
        return self.random.choice(full)

    def step(self, *command):
        self.steps.append(list(command))
        return len(self.steps) - 1

    def read(self, owners, who):
        for owner in owners:
            if owner != who:
                self.reads[owner, who] = self.reads.get((owner, who), 0) + 1

    def make(self):
        target, size = self.name(), self.random.randint(1, 300)
        who = self.step("sh", "-c", f"exec head -c {size} /dev/zero > {target}")
        self.files[target] = [who] * size

    def copy(self):
        source = self.some()
        others = sorted(set(self.files) - {source})
        target = self.random.choice([*others, self.name()])
        who = self.step("cp", source, target)
        self.read(self.files[source], who)
        self.files[target] = [who] * len(self.files[source])

    def append(self):
        source = self.some()
        target = self.random.choice([name for name in sorted(self.files) if name != source] or [self.name()])
        who = self.step("sh", "-c", f"exec cat {source} >> {target}")
        self.read(self.files[source], who)
        self.files[target] = self.files.get(target, []) + [who] * len(self.files[source])

    def rename(self):
        source, target = self.some(), self.name()
        self.step("mv", source, target)
        self.files[target] = self.files.pop(source)

    def over(self):
        """Written beside and renamed over: one process, and the old one's bytes are gone."""
        source = self.some()
        target = self.random.choice(sorted(self.files))
        who = self.step("sh", "-c", f"cat {source} > {target}.tmp && exec mv {target}.tmp {target}")
        # The shell's child is who read and wrote; the shell and mv moved no bytes.
        self.read(self.files[source], (who, "cat"))
        self.files[target] = [(who, "cat")] * len(self.files[source])

    def empty(self):
        target = self.some()
        self.step("truncate", "-s", "0", target)
        self.files[target] = []

    def pipe(self):
        source, target = self.some(), self.name()
        who = self.step("sh", "-c", f"cat {source} | head -c 100000 > {target}; true")
        size = len(self.files[source])
        self.read(self.files[source], (who, "cat"))
        self.read([(who, "cat")] * size, (who, "head"))
        self.files[target] = [(who, "head")] * size

    def map(self):
        source, target = self.some(), self.name()
        who = self.step(sys.executable, "-c", MAPPED, source, target)
        self.read(self.files[source], who)
        self.files[target] = [who] * len(self.files[source])

    def update(self):
        target = self.some()
        owners = self.files[target]
        start = self.random.randrange(len(owners))
        size = self.random.randint(1, len(owners) - start)
        who = self.step(sys.executable, "-c", IN_PLACE, target, str(start), str(size))
        self.read(owners[start : start + size], who)
        owners[start : start + size] = [who] * size


def observed(run, folder, pids):
    """(producer step, consumer step) -> distinct bytes, of the files in `folder` and of pipes; and the roles."""
    m = dataflow.model(run)
    steps = {pid: number for number, pid in enumerate(pids)}
    parents = dict(zip(run.processes["pid"], run.processes["ppid"], strict=True))
    exes = dict(zip(run.processes["pid"], run.processes["exe"], strict=True))

    def role(pid):
        if pid in steps:
            return steps[pid]
        return (steps[parents[pid]], exes[pid].rsplit("/", 1)[-1]) if parents[pid] in steps else None

    _, activities = dataflow.activities(m, "process")
    roles = [role(int(pid)) for pid in activities["pid"]]
    out = {}
    for row in dataflow.flow_table(m, "process").itertuples():
        path = str(m.paths[row.file])
        if row.producer < 0 or not path.startswith((f"{folder}/", "pipe:")):
            continue
        ends = (roles[row.producer], roles[row.consumer])
        if None in ends or row.unique_bytes + row.bytes == 0:
            continue
        out[ends] = out.get(ends, 0) + (row.unique_bytes or row.bytes)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_the_graph_equals_the_generated_one(tmp_path, cli, seed):
    folder = tmp_path / "data"
    folder.mkdir()
    program = Program(seed, folder)
    (tmp_path / "steps.json").write_text(json.dumps(program.steps))
    command = [sys.executable, "-c", DRIVER, tmp_path / "steps.json", tmp_path / "pids.json"]
    done = cli("run", "-o", tmp_path / "run", "--", *command)
    assert done.returncode == 0, done.stderr
    run = tailrace.open(tmp_path / "run")
    pids = json.loads((tmp_path / "pids.json").read_text())
    assert len(program.reads) >= 3
    assert observed(run, folder, pids) == program.reads, program.steps
    found = insights(run)
    assert sum(found.critical.parts.values()) == found.inputs.makespan_ns
    assert 0 < found.critical.bound_ns <= found.inputs.makespan_ns
    assert len(found.conflicts.rows) == 0, "the driver waits for each step: everything is in order"


def test_two_that_run_side_by_side_are_in_conflict(tmp_path, cli):
    script = f"""
        printf 0123456789 > {tmp_path}/f
        (sleep 0.2; printf abcde | dd of={tmp_path}/f conv=notrunc status=none) &
        (sleep 0.4; printf vwxyz | dd of={tmp_path}/f conv=notrunc status=none) &
        wait
        dd if={tmp_path}/f of={tmp_path}/g status=none
    """
    done = cli("run", "-o", tmp_path / "run", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    found = tailrace.open(tmp_path / "run").findings()
    races = [f for f in found if f.about == "race"]
    assert [(f.kind, f.count, f.cost_bytes) for f in races] == [("two writers", 1, 5)]
    assert races[0].evidence[0]["path"] == f"{tmp_path}/f"
