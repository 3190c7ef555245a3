"""Who wrote what who read, between the processes of the HMMER workflow: by strace and by the trace, in one and the same
run, so that both speak of the same processes.

The workflow runs under strace, and traces itself. An edge is (writer, reader, file), with processes by pid; a file that
was renamed counts by its last name. Darshan 3.4 found 33 of the 80 pairs of processes, Recorder 3.0 24.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import tailrace
from support.truth import CALL, COPIES, DESCRIPTOR, READS, WRITES, split_arguments
from tailrace.analyzer.store import ledger

pytest.importorskip("parsl", reason="the workflow needs Parsl: pip install 'tailrace[parsl]'")
pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace, the truth, is not installed"),
    pytest.mark.skipif(shutil.which("hmmbuild") is None, reason="apt install hmmer hmmer-examples"),
]

WORKFLOW = Path(__file__).parents[2] / "workflows" / "hmmer" / "workflow.py"
RENAMES = ("rename", "renameat", "renameat2")
CLONES = ("clone", "clone3")

Edge = tuple[int, int, str]


@dataclass
class Truth:
    """What strace saw: who wrote and who read each file, by thread, and whose thread each is."""

    writers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    readers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    renamed: dict[str, str] = field(default_factory=dict)
    creator: dict[int, int] = field(default_factory=dict)

    def take(self, thread: int, line: str) -> None:
        """One line of the thread's log."""
        found = CALL.match(line)
        if not found or int(found[3]) <= 0:
            if found and found[1] in RENAMES and int(found[3]) == 0:
                names = re.findall(r'"([^"]*)"', found[2])
                self.renamed[names[0]] = names[1]
            return
        call, arguments, result = found[1], split_arguments(found[2]), int(found[3])
        if call in CLONES and "CLONE_THREAD" in found[2]:
            self.creator[result] = thread
        reads = [0] if call in READS else COPIES[call][:1] if call in COPIES else []
        writes = [0] if call in WRITES else COPIES[call][1:] if call in COPIES else []
        for table, places in ((self.readers, reads), (self.writers, writes)):
            for place in places:
                descriptor = DESCRIPTOR.match(arguments[place])
                if descriptor:
                    table[descriptor[1]].add(thread)

    def process(self, thread: int) -> int:
        """The pid of a thread's process."""
        while thread in self.creator:
            thread = self.creator[thread]
        return thread

    def edges(self, below: Path) -> set[Edge]:
        """The edges through files in `below`."""
        sides: list[dict[str, set[int]]] = [defaultdict(set), defaultdict(set)]
        for side, table in zip(sides, (self.writers, self.readers), strict=True):
            for path, threads in table.items():
                last = self.renamed.get(path, path)
                if last.startswith(f"{below}/"):
                    side[os.path.relpath(last, below)] |= {self.process(thread) for thread in threads}
        return {(w, r, file) for file in sides[0] for w in sides[0][file] for r in sides[1][file] if w != r}


def traced_edges(run: tailrace.Run, below: Path) -> Iterator[Edge]:
    """The edges through files in `below`, of the graph of processes."""
    graph = run.dataflow(level="process")
    for node, values in graph.nodes(data=True):
        if values["kind"] != "file" or not str(values["path"]).startswith(f"{below}/"):
            continue
        writers = {graph.nodes[u]["pid"] for u, _, d in graph.in_edges(node, data=True) if d["kind"] == "write"}
        readers = {graph.nodes[v]["pid"] for _, v, d in graph.out_edges(node, data=True) if d["kind"] == "read"}
        yield from ((w, r, os.path.relpath(values["path"], below)) for w in writers for r in readers if w != r)


def show(truth: set[Edge], seen: set[Edge], names: dict[int, str]) -> str:
    """Every edge, and which view has it."""
    lines = [f"{'file':32} {'writer':14} {'reader':14} strace tailrace"]
    for writer, reader, file in sorted(truth | seen, key=lambda edge: (edge[2], edge)):
        views = ["yes" if (writer, reader, file) in view else "NO" for view in (truth, seen)]
        lines.append(f"{file:32} {names.get(writer, '?'):14} {names.get(reader, '?'):14} {views[0]:6} {views[1]}")
    pairs = [len({edge[:2] for edge in view}) for view in (truth, seen)]
    return "\n".join([*lines, f"edges: {len(truth)} by strace, {len(seen)} by the trace; pairs of processes: {pairs}"])


@pytest.mark.parametrize("executor", ["htex", "threads"])
def test_exactly_the_edges_between_processes_are_observed(
    tmp_path: Path, executor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "hmmer"
    logs.mkdir()
    calls = ",".join([*READS, *WRITES, *COPIES, *RENAMES, *CLONES])
    tracer = ["strace", "-ff", "-qq", "-yy", "-s", "4096", "-e", f"trace={calls}", "-o", str(logs / "log")]
    command = [*tracer, sys.executable, str(WORKFLOW), str(folder), "--executor", executor, "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    truth = Truth()
    for log in logs.iterdir():
        for line in log.read_text(errors="surrogateescape").splitlines():
            truth.take(int(log.suffix[1:]), line)
    run = tailrace.open(folder / "run")
    files = (folder / "files").resolve()
    expected, seen = truth.edges(files), set(traced_edges(run, files))
    names = {int(row.pid): Path(row.exe or "?").name for row in run.processes.itertuples()}
    with capsys.disabled():
        print(f"\n\nthe edges of the HMMER workflow, {executor}\n{show(expected, seen, names)}")
    assert seen == expected
    assert len(seen) > 60
    assert ledger.totals(run.coverage)["share"] >= ledger.COMPLETE_SHARE
