"""Recorder's traces, OTF2 archives and Chrome's JSON: events, bytes and times are those of plain scripts over them.

tests/data/recorder has a trace that Recorder 2.3 made of tests/data/dftracer/program.c (parent and child), with the
texts of its recorder2text.
"""

import gzip
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TAILRACE
from support.otf2_archive import archive
from tailrace.errors import NotARunError, TailraceError, TraceError

RECORDER = Path(__file__).parents[1] / "data" / "recorder"
PREFIX = os.environ.get("RECORDER_PREFIX", "")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def events(path: Path) -> list[dict[str, Any]]:
    frame = tailrace.open(path).events().compute().astype(object)
    rows: list[dict[str, Any]] = frame.where(frame.notna(), None).sort_values("ts").to_dict("records")
    return rows


# ---- Recorder ----


def test_recorder_has_the_calls_of_its_texts() -> None:
    (parent,) = RECORDER.glob("*/_text/0.txt") if len(list(RECORDER.iterdir())) == 1 else [largest()]
    lines = parent.read_text().splitlines()
    rows = events(parent.parents[1])
    assert len(rows) == len(lines) > 60
    assert [row["name"] for row in rows if row["name"] in ("read", "write", "pread")] == [
        line.split()[2] for line in lines if line.split()[2] in ("read", "write", "pread")
    ]
    start_s = struct.unpack_from("<d", (parent.parents[1] / "recorder.mt").read_bytes(), 8)[0]
    begin = min(float(line.split()[0]) for line in lines)
    assert abs(rows[0]["ts"] / 1e9 - start_s - begin) < 1e-6
    first = next(row for row in rows if row["name"] == "write")
    assert (first["path"], first["size"], first["dir"]) == ("/srv/example/sub/data.bin", 4096, "w")
    items = next(row for row in rows if row["name"] == "fread")
    assert (items["path"], items["size"], items["cat"]) == ("/srv/example/out.txt", 1600, "STDIO")
    assert sorted(row["offset"] for row in rows if row["name"] == "pread") == list(range(0, 10_000, 1000))
    opened = next(row for row in rows if row["name"] == "open")
    assert opened["flags"] == 578
    info = tailrace.open(parent.parents[1]).info()
    assert info["written_bytes"] == 20 * 4096 + 1600 and "requested" in info["foreign"]["notes"][0]


def largest() -> Path:
    return max(RECORDER.glob("*/_text/0.txt"), key=lambda path: path.stat().st_size)


def test_recorder_of_several_processes() -> None:
    run = tailrace.open(RECORDER)
    assert run.info()["processes"] == len(list(RECORDER.iterdir()))
    assert run.info()["events"] == sum(len(text.read_text().splitlines()) for text in RECORDER.glob("*/_text/*.txt"))


def test_recorder_without_its_converter_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "recorder.mt").write_bytes((largest().parents[1] / "recorder.mt").read_bytes())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceError, match="recorder2text"):
        tailrace.open(tmp_path / "t")


def recorder(directory: Path, *texts: str, begin_s: float = 1e9) -> Path:
    """A trace with a text of each rank."""
    (directory / "_text").mkdir(parents=True)
    (directory / "recorder.mt").write_bytes(struct.pack("<i4xdd", len(texts), begin_s, 1e-7))
    for rank, text in enumerate(texts):
        (directory / "_text" / f"{rank}.txt").write_text(text)
    return directory


WRITES, READS = "0.1 0.2 write 0 0 ( /data/x %p 4096 )\n", "1.1 1.2 read 0 0 ( /data/x %p 4096 )\n"


