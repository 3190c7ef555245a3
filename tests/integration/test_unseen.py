"""`tailrace run --unseen=all`: programs that can't be preloaded are followed from outside, and don't notice."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest
import test_sockets as sockets

import tailrace
from support import ordinary_user
from support.commands import TAILRACE, run_cli
from support.run_files import Trace
from support.truth import account_of, compare, read_run, strace
from tailrace.analyzer.store import ledger

SOURCES = Path(__file__).parents[1] / "programs"
STATIC = ["cc", "-static", "-pthread", "-O1", "-w", "-o"]
BUILDS = {
    "static": ([*STATIC], "unseen.c"),
    "musl": (["musl-gcc", "-O1", "-w", "-o"], "unseen.c"),
    "go": (["go", "build", "-o"], "unseen.go"),
    # Not by libc: known by its instructions.
    "inlined": (["cc", "-pthread", "-O1", "-w", "-include", str(SOURCES / "inlined_calls.h"), "-o"], "unseen.c"),
    "ring": ([*STATIC], "raw_ring.c"),
    "talks": ([*STATIC], "talks.c"),
    "waits": ([*STATIC], "waits.c"),
    "processor_time": ([*STATIC], "processor_time.c"),
}
C = ["static", "musl"]
PATIENCE_S = 120.0


@pytest.fixture(scope="module", autouse=True)
def tracing() -> None:
    """Skips where no process may be traced (containers, Yama)."""
    if shutil.which("strace") is None:
        pytest.skip("strace, the truth, is not installed")
    done = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"ptrace(2) is not permitted here: {done.stderr.strip()}")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The programs that no preload enters, by how they are built."""
    folder = tmp_path_factory.mktemp("unseen")
    # Go's library is built once for all tests.
    go = {"GOCACHE": str(tmp_path_factory.getbasetemp() / "go-cache"), "GOPATH": str(folder), "CGO_ENABLED": "0"}

    def built(kind: str) -> Path:
        path, (command, source) = folder / kind, BUILDS[kind]
        if not path.exists():
            if shutil.which(command[0]) is None:
                pytest.skip(f"{command[0]} is not installed")
            words = [*command, str(path), str(SOURCES / source)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **go})
            if done.returncode and "-static" in command:
                pytest.skip("nothing can be linked statically here")
            assert done.returncode == 0, done.stderr
        return path

    return built


def prepare(directory: Path) -> Path:
    directory.mkdir()
    (directory / "in").write_bytes(bytes(range(250)) * 400)
    return directory


@pytest.mark.parametrize("kind", [*C, "go", "inlined"])
def test_a_pipeline_with_ordinary_programs_is_as_strace_sees_it(
    tmp_path: Path, programs: Callable[[str], Path], kind: str
) -> None:
    program = programs(kind)
    # Started by fork and exec (bash), vfork (Python), posix_spawn (Python), and at the end by exec alone.
    start = "import subprocess, sys; subprocess.run(sys.argv[2:], close_fds=sys.argv[1] == 'vfork', check=True)"
    script = f"""
        {program} copy in to | cat > piped
        mkdir p q; cp piped p/in; cp piped q/in; cat to > kept
        (cd p; {sys.executable} -c "{start}" vfork {program} copy in to > out)
        (cd q; {sys.executable} -c "{start}" spawn {program} copy in to > out)
        rm soft child; cat p/out q/to > in; mkdir r; mv in r; cd r; exec {program} copy in to > out"""
    truth = strace(["bash", "-euc", script], prepare(tmp_path / "strace"), tmp_path / "logs")
    directory, run = prepare(tmp_path / "followed"), tmp_path / "run"
    done = run_cli("run", "--unseen=all", "-o", run, "--", "bash", "-euc", script, cwd=directory)
    assert done.returncode == 0, done.stderr
    rows = compare(kind, truth, account_of(run, directory))
    assert len(rows) > 10 and not [row for row in rows if not row.agrees]
    opened = tailrace.open(run)
    followed = opened.processes[opened.processes["exe"] == str(program)]
    # Four copies, each with a child; Go may make another one to try what the kernel can do.
    assert len(followed) in ((8, 12) if kind == "go" else (8,))
    assert (followed["share"] == 1).all() and (followed["cause"] == "").all()
    graph = opened.dataflow(level="process")
    assert {d["confidence"] for _, _, d in graph.edges(data=True) if "confidence" in d} <= {"complete", "external"}
    assert {edge for edge in hand_overs(graph) if kind in edge} == {
        (kind, "pipe", "cat"),
        (kind, "pipe", kind),  # to itself: from the child that it forked
        (kind, "to", "cat"),
        ("cp", "in", kind),
        (kind, "out", "cat"),
        ("cat", "in", kind),
    }


