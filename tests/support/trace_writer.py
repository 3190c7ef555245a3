"""Writes traces that keep docs/trace-format.md, and damaged ones, for tests of readers.

Invariants: everything is valid unless a test requests otherwise; headers are computed from the lines;
`header=` replaces their values.
"""

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

T0_US = 1_763_600_000_000_000
HOST, HOST_HASH = "node-1", "0c1d2e3f"
TAGS = ("workflow", "stage", "task", "job", "rank")

Line = dict[str, Any]


def event(
    name: str = "read", ts_us: int = T0_US, dur: float = 1.25, pid: int = 7, cat: str = "POSIX", **args: Any
) -> Line:
    """An event line; `args` are its args, hash of the host included."""
    args = {"ns": 0, "hhash": HOST_HASH, **args}
    return {"name": name, "cat": cat, "ph": "X", "pid": pid, "tid": pid, "ts": ts_us, "dur": dur, "args": args}


def lean(line: Line) -> Line:
    """A line of version 1 as version 2 has it: without what the block's header or its other fields tell."""
    args = dict(line["args"])
    name, size, failed = line["name"], args.get("size"), "errno" in args
    args.pop("hhash", None)
    told: Line = {"ret": -1} if failed else {}
    if size is not None:
        if "calls" not in args:
            told = {"ret": size, "count": size, **told}
            args.setdefault("count", None)
        told["dir"] = "w" if "write" in name else "r" if "read" in name else None
    args = {key: value for key, value in args.items() if value is None or told.get(key) != value}
    return {**line, "args": args}


def meta(kind: str, value: str, name: str, **args: Any) -> Line:
    """A metadata line FH or HH."""
    args = {"name": name, "value": value, **args}
    return {"name": kind, "cat": "tailrace", "ph": "M", "pid": 7, "tid": 7, "args": args}


def file_line(
    value: str,
    name: str,
    ino: int = 1,
    dev: str = "254:1",
    btime: int | None = 5,
    kind: str = "reg",
    blksize: int | None = None,
) -> Line:
    """An FH line of a file that is there."""
    more = {key: known for key, known in (("btime", btime), ("blksize", blksize)) if known is not None}
    return meta("FH", value, name, type=kind, dev=dev, ino=ino, **more)


def stack_line(stack: str, frames: str) -> Line:
    """An ST line."""
    return meta("ST", stack, frames)


def host_line(name: str = HOST, value: str = HOST_HASH) -> Line:
    """An HH line."""
    return meta("HH", value, name)


def dump(line: Line) -> bytes:
    """A line as the writer formats it."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def block(
    lines: Iterable[Line | bytes],
    header: dict[str, Any] | None = None,
    *,
    level: int = 1,
    flip_crc: int = 0,
    newline: bytes = b"\n",
) -> bytes:
    """One gzip member. `header` replaces or (None) removes keys; `flip_crc` is laid over the checksum."""
    lines = list(lines)
    raw = b"".join((line if isinstance(line, bytes) else dump(line)) + b"\n" for line in lines)
    raw = raw.removesuffix(b"\n") + newline if raw else raw
    pressed = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = pressed.compress(raw) + pressed.flush()
    head = {**_header([line for line in lines if isinstance(line, dict)]), "comp": len(body), "raw": len(raw)}
    head["lines"] = len(lines)
    head = {key: value for key, value in {**head, **(header or {})}.items() if value is not None}
    return frame(json.dumps(head, ensure_ascii=False).encode(), body, zlib.crc32(raw) ^ flip_crc, len(raw))


def frame(payload: bytes, body: bytes, crc: int, raw_bytes: int) -> bytes:
    """The gzip member around a deflate stream."""
    extra = b"TR" + struct.pack("<H", len(payload)) + payload
    start = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(extra)) + extra
    return start + body + struct.pack("<II", crc, raw_bytes & 0xFFFFFFFF)


def _header(lines: list[Line]) -> dict[str, Any]:
    events = [line for line in lines if line.get("ph") == "X"]
    starts = [round(e["ts"] * 1000) + e["args"].get("ns", 0) for e in events]
    ends = [start + round(e.get("dur", 0) * 1000) for start, e in zip(starts, events, strict=True)]
    moved = {way: sum(e["args"].get("size", 0) for e in events if way in e["args"].get("dir", "")) for way in "rw"}
    last = {e["name"]: e["args"] for e in events if e.get("cat") == "PROCESS" and e["name"] in ("start", "exit")}
    head = {
        "v": 1,
        "events": len(events),
        "t0": min(starts, default=0),
        "t1": max(ends, default=0),
        "host": HOST,
        "pid": events[0]["pid"] if events else 7,
        "start": "187a",
        "seg": 0,
        "epoch": 0,
        "read": moved["r"],
        "written": moved["w"],
        "contexts": list(dict.fromkeys(canonical(e["args"]) for e in events)),
    }
    return {**head, **{{"start": "process", "exit": "exit"}[name]: args for name, args in last.items()}}


def canonical(args: dict[str, Any]) -> str:
    """The tag string of an event's args."""
    pairs = [(key, args[key]) for key in TAGS if key in args]
    pairs += sorted((key.removeprefix("tag."), value) for key, value in args.items() if key.startswith("tag."))
    return ",".join(f"{key}={quote(str(value), safe='_.:/@+-')}" for key, value in pairs)


def make_run(directory: Path, files: dict[str, bytes], run_json: dict[str, Any] | None = None, **declared: str) -> Path:
    """A run directory with these trace files (name without `.pfw.gz` -> bytes) and declared files (name -> text)."""
    (directory / "trace").mkdir(parents=True)
    (directory / "declared").mkdir()
    base = {"format": 1, "run_id": "r1", "created": "2026-11-20T10:00:00.123456Z", "command": ["make"], "host": HOST}
    (directory / "run.json").write_text(json.dumps({**base, "mounts": [], "restarts": [], **(run_json or {})}))
    for name, data in files.items():
        (directory / "trace" / f"{name}.pfw.gz").write_bytes(data)
    for name, text in declared.items():
        (directory / "declared" / f"{name}.jsonl").write_text(text)
    return directory


def small_run(directory: Path) -> Path:
    """A run of one process, whose stage "s" reads 5 bytes of /data/in."""
    lines = [
        file_line("f1", "/data/in"),
        event(ts_us=T0_US + 10, stage="s", dir="r", size=5, fhash="f1", ret=5),
    ]
    return make_run(directory, {"n-7-1": block(lines)})
