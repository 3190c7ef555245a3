"""`tailrace file` on a real run whose author knows what each program did to each file."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from support.truth import strace
from tailrace.errors import QueryError

BLOCKS = random.Random(7).sample(range(400), 60)
SCRIPT = f"""
seq 1 20000 > in.txt
sort -r -o part.txt in.txt
mv part.txt sorted.txt
head -c 1000 sorted.txt > top.txt
cp top.txt left.txt
{sys.executable} -S read.py
rm in.txt
"""
READER = f"""
import os
def reads(name, places):
    file = os.open(name, os.O_RDONLY)
    for offset, size in places:
        os.pread(file, size, offset)
    os.close(file)
reads("sorted.txt", [(i * 1000, 100) for i in range(40)])
reads("wide.bin", [(i * 256, 64) for i in {BLOCKS}])
reads("front.bin", [(i * 512, 512) for i in range(20)])
reads("twice.bin", [(i * 512, 512) for i in list(range(20)) * 2])
reads("gaps.bin", [(0, 10), (500, 20), (700, 30)])
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    (folder / "read.py").write_text(READER)
    (folder / "script.sh").write_text(SCRIPT)
    for name in ("wide.bin", "front.bin", "twice.bin", "gaps.bin"):
        (folder / name).write_bytes(os.urandom(400 * 256))
    TracedCommand(folder, folder / "run")("sh", "script.sh")
    return folder


def programs(accesses: list[Any]) -> list[str]:
    return [Path(access.program).name for access in accesses if access.calls]


@pytest.mark.parametrize(
    ("name", "pattern", "calls", "size"),
    [
        ("sorted.txt", "strided", 40, 4000),
        ("wide.bin", "random", 60, 3840),
        ("front.bin", "consecutive", 20, 10240),
        ("twice.bin", "repeated", 40, 20480),
        ("gaps.bin", "sequential", 3, 60),
    ],
)
def test_how_a_file_was_read(work: Path, name: str, pattern: str, calls: int, size: int) -> None:
    (file,) = tailrace.open(work / "run").file(str(work / name)).files
    (access,) = [one for one in file.versions[-1].readers if one.command[1:] == ["-S", "read.py"]]
    assert (access.pattern, access.calls, access.bytes) == (pattern, calls, size)
    if name == "wide.bin":
        assert access.ranges == [[i * 256, i * 256 + 64] for i in sorted(BLOCKS)]


def test_names_versions_and_life(work: Path) -> None:
    run = tailrace.open(work / "run")
    (file,) = run.file("part.txt").files
    assert [Path(name).name for name in file.names] == ["part.txt", "sorted.txt"] and file.kind == "data"
    (state,) = [one for one in file.versions if any(access.calls for access in one.writers)]
    assert programs(state.writers) == ["sort"] and programs(state.readers)[:1] == ["head"]
    assert [access.command for access in state.writers if access.calls] == [["sort", "-r", "-o", "part.txt", "in.txt"]]
    assert sum(access.bytes for access in state.writers) == (work / "sorted.txt").stat().st_size == file.size
    assert run.file(file.identity).files == [file] == run.file("*/sorted.txt").files
    (gone,) = run.file("in.txt").files
    assert gone.gone_ns is not None and gone.last_use_ns is not None and gone.gone_ns > gone.last_use_ns
    assert gone.lived_ns == gone.last_use_ns - (gone.born_ns or 0)
    assert len(run.file("*.bin").files) == 4
    with pytest.raises(QueryError, match="nearest are .*left"):
        run.file("lefd.txt")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_bytes_are_straces(work: Path, tmp_path: Path) -> None:
    again = tmp_path / "work"
    shutil.copytree(work, again, ignore=shutil.ignore_patterns("run"))
    account = strace([sys.executable, "-S", "read.py"], again, tmp_path / "logs")
    run = tailrace.open(work / "run")
    for name in ("wide.bin", "front.bin", "twice.bin", "gaps.bin", "sorted.txt"):
        accesses = [one for state in run.file(str(work / name)).files[0].versions for one in state.readers]
        mine = [one for one in accesses if one.command[1:] == ["-S", "read.py"]]
        assert sum(one.bytes for one in mine) == account.bytes[name].read, name
        assert sum(one.calls for one in mine) == account.calls["read", name], name