def test_a_program_has_its_managers_tags(tmp_path: Path, programs: Callable[[str], Path]) -> None:
    """As one in which the tracer is: those that it is started with, and those that the program before it had."""
    program, directory = programs("static"), prepare(tmp_path / "in")
    script = f"""
        mkdir ranked job own; for d in ranked job own; do cp in $d; done
        (cd ranked; PMI_RANK=1 PMI_SIZE=3 {program} copy in to > out)
        (cd job; SLURM_JOB_ID=7 SLURM_JOB_NAME=sim SLURM_STEP_ID=0 bash -c '{program} copy in to > out')
        (cd own; TAILRACE_TAGS=stage=own,rank=5 SLURM_JOB_ID=7 SLURM_JOB_NAME=sim {program} copy in to > out)"""
    done = run_cli("run", "--unseen=all", "-o", tmp_path / "run", "--", "bash", "-euc", script, cwd=directory)
    assert done.returncode == 0, done.stderr
    trace = Trace(tmp_path / "run")
    names = ("stage", "task", "job", "rank")
    writes = {name: trace.of(directory / name / "out", {"write"}) for name in ("ranked", "job", "own")}
    tags = {name: trace.tags(events, *names) for name, events in writes.items()}
    assert tags == {
        "ranked": {(None, None, None, "1")},
        "job": {("sim", "7.0", "7", None)},
        "own": {("own", "7", "7", "5")},
    }
    ranks = tailrace.open(tmp_path / "run").process_ranks
    assert dict(zip(ranks["rank"], ranks["world_size"].fillna(0), strict=True)) == {"1": 3, "5": 0}


def hand_overs(graph: nx.DiGraph) -> set[tuple[str, str, str]]:
    """(writing program, file, reading program) of a graph of processes."""
    program = {node: Path(d["exe"]).name for node, d in graph.nodes(data=True) if d["kind"] == "process"}
    return {
        (program[writer], file_word(graph.nodes[file]["label"]), program[reader])
        for writer, file, d in graph.edges(data=True)
        if d["kind"] == "write" and writer in program
        for _, reader, found in graph.out_edges(file, data=True)
        if found["kind"] == "read" and reader in program
    }


def file_word(label: str) -> str:
    return "pipe" if label.startswith("pipe:") else label.rpartition("/")[2]


def static_busybox() -> str:
    """Its path; skips without one."""
    path = shutil.which("busybox")
    if path is None or subprocess.run(["ldd", path], capture_output=True, check=False).returncode == 0:
        pytest.skip("no busybox that is statically linked (Debian: busybox-static)")
    return os.path.realpath(path)


def test_a_shell_that_is_followed_starts_its_own_tools_and_ordinary_programs(tmp_path: Path) -> None:
    box = static_busybox()
    # `env` executes in turn: what is followed becomes an ordinary program, and the other way round.
    script = f"""
        {box} cat in | /usr/bin/env tr a-z A-Z > upper
        {box} sort < upper | {box} tee sorted | /usr/bin/env wc > count
        {box} cp count copied; {box} env /usr/bin/env cat copied sorted > both
        {box} gzip -c both > packed; /usr/bin/env gzip -dc packed | /usr/bin/env {box} cmp - both
        {box} mv packed moved; {box} rm copied"""
    command = [box, "sh", "-euc", script]
    truth = strace(command, prepare(tmp_path / "strace"), tmp_path / "logs")
    directory, run = prepare(tmp_path / "followed"), tmp_path / "run"
    done = run_cli("run", "--unseen=all", "-o", run, "--", *command, cwd=directory)
    assert done.returncode == 0 and "nothing lost" in done.stderr, done.stderr
    rows = compare("busybox", truth, account_of(run, directory))
    assert len(rows) == 8 and not [row for row in rows if not row.agrees]
    opened = tailrace.open(run)
    # A program that is executed by one that was followed has a row of its own.
    assert set(opened.processes["cause_key"]) == {"", "another"}
    assert (opened.processes["share"].dropna() == 1).all()
    graph = opened.dataflow(level="process")
    # The part before has no account: of the files that it truncated it is not known whether it wrote to them.
    assert {d["confidence"] for _, _, d in graph.edges(data=True) if d.get("bytes")} <= {"complete", "external"}
    assert hand_overs(graph) == {
        ("busybox", "pipe", "tr"),
        ("tr", "upper", "busybox"),
        ("busybox", "pipe", "busybox"),
        ("busybox", "pipe", "wc"),
        ("wc", "count", "busybox"),
        ("busybox", "copied", "cat"),
        ("busybox", "sorted", "cat"),
        ("cat", "both", "busybox"),
        ("busybox", "moved", "gzip"),
        ("gzip", "pipe", "busybox"),
    }


