"""DFTracer's traces of every age: counts and sums are those of a plain script over the same lines and of its own tools.

tests/data/dftracer has traces that DFTracer 2.2 made of program.c there (parent and child), by unit of times,
aggregated, and without metadata.
"""

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support import reader, run_schema
from support.commands import TAILRACE
from tailrace.analyzer.foreign import conversion
from tailrace.base import ownership
from tailrace.errors import NotARunError, QueryError

DATA = Path(__file__).parents[1] / "data" / "dftracer"
CM1 = Path(__file__).parents[3] / "shared" / "data" / "dftracer-cm1"
PEER = os.environ.get("DFTRACER_PYTHON", "")
ROW = {"id": 3, "name": "read", "cat": "POSIX", "pid": 5, "tid": 6, "ts": 10, "dur": 2, "ph": 1}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tailrace"


def lines(directory: Path) -> list[dict[str, Any]]:
    """The objects of all lines of a trace."""
    texts = [gzip.decompress(path.read_bytes()) for path in sorted(directory.rglob("*.pfw.gz"))]
    stripped = [line.strip().rstrip(b",") for text in texts for line in text.splitlines()]
    return [json.loads(line) for line in stripped if line.startswith(b"{")]


def trace(directory: Path, *rows: dict[str, Any] | str, name: str = "a.pfw") -> Path:
    """A file of these lines."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return directory


def meta(name: str, value: object, text: str, pid: int = 5) -> dict[str, Any]:
    return {"name": name, "cat": "dftracer", "pid": pid, "tid": pid, "ph": 4, "args": {"name": text, "value": value}}


def call(name: str, ts: int = 10, cat: str = "POSIX", pid: int = 5, **args: Any) -> dict[str, Any]:
    return {**ROW, "name": name, "cat": cat, "ts": ts, "pid": pid, "args": args}


def events(path: Path, **where: Any) -> list[dict[str, Any]]:
    frame = tailrace.open(path).events(**where).compute().astype(object)
    rows: list[dict[str, Any]] = frame.where(frame.notna(), None).sort_values("ts").to_dict("records")
    return rows


# ---- what DFTracer 2.2 wrote ----


@pytest.mark.parametrize("kind", ["us", "ns", "ms"])
def test_times_have_their_unit(kind: str) -> None:
    unit = {"us": 1000, "ns": 1, "ms": 1_000_000}[kind]
    calls = [line for line in lines(DATA / kind) if line["ph"] == 1]
    run = tailrace.open(DATA / kind)
    frame = run.events(columns=["ts", "dur", "pid", "lines"]).compute()
    frame = frame[frame["lines"] > 0]
    assert sorted(zip(frame["pid"], frame["ts"], frame["dur"], strict=True)) == sorted(
        (c["pid"], c["ts"] * unit, c["dur"] * unit) for c in calls
    )
    info = run.info()
    assert (info["events"], info["t0_ns"]) == (len(calls), min(c["ts"] for c in calls) * unit)
    assert (info["foreign"]["format"], info["losses"]) == ("dftracer", [])


def test_calls_have_the_meaning_that_ours_have() -> None:
    """Names relative to the working directory, of a child by its parent's hashes; waits, copies and renames."""
    rows = events(DATA / "us")
    by_name = {row["name"]: row for row in rows}
    assert {row["path"] for row in rows if row["name"] == "write"} == {"/srv/example/sub/data.bin"}
    moved = by_name["rename"]
    assert (moved["path"], moved["path2"]) == ("/srv/example/sub/copy.bin", "/srv/example/sub/moved.bin")
    ends = {row["dir"]: row for row in rows if row["name"] == "copy_file_range"}
    sizes = {way: (row["size"], row["count"], row["lines"]) for way, row in ends.items()}
    assert sizes == {"r": (8192, 8192, 1), "w": (8192, 8192, 0)}
    wait, fork = by_name["wait"], by_name["fork"]
    assert (wait["cat"], fork["cat"], wait["ret"] == fork["ret"] > 0) == ("PROCESS", "PROCESS", True)
    (read,) = [row for row in rows if row["pid"] == wait["ret"] and row["name"] == "read"]
    assert (read["path"], read["file"]) == ("/srv/example/sub/copy.bin", "path:/srv/example/sub/copy.bin")
    written, got = (row for row in rows if row["name"] in ("fwrite", "fread"))
    assert (written["size"], written["ret"], got["size"], got["count"]) == (1600, 100, 1600, 1600)
    assert {row["offset"] for row in rows if row["name"] == "pread"} == set(range(0, 10_000, 1000))
    assert by_name["fopen"]["flags"] in (0o1101, 0)
    run = tailrace.open(DATA / "us")
    program = run.processes.set_index("pid").loc[fork["pid"]]
    assert (program["exe"], program["cwd"], program["argv"]) == ("prog", "/srv/example", ["./prog", "20"])
    assert run.info()["read_bytes"] == sum(row["size"] for row in rows if row["dir"] == "r" and row["size"] is not None)


