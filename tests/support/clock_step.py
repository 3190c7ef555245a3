"""Rewrites a run as it would be had CLOCK_REALTIME been set at a moment of it: processes that began afterwards have
other times, by their monotonic clock nothing is different."""

import json
import re
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from support import reader
from support import trace_writer as tw


def set_clock(run: Path, by_ns: int, comes_after: Callable[[dict[str, Any]], bool]) -> None:
    """Moves the times of the processes of which `comes_after(header)` is true; by_ns: whole microseconds."""
    assert by_ns % 1000 == 0
    for path in sorted((run / "trace").iterdir()):
        blocks = []
        for offset, length, text in reader.scan_blocks(str(path))[0]:
            header = json.loads(text)
            if comes_after(header):
                blocks.append(_moved(path, (offset, length), by_ns))
            else:
                blocks.append(path.read_bytes()[offset : offset + length])
        path.write_bytes(b"".join(blocks))


def put_at(run: Path, when: str) -> None:
    """Moves a whole run: it began at `when` (UTC, as 2026-11-16T10:00:00), and all its times are as far from that as
    they were from its begin."""
    meta = json.loads((run / "run.json").read_text())
    began, wanted = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (meta["created"], f"{when}+00:00"))
    set_clock(run, round((wanted - began).total_seconds() * 1e6) * 1000, lambda header: True)
    meta["created"] = wanted.isoformat(timespec="microseconds").replace("+00:00", "Z")
    (run / "run.json").write_text(json.dumps(meta))


def _moved(path: Path, place: tuple[int, int], by_ns: int) -> bytes:
    header, lines = reader.inflate(str(path), place)
    raw = re.sub(rb'(?<="ts":)\d+', lambda m: b"%d" % (int(m[0]) + by_ns // 1000), lines)
    raw = re.sub(rb'(?<="realtime_ns":)\d+', lambda m: b"%d" % (int(m[0]) + by_ns), raw)
    header["start"] = f"{int(header['start'], 16) + by_ns:x}"
    if header["events"]:
        header["t0"], header["t1"] = header["t0"] + by_ns, header["t1"] + by_ns
    pressed = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = pressed.compress(raw) + pressed.flush()
    header.pop("crc")
    text = json.dumps({**header, "comp": len(body), "raw": len(raw)}, separators=(",", ":"))[:-1].encode()
    payload = text + b',"crc":"%08x"}' % zlib.crc32(text)
    return tw.frame(payload, body, zlib.crc32(raw), len(raw))
