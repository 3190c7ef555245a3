"""Who launched seals: what threads hand over to the node's sealer, and what processes leave to it, is in the trace
once, whoever is killed in between.

The program `counted` writes how far each thread has come to memory that outlives it, so that every call that had
returned can be looked for. tests/bench/kills.py does the same a thousand times.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from support import counted, kill_rounds, reader
from support.commands import TracedCommand, run_cli
from support.counted import Node
from support.harm import Program
from support.node_files import without_sealer
from tailrace import _native

TESTS = Path(__file__).resolve().parents[1]
READS = 60_000
"""Of a thread: 15 segments, more than a process may hand over before a sealer has done any."""


@pytest.fixture
def node(program: Program, tmp_path: Path) -> Iterator[Node]:
    journals = Path(tempfile.mkdtemp(prefix="tailrace-test-", dir="/dev/shm"))
    yield Node(program("counted"), tmp_path / "run", journals)
    shutil.rmtree(journals, ignore_errors=True)


def blocks(run: Path) -> dict[str, list[dict[str, object]]]:
    """The headers of each trace file's blocks."""
    found = {}
    for path in sorted((run / "trace").glob("*.pfw.gz")):
        headers, torn, cause, _ = _native.scan_blocks(str(path), 0)
        assert not torn, f"{path}: {torn} bytes are torn: {cause}"
        found[path.name] = [json.loads(text) for _, _, text in headers]
    assert not reader.gaps(str(run / "trace" / name) for name in found)
    return found


def node_files(run: Path) -> list[str]:
    return [name for name in blocks(run) if "-" not in name]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_is_handed_over_is_in_the_trace_once(
    run_traced: TracedCommand, program: Program, tmp_path: Path, threads: int
) -> None:
    log = tmp_path / "log"
    run_traced(program("counted"), log, threads, READS, "end")
    assert counted.check(log, run_traced.run) == threads * READS
    (name,) = node_files(run_traced.run)
    handed = {(block["seg"], block["epoch"]) for block in blocks(run_traced.run)[name]}
    assert len(handed) > 4, "segments were sealed that other ones had followed in the process"
    assert not Path(_native.journal_directory(str(run_traced.run), "/dev/shm")).exists()