def test_requests_of_a_ring_made_by_system_calls_are_said_to_be_unseen(
    tmp_path: Path, programs: Callable[[str], Path]
) -> None:
    program = programs("ring")
    done = run_cli("run", "--unseen=all", "-o", tmp_path / "run", "--", program, tmp_path / "data")
    if done.returncode == 77:
        pytest.skip("this kernel makes no io_uring (io_uring_setup: ENOSYS or EPERM)")
    assert done.returncode == 0 and (tmp_path / "data").stat().st_size == 700
    seen = read_run(tmp_path / "run")
    assert seen.written(tmp_path / "data") == 10 and seen.read(tmp_path / "data") == 0
    assert len(seen.named("io_uring_setup")) == 1
    (row,) = tailrace.open(tmp_path / "run").coverage.to_dict("records")
    assert (row["exe"], row["cause_key"]) == (str(program), "ring")
    assert ledger.WORDS["ring"] in run_cli("info", tmp_path / "run").stdout


def test_both_ends_of_sockets_are_joined(tmp_path: Path, programs: Callable[[str], Path]) -> None:
    """As in test_sockets.py, where the program is an ordinary one."""
    script = f"for case in {' '.join(sockets.CASES)}; do mkdir $case; (cd $case; {programs('talks')} $case); done"
    done = run_cli("run", "--unseen=all", "-o", tmp_path / "run", "--", "sh", "-euc", script, cwd=tmp_path)
    assert done.returncode == 0 and "nothing lost" in done.stderr, done.stderr
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(pairs) == len(sockets.CASES) + 2
    expected = [({a: sockets.SENT}, {b: sockets.SENT}) for a, b in pairs]
    expected += [({b: sockets.ANSWERED}, {a: sockets.ANSWERED}) for a, b in pairs]
    opened = tailrace.open(tmp_path / "run")
    assert sorted(sockets.channels(opened), key=str) == sorted(expected, key=str)
    assert (opened.processes["cause"] == "").all()


def test_a_followed_program_talks_to_an_ordinary_one(tmp_path: Path) -> None:
    box = static_busybox()
    directory = prepare(tmp_path / "in")
    server = f"""if True:
        import socket, subprocess
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout({PATIENCE_S})
            words = [{box!r}, "nc", "127.0.0.1", str(listener.getsockname()[1])]
            with open("in") as source, subprocess.Popen(words, stdin=source):
                taken, _ = listener.accept()
                with taken, open("out", "wb") as out:
                    while part := taken.recv(10000): out.write(part)"""
    done = run_cli("run", "--unseen=all", "-o", tmp_path / "run", "--", sys.executable, "-c", server, cwd=directory)
    assert done.returncode == 0 and (directory / "out").stat().st_size == 100_000, done.stderr
    opened = tailrace.open(tmp_path / "run")
    programs = opened.processes.set_index("pid")["exe"]
    (channel,) = [channel for channel in sockets.channels(opened) if channel[0]]  # nothing is answered
    assert [{programs[pid]: moved for pid, moved in side.items()} for side in channel] == [
        {box: 100_000},
        {os.path.realpath(sys.executable): 100_000},
    ]


@pytest.mark.parametrize("patterns", [{"TAILRACE_EXCLUDE": "out:/nowhere/*"}, {"TAILRACE_INCLUDE": "in:*.log"}])
def test_calls_on_excluded_files_are_totals_as_in_other_programs(
    tmp_path: Path, programs: Callable[[str], Path], patterns: dict[str, str]
) -> None:
    directory, run = prepare(tmp_path / "in"), tmp_path / "run"
    env = {**os.environ, **patterns}
    script = f"exec {programs('static')} copy in to > out"
    done = run_cli("run", "--unseen=all", "-q", "-o", run, "--", "sh", "-c", script, cwd=directory, env=env)
    assert done.returncode == 0, done.stderr
    events = tailrace.open(run).events().compute()
    reads = events[(events["name"] == "read") & (events["path"] == str(directory / "in"))]
    writes = events[(events["name"] == "write") & (events["path"] == str(directory / "out"))]
    assert (writes["size"].sum(), writes["calls"].sum()) == (100_000, 100) and len(writes) < 5
    # 1,000 bytes and 10 by each of two descriptors at first, four threads' 100, and everything again.
    assert reads["size"].sum() == 1_020 + 400 + 100_000 and len(reads) > 100 and (reads["calls"] == 1).all()