def test_ranks_of_two_jobs_are_processes_of_their_own(tmp_path: Path) -> None:
    """Also where both jobs began at once."""
    for name, text, begin_s in (("n1-u-a-1-1", WRITES, 1e9), ("n1-u-b-1-1", READS, 1e9), ("n1-u-c-1-2", READS, 2e9)):
        recorder(tmp_path / name, text, text, begin_s=begin_s)
    run = tailrace.open(tmp_path)
    assert sorted(run.processes["pid"]) == [0, 0, 0, 1, 1, 1]
    assert {int(start, 16) // 10**9 for start in run.processes["start"]} == {10**9, 2 * 10**9}
    assert run.info()["hosts"] == ["n1"]


def test_a_damaged_recorder_trace_does_not_stop_the_others(tmp_path: Path) -> None:
    recorder(tmp_path / "good", f"{WRITES}9{READS}torn\n{READS}".replace("4096 )\n91", f"{10**17} )\n1"))
    for number, begin_s in enumerate((float("nan"), float("inf"), -1.0, 1e300)):
        recorder(tmp_path / f"bad{number}", WRITES, begin_s=begin_s)
    large = f"0.1 0.2 fread 0 0 ( %p {10**17} {10**17} /data/x )\n{10**30}.1 0.2 read 0 0 ( /data/x %p 1 )\n"
    recorder(tmp_path / "large", large)
    recorder(Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff-u-a-99999999999-1")), WRITES)
    run = tailrace.open(tmp_path)
    losses = run.losses[["cause", "count"]].groupby("cause").sum()["count"].to_dict()
    assert losses == {"unreadable": 4, "damaged": 3}
    assert "no time" in run.losses.set_index("file")["problem"]["bad0/recorder.mt"]
    assert run.info()["events"] == 4
    assert tailrace.open(tmp_path / "large").losses["cause"].tolist() == ["damaged"], "one with no event is read, too"


@pytest.mark.skipif(not PREFIX, reason="RECORDER_PREFIX names no Recorder")
def test_recorder_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    program = f"import os; fd = os.open({str(data)!r}, os.O_CREAT | os.O_WRONLY)\n"
    program += "for _ in range(50): os.write(fd, b'x' * 4096)"
    environment = {**os.environ, "RECORDER_WITH_NON_MPI": "1", "LD_PRELOAD": f"{PREFIX}/lib/librecorder.so"}
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("PATH", f"{PREFIX}/bin:{os.environ['PATH']}")
    before = sorted(tmp_path.rglob("recorder-*/**/*"))
    written = [row for row in events(tmp_path) if row["path"] == str(data) and row["name"] == "write"]
    assert (len(written), sum(row["size"] for row in written)) == (50, 204800)
    assert sorted(tmp_path.rglob("recorder-*/**/*")) == before, "nothing is written beside another tracer's trace"


# ---- OTF2 ----


def test_otf2_has_regions_and_operations(tmp_path: Path) -> None:
    archive(tmp_path / "a")
    rows = events(tmp_path / "a")
    assert [(row["name"], row["cat"], row["rank"], row["pid"], row["host"]) for row in rows] == [
        ("compute", "REGION", "0", 0, "node7"),
        ("write", "POSIX", "0", 0, "node7"),
        ("compute", "REGION", "1", 1, "node7"),
        ("write", "POSIX", "1", 1, "node7"),
    ]
    write = rows[1]
    assert (write["path"], write["size"], write["count"], write["dir"]) == ("/data/x", 4096, 8192, "w")
    assert (write["dur"], write["ts"] - rows[0]["ts"], rows[0]["dur"]) == (10_000, 10_000, 30_000)
    run = tailrace.open(tmp_path / "a")
    assert run.info()["written_bytes"] == 8192
    assert run.losses[["cause", "count"]].values.tolist() == [["unfinished", 1]]


def test_ranks_of_two_archives_are_processes_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        archive(tmp_path / name)
    assert sorted(tailrace.open(tmp_path).processes["pid"]) == [0, 0, 1, 1]


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    pytest.importorskip("otf2", reason="the otf2 package is not installed")
    (tmp_path / "traces.otf2").write_bytes(b"OTF2" * 10)
    losses = tailrace.open(tmp_path).losses
    assert losses[["file", "cause"]].values.tolist() == [["traces.otf2", "unreadable"]]


def test_a_run_as_otf2_has_its_calls_and_bytes(tmp_path: Path) -> None:
    """Read back, each call is a region, and each that moved bytes an operation."""
    pytest.importorskip("otf2", reason="the otf2 package is not installed")
    source = Path(__file__).parents[1] / "data" / "dftracer" / "us"
    done = subprocess.run(
        [*TAILRACE, "convert", str(source), str(tmp_path / "o"), "--to", "otf2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "77 events" in done.stderr) == (0, True), done.stderr
    theirs = [row for row in events(source) if row["lines"] > 0]
    ours = events(tmp_path / "o")
    regions = [row for row in ours if row["cat"] == "REGION"]
    assert sorted((r["name"], r["ts"], r["dur"]) for r in regions) == sorted(
        (r["name"], r["ts"], r["dur"]) for r in theirs
    )
    keys = ("name", "cat", "ts", "dur", "path", "size", "dir")
    moved = [tuple(r[key] for key in keys) for r in theirs if r["dir"] and r["name"] != "copy_file_range"]
    read = [tuple(r[key] for key in keys) for r in ours if r["cat"] != "REGION"]
    assert sorted(read) == sorted((name.removeprefix("p"), *rest) for name, *rest in moved)
    assert {row["pid"] for row in ours} == {row["pid"] for row in theirs}


# ---- Chrome's JSON ----


def test_chrome_json(tmp_path: Path) -> None:
    rows = [
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "train.py"}},
        {"ph": "X", "name": "read", "cat": "POSIX", "pid": 5, "tid": 6, "ts": 10.5, "dur": 2.25,
         "args": {"path": "/data/x", "bytes": 100, "stage": "a b,c"}},
        {"ph": "B", "name": "outer", "pid": 5, "tid": 6, "ts": 20},
        {"ph": "B", "name": "inner", "cat": "user", "pid": 5, "tid": 6, "ts": 21},
        {"ph": "E", "pid": 5, "tid": 6, "ts": 22, "args": {"size": 7}},
        {"ph": "E", "pid": 5, "tid": 6, "ts": 30},
        {"ph": "i", "name": "mark", "pid": "5", "tid": "6", "ts": 40, "s": "t"},
        {"ph": "C", "name": "memory", "pid": 5, "ts": 41, "args": {"used": 3}},
        {"ph": "s", "name": "flow", "pid": 5, "tid": 6, "ts": 42, "id": 1},
        {"ph": "E", "pid": 5, "tid": 9, "ts": 50},
        {"ph": "B", "name": "never ends", "pid": 5, "tid": 9, "ts": 51},
    ]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}))
    (tmp_path / "list.json.gz").write_bytes(gzip.compress(json.dumps(rows, indent=1)[:-2].encode() + b","))
    for name in ("trace.json", "list.json.gz"):
        read, outer, inner, mark = events(tmp_path / name)
        assert (read["ts"], read["dur"], read["path"], read["size"], read["dir"]) == (10_500, 2250, "/data/x", 100, "r")
        assert (read["stage"], read["pid"], read["tid"]) == ("a b,c", 5, 6)
        assert (outer["name"], outer["dur"], outer["cat"]) == ("outer", 10_000, "APP")
        assert (inner["name"], inner["dur"], inner["cat"], inner["size"]) == ("inner", 1000, "user", 7)
        assert (mark["name"], mark["dur"], mark["pid"]) == ("mark", 0, 5)
        run = tailrace.open(tmp_path / name)
        losses = dict(run.losses[["cause", "count"]].values.tolist())
        assert losses == {"counters": 1, "unknown": 1, "unfinished": 2}
        assert run.processes["exe"].tolist() == ["train.py"]
        assert run.stages["stage"].dropna().tolist() == ["a b,c"]


