"""`tailrace run --unseen=all`: programs that can't be preloaded are followed from outside, and don't notice."""

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

import tailrace
from support.commands import TAILRACE, run_cli
from support.truth import account_of, compare, read_run, strace

SOURCE = Path(__file__).parents[1] / "programs" / "unseen.c"
COMPILERS = {"static": ["cc", "-static", "-pthread"], "musl": ["musl-gcc"]}
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
    """The program that no preload enters, by how it is linked."""
    folder = tmp_path_factory.mktemp("unseen")

    def built(kind: str) -> Path:
        path = folder / kind
        if not path.exists():
            command = [*COMPILERS[kind], "-O1", "-w", "-o", str(path), str(SOURCE)]
            if shutil.which(command[0]) is None:
                pytest.skip(f"{command[0]} is not installed")
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("nothing can be linked statically here")
        return path

    return built


def prepare(directory: Path) -> Path:
    directory.mkdir()
    (directory / "in").write_bytes(bytes(range(250)) * 400)
    return directory


@pytest.mark.parametrize("kind", COMPILERS)
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
    assert len(followed) == 8 and (followed["share"] == 1).all() and (followed["cause"] == "").all()
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


@pytest.mark.parametrize("kind", COMPILERS)
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
    assert done.stdout == "0\n" and "nothing lost" in done.stderr
    processes = tailrace.open(tmp_path / "run").processes
    assert processes["cause"].str.endswith("statically linked").any()
    assert not (processes["exe"] == str(program)).any()