@ordinary_user.MARKER
@pytest.mark.parametrize("starter", ["followed", "fork", "spawn", "alone"])
def test_a_set_uid_program_keeps_its_rights_and_is_named(
    tmp_path: Path, programs: Callable[[str], Path], starter: str
) -> None:
    program = Path(shutil.copy(programs("static"), tmp_path / "rights"))
    program.chmod(0o4755)  # of root, started by another user
    other = Path(shutil.copy(programs("static"), tmp_path / "starter"))
    spawn = f"import subprocess; subprocess.run([{str(program)!r}, 'who'], check=True, close_fds=False)"
    command = {
        "followed": [str(other), "start", str(program), "who"],
        "fork": ["sh", "-c", f"{program} who; true"],
        "spawn": [sys.executable, "-c", spawn],
        "alone": [str(program), "who"],
    }[starter]
    prefix = [*ordinary_user.reach(tmp_path), *ordinary_user.become()]
    for above in tmp_path.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    words = [*prefix, *TAILRACE, "run", "--unseen=all", "-o", str(tmp_path / "run"), "--", *command]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 0\n"), done.stderr
    opened = tailrace.open(tmp_path / "run")
    (cause,) = set(opened.coverage["cause"]) - {""}
    assert cause.endswith(f": {ledger.WORDS['setuid']}")
    named = [e for e in read_run(tmp_path / "run").events if e["args"].get("untraced") == "setuid"]
    if starter != "alone":
        (event,) = named
        assert read_run(tmp_path / "run").path(event) == str(program)


@pytest.mark.parametrize("kind", C)
def test_a_followed_program_behaves_as_alone(tmp_path: Path, programs: Callable[[str], Path], kind: str) -> None:
    command = [str(programs(kind)), "behave"]
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    done = run_cli("run", "--unseen=all", "-q", "-o", tmp_path / "run", *command, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert done.stdout.count("\n") == 8
    ends = [event["args"]["status"] for event in read_run(tmp_path / "run").named("wait")]
    assert ends == [0x300, signal.SIGKILL, 0x400]


def tracer_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("TracerPid:")[1].split()[0])