def test_our_own_perfetto_export_comes_back(tmp_path: Path) -> None:
    """Files, bytes and times of each event, but for the origin of times."""
    source = largest().parents[1]
    out = tmp_path / "perfetto.json"
    done = subprocess.run(
        [*TAILRACE, "export", str(source), "--to", "perfetto", "-o", str(out)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    exported = [row for row in json.loads(out.read_text())["traceEvents"] if row["ph"] == "X"]
    rows = events(out)
    assert len(rows) == len(exported)
    theirs, ours = events(source), [row for row in rows if row["name"] in ("read", "write", "pread")]
    moved = [row for row in theirs if row["name"] in ("read", "write", "pread")]
    assert sorted((r["name"], r["path"], r["size"], r["dur"]) for r in ours) == sorted(
        (r["name"], r["path"], r["size"], r["dur"]) for r in moved
    )


def chrome(path: Path, *rows: object) -> Path:
    """A trace of these events."""
    path.write_text(json.dumps({"traceEvents": rows}))
    return path


def test_an_event_that_is_damaged_costs_that_event(tmp_path: Path) -> None:
    row = {"ph": "X", "name": "read", "cat": "POSIX", "pid": 5, "tid": 6, "ts": 1, "dur": 2}
    odd = "\ud800"
    trace = chrome(
        tmp_path / "a.json",
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": f"p{odd}"}},
        {**row, "name": f"n{odd}", "cat": f"c{odd}", "args": {"path": f"/f{odd}", "stage": f"s{odd}"}},
        {**row, "ts": 2**53 - 1, "dur": 2**53 - 1},
        *({**row, "ts": ts} for ts in (float("nan"), float("inf"), 2**70, None, "soon")),
        {**row, "dur": -(2**60)},
        {**row, "ts": 2, "args": {"ret": -1, "size": -3, "errno": 9, "task": "x" * 100_000}},
        {**row, "ts": 3, "args": {"ret": -(2**70), "offset": True}},
    )
    first, failed, last = events(trace)
    assert (first["name"], first["cat"], first["path"], first["stage"]) == ("n\ufffd", "c\ufffd", "/f\ufffd", "s\ufffd")
    assert (failed["ret"], failed["size"], failed["errno"], last["ret"]) == (-1, None, 9, None)
    assert failed["task"] == "x" * 1024
    run = tailrace.open(trace)
    assert run.losses[["cause", "count"]].values.tolist() == [["damaged", 7]]
    assert run.processes["exe"].tolist() == ["p\ufffd"]


def test_pids_and_tids_that_are_texts(tmp_path: Path) -> None:
    """And numbers that no process has: each keeps to itself."""
    pairs = [("Spans", "a"), ("Spans", "b"), ("Traces", "a"), (1, 2**40), (1, 2**41), ("1", -1)]
    begun = [
        {"ph": "B", "name": f"{pid} {tid}", "pid": pid, "tid": tid, "ts": at} for at, (pid, tid) in enumerate(pairs)
    ]
    ended = [{"ph": "E", "pid": pid, "tid": tid, "ts": 10 + at} for at, (pid, tid) in enumerate(pairs)]
    rows = events(chrome(tmp_path / "a.json", *begun, *ended))
    assert [row["name"] for row in rows] == [f"{pid} {tid}" for pid, tid in pairs]
    assert {row["dur"] for row in rows} == {10_000}, "the stacks of threads stay apart"
    pids = [row["pid"] for row in rows]
    assert pids[0] == pids[1] != pids[2] and pids[3:] == [1, 1, 1] and len(set(pids)) == 3
    assert len({row["tid"] for row in rows}) == 5
    programs = tailrace.open(tmp_path / "a.json").processes.set_index("pid")["exe"]
    assert (programs[pids[0]], programs[pids[2]]) == ("Spans", "Traces")


def test_other_json_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "package", "version": 1}')
    (tmp_path / "b.json").write_text('{"traceEvents": 7}')
    with pytest.raises(NotARunError, match="OTF2"):
        tailrace.open(tmp_path / "a.json")
    with pytest.raises(TailraceError, match="list of traceEvents"):
        tailrace.open(tmp_path / "b.json")


# ---- commands ----


@pytest.mark.parametrize("words", [["report"], ["query", "--by", "path"], ["graph"], ["compare"], ["info"]])
def test_commands_take_such_a_trace(words: list[str]) -> None:
    command, *options = words
    paths = [str(RECORDER)] * (2 if command == "compare" else 1)
    done = subprocess.run([*TAILRACE, command, *paths, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "prog" in done.stdout or "data.bin" in done.stdout or command in ("compare", "info")