def test_aggregated_events_stand_for_their_calls() -> None:
    rows = [line for line in lines(DATA / "agg") if line["ph"] == 3]
    single = [line for line in lines(DATA / "agg") if line["ph"] == 1]
    run = tailrace.open(DATA / "agg")
    assert run.info()["events"] == sum(row["args"]["dft_cnt"] for row in rows) + len(single) > len(rows)
    frame = run.events(columns=["name", "calls", "size", "dur", "ts", "span"]).compute()
    reads = [row["args"] for row in rows if row["name"] == "read"]
    mine = frame[frame["name"] == "read"]
    assert mine["calls"].sum() == sum(args["dft_cnt"] for args in reads)
    assert mine["size"].sum() == sum(args.get("ret_sum", args.get("ret")) for args in reads)
    assert mine["dur"].sum() == sum(args.get("dur_sum", args.get("dur")) for args in reads) * 1000
    assert frame["ts"].min() >= min(line["ts"] for line in single) * 1000, "an interval begins with its process"


def test_a_trace_without_metadata_says_so() -> None:
    run = tailrace.open(DATA / "default")
    calls = [line for line in lines(DATA / "default") if line["ph"] == 1]
    assert run.info()["events"] == len(calls)
    assert run.losses["cause"].unique().tolist() == ["no_arguments"]
    assert run.losses["count"].sum() == sum(line["cat"] != "dftracer" for line in calls)
    assert any("without file and bytes" in text for text in run.problems)
    assert run.info()["hosts"] == ["vm"]