def until(found: Callable[[], int]) -> int:
    """Waits for a number other than 0."""
    end = time.monotonic() + PATIENCE_S
    while not (number := found()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return number


def pid_of(program: Path) -> int:
    """The process that executes the program; 0: there is none yet."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "exe").readlink() == program:
                return int(entry.name)
        except OSError:
            continue
    return 0


@pytest.mark.parametrize("killed", ["follower", "launcher"])
def test_a_program_goes_on_when_what_follows_it_is_killed(
    tmp_path: Path, programs: Callable[[str], Path], killed: str
) -> None:
    program = tmp_path / "alone"  # of this test, to be found by its name
    shutil.copy(programs("static"), program)
    directory, fifo = prepare(tmp_path / "in"), tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"{program} wait {fifo} {directory / 'in'}; echo $? > {tmp_path / 'code'}"
    launcher = subprocess.Popen(
        [*TAILRACE, "run", "--unseen=all", "-q", "-o", str(tmp_path / "run"), "--", "bash", "-c", script],
        stdout=subprocess.DEVNULL,
    )
    pid = until(lambda: pid_of(program))
    follower = until(lambda: tracer_of(pid))
    assert follower != launcher.pid
    # It waits in the open of the FIFO, between two stops, until it is opened here.
    os.kill(follower if killed == "follower" else launcher.pid, signal.SIGKILL)
    if killed == "follower":
        until(lambda: tracer_of(pid) == 0)
    fifo.write_bytes(b"x")
    until(lambda: (tmp_path / "code").exists() and (tmp_path / "code").read_text().endswith("\n"))
    assert (tmp_path / "code").read_text() == "0\n"
    launcher.wait(PATIENCE_S)
    assert run_cli("seal", tmp_path / "run").returncode == 0
    reads = len([e for e in read_run(tmp_path / "run").named("read") if e["pid"] == pid])
    assert (reads == 101) == (killed == "launcher")


def test_a_follower_that_does_not_answer_is_not_waited_for(tmp_path: Path, programs: Callable[[str], Path]) -> None:
    directory = prepare(tmp_path / "in")
    # The process that takes requests is the launcher's other child.
    stop = "for p in $(cat /proc/$PPID/task/*/children); do [ $p = $$ ] || kill -STOP $p; done"
    program = programs("static")
    script = f"{stop}; {program} copy in to > out; echo $?"
    done = run_cli("run", "--unseen=all", "-o", tmp_path / "run", "--", "bash", "-c", script, cwd=directory)
    assert done.stdout == "0\n" and ledger.WORDS["static"] in done.stderr
    processes = tailrace.open(tmp_path / "run").processes
    assert processes["cause"].str.endswith("statically linked").any()
    assert not (processes["exe"] == str(program)).any()


WAITED_BY = {
    "sleeps": {"clock_nanosleep"},
    "polls": {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"},
    "threads": {"futex"},
    "signals": {"sigtimedwait", "sigsuspend", "pause"},
    "system_v": {"msgrcv", "semop", "semtimedop"},
}
"""What the C library's functions wait by."""


@pytest.mark.parametrize("how", WAITED_BY)
def test_a_followed_program_has_its_waits(tmp_path: Path, programs: Callable[[str], Path], how: str) -> None:
    """By its own clock around each, in its order: the stops of a call are within it."""
    work = prepare(tmp_path / "work")
    command = [*TAILRACE, "run", "-q", "--unseen=all", "-o", str(tmp_path / "run"), "--", str(programs("waits")), how]
    done = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    said = [int(line.split()[1]) for line in done.stdout.splitlines()]
    events = Trace(tmp_path / "run").events
    (main,) = (event["pid"] for event in events if event["name"] == "start")
    # It also waits for its threads' ends, which take long on a busy machine.
    waits = [e for e in events if e["name"] in WAITED_BY[how] and e["tid"] == main and e["dur"] >= 50_000]
    waits.sort(key=lambda event: (event["ts"], event["args"]["ns"]))
    if how == "threads":
        assert len(waits) >= len(said)
        return
    assert len(waits) == len(said)
    for took, event in zip(said, waits, strict=True):
        assert took / 2 <= event["dur"] * 1000 <= took + 20_000, (took, event)
    if how == "polls":
        assert all(event["path"].startswith("pipe:") for event in waits if event["name"] in ("poll", "ppoll"))
    if how == "sleeps":
        assert [event["args"].get("timeout_ns") for event in waits[1:]] == [120_000_000] * 3 + [1_000_000_000]


@pytest.mark.parametrize("how", ["fcntl", "flock"])
def test_a_followed_program_has_its_locks(tmp_path: Path, programs: Callable[[str], Path], how: str) -> None:
    work = prepare(tmp_path / "work")
    words = [str(programs("waits")), "locks", how]
    command = [*TAILRACE, "run", "-q", "--unseen=all", "-o", str(tmp_path / "run"), "--", *words]
    done = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    (took,) = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(how))
    locks = [e for e in Trace(tmp_path / "run").events if e["name"] == how and not e["args"]["flags"] & fcntl.LOCK_UN]
    taken, waited = sorted(locks, key=lambda event: event["dur"])
    assert taken["path"] == waited["path"] == str(work / "locked")
    assert took / 2 <= waited["dur"] * 1000 <= took + 20_000
    if how == "fcntl":
        assert [(e["args"]["offset"], e["args"]["count"]) for e in (taken, waited)] == [(10, 5), (0, 100)]


def test_a_followed_process_has_its_processor_time(tmp_path: Path, programs: Callable[[str], Path]) -> None:
    """It reads its counters before its end, as its threads do: what the follower reads is more, and within the time."""
    words = [str(programs("processor_time")), "threads", "6"]
    command = [*TAILRACE, "run", "-q", "--unseen=all", "-o", str(tmp_path / "run"), "--", *words]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line.split() for line in done.stdout.splitlines()]
    said = {int(tid): (int(run), int(ready)) for kind, tid, run, ready in lines if kind != "process"}
    events = Trace(tmp_path / "run").events
    threads = {event["tid"]: event["args"] for event in events if event["name"] == "thread"}
    assert set(said) < set(threads)
    for tid, (run, ready) in said.items():
        assert threads[tid]["run_ns"] >= run and threads[tid]["ready_ns"] >= ready
    (end,) = (event["args"] for event in events if event["name"] == "exit")
    assert end["ready_of_ns"] == sum(args["run_ns"] for args in threads.values())
    assert end["ready_ns"] == sum(args["ready_ns"] for args in threads.values())
    assert end["run_ns"] >= end["ready_of_ns"] * 0.99
    (row,) = tailrace.open(tmp_path / "run").processes.to_dict("records")
    assert (row["run_ns"], row["ready_ns"]) == (end["run_ns"], end["ready_ns"])