def shape(nodes: list[Any]) -> list[tuple[int, str, str]]:
    return [(node.depth, Path(node.name.split(" ")[0]).name.partition("@")[0], node.end) for node in nodes]


def test_the_trees_are_the_authors(work: Path) -> None:
    history = tailrace.open(work / "run").file("left.txt", up=True)
    made = [(depth, name) for depth, name, end in shape(history.up or []) if name != "dash" and end != "above"]
    chain = ["left.txt", "cp", "top.txt", "head", "sorted.txt", "sort", "in.txt", "seq"]
    found = [name for depth, name in sorted(dict.fromkeys(made)) if name in chain]
    assert list(dict.fromkeys(found)) == chain
    history = tailrace.open(work / "run").file("in.txt", down=True)
    names = [name for _, name, _ in shape(history.down or [])]
    assert [name for name in dict.fromkeys(names) if name in chain] == [*chain[6:5:-1], *chain[5:3:-1], *chain[3::-1]]
    assert [end for _, name, end in shape(history.down or []) if name == "left.txt"] == ["not read"]


def test_what_exists_has_its_checksum(work: Path, tmp_path: Path) -> None:
    (file,) = tailrace.open(work / "run").file("sorted.txt", hashed=True).files
    assert file.now is not None and file.now.state == "same"
    assert file.now.sha256 == hashlib.sha256((work / "sorted.txt").read_bytes()).hexdigest()
    (gone,) = tailrace.open(work / "run").file("in.txt", hashed=True).files
    assert gone.now is not None and (gone.now.state, gone.now.sha256) == ("gone", None)
    front = work / "front.bin"
    data = front.read_bytes()
    front.write_bytes(data + b"!")
    assert tailrace.open(work / "run").file(str(front), hashed=True).files[0].now.state == "changed"  # type: ignore[union-attr]
    front.rename(work / "kept")
    front.write_bytes(data)
    assert tailrace.open(work / "run").file(str(front), hashed=True).files[0].now.state == "another"  # type: ignore[union-attr]
    front.unlink()
    os.mkfifo(front)
    assert tailrace.open(work / "run").file(str(front), hashed=True).files[0].now.state == "another"  # type: ignore[union-attr]


def test_the_command_prints_it_in_80_columns(work: Path) -> None:
    done = run_cli("file", work / "run", "sorted.txt", "--up", "--down", "--hash", cwd=work)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    text = " ".join(done.stdout.split())
    assert "sort -r -o part.txt in.txt" in text and "3.91 KiB in 40 calls of 100 B on average, strided" in text
    assert "Made from:" in lines and "Used for:" in lines and "still there as the run left it" in text
    told = json.loads(run_cli("file", work / "run", "sorted.txt", "--format", "json", cwd=work).stdout)
    assert told["files"] == tailrace.open(work / "run").file("sorted.txt").to_json()["files"] and told["up"] is None
    wrong = run_cli("file", work / "run", "nothing-like-it", cwd=work)
    assert wrong.returncode == 1 and "no event is on a file called" in wrong.stderr


def test_what_is_missing_is_said(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work / "run", tmp_path / "run")
    largest = max((tmp_path / "run/trace").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-100])
    done = run_cli("file", tmp_path / "run", "sorted.txt")
    assert done.returncode == 0 and "tailrace: incomplete: " in done.stderr
    refused = run_cli("file", tmp_path / "run", "sorted.txt", "--strict")
    assert refused.returncode == 1 and "is incomplete" in refused.stderr and not refused.stdout


def test_a_task_of_a_worker_has_its_own_command_or_none(tmp_path: Path) -> None:
    worker = """
import os, subprocess
from tailrace.context import scope
with scope(stage="make", task="own"):
    subprocess.run(["sh", "-c", "cat in > middle"], check=True)
with scope(stage="make", task="inside"):
    open("out", "w").write(open("middle").read())
"""
    (tmp_path / "in").write_text("1")
    TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-c", worker)
    nodes = {node.name: node for node in tailrace.open(tmp_path / "run").file("out", up=True).up or []}
    commands = {name.split()[-1]: node.command for name, node in nodes.items() if node.kind == "task"}
    assert commands == {"own": ["sh", "-c", "cat in > middle"], "inside": []}
