"""The native reader against the plain-Python oracle and against docs/trace-format.md."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import reader
from support import trace_writer as tw
from support.both_readers import MOUNTS, both, native, one, oracle, write
from tailrace import _native
from tailrace.analyzer.store import schema
from tailrace.errors import QueryError, TraceError

# ---- columns ----


def test_native_has_the_columns_of_the_schema() -> None:
    assert _native.columns() == [(c.name, c.kind, c.nullable) for c in schema.COLUMNS]


def test_every_field_of_an_event(tmp_path: Path) -> None:
    names = [
        tw.host_line(),
        tw.file_line("0123456789abcdef", "/data/in", blksize=65536),
        tw.file_line("f" * 16, "/data/out", ino=2),
        tw.stack_line("00000000000000ab", "/a.py:1 (f)\n/lib/libc.so.6+0x10 [ab]"),
    ]
    args = {"ns": 789, "fhash": "0123456789abcdef", "fhash2": "f" * 16, "offset": 5, "count": 9, "size": 4}
    args |= {"ret": -1, "errno": 28, "dir": "rw", "flags": 577, "prot": 3, "calls": 12, "region": "main"}
    args |= {"workflow": "w", "stage": "s", "task": "t", "job": "j", "rank": "0", "tag.try": "1"}
    args |= {"offset2": 77, "object": '/g/"d"\n', "stack": "00000000000000ab"}
    row = one(tmp_path, *names, tw.event("copy_file_range", tw.T0_US + 1, 1.204, **args))
    assert row == {
        "stack": "/a.py:1 (f)\n/lib/libc.so.6+0x10 [ab]",
        "name": "copy_file_range",
        "cat": "POSIX",
        "ts": (tw.T0_US + 1) * 1000 + 789,
        "dur": 1204,
        "host": tw.HOST,
        "pid": 7,
        "start": "187a",
        "tid": 7,
        "path": "/data/in",
        "file": "node-1:254:1:1:5",
        "ftype": "reg",
        "blksize": 65536,
        "path2": "/data/out",
        "file2": "node-1:254:1:2:5",
        "object": '/g/"d"\n',
        "offset": 5,
        "offset2": 77,
        "size": 4,
        "count": 9,
        "ret": -1,
        "errno": 28,
        "dir": "rw",
        "flags": 577,
        "prot": 3,
        "calls": 12,
        "workflow": "w",
        "stage": "s",
        "task": "t",
        "job": "j",
        "rank": "0",
        "region": "main",
        **dict.fromkeys(["span", "last", "followed", "placed", "unaligned", "sizes", "durs", "pieces", "ahead"]),
        **dict.fromkeys(["ranks", "dims", "chunk", "points", "selection", "blocks", "slab", "transfer"]),
        **dict.fromkeys(["category", "kind", "region_id", "parent_id", "epoch", "step", "keys", "open"]),
        **dict.fromkeys(["run_ns", "ready_ns", "ready_of_ns"]),
        **dict.fromkeys(["timeout_ns", "descriptors", "thread", "at_once", "holder"]),
        "lines": 1,
        "tag.try": "1",
    }


def test_absent_is_null_and_calls_is_one(tmp_path: Path) -> None:
    row = one(tmp_path, tw.event("close"))
    present = {key for key, value in row.items() if value is not None}
    assert present == {"name", "cat", "ts", "dur", "host", "pid", "start", "tid", "calls", "lines"}
    assert row["calls"] == row["lines"] == 1 and row["host"] == tw.HOST


def test_lists_are_read_without_blanks(tmp_path: Path) -> None:
    args = {"lines": 9, "span": 7, "last": 6, "followed": 5, "sizes": [13, 9], "pieces": [4096, [0, 1, 2, [-1]], []]}
    row = one(tmp_path, json.dumps(tw.event(**args), separators=(" ,\t", " : ")).encode())
    assert {name: row[name] for name in args} == {**args, "sizes": "[13,9]", "pieces": "[4096,[0,1,2,[-1]],[]]"}


@pytest.mark.parametrize("value", ["[1]", 1, ["a"], [1.5], [None], {"a": 1}, True])
def test_a_list_has_whole_numbers_only(tmp_path: Path, value: Any) -> None:
    data = tw.block([tw.event(sizes=value)], {"events": 1, "t0": 0, "t1": 0, "contexts": [""]})
    path = write(tmp_path, data)
    for read in (native, oracle):
        with pytest.raises(TraceError, match="byte 0"):
            read(path)


@pytest.mark.parametrize(
    ("name", "args", "completed"),
    [
        ("pread", {"size": 5}, {"ret": 5, "count": 5, "dir": "r"}),
        ("pread", {"size": 5, "count": 9}, {"ret": 5, "count": 9, "dir": "r"}),
        ("pread", {"size": 0, "count": 9, "errno": 9}, {"ret": -1, "count": 9, "dir": "r"}),
        ("getline", {"size": 5, "count": None, "dir": "r"}, {"ret": 5, "count": None, "dir": "r"}),
        ("fputc", {"size": 5, "calls": 5, "dir": "w"}, {"ret": None, "count": None, "dir": "w"}),
        ("fwrite", {"size": 6, "ret": 3}, {"ret": 3, "count": 6, "dir": "w"}),
        ("H5Dread", {"count": 7, "dir": "r", "ret": 0}, {"ret": 0, "count": 7, "dir": "r"}),
        ("send", {"size": 1, "dir": None}, {"ret": 1, "count": 1, "dir": None}),
        ("stat", {"errno": 2}, {"ret": -1, "count": None, "dir": None}),
        ("readdir", {"ret": 1}, {"ret": 1, "count": None, "dir": None}),
        ("read", {"size": "5"}, {"ret": None, "count": None, "dir": None}),
    ],
)
def test_what_a_line_of_version_2_leaves_out(
    tmp_path: Path, name: str, args: dict[str, Any], completed: dict[str, Any]
) -> None:
    line = {**tw.event(name), "args": args}
    header = {"events": 1, "t0": 0, "t1": 0, "contexts": [""], "read": 0, "written": 0}
    for columns in (None, ["dir", "ret", "count"], ["count"], ["ret"], ["dir", "name"]):
        if isinstance(args.get("size"), str) and columns is None:
            continue  # no column takes a text as a size
        path = write(tmp_path, tw.block([tw.dump(line)], {**header, "v": 2}))
        (row,) = both(path, columns)
        assert {key: row[key] for key in completed if key in row} == {k: v for k, v in completed.items() if k in row}
        path = write(tmp_path, tw.block([tw.dump(line)], {**header, "v": 1}))
        (row,) = both(path, columns)
        assert [row[key] for key in completed if key in row] == [args.get(key) for key in completed if key in row]


VERSION_1 = Path(__file__).parents[1] / "data" / "version_1" / "trace" / "vm-401-18ea5f013d324e95.pfw.gz"


def test_a_trace_of_version_1_reads_as_ever_and_as_its_version_2(tmp_path: Path) -> None:
    """The trace is of a Python program, by a core that wrote version 1."""
    rows = both(str(VERSION_1))
    assert len(rows) == 742
    moved = {way: sum(r["size"] for r in rows if r["dir"] == way) for way in ("r", "w", "rw")}
    assert moved == {"r": 392840, "w": 33, "rw": 15}
    blocks, *_ = reader.scan_blocks(str(VERSION_1))
    data = b""
    for offset, length, text in blocks:
        header = json.loads(text)
        assert header["v"] == 1
        lines = [json.loads(line) for line in reader.inflate(str(VERSION_1), (offset, length))[1].splitlines()]
        assert all(line["args"]["hhash"] == "4049c22c" for line in lines if line["ph"] == "X")
        lean = [tw.dump(tw.lean(line) if line["ph"] == "X" else line) for line in lines]
        data += tw.block(lean, {**{key: header[key] for key in header if key not in ("comp", "raw")}, "v": 2})
    assert both(write(tmp_path, data)) == rows


def test_only_requested_columns_in_that_order(tmp_path: Path) -> None:
    row = one(tmp_path, tw.event(size=3, **{"tag.b": "x"}), columns=["size", "tag.b", "tag.none", "name"])
    assert list(row.items()) == [("size", 3), ("tag.b", "x"), ("tag.none", None), ("name", "read")]


@pytest.mark.parametrize("columns", [["no_such"], ["tag."], ["name", "name"]])
def test_unknown_or_doubled_column_is_refused(tmp_path: Path, columns: list[str]) -> None:
    path = write(tmp_path, tw.block([tw.event()]))
    with pytest.raises(ValueError, match="column"):
        native(path, columns)


def test_oracle_refuses_an_unknown_column() -> None:
    with pytest.raises(QueryError, match="no_such"):
        schema.column("no_such")


def test_no_blocks_is_no_rows() -> None:
    batch = pa.record_batch(_native.read_files([], ["name", "ts", "offset"]))
    assert batch.num_rows == 0 and batch.schema.equals(schema.arrow_schema(["name", "ts", "offset"]))


def test_a_batch_outlives_its_reader_and_can_be_taken_twice(tmp_path: Path) -> None:
    path = write(tmp_path, tw.block([tw.event(stage=f"s{i % 3}", size=i) for i in range(500)]))
    ((offset, length, _),) = _native.scan_blocks(path)[0]
    batch = _native.read_blocks(path, [(offset, length)], ["stage", "size"])
    first, second = pa.record_batch(batch), pa.record_batch(batch)
    stages = second.column("stage")
    del batch, first, second
    assert stages.to_pylist() == [f"s{i % 3}" for i in range(500)]


# ---- names and identities ----


def test_identity_by_host_and_device(tmp_path: Path) -> None:
    lines = [tw.file_line("a", "/data/x", btime=None), tw.event(fhash="a")]
    assert one(tmp_path, *lines)["file"] == "node-1:254:1:1:"


@pytest.mark.parametrize(
    ("host", "dev", "path", "identity"),
    [
        ("node-1", "0:52", "/net/x", "nas:/export:/::1:5"),
        ("node-1", "0:53", "/net/x", "node-1:0:53:1:5"),  # the device number differs
        ("node-1", "0:60", "/net/scratch/x", "node-1:0:60:1:5"),
        ("node-2", "0:99", "/net/x", "nas:/export:/::1:5"),  # device numbers are the host's own
        ("node-2", "0:99", "/net/scratch/x", "node-2:0:99:1:5"),
        ("node-2", "0:99", "/network/x", "node-2:0:99:1:5"),
        ("node-2", "8:1", "/net/x", "node-2:8:1:1:5"),
        ("pod-7", "254:1", "/x", "node-1:254:1:1:5"),
        ("pod-7", "0:52", "/data/x", "nas:/export:/::1:5"),
    ],
)
def test_identity_on_network_file_systems(tmp_path: Path, host: str, dev: str, path: str, identity: str) -> None:
    data = tw.block([tw.file_line("a", path, dev=dev), tw.event(fhash="a")], {"host": host})
    (row,) = both(write(tmp_path, data), ["file"], MOUNTS)
    assert row["file"] == identity


@pytest.mark.parametrize("kind", ["none", "anon"])
def test_no_identity_where_there_is_no_file(tmp_path: Path, kind: str) -> None:
    row = one(tmp_path, tw.file_line("a", "/gone", kind=kind), tw.event("open", fhash="a"))
    assert (row["path"], row["file"], row["ftype"]) == ("/gone", None, kind)


def test_names_are_valid_for_one_block_only(tmp_path: Path) -> None:
    first = tw.block([tw.file_line("a", "/one"), tw.event(fhash="a"), tw.event(fhash="a")])
    second = tw.block([tw.event(fhash="a")])
    third = tw.block([tw.file_line("a", "/three"), tw.event(fhash="a")])
    rows = both(write(tmp_path, first + second + third), ["path"])
    assert [row["path"] for row in rows] == ["/one", "/one", None, "/three"]


def test_a_late_name_is_used_from_its_line_on(tmp_path: Path) -> None:
    lines = [
        tw.event(fhash="a"),
        tw.file_line("a", "/one"),
        tw.event(fhash="a"),
        tw.file_line("a", "/two"),
        tw.event(fhash="a"),
    ]
    rows = both(write(tmp_path, tw.block(lines)), ["path"])
    assert [row["path"] for row in rows] == [None, "/one", "/two"]


def test_more_names_than_any_table_starts_with(tmp_path: Path) -> None:
    lines = [
        line for i in range(1500) for line in (tw.file_line(f"{i:016x}", f"/f/{i}", ino=i), tw.event(fhash=f"{i:016x}"))
    ]
    rows = both(write(tmp_path, tw.block(lines)), ["path", "file"])
    assert [row["path"] for row in rows] == [f"/f/{i}" for i in range(1500)]


def test_path_of_execve_is_its_path(tmp_path: Path) -> None:
    assert one(tmp_path, tw.event("execve", cat="PROCESS", path="/bin/ls"))["path"] == "/bin/ls"


def test_unused_names_do_not_appear(tmp_path: Path) -> None:
    lines = [tw.host_line(), tw.file_line("a", "/used"), tw.file_line("b", "/unused"), tw.event(fhash="a")]
    batch = native(write(tmp_path, tw.block(lines)), ["name", "cat", "path", "host"])
    assert [batch.column(i).dictionary.to_pylist() for i in range(4)] == [["read"], ["POSIX"], ["/used"], [tw.HOST]]


# ---- odd lines ----


@pytest.mark.parametrize(
    ("spelled", "path"),
    [
        (rb'"a\"b\\c\/\b\f\n\r\t"', 'a"b\\c/\b\f\n\r\t'),
        (rb'"\u00e9\u20ac"', "é€"),
        (rb'"\ud83d\ude00!"', "😀!"),
        (rb'"\ud83dx\ude00"', "\ufffdx\ufffd"),  # lone surrogates
        (rb'"\ud83d\u0041"', "\ufffdA"),
        (b'"\xff\xfe ok"', "\ufffd\ufffd ok"),
        (b'"\xe2\x82 cut"', "\ufffd cut"),
        (b'"\xf0\x9f\x98\x80"', "😀"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),  # a surrogate in UTF-8
        ('"' + "x" * 5000 + '"', "x" * 5000),
        (b'""', ""),
    ],
)
def test_strings(tmp_path: Path, spelled: bytes | str, path: str) -> None:
    spelled = spelled.encode() if isinstance(spelled, str) else spelled
    line = tw.dump(tw.event(fhash="a"))
    name = tw.dump(tw.file_line("a", "@")).replace(b'"@"', spelled)
    row = one(tmp_path, name, line, columns=["path"])
    assert row["path"] == path


def test_blanks_key_order_and_unknown_keys(tmp_path: Path) -> None:
    line = (
        b' \t{ "new" : [ {"a":[1,{}]} , null , true , "x\\"}" ] ,"args" : { "deep":{"size":5}, '
        b'"size" : 12 , "stage":"s" }\r'
        b',"tid":2 , "dur" :3,"ts":5.0005, "ph":"X","pid": 1,"cat":"C" , "name":"n"} '
    )
    row = one(tmp_path, line, columns=["name", "cat", "ts", "dur", "pid", "tid", "size", "stage"])
    assert row == {"name": "n", "cat": "C", "ts": 5000, "dur": 3000, "pid": 1, "tid": 2, "size": 12, "stage": "s"}


def test_the_same_key_with_and_without_blanks(tmp_path: Path) -> None:
    plain = tw.dump(tw.event(size=1))
    lines = [plain, plain.replace(b":", b": "), plain.replace(b",", b" ,"), plain] * 20
    header = {"events": len(lines), "contexts": [""]}
    rows = both(write(tmp_path, tw.block(lines, header)), ["size"])
    assert [row["size"] for row in rows] == [1] * 80


def test_more_layouts_than_are_learned(tmp_path: Path) -> None:
    lines = [tw.event(**{f"extra{i}": i, "size": i}) for i in range(400)]
    rows = both(write(tmp_path, tw.block(lines)), ["size", "pid"])
    assert [row["size"] for row in rows] == list(range(400))


@pytest.mark.parametrize(
    ("value", "read"),
    [(2**63 - 1, 2**63 - 1), (2**64 - 1, 2**63 - 1), (10**40, 2**63 - 1), (-(2**63), -(2**63)), (-(10**40), -(2**63))],
)
def test_out_of_range_integers_are_clamped(tmp_path: Path, value: int, read: int) -> None:
    assert one(tmp_path, tw.event(count=value), columns=["count"])["count"] == read
    assert one(tmp_path, tw.event(flags=value), columns=["flags"])["flags"] == max(min(read, 2**31 - 1), -(2**31))


def test_last_line_without_newline(tmp_path: Path) -> None:
    rows = both(write(tmp_path, tw.block([tw.event(size=1), tw.event(size=2)], newline=b"")), ["size"])
    assert [row["size"] for row in rows] == [1, 2]


def test_metadata_of_other_kinds_is_passed_over(tmp_path: Path) -> None:
    clock = {"name": "clock", "cat": "tailrace", "ph": "M", "pid": 7, "tid": 7, "args": {"realtime_ns": 1}}
    odd = {"name": "odd", "ph": "M", "pid": "seven", "args": {"size": "big", "flags": 1.5}}
    counter = {"name": "c", "cat": "x", "ph": "C", "ts": 1, "pid": 7, "tid": 7, "args": {"value": 3}}
    assert one(tmp_path, clock, odd, counter, {}, tw.event(size=4), columns=["size"])["size"] == 4


BROKEN = {
    "not an object": b"[1]",
    "not JSON": b"nonsense",
    "cut short": b'{"name":"read","ca',
    "open string": b'{"name":"read',
    "text after": b'{"name":"x","ph":"M"} x',
    "no comma": b'{"name":"x" "ph":"M"}',
    "empty line": b"",
    "bad escape": tw.dump(tw.event(stage="@")).replace(b"@", b"\\q"),
    "bad hex": tw.dump(tw.event(stage="@")).replace(b"@", b"\\u12g4"),
    "no ts": tw.dump(tw.event()).replace(b'"ts"', b'"tx"'),
    "no name": tw.dump(tw.event()).replace(b'"name"', b'"nome"'),
    "size is text": tw.dump(tw.event(size="12")),
    "size is a fraction": tw.dump(tw.event(size=1.5)),
    "stage is a list": tw.dump(tw.event(stage=["s"])),
    "ts has an exponent": tw.dump(tw.event()).replace(str(tw.T0_US).encode(), b"1e15"),
    "nested too deeply": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_raises_and_names_the_place(tmp_path: Path, line: bytes) -> None:
    good = tw.block([tw.event()])
    path = write(tmp_path, good + tw.block([tw.event(), line], {"events": 2}))
    columns = ["name", "ts", "size", "stage"]
    with pytest.raises(TraceError, match=rf"node_1-7-187a.*byte {len(good)}\b.*line 2"):
        native(path, columns)
    with pytest.raises(TraceError, match=rf"byte {len(good)}\b"):
        oracle(path, columns)


# ---- headers that contradict their block ----


@pytest.mark.parametrize("key", ["events", "lines"])
@pytest.mark.parametrize("delta", [-1, 1])
def test_a_wrong_count_raises(tmp_path: Path, key: str, delta: int) -> None:
    promise = {"events": 3, "lines": 4}
    promise[key] += delta
    path = write(tmp_path, tw.block([tw.host_line(), *[tw.event()] * 3], promise))
    for read in (native, oracle):
        with pytest.raises(TraceError, match=key):
            read(path)


def test_a_wrong_checksum_raises(tmp_path: Path) -> None:
    path = write(tmp_path, tw.block([tw.event()], flip_crc=1))
    for read in (native, oracle):
        with pytest.raises(TraceError, match="checksum"):
            read(path)


def test_a_damaged_stream_raises(tmp_path: Path) -> None:
    data = bytearray(tw.block([tw.event(size=i) for i in range(200)]))
    data[-40] ^= 0xFF
    path = write(tmp_path, bytes(data))
    for read in (native, oracle):
        with pytest.raises(TraceError):
            read(path)


@pytest.mark.parametrize("promise", [{"events": 10**15}, {"raw": 10**15}, {"events": 2**63}, {"comp": 10**12}])
def test_absurd_header_counts_take_no_memory(tmp_path: Path, promise: dict[str, int]) -> None:
    data = tw.block([tw.event()], promise)
    with pytest.raises(TraceError):
        _native.read_blocks(write(tmp_path, data), [(0, len(data))])


def test_a_block_that_is_not_there_raises(tmp_path: Path) -> None:
    data = tw.block([tw.event()])
    path = write(tmp_path, data)
    for place in [(1, len(data)), (0, len(data) + 1), (len(data), 100), (10**12, 5)]:
        with pytest.raises(TraceError, match="byte"):
            _native.read_blocks(path, [place])
    with pytest.raises(TraceError, match="no-such"):
        _native.read_blocks(str(tmp_path / "no-such"), [(0, 1)])
