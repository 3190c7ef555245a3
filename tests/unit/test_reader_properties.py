"""Any lines are read alike by the native reader and the oracle, and no damage adds rows."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import reader
from support import trace_writer as tw
from support.both_readers import MOUNTS, both, native, write
from tailrace.analyzer.store import schema
from tailrace.errors import TraceError

KEYS = st.sampled_from(
    [c.name for c in schema.COLUMNS] + ["fhash", "fhash2", "hhash", "ns", "tag.a", "tag.b", "x", "p\u00e9"]
)
TEXTS = st.one_of(st.sampled_from(["a", "b", "c", ""]), st.text(st.characters(exclude_characters="\n"), max_size=30))
NAMES = TEXTS | st.sampled_from(["pread", "MPI_File_write", "rewrite_thread"])
INTEGERS = st.one_of(st.integers(0, 9), st.integers(-(2**70), 2**70))
NUMBERS = st.lists(st.recursive(INTEGERS, st.lists, max_leaves=5), max_size=5)
LIST_KEYS = set(reader.LISTS)
TEXT_KEYS = {c.name for c in schema.COLUMNS if c.kind == schema.TEXT} | {
    "fhash",
    "fhash2",
    "hhash",
    "tag.a",
    "tag.b",
    "x",
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    hashes = st.sampled_from(["a", "b", "c", "0123456789abcdef"])
    if draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            line = tw.host_line(draw(TEXTS), draw(hashes))
        elif draw(st.booleans()):
            line = tw.stack_line(draw(hashes), draw(TEXTS))
        else:
            dev = draw(st.sampled_from(["254:1", "0:52", "0:99"]))
            name = draw(st.one_of(TEXTS, st.sampled_from(["/net/a", "/net/scratch", "/"])))
            kind = draw(st.sampled_from(["reg", "none", "anon", "fifo"]))
            line = tw.file_line(
                draw(hashes), name, draw(st.integers(0, 9)), dev, draw(st.none() | st.integers(0, 9)), kind
            )
    else:
        args: dict[str, Any] = {}
        for key in draw(st.lists(KEYS, max_size=12)):
            if key in ("fhash", "fhash2", "hhash", "stack"):
                args[key] = draw(hashes)
            elif key in LIST_KEYS:
                args[key] = draw(NUMBERS)
            else:
                args[key] = draw(TEXTS if key in TEXT_KEYS or key == "p\u00e9" else INTEGERS)
        line = tw.event(
            draw(NAMES), draw(st.integers(0, 2**53)), draw(st.integers(0, 10**9)) / 8, draw(st.integers(0, 9))
        )
        line["args"] = args
        line = dict(draw(st.permutations(list(line.items()))))
    ascii_only, gaps = draw(st.booleans()), draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
    return json.dumps(line, ensure_ascii=ascii_only, separators=gaps).encode("utf-8", "surrogatepass")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(st.lists(lines(), min_size=1, max_size=12), min_size=1, max_size=3),
    host=st.sampled_from(["node-1", "node-2", "h\u00f6st"]),
    version=st.sampled_from([1, 2]),
    columns=st.none() | st.lists(st.sampled_from([*schema.BY_NAME, "tag.a", "tag.c"]), min_size=1, unique=True),
)
def test_native_reads_what_the_oracle_reads(
    tmp_path: Path, contents: list[list[bytes]], host: str, version: int, columns: list[str] | None
) -> None:
    data = b""
    for text in contents:
        events = sum(json.loads(line)["ph"] == "X" for line in text)
        data += tw.block(text, {"events": events, "host": host, "v": version})
    both(write(tmp_path, data), columns, MOUNTS)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_adds_rows(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes are changed, every row that is read is one that was written, or the reader raises."""
    whole = b"".join(tw.block([tw.event(size=i), tw.event(size=i + 100)]) for i in range(3))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = write(tmp_path, bytes(damaged))
    try:
        rows = native(path, ["size"]).to_pylist()
    except TraceError:
        return
    assert {row["size"] for row in rows} <= {0, 100, 1, 101, 2, 102}
