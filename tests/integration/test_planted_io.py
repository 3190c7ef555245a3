"""Small real programs (support/planted.py), each with planted ways to use files badly: which findings they get."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.planted import KINDS, PROGRAMS, planted, source


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_finding_that_was_planted_and_no_other(tmp_path: Path, name: str) -> None:
    (tmp_path / "work").mkdir()
    command = (sys.executable, "-S", "-E", "-c", source(name))
    run_cli("run", "-q", "-o", tmp_path / "run", "--", *command, cwd=tmp_path / "work")
    found = [one for one in tailrace.open(tmp_path / "run").findings() if one.kind in KINDS]
    assert {one.kind for one in found} == planted(name), [one.title for one in found]
    for one in found:
        assert (one.cost_ns > 0 and one.estimate) or one.cost_bytes > 0
        assert one.evidence


def test_the_set_has_forty_programs() -> None:
    assert len(PROGRAMS) == 40


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Path]:
    """A directory on sshfs, whose server is a process of this machine."""
    servers = [Path("/usr/lib/openssh/sftp-server"), Path("/usr/libexec/openssh/sftp-server")]
    server = next((one for one in servers if one.exists()), None)
    if server is None or shutil.which("sshfs") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("no sshfs, sftp-server or /dev/fuse: apt-get install sshfs openssh-sftp-server")
    behind, place = tmp_path / "behind", tmp_path / "network"
    behind.mkdir()
    place.mkdir()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serving = subprocess.Popen([server], stdin=theirs, stdout=theirs)
        words = ["sshfs", "-f", "-o", "passive", f":{behind}", place]
        mounting = subprocess.Popen(words, stdin=ours, stdout=ours)
    end = time.monotonic() + 20
    while not os.path.ismount(place) and mounting.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    try:
        if not os.path.ismount(place):
            pytest.skip("sshfs can't mount here")
        yield place
    finally:
        subprocess.run(["fusermount3", "-u", "-z", place], check=False)
        for process in (mounting, serving):
            process.terminate()
            process.wait(20)


RECORDS = """
import os, sys
head, step = map(int, sys.argv[1:])
file = os.open("data", os.O_RDWR | os.O_CREAT)
for number in range(1100):
    os.pwrite(file, b"x" * 4096, head + step * number)
os.close(file)
"""


@pytest.mark.parametrize(
    ("head", "step", "kinds"),
    [(100, 8192, {"misaligned calls"}), (0, 8192, set()), (100, 4096, set())],
    ids=["behind a head", "at blocks", "one behind the other"],
)
def test_calls_on_a_network_file_system_that_touch_a_block_too_many(
    network: Path, tmp_path: Path, head: int, step: int, kinds: set[str]
) -> None:
    command = (sys.executable, "-S", "-E", "-c", RECORDS, head, step)
    run_cli("run", "-q", "-o", tmp_path / "run", "--", *command, cwd=network)
    found = [one for one in tailrace.open(tmp_path / "run").findings() if one.kind == "misaligned calls"]
    assert {one.kind for one in found} == kinds, [one.title for one in found]
    for one in found:
        assert "1,100 of 1,100 calls on 1 file of a network file system" in one.title, one.title
        assert one.evidence[0]["block_bytes"] == os.statvfs(network).f_bsize
