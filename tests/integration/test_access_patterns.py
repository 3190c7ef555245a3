"""What the I/O of a program is like, by the trace under both details and by strace: sizes, order, opens and seeks."""

import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support import trace_writer as tw
from support.commands import TAILRACE, run_cli
from tailrace.errors import QueryError

PROGRAM = """
import os, random, time
choose = random.Random(1)
def opened(name): return os.open(name, os.O_RDWR | os.O_CREAT)
def numbers(count):
    for i in range(count):
        if i % 9 == 2: time.sleep(0.0001)  # begins another piece of a line of totals
        yield i
fd = opened("order")
for i in numbers(120): os.write(fd, bytes(700))
fd = opened("steps")
os.ftruncate(fd, 1 << 20)
for i in numbers(40): os.pread(fd, 512, 8192 * i)
fd = opened("back")
for i in numbers(40): os.pwrite(fd, bytes(4096), 4096 * (40 - i))
fd = opened("anywhere")
os.ftruncate(fd, 1 << 20)
for i in numbers(200): os.pread(fd, 100, choose.randrange(1 << 19))
fd = opened("again")
os.write(fd, bytes(5000))
for turn in numbers(4):
    os.lseek(fd, 0, os.SEEK_SET)
    while os.read(fd, 1000): pass
for i in range(30): os.lseek(fd, 0, os.SEEK_CUR)
fd = opened("records")
for i in numbers(50): os.pwrite(fd, bytes(4096), 100 + 8192 * i)
for i in range(7): os.close(opened("nothing"))
"""
ORDER = {"order": "consecutive", "steps": "strided", "back": "backward", "anywhere": "random", "records": "strided"}


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """(file, direction) -> calls, bytes, sizes, consecutive, strided, backward, unaligned, first_unaligned (0 or 1);
    (file, "") -> opens, seeks."""
    if shutil.which("strace") is None:
        pytest.skip("strace, the truth, is not installed")
    place = tmp_path_factory.mktemp("strace")
    wanted = "openat,lseek,read,write,pread64,pwrite64,close"
    words = ["strace", "-y", "-o", str(place / "log"), "-e", f"trace={wanted}"]
    subprocess.run([*words, sys.executable, "-S", "-E", "-c", PROGRAM], cwd=place, check=True)
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    sizes: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    position: dict[str, int] = {}
    last: dict[tuple[str, str], tuple[int, int, int]] = {}
    for line in (place / "log").read_text().splitlines():
        match = re.match(r"(\w+)\((?:AT_FDCWD\S*|\d+<([^>]*)>)(.*)\) += (\d+)(?:<([^>]*)>)?", line)
        if match is None:
            continue
        call, file, rest, result = match[1], Path(match[2] or match[5] or "").name, match[3], int(match[4])
        if not (place / file).is_file() or file in ("log", ""):
            continue
        if call == "openat":
            found[file, ""]["opens"] += 1
            position[file] = 0
        elif call == "lseek":
            found[file, ""]["seeks"] += 1
            position[file] = result
        elif call != "close":
            key = (file, "write" if "write" in call else "read")
            placed = call.startswith("p")
            offset = int(rest.rsplit(", ", 1)[1]) if placed else position[file]
            position[file] += 0 if placed else result
            found[key].update(calls=1, bytes=result)
            sizes[key][result.bit_length()] += 1
            if not result:
                continue
            before, end, step = last.get(key, (-1, -1, 0))
            block = (place / file).stat().st_blksize
            touched = (offset + result - 1) // block - offset // block + 1
            found[key]["unaligned"] += touched > -(-result // block) and offset != end
            found[key]["first_unaligned"] += touched > -(-result // block) and before < 0
            if before >= 0:
                found[key]["consecutive"] += offset == end
                found[key]["strided"] += offset != end and offset - before == step != 0
                found[key]["backward"] += offset < end
                step = offset - before
            last[key] = (offset, offset + result, step)
    return {key: {**row, "sizes": dict(sizes[key])} for key, row in found.items()}


@pytest.mark.parametrize("detail", ["full", "totals"])
def test_accesses_are_those_that_strace_saw(
    tmp_path: Path, truth: dict[tuple[str, str], dict[str, Any]], detail: str
) -> None:
    (tmp_path / "work").mkdir()
    words = ["run", "-q", "--detail", detail, "-o", tmp_path / "run", "--", sys.executable, "-S", "-E", "-c", PROGRAM]
    subprocess.run([*TAILRACE, *map(str, words)], cwd=tmp_path / "work", check=True, timeout=120)
    run = tailrace.open(tmp_path / "run")
    found = run.accesses("file")
    data = found.data[found.data["calls"] > 0]  # without what only cut the file's length
    rows = {(Path(row["group"]).name, row["direction"]): row for row in data.to_dict("records")}
    assert set(rows) == {key for key in truth if key[1]}
    for key, row in rows.items():
        names = ["calls", "bytes", "sizes", "consecutive", "strided", "backward"]
        if detail == "totals" and key[0] in ("again", "anywhere", "back"):
            names.remove("strided")  # between two pauses they don't all go forward
        assert {name: row[name] for name in names} == {name: truth[key].get(name, 0) for name in names}, key
        assert row["pattern"] == ORDER.get(key[0], "consecutive" if key[1] == "read" else ""), key
        assert row["placed"] == row["calls"] - row["sizes"].get(0, 0)
        # The first call of a line of totals may go on where another line ended.
        first = truth[key]["first_unaligned"] if detail == "totals" and row["calls"] > 3 else 0
        block = (tmp_path / "work" / key[0]).stat().st_blksize
        assert row["blocks"] == {block: [row["placed"], row["unaligned"]]}, key
        assert row["unaligned"] == truth[key]["unaligned"] - first, key
    assert rows["records", "write"]["unaligned"] > 0
    history = run.file(str(tmp_path / "work" / "records")).files[0]
    unaligned = rows["records", "write"]["unaligned"]
    assert history.block_bytes == (tmp_path / "work" / "records").stat().st_blksize
    assert history.unaligned == {"write": [50, unaligned]}
    shown = run_cli("file", tmp_path / "run", "records").stdout
    assert f"{unaligned} of 50 writes touch one more than they need" in " ".join(shown.split())
    assert rows["again", "read"]["again_bytes"] == 15000
    assert rows["anywhere", "read"]["random"] >= 190
    opens = {Path(row["group"]).name: row for row in found.metadata.to_dict("records")}
    for file in ("order", "again"):
        assert [opens[file][name] for name in ("opens", "seeks")] == [
            truth[file, ""].get(name, 0) for name in ("opens", "seeks")
        ]
    (whole,) = run.accesses("stage").metadata.to_dict("records")
    assert whole["useless_seeks"] >= 25
    pd.testing.assert_series_equal(
        run.accesses("program").data[["calls", "bytes"]].sum(), found.data[["calls", "bytes"]].sum(), check_names=False
    )
    with pytest.raises(QueryError, match="not by 'node'"):
        run.accesses("node")
    answer = run_cli("access", tmp_path / "run", "--by", "file", "--format", "json")
    assert answer.returncode == 0 and '"anywhere' not in answer.stderr


def test_calls_at_unknown_offsets_have_no_order(tmp_path: Path) -> None:
    written = [tw.event("write", fhash="1", size=700, dir="w", ts=10 * turn) for turn in range(5)]
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block([tw.file_line("1", "/x/shared"), *written])})
    (row,) = tailrace.open(run).accesses("file").data.to_dict("records")
    assert row["unlocated"] == row["calls"] == 5 and row["pattern"] == ""
    assert [row[order] for order in ("consecutive", "sequential", "strided", "random")] == [0, 0, 0, 0]
    shown = " ".join(run_cli("access", run, "--by", "file").stdout.split())
    assert "at offsets that are not known" in shown
