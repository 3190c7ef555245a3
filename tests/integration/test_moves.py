"""What goes past read and write: messages from process to process, and blocks that two files share."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TracedCommand
from support.truth import Seen, read_run
from tailrace.analyzer.model import dataflow, stages


def traced(run: Path, directory: Path, *command: Any) -> Seen:
    done = TracedCommand(directory, run)(*command, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel has no message queues")
    assert done.returncode == 0, done.stderr
    return read_run(run)


def test_a_message_queue_is_an_edge_between_processes(program: Callable[[str], Path], tmp_path: Path) -> None:
    name = f"/tailrace-moves-{os.getpid()}"
    seen = traced(tmp_path / "run", tmp_path, program("moves"), "mailed", name)
    messages = seen.named("mq_send", "mq_timedsend", "mq_receive", "mq_timedreceive")
    assert {seen.path(event) for event in messages} == {f"mqueue:{name}"}
    sizes = sorted((event["name"], event["args"]["size"], event["args"].get("errno")) for event in messages)
    assert sizes == [
        ("mq_receive", 0, errno.EMSGSIZE),
        ("mq_receive", 33, None),
        ("mq_send", 33, None),
        ("mq_timedreceive", 44, None),
        ("mq_timedsend", 44, None),
    ]
    graph = tailrace.open(tmp_path / "run").dataflow(level="process")
    (queue,) = [n for n, values in graph.nodes(data=True) if values.get("path") == f"mqueue:{name}"]
    (sender,) = {u for u, _, d in graph.in_edges(queue, data=True) if d["kind"] == "write"}
    (receiver,) = {v for _, v, d in graph.out_edges(queue, data=True) if d["kind"] == "read"}
    assert sender != receiver
    assert graph.nodes[queue]["ftype"] == "fifo"


def test_shared_memory_that_was_removed_is_not_left(program: Callable[[str], Path], tmp_path: Path) -> None:
    name = f"/tailrace-moves-{os.getpid()}"
    seen = traced(tmp_path / "run", tmp_path, program("moves"), "shared", name)
    (removal,) = seen.named("shm_unlink")
    assert (seen.path(removal), removal["args"]["ret"]) == (f"/dev/shm{name}", 0)
    (made, again) = seen.named("shm_open")
    assert (seen.path(made), again["args"]["errno"]) == (f"/dev/shm{name}", errno.ENOENT)
    files = tailrace.open(tmp_path / "run").insights().lifetime.files.set_index("path")
    assert files.loc[f"/dev/shm{name}", "removed"]


LOCKS_AND_RESULTS = """
import os
for number in range(20):
    lock = os.open("t.lock", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(lock, b"x")
    os.close(lock)
    os.unlink("t.lock")
    kept = os.open(f"keep{number}.bin", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(kept, bytes(1000))
    os.close(kept)
"""


def test_a_file_that_exists_is_not_the_removed_one_whose_inode_it_got(tmp_path: Path) -> None:
    """ext4 gives every one of these results the inode and, within one tick of its clock, the birth time of the lock."""
    place = tmp_path / "place"
    place.mkdir()
    traced(tmp_path / "run", place, sys.executable, "-c", LOCKS_AND_RESULTS)
    run = tailrace.open(tmp_path / "run")
    for name, wanted in (("keep7.bin", 1000), ("t.lock", 20)):
        events = run.events(["name", "path", "size"], path=name).compute()
        assert set(events["path"]) == {f"{place}/{name}"} and events["size"].sum() == wanted
    m = dataflow.model(run)
    fates = stages.file_fates(m).assign(path=m.paths)
    mine = fates[fates["path"].str.startswith(f"{place}/")]
    kept = mine[mine["path"].str.endswith(".bin")]
    assert sorted(kept["path"]) == sorted(str(path) for path in place.iterdir())
    assert set(kept["written_bytes"]) == {1000} and not kept["removed"].any()
    locks = mine[mine["path"] == f"{place}/t.lock"]
    assert locks["removed"].all() and locks["written_bytes"].sum() == 20


@pytest.fixture
def shares_blocks(tmp_path: Path) -> Iterator[Path]:
    """A directory of a file system where FICLONE works."""
    maker = shutil.which("mkfs.xfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if maker is None:
        pytest.skip("no mkfs.xfs to make a file system that shares blocks (Debian: xfsprogs)")
    image, place = tmp_path / "image", tmp_path / "place"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(512 << 20)
    subprocess.run([maker, "-q", "-m", "reflink=1", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no XFS can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_clone_is_a_copy_without_transferred_bytes(
    program: Callable[[str], Path], tmp_path: Path, shares_blocks: Path
) -> None:
    data = shares_blocks / "data"
    data.write_bytes(bytes(range(256)) * 100)
    seen = traced(tmp_path / "run", shares_blocks, program("moves"), "clones", data)
    out = shares_blocks / "out"
    assert out.read_bytes() == data.read_bytes()
    clones = [event["args"] for event in seen.named("ficlone")]
    assert [(args["size"], args.get("errno")) for args in clones] == [
        (25_600, None),
        (4096, None),
        (0, errno.EBADF),
    ]
    assert (seen.read(data), seen.written(out)) == (25_600 + 4096, 25_600 + 4096)
    rows = tailrace.open(tmp_path / "run").coverage
    assert (rows["share"] == 1.0).all(), rows.to_string()
