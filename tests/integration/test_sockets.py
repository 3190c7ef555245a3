"""Processes that talk over sockets, joined in the graph: who sent to whom, and how many bytes. The truth is what the
processes say of themselves (tests/programs/talks.c), and strace's bytes of each process."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.truth import CALL, READS, SOCKET, WRITES, split_arguments
from tailrace.analyzer.edges.channels import peer_address

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace, the truth, is not installed")

SENT, ANSWERED = 30000, 700
CASES = ("tcp", "nonblocking", "again", "twice", "unix", "seqpacket", "pair", "udp", "datagrams")


def channels(run: tailrace.Run) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Of each socket of the graph of processes: bytes by the pid that wrote, and by the pid that read."""
    graph = run.dataflow(level="process")
    out = []
    for node, values in graph.nodes(data=True):
        if values.get("ftype") == "sock":
            writers = {graph.nodes[u]["pid"]: d["bytes"] for u, _, d in graph.in_edges(node, data=True)}
            readers = {graph.nodes[v]["pid"]: d["bytes"] for _, v, d in graph.out_edges(node, data=True)}
            out.append((writers, readers))
    return out


def moved_by_sockets(logs: Path) -> Counter[tuple[int, str]]:
    """(pid, "r" or "w") -> bytes through sockets, by strace; every process has one thread."""
    out: Counter[tuple[int, str]] = Counter()
    for log in logs.iterdir():
        for line in log.read_text(errors="surrogateescape").splitlines():
            found = CALL.match(line)
            if found and int(found[3]) > 0 and SOCKET.match(split_arguments(found[2])[0].partition("<")[2]):
                out[int(log.suffix[1:]), "r" if found[1] in READS else "w"] += int(found[3])
    return out


@pytest.mark.parametrize("case", CASES)
def test_bytes_sent_by_one_end_are_received_by_the_other(
    tmp_path: Path, program: Callable[[str], Path], case: str
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    tracer = [
        "strace",
        "-ff",
        "-qq",
        "-yy",
        "-s",
        "8",
        "-e",
        f"trace={','.join((*READS, *WRITES))}",
        "-o",
        logs / "log",
    ]
    cli = [*TAILRACE, "run", "-o", "run", "--"]
    command = [*map(str, tracer), *cli, str(program("talks")), case]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(pairs) == (2 if case in ("again", "twice") else 1)
    expected = [({a: SENT}, {b: SENT}) for a, b in pairs] + [({b: ANSWERED}, {a: ANSWERED}) for a, b in pairs]
    seen = channels(tailrace.open(tmp_path / "run"))
    assert sorted(seen, key=str) == sorted(expected, key=str)
    by_process: Counter[tuple[int, str]] = Counter()
    for sides in seen:
        for direction, side in zip("wr", sides, strict=True):
            by_process.update({(pid, direction): moved for pid, moved in side.items()})
    pids = {pid for pair in pairs for pid in pair}
    assert by_process == Counter({k: v for k, v in moved_by_sockets(logs).items() if k[0] in pids})


def test_a_peer_that_is_not_traced_is_named_by_its_address(tmp_path: Path, program: Callable[[str], Path]) -> None:
    server = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept(); c.sendall(b'x' * int.from_bytes(c.recv(2), 'big'))"
    )
    client = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.sendall(b'\\x01\\x00')\n"
        "while s.recv(100): pass"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as outside:
        assert outside.stdout is not None
        port = outside.stdout.readline().strip()
        cli = [*TAILRACE, "run", "-o", str(tmp_path / "run"), "--"]
        subprocess.run([*cli, sys.executable, "-c", client, port], check=True, timeout=120, stderr=subprocess.DEVNULL)
    graph = tailrace.open(tmp_path / "run").dataflow(level="process")
    found = {
        values["path"]: [d["bytes"] for *_, d in (*graph.in_edges(n, data=True), *graph.out_edges(n, data=True))]
        for n, values in graph.nodes(data=True)
        if values.get("ftype") == "sock"
    }
    to_server = next(path for path in found if path.endswith(f"->127.0.0.1:{port}"))
    from_server = next(path for path in found if path.startswith(f"tcp:127.0.0.1:{port}->"))
    assert found == {to_server: [2], from_server: [256]}


REFUSED = """
import os, socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
address, missing = server.getsockname(), "./no.socket"
for family, where in ((socket.AF_INET, address), (socket.AF_UNIX, missing), (socket.AF_INET, address)):
    with socket.socket(family) as client:
        try:
            client.connect(where)
        except OSError:
            pass
one, other = socket.socketpair()
try:
    one.connect(missing)
except OSError:
    pass
one.sendall(b"x" * 500)
if os.fork() == 0:
    other.recv(1000)
    os._exit(0)
os.wait()
print(address[1])
"""


def test_who_refused_a_connection_is_named_and_the_sockets_data_stays_its_own(tmp_path: Path) -> None:
    cli = [*TAILRACE, "run", "-q", "-o", "run", "--", sys.executable, "-c", REFUSED]
    done = subprocess.run(cli, cwd=tmp_path, check=True, timeout=120, capture_output=True, text=True)
    run = tailrace.open(tmp_path / "run")
    tried = run.events(columns=["name", "path", "errno", "ts"], name=["connect"]).compute().sort_values("ts")
    ends = [peer_address(path) for path in tried["path"].head(3)]
    assert ends == [f"127.0.0.1:{done.stdout.strip()}", f"{tmp_path}/no.socket", f"127.0.0.1:{done.stdout.strip()}"]
    assert tried["errno"].notna().all()
    written, read = channels(run)[0]
    assert (list(written.values()), list(read.values())) == ([500], [500])