@pytest.mark.skipif(not PEER, reason="DFTRACER_PYTHON names no Python with DFTracer")
@pytest.mark.parametrize("kind", ["us", "agg", "default"])
def test_counts_are_those_of_its_own_tools(kind: str, tmp_path: Path) -> None:
    counted = subprocess.run(
        [str(Path(PEER).with_name("dftracer_event_count")), "-d", str(DATA / kind), "--index-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    total = int(counted.stdout.split()[-1])
    # Its tool counts lines that are events.
    assert total == sum(line["ph"] in (1, 3) for line in lines(DATA / kind)), counted.stderr


@pytest.mark.skipif(not CM1.is_dir(), reason="the CM1 sample of DFTracer is not beside the repository")
def test_cm1_sample() -> None:
    run = tailrace.open(CM1)
    frame = run.events(columns=["name", "ts", "dur", "path", "host", "size", "dir"]).compute()
    calls = [line for line in lines(CM1) if line["ph"] == "X"]
    assert len(frame) == len(calls) == 46949
    assert frame["name"].value_counts()["write"] == 18608 and frame["host"].unique().tolist() == ["corona173"]
    assert frame["name"].value_counts()["fopen"] == sum(c["name"] in ("fopen", "fopen64") for c in calls)
    elements = [c["args"] for c in calls if c["name"] == "fread"]
    assert frame.loc[frame["name"] == "fread", "size"].sum() == sum(a["ret"] * a["size"] for a in elements) > 0
    for name in ("read", "write"):
        done = sum(max(c["args"]["ret"], 0) for c in calls if c["name"] == name)
        assert frame.loc[frame["name"] == name, "size"].sum() == done
    assert frame["dur"].sum() == sum(c["dur"] for c in calls) * 1000
    assert set(run.losses["cause"]) == {"ambiguous"}


# ---- older and odd traces ----


def dftracer_lines(version: int) -> bytes:
    ph = {1: ('"X"', '"M"'), 2: ("1", "4")}[version]
    rows = [
        '{"id":1,"name":"HH","cat":"dftracer","pid":5,"tid":6,"ph":M,"args":{"name":"h1","value":9}}',
        '{"id":2,"name":"FH","cat":"dftracer","pid":5,"tid":6,"ph":M,"args":{"name":"/f","value":3}}',
        '{"id":3,"name":"read","cat":"POSIX","pid":5,"tid":6,"ts":10,"dur":2,"ph":X,'
        '"args":{"hhash":9,"fhash":3,"ret":4,"count":8}}',
        '{"id":4,"name":"fwrite","cat":"STDIO","pid":5,"tid":6,"ts":20,"dur":3,"ph":X,'
        '"args":{"hhash":9,"fhash":3,"ret":2,"count":5,"size":16}}',
    ]
    text = "\n".join(rows).replace('"ph":X', f'"ph":{ph[0]}').replace('"ph":M', f'"ph":{ph[1]}')
    return (("[\n" if version == 1 else "") + text + "\n" + ("]" if version == 1 else "")).encode()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", ["plain", "gzip", "members"])
def test_forms_of_files(tmp_path: Path, version: int, form: str) -> None:
    text = dftracer_lines(version)
    half = text.index(b"\n", 200)
    data = {
        "plain": text,
        "gzip": gzip.compress(text),
        "members": gzip.compress(text[:half]) + gzip.compress(text[half:]),
    }
    place = tmp_path / "trace-of-theirs"
    place.mkdir()
    file = place / ("x.pfw" if form == "plain" else "x.pfw.gz")
    file.write_bytes(data[form])
    first, second = events(place)
    assert (first["name"], first["ts"], first["dur"], first["host"], first["path"]) == (
        "read",
        10_000,
        2000,
        "h1",
        "/f",
    )
    assert (first["size"], first["count"], first["dir"], first["file"]) == (4, 8, "r", "path:/f")
    assert (second["size"], second["count"], second["dir"], second["pid"], second["tid"]) == (32, 80, "w", 5, 6)
    assert list(place.iterdir()) == [file], "nothing is written beside another tracer's trace"
    run = tailrace.open(place)
    info = run.info()
    assert (info["events"], info["t0_ns"], info["t1_ns"], info["read_bytes"]) == (2, 10_000, 23_000, 4)
    assert len(run.events(columns=["name"], host="h1", pid=5).compute()) == 2
    with pytest.raises(QueryError):
        run.events(stage="a")
    assert events(file) == [first, second], "a file is a trace, too"


def test_version_0_has_strings_and_plain_names(tmp_path: Path) -> None:
    """As in DFTracer's own examples."""
    row = """ {"id":"0","name":"open","cat":"POSIX","pid":"13","tid":"26","ts":"1698080323775554","dur":"141","ph":"X",
        "args":{"hostname":"corona237","fname":"/p/a.bat","ret":18,"flags":66}}""".replace("\n", "")
    (opened,) = events(trace(tmp_path, "[", row))
    assert (opened["ts"], opened["dur"], opened["pid"], opened["tid"]) == (1698080323775554000, 141_000, 13, 26)
    assert (opened["host"], opened["path"], opened["flags"], opened["ret"]) == ("corona237", "/p/a.bat", 66, 18)


def test_files_in_folders_share_names(tmp_path: Path) -> None:
    """A child's file uses the names of its parent's; two files that differ on a name give it to none but themselves."""
    trace(tmp_path, meta("FH", "aa", "/shared"), meta("FH", "bb", "/one"), call("stat", fhash="bb"), name="n1/a.pfw")
    trace(tmp_path, meta("FH", "bb", "/two"), call("stat", 20, fhash="bb"), name="n2/deep/b.pfw")
    trace(tmp_path, call("stat", 30, fhash="aa"), call("stat", 40, fhash="bb"), name="n3/c.pfw")
    assert [row["path"] for row in events(tmp_path)] == ["/one", "/two", "/shared", None]


def test_relative_names_follow_the_working_directory(tmp_path: Path) -> None:
    start = {**call("start", 1, "dftracer", cwd="d1"), "ts": 1}
    rows = [meta("FH", "d1", "/data"), meta("FH", "d2", "sub"), meta("FH", "f", "./x"), meta("FH", "g", "/abs")]
    calls = [call("stat", 2, fhash="f"), call("chdir", 3, fhash="d2", ret=0), call("stat", 4, fhash="f")]
    trace(tmp_path, *rows, start, *calls, call("stat", 5, fhash="g"), call("stat", 6, pid=9, fhash="f"))
    paths = [row["path"] for row in events(tmp_path) if row["name"] == "stat"]
    assert paths == ["/data/x", "/data/sub/x", "/abs", "./x"]


def test_a_failed_call_met_no_file(tmp_path: Path) -> None:
    trace(tmp_path, call("open", fname="/gone", flags=0o1101, ret=-1), call("open", 20, fname="/there", ret=3))
    gone, there = events(tmp_path)
    assert (gone["path"], gone["file"], there["file"]) == ("/gone", None, "path:/there")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    collision = meta("FH", 3, "/g")
    trace(tmp_path, dftracer_lines(1).decode().replace("]", json.dumps(collision)), '{"name":"re')
    (tmp_path / "b.pfw.gz").write_bytes(gzip.compress(dftracer_lines(1) * 50)[:-40])
    (tmp_path / "c.pfw").write_bytes(b"something else\n")
    trace(tmp_path, {**ROW, "ph": 2}, {**ROW, "ph": "B"}, call("stat"), name="d.pfw")
    trace(tmp_path, meta("CM", "FORTNIGHTS", "time_metric"), call("stat"), name="e.pfw")
    run = tailrace.open(tmp_path)
    losses = {(row.file, row.cause): row.count for row in run.losses.itertuples()}
    torn = losses.pop(("b.pfw.gz", "torn"))
    losses.pop(("b.pfw.gz", "not_json"), None)  # the line that the tear went through
    assert losses == {
        ("a.pfw", "ambiguous"): 2,
        ("a.pfw", "not_json"): 1,
        ("c.pfw", "foreign"): 1,
        ("d.pfw", "counters"): 1,
        ("d.pfw", "unknown"): 1,
        ("e.pfw", "unreadable"): 1,
    }
    assert torn == 1
    assert "FORTNIGHTS" in run.losses.set_index("file")["problem"]["e.pfw"]
    frame = run.events(columns=["path", "ts"]).compute()
    assert len(frame) == run.info()["events"]
    assert not run_schema.faults(run.meta)


def test_values_that_no_column_holds(tmp_path: Path) -> None:
    head = '"cat":"POSIX","ph":"X","name":"read"'
    trace(
        tmp_path,
        f'{{{head},"pid":null,"ts":1e999,"dur":"NaN","args":{{"ret":{2**70}}}}}',
        f'{{{head},"pid":{2**70},"tid":"x","ts":{2**62},"dur":{2**62},"args":{{"ret":1,"offset":{-(2**70)}}}}}',
        f'{{{head},"pid":1,"tid":1,"ts":true,"dur":"3","args":{{"stage":"\\ud800\\u0001","ret":"Infinity"}}}}',
        f'{{{head},"pid":1,"tid":1,"ts":NaN,"args":{{"ret":1}}}}',
        '{"a":' * 100_000,
    )
    run = tailrace.open(tmp_path)
    assert run.info()["events"] == 3 and run.losses[["cause", "count"]].values.tolist() == [["not_json", 2]]
    frame = run.events(columns=["pid", "tid", "ts", "dur", "size", "offset", "stage"]).compute().sort_values("ts")
    assert frame["ts"].tolist() == [0, 0, 2**63 - 1]
    assert sorted(frame["pid"]) == [0, 1, 2**31 - 1] and frame["tid"].max() == 1
    assert sorted(frame["size"].dropna()) == [1, 2**63 - 1] and frame["offset"].dropna().tolist() == [-(2**63)]
    assert frame["stage"].dropna().tolist() == ["\ufffd\x01"]


# ---- what is kept ----


def test_a_second_command_reads_what_the_first_one_kept(tmp_path: Path, cache: Path) -> None:
    place = trace(tmp_path / "t", call("stat", fname="/x"))
    assert tailrace.open(place).info()["events"] == 1
    (kept,) = cache.glob("foreign-*")
    (made,) = kept.glob("trace/*")
    before = made.stat()
    assert tailrace.open(place).info()["events"] == 1
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (kept / "tailrace.db").is_file(), "so is its catalogue"
    trace(place, call("stat", fname="/x"), call("stat", 20, fname="/y"))
    assert tailrace.open(place).info()["events"] == 2, "a trace that changed is read again"
    assert kept.stat().st_mode & 0o077 == 0


def remove_a_block(kept: Path) -> None:
    path = max((kept / "trace").iterdir(), key=lambda path: path.stat().st_size)
    offset, length, _ = reader.scan_blocks(str(path))[0][0]
    data = path.read_bytes()
    path.write_bytes(data[:offset] + data[offset + length :])


def spoil_the_losses(kept: Path) -> None:
    description = json.loads((kept / "run.json").read_bytes())
    (kept / "run.json").write_text(json.dumps({**description, "foreign": {}}))


@pytest.mark.parametrize(
    "damage",
    [lambda kept: next((kept / "trace").iterdir()).unlink(), remove_a_block, spoil_the_losses, shutil.rmtree],
)
def test_what_was_kept_and_is_not_whole_any_more_is_made_again(
    tmp_path: Path, cache: Path, damage: Callable[[Path], None]
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(DATA / "us", trace)
    (trace / "torn.pfw").write_bytes(b"{not json\n")
    before = tailrace.open(trace)
    rows, losses = len(before.read(["name"])), before.losses.to_dict("list")
    (kept,) = cache.glob("foreign-*")
    damage(kept)
    again = tailrace.open(trace)
    assert len(again.read(["name"])) == rows
    assert again.losses.to_dict("list") == losses
    assert list(cache.glob("foreign-*")) == [kept] and not list(cache.glob(".foreign-*"))


def test_without_a_cache_of_its_own_the_conversion_serves_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "private_cache", lambda: None)
    place = trace(tmp_path / "t", call("stat", fname="/x"))
    assert tailrace.open(place).info()["events"] == 1
    assert [row["path"] for row in events(place)] == ["/x"]


def test_convert_writes_a_run_of_ours(tmp_path: Path) -> None:
    def convert(*words: object) -> subprocess.CompletedProcess[str]:
        command = [*TAILRACE, "convert", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = convert(DATA / "us", tmp_path / "run")
    assert (done.returncode, "77 events" in done.stderr) == (0, True), done.stderr
    run = tailrace.open(tmp_path / "run")
    assert run.path == tmp_path / "run" and run.info()["events"] == 77
    assert not run_schema.faults(run.meta)
    theirs = tailrace.open(DATA / "us").events().compute().sort_values(["pid", "ts"], ignore_index=True)
    pd.testing.assert_frame_equal(run.events().compute().sort_values(["pid", "ts"], ignore_index=True), theirs)
    again = convert(DATA / "us", tmp_path / "run")
    assert (again.returncode, "exists" in again.stderr) == (2, True), again.stderr
    ours = convert(tmp_path / "run", tmp_path / "other")
    assert (ours.returncode, "is a run of tailrace" in ours.stderr) == (2, True), ours.stderr
    nothing = convert(tmp_path / "cache", tmp_path / "other")
    assert (nothing.returncode, "a trace of DFTracer" in nothing.stderr) == (1, True), nothing.stderr
    assert not (tmp_path / "other").exists()


def test_what_is_no_trace_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    for path in (tmp_path / "notes.txt", tmp_path):
        with pytest.raises(NotARunError, match="a trace of DFTracer"):
            tailrace.open(path)
    assert conversion.find(tmp_path) is None


def test_a_folder_of_our_runs_is_no_trace(tmp_path: Path) -> None:
    conversion.convert(conversion.Found(DATA / "us", *found_of(DATA / "us")), tmp_path / "runs" / "a")
    with pytest.raises(NotARunError):
        tailrace.open(tmp_path / "runs")


def found_of(path: Path) -> Any:
    found = conversion.find(path)
    assert found is not None
    return found.format, found.files