@pytest.mark.parametrize(
    ("how", "logs"),
    [("_exit", {"log": 0}), ("exec", {"log": 0, "log.2": counted.SECOND_BASE}), ("fork", {"log": 0, "log.2": 0})],
)
def test_a_process_that_ends_or_becomes_another_leaves_its_segments(
    run_traced: TracedCommand, program: Program, tmp_path: Path, how: str, logs: dict[str, int]
) -> None:
    run_traced(program("counted"), tmp_path / "log", 3, READS // 2, how)
    for name, base in logs.items():
        assert counted.check(tmp_path / name, run_traced.run, base) > 0


def test_many_processes_leave_one_file(run_traced: TracedCommand) -> None:
    run_traced("sh", "-c", "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done")
    found = blocks(run_traced.run)
    assert [name.count("-") for name in found] == [0], list(found)
    (headers,) = found.values()
    assert len({(header["pid"], header["start"]) for header in headers}) == 101


def test_a_later_sealer_continues_the_file_of_an_earlier_one(run_traced: TracedCommand) -> None:
    for _ in range(2):
        run_traced("/bin/true")
    (name,) = blocks(run_traced.run)
    path = run_traced.run / "trace" / name
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole[: len(whole) // 4])  # of a sealer that was killed in a block
    run_traced("/bin/true")
    found = blocks(run_traced.run)
    assert list(found) == [name]
    assert len({(header["pid"], header["start"]) for header in found[name]}) == 3
    info = tailrace.open(run_traced.run).info()
    assert info["processes"] == 3 and not info["losses"]


def test_a_file_that_is_not_as_it_was_left_is_not_continued(run_traced: TracedCommand) -> None:
    run_traced("/bin/true")
    (name,) = blocks(run_traced.run)
    path = run_traced.run / "trace" / name
    whole = path.read_bytes()
    path.rename(path.with_suffix(".old"))
    path.write_bytes(whole)
    run_traced("/bin/true")
    (other,) = set(blocks(run_traced.run)) - {name}
    assert path.read_bytes() == whole
    with (path.with_name(other)).open("ab") as file:
        file.write(b"no block")
    run_traced("/bin/true")
    assert path.with_name(other).read_bytes().endswith(b"no block")
    assert len(list(path.parent.glob("*.pfw.gz"))) == 3


def test_what_sealing_took_is_in_the_trace_and_in_the_report(run_traced: TracedCommand, program: Program) -> None:
    command = (program("counted"), "log", 1, READS, "end")
    run_traced(*command)
    with without_sealer(run_traced.run):
        run_traced(*command)
    sums = {"sealing": 0, "self_sealing": 0}
    for name, headers in blocks(run_traced.run).items():
        key, other = ("self_sealing", "sealing") if "-" in name else ("sealing", "self_sealing")
        assert all(header[key] > 0 and other not in header for header in headers)
        sums[key] += sum(header[key] for header in headers)
    run = tailrace.open(run_traced.run)
    assert (run.info()["sealing_ns"], run.info()["self_sealing_ns"]) == tuple(sums.values())
    # A line takes 40 ns at least, and sealing no longer than the whole.
    assert all(READS * 40 < ns < 60e9 for ns in sums.values())
    assert "Cost of tracing: sealing took" in run_cli("report", run_traced.run).stdout
    assert "sealing" in run_cli("info", run_traced.run).stdout


def test_whoever_is_killed_each_call_is_in_the_trace_or_counted_as_lost(program: Program) -> None:
    words = [
        sys.executable,
        TESTS / "bench" / "kills.py",
        "--rounds",
        "40",
        "--seed",
        "7",
        "--program",
        program("counted"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 rounds" in done.stdout


def test_a_process_lives_on_without_its_first_thread(node: Node, tmp_path: Path) -> None:
    """/proc shows such a process as a zombie: the sealer must not take it for dead, and its journal away."""
    (tmp_path / "log").mkdir()
    log = tmp_path / "log" / "log"
    node.start_sealer()
    process = node.start(log, 3, 0, "leader", 0, 100)
    while "Z (zombie)" not in Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.001)
    time.sleep(1.2)  # the sealer looks at all journals once a second
    while sum(counted.done(log).values()) <= 10_000:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert node.end_sealer() == 0
    found = kill_rounds.seal_and_compare(node, log, process.pid)
    assert not found.faults
    assert found.recorded == found.calls > 10_000


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_an_execve_while_another_thread_seals(node: Node, tmp_path: Path) -> None:
    """It ends the thread anywhere: amid a block, or before its segment says that the block is written."""
    (node.run / "trace").mkdir(parents=True)
    (tmp_path / "log").mkdir()
    log, last = tmp_path / "log" / "log", tmp_path / "log" / "log.30"
    slowly = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=close", "-e", "inject=close:delay_enter=5000"]
    process = node.start(log, 4, 0, "execs", 0, 3000, under=slowly)
    while not last.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while node.seal()["alive"]:
        time.sleep(0.01)
    pid = next(iter(counted.done(log)))
    found = kill_rounds.seal_and_compare(node, log, pid)
    assert not found.faults
    assert found.recorded == found.calls > 25_000


def test_a_stopped_sealer_keeps_nothing_back(node: Node, tmp_path: Path) -> None:
    """Within a second of its last sign it is believed to be alive: what is left to it then, it finds later."""
    node.start_sealer()
    os.kill(node.sealer, signal.SIGSTOP)
    believed, not_believed = tmp_path / "believed", tmp_path / "not believed"
    assert node.start(believed, 2, READS, "end").wait() == 0
    time.sleep(1.1)
    assert node.start(not_believed, 2, READS, "end").wait() == 0
    assert counted.check(not_believed, node.run) == 2 * READS
    os.kill(node.sealer, signal.SIGCONT)
    assert node.end_sealer() == 0
    assert counted.check(believed, node.run) == 2 * READS
    assert node.left() == []


@pytest.mark.root("makes namespaces and mounts")
@pytest.mark.parametrize(
    "inside",
    [
        ["unshare", "--pid", "--fork", "--mount-proc"],
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            'mount -t tmpfs -o size=2m none "$0"; exec "$@"',
        ],
    ],
    ids=["another pid namespace", "a full place of the journals"],
)
def test_processes_whose_journals_the_sealer_knows_less_of(
    run_traced: TracedCommand, program: Program, tmp_path: Path, inside: list[str]
) -> None:
    probe = ["unshare", "--pid", "--fork", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode:
        pytest.skip("no namespaces here")
    small = "sh" in inside
    command = [program("counted"), tmp_path / "log", 3, READS // 2, "end"]
    if small:
        run_traced(*command, prefix=[*inside, "/dev/shm"])
    else:
        run_traced(*inside, *command)
    assert counted.check(tmp_path / "log", run_traced.run) == 3 * (READS // 2)
