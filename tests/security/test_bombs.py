"""Small files that inflate, or promise, to very much: they take bounded memory or are refused by name."""

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.store import catalogue, partitions
from tailrace.base import memory
from tailrace.errors import TraceError

pytestmark = pytest.mark.slow("inflates files of megabytes in processes of their own")

MIB = 1 << 20
FOREIGN_LINE = b'{"name":"read","cat":"b","pid":1,"ph":"X"}\n'
SHORTEST = b'{"ph":"X","name":"read","cat":"POSIX","ts":1,"pid":1,"tid":1,"args":{}}'

CONVERT = """
import re, sys
from pathlib import Path
import tailrace
from tailrace.analyzer.foreign import conversion

def taken():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
before = taken()
conversion.convert(conversion.find(Path(sys.argv[1])), Path(sys.argv[2]))
print(taken() - before)
"""

REFUSE = """
import sys
from pathlib import Path
import tailrace
from tailrace.analyzer.foreign import conversion
from tailrace.base import memory

memory.left = lambda: 48 << 20
found = conversion.find(Path(sys.argv[1]))
print([loss.problem for loss in found.format.convert(found.path, list(found.files), Path(sys.argv[2])).losses])
"""

OPEN = """
import os, resource, sys
import tailrace, tailrace.analyzer.run, tailrace.analyzer.store.catalogue
import dask.dataframe

taken = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGESIZE")
resource.setrlimit(resource.RLIMIT_AS, (taken + (256 << 20),) * 2)
run = tailrace.open(sys.argv[1])
print(run.losses.to_dict("records"), run.declared_problems.to_dict("records"))
"""


def measured(program: str, *words: object) -> str:
    """What a Python program prints, in a process of its own."""
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def foreign(path: Path, text: bytes, times: int) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(times):
            file.write(text)
    return path


def test_a_foreign_file_is_read_without_keeping_its_events(tmp_path: Path) -> None:
    """Its events as Python's objects would be ten times its text."""
    text = FOREIGN_LINE * (MIB // len(FOREIGN_LINE))
    foreign(tmp_path / "a.pfw.gz", text, 60)
    kilobytes = int(measured(CONVERT, tmp_path, tmp_path / "run"))
    assert tailrace.open(tmp_path / "run").info()["events"] == 60 * text.count(b"\n")
    assert kilobytes < 32 << 10


@pytest.mark.parametrize("text", [FOREIGN_LINE * (MIB // len(FOREIGN_LINE)), b"x" * MIB], ids=["lines", "line"])
def test_a_foreign_file_that_inflates_without_end_is_refused(tmp_path: Path, text: bytes) -> None:
    path = foreign(tmp_path / "a.pfw.gz", FOREIGN_LINE + text[: MIB >> 6], 1)
    member = gzip.compress(text, 9)
    with path.open("ab") as file:
        for _ in range(80):
            file.write(member)
    kilobytes = int(measured(CONVERT, tmp_path, tmp_path / "run"))
    assert kilobytes < 32 << 10
    losses = tailrace.open(tmp_path / "run").losses
    assert losses[["file", "cause"]].values.tolist() == [["a.pfw.gz", "unreadable"]]
    assert losses["problem"][0] == f"{path}: it inflates to more than 200 times its size: no trace does"


def test_names_of_a_foreign_file_count_as_memory(tmp_path: Path) -> None:
    """One name is 1,000 bytes long, and every event has a hash of its own for it."""
    name = '{"name":"FH","cat":"dftracer","pid":5,"tid":6,"ph":"M","args":{"name":"/' + "a" * 1000 + '","value":%d}}\n'
    (tmp_path / "a.pfw").write_text("".join(name % number for number in range(40_000)))
    (tmp_path / "made").mkdir()
    assert "half of the memory that is left" in measured(REFUSE, tmp_path, tmp_path / "made")


def shortest_events(count: int) -> bytes:
    raw = (SHORTEST + b"\n") * count
    pressed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = pressed.compress(raw) + pressed.flush()
    sizes = {"comp": len(body), "raw": len(raw), "lines": count, "events": count, "t0": 1000, "t1": 1000}
    head = {"v": 1, "host": "n", "pid": 1, "start": "1", "read": 0, "written": 0, "contexts": [""], **sizes}
    return tw.frame(json.dumps(head).encode(), body, zlib.crc32(raw), len(raw))


def test_partitions_of_short_events_are_small(tmp_path: Path) -> None:
    """Memory goes by events, and a block may have eight times as many as one of the core's."""
    run = tw.make_run(tmp_path / "run", {"n-1-1": shortest_events(10)})
    most = 16 * MIB // 16
    rows = [("a", number, 100, 16 * MIB, most) for number in range(20)]
    found = catalogue.open_catalogue(run)
    sizes = [sum(file.events for file in part) for part in partitions.cut(found, rows)]
    found.close()
    assert sum(sizes) == 20 * most
    assert max(sizes) <= partitions.PARTITION_RAW_BYTES // 128 + most


def test_a_partition_that_there_is_no_memory_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-1-1": shortest_events(50_000)}))
    monkeypatch.setattr(memory, "left", lambda: MIB)
    with pytest.raises(TraceError, match=r"n-1-1\.pfw\.gz: reading it takes more than 1 MB, half of the memory"):
        run.events().compute()


def test_documents_of_very_many_lists_are_refused(tmp_path: Path) -> None:
    """Each of their `[],` is an object of Python's."""
    run = tw.make_run(tmp_path / "run", {"n-1-1": shortest_events(10)})
    (run / "accounts").mkdir()
    names = ("run.json", "accounts/a.json", "declared/a.jsonl")
    for name in names:
        text = '{"type":"workflow","workflow":"w","manager":"m","config":[' + "[]," * (8 * MIB) + "[]]}\n"
        (run / name).write_text(text)
    said = measured(OPEN, run)
    assert said.count("half of the memory that is left") == 3
    assert all(name in said for name in names)


def test_a_declared_file_is_read_by_lines(tmp_path: Path) -> None:
    run = tw.make_run(tmp_path / "run", {"n-1-1": shortest_events(10)})
    with (run / "declared" / "a.jsonl").open("w") as file:
        file.truncate(512 * MIB)
    said = measured(OPEN, run)
    assert "declared/a.jsonl" in said
    assert "line is longer than" in said


def test_what_is_left_goes_by_the_groups_limit(tmp_path: Path) -> None:
    group = tmp_path / "job" / "step"
    group.mkdir(parents=True)
    own = tmp_path / "cgroup"
    own.write_text("0::/job/step\n")
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text(f"{100 * MIB}\n")
    (group.parent / "memory.current").write_text(f"{60 * MIB}\n")
    (group.parent / "memory.stat").write_text(f"anon 5\ninactive_file {10 * MIB}\n")
    assert list(memory._of_groups(tmp_path, own)) == [50 * MIB]
    assert list(memory._of_groups(tmp_path, tmp_path / "none")) == []
    assert 0 < memory.left() < 1 << 50
