"""Block headers for the catalogue: checked, typed, and for every kind of trace file.

Invariants: a header that is returned conforms to docs/trace-format.md in the types and ranges of what the catalogue
stores. One that doesn't is a loss (`damaged`) with its position, and its block is never read. A file that is not
tailrace's is a loss of one file (`foreign`), a block of a newer format one of `version`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from urllib.parse import unquote_to_bytes

from tailrace import _native
from tailrace.analyzer.util.types import Document
from tailrace.base.text import clean
from tailrace.errors import TraceError

TAILRACE, FOREIGN = "tailrace", "foreign"
BLOCKS_AT_ONCE = 4096
"""So many headers are held in memory at once: a node's file has those of all of its processes."""
_MAX = 2**63 - 1
_MOST = 2**53
"""More bytes or events than any block or process has; sums of counts up to it fit SQLite's integers."""


@dataclass(frozen=True)
class Process:
    """The args of a process's `start` event."""

    ppid: int | None
    exe: str | None
    argv: list[str]
    cwd: str | None
    uid: int | None
    facts: Document = field(default_factory=dict)
    """All other members of the start event's args, unchanged."""

    def row(self) -> tuple[int | None, str | None, str, str | None, int | None, str]:
        """The row of the catalogue; argv is a JSON list, facts a JSON object."""
        return self.ppid, self.exe, json.dumps(self.argv), self.cwd, self.uid, json.dumps(self.facts)


class Time(NamedTuple):
    """What the kernel tells of a process's threads, ns: on a processor; ready, waiting for one; and on a processor of
    those whose `ready_ns` is known. None where it is unknown."""

    run_ns: int | None
    ready_ns: int | None
    ready_of_ns: int | None

    @classmethod
    def of(cls, values: Iterable[object]) -> Time:
        """Three values of a header or an account; those that are no count become None."""
        counts = (whole(value) for value in values)
        return cls(*(None if count is None or count < 0 else count for count in counts))


NO_TIME = Time(None, None, None)


@dataclass(frozen=True)
class Reaped:
    """A child that was waited for: its wait status, its totals in the kernel (bytes), None where they weren't read,
    what its parent knew of it (docs/trace-format.md, "Block header"), and its processor time."""

    pid: int
    status: int
    read: int | None
    written: int | None
    kind: int = 0
    own: int = 0
    time: Time = NO_TIME


@dataclass(frozen=True)
class Untraced:
    """A process that began or went on as a program that can't be traced: why (docs/trace-format.md), and which
    program."""

    pid: int
    why: str
    program: str


@dataclass(frozen=True)
class Header:
    """One block; times in ns since the epoch, sizes in bytes."""

    offset: int
    member_bytes: int
    raw: int
    events: int
    t0: int
    t1: int
    host: str
    pid: int
    start: str
    read: int = 0
    written: int = 0
    contexts: tuple[str, ...] = ("",)
    """By first use."""
    lost: dict[str, int] = field(default_factory=dict)
    process: Process | None = None
    exit: Document | None = None
    uncounted: tuple[int, int] = (0, 0)
    ledger: Document | None = None
    cut_off: str | None = None
    """The call in which a signal ended the process, where it is known."""
    reaped: tuple[Reaped, ...] = ()
    untraced: tuple[Untraced, ...] = ()
    sealed: tuple[int, int, int] | None = None
    """seg, epoch and slots, None where the header lacks one: no two blocks of a process have the same."""
    run: str | None = None
    """The id of the run that it was written for; None where the header lacks it."""
    mono: int | None = None
    """The monotonic clock when the process began; None where the header lacks it (version 1)."""
    number: int | None = None
    """How many blocks its segment had before; None where the header lacks it (version 1)."""
    joined: int = 1
    """How many blocks it was made of, the ones before `number` and itself."""
    totals: tuple[int, int] = (0, 0)
    """Lines of totals, and the events that they stand for."""
    sealing_ns: int = 0
    self_sealing_ns: int = 0
    """Processor time of sealing that this block accounts for: of a sealer, of the process itself."""
    stacks: int = 0
    """Events with a call stack."""

    @staticmethod
    def tags_of(tags: str) -> dict[str, str]:
        """The pairs of a canonical tag string, decoded."""
        pairs = (pair.partition("=") for pair in tags.split(",") if "=" in pair)
        return {k: unquote_to_bytes(v).decode("utf-8", "replace") if "%" in v else v for k, _, v in pairs}

    def rank(self) -> str | None:
        """The rank with which the process executed its last program, where the block has its start: a process may have
        been forked with another one (Open MPI's daemon is a task of srun)."""
        ranks = [self.tags_of(tags).get("rank") for tags in self.contexts if "rank=" in tags]
        return ranks[-1] if ranks and self.process is not None else None

    def exit_code(self) -> int | None:
        """The process's exit code; None where its end was not seen."""
        return whole((self.exit or {}).get("code"))


@dataclass
class FileScan:
    """The result of scanning a part of a trace file. `losses` counts by (cause, unit); `problem` is a sentence, or
    ""."""

    kind: str
    headers: list[Header] = field(default_factory=list)
    losses: dict[tuple[str, str], int] = field(default_factory=dict)
    problem: str = ""


def scan_file(path: str, start: int) -> Iterator[FileScan]:
    """Scans a trace file from byte `start` on, `BLOCKS_AT_ONCE` headers at a time, at least one part. Reads headers
    only."""
    while True:
        part, more = _scan_part(path, start)
        yield part
        if more is None:
            return
        start = more


def first_run(path: str) -> str | None:
    """The run that the first block of a trace file was written for; None where that is not known."""
    try:
        found = _native.scan_blocks(path, 0, 1)[0]
        return parse(*found[0]).run if found else None
    except (TraceError, ValueError, RecursionError):
        return None


def _scan_part(path: str, start: int) -> tuple[FileScan, int | None]:
    """The part that begins at byte `start`, and where the next one does; None: it was the last one."""
    try:
        found, torn_bytes, cause, problem = _native.scan_blocks(path, start, BLOCKS_AT_ONCE)
        if cause == FOREIGN:
            return FileScan(FOREIGN, losses={(FOREIGN, "files"): 1}, problem=f"{path}: {problem}"), None
    except TraceError as error:
        if not os.path.lexists(path):
            problem = f"{path}: it vanished while the run was read"
            return FileScan(FOREIGN, losses={("vanished", "files"): 1}, problem=problem), None
        return FileScan(FOREIGN, losses={("unreadable", "files"): 1}, problem=str(error)), None
    scan = FileScan(TAILRACE)
    for offset, member_bytes, text in found:
        try:
            scan.headers.append(parse(offset, member_bytes, text))
        except (ValueError, RecursionError) as error:
            scan.losses["damaged", "blocks"] = scan.losses.get(("damaged", "blocks"), 0) + 1
            scan.problem = f"{path}: block at byte {offset}: the header is damaged: {error}"
    if torn_bytes:
        scan.losses[cause or ("damaged" if problem else "torn"), "bytes"] = torn_bytes
        scan.problem = f"{path}: {problem}" if problem else scan.problem
    return scan, found[-1][0] + found[-1][1] if len(found) == BLOCKS_AT_ONCE else None


def parse(offset: int, member_bytes: int, text: bytes) -> Header:
    """A header's JSON as a `Header`. Raises ValueError, naming the key, when a value violates the format."""
    values = json.loads(text.decode("utf-8", "replace"), strict=False)
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    contexts = values.get("contexts")
    if not isinstance(contexts, list) or not all(isinstance(tags, str) for tags in contexts):
        raise ValueError("contexts is not a list of strings")
    if not contexts and values.get("events"):
        raise ValueError("contexts is empty, and the block has events")
    process, end, lost = values.get("process"), values.get("exit"), values.get("lost")
    ledger, reaped, untraced = (values.get(key) for key in ("ledger", "reaped", "untraced"))
    return Header(
        offset=offset,
        member_bytes=member_bytes,
        raw=_natural(values, "raw"),
        events=_natural(values, "events"),
        t0=_natural(values, "t0"),
        t1=_natural(values, "t1"),
        host=_string(values, "host"),
        pid=_natural(values, "pid"),
        start=_string(values, "start"),
        read=_natural(values, "read"),
        written=_natural(values, "written"),
        contexts=tuple(dict.fromkeys(map(clean, contexts))),
        lost={clean(key): _natural(lost, key) for key in lost} if isinstance(lost, dict) else {},
        process=_process(process) if isinstance(process, dict) else None,
        exit=cast(Document, end) if isinstance(end, dict) else None,
        uncounted=pair(values.get("uncounted")) or (0, 0),
        ledger=cast(Document, ledger) if isinstance(ledger, dict) else None,
        cut_off=clean(cut_off) if isinstance(cut_off := values.get("cut_off"), str) else None,
        reaped=tuple(filter(None, map(_reaped, reaped))) if isinstance(reaped, list) else (),
        untraced=tuple(filter(None, map(_untraced, untraced))) if isinstance(untraced, list) else (),
        sealed=_sealed(values),
        run=clean(_string(values, "run")) if "run" in values else None,
        mono=_natural(values, "mono") if "mono" in values else None,
        number=min(_natural(values, "block"), 2**32) if "block" in values else None,
        joined=min(max(_natural(values, "joined"), 1), 2**32) if "joined" in values else 1,
        totals=pair(values.get("totals")) or (0, 0),
        sealing_ns=_natural(values, "sealing") if "sealing" in values else 0,
        self_sealing_ns=_natural(values, "self_sealing") if "self_sealing" in values else 0,
        stacks=_natural(values, "stacks") if "stacks" in values else 0,
    )


def _sealed(values: Document) -> tuple[int, int, int] | None:
    if not {"seg", "epoch", "slots"} <= values.keys():
        return None
    return _natural(values, "seg"), _natural(values, "epoch"), _natural(values, "slots")


def pair(value: object) -> tuple[int, int] | None:
    """Two counts (read, written), or None when `value` is anything else."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, second = whole(value[0]), whole(value[1])
    if first is None or second is None or not (0 <= first <= _MOST and 0 <= second <= _MOST):
        return None
    return first, second


def _reaped(row: object) -> Reaped | None:
    """A row of a header's list, None where it is damaged."""
    if not isinstance(row, list) or len(row) < 4:
        return None
    pid, status, (kind, own) = whole(row[0]), whole(row[1]), pair([*row[4:6], 0, 0][:2]) or (0, 0)
    read, written = pair(row[2:4]) or (None, None)
    time = Time.of([*row[6:9], None, None, None][:3])
    return None if pid is None or status is None else Reaped(pid, status, read, written, kind, own, time)


def _untraced(row: object) -> Untraced | None:
    """A row of a header's list, None where it is damaged."""
    if not isinstance(row, list) or len(row) != 3:
        return None
    pid, why, program = whole(row[0]), row[1], row[2]
    if pid is None or not isinstance(why, str):
        return None
    return Untraced(pid, clean(why), clean(program) if isinstance(program, str) else "")


def _natural(values: Document, key: str) -> int:
    value = values.get(key)
    most = _MAX if key in ("t0", "t1") else _MOST
    if type(value) is not int or not 0 <= value <= most:  # a bool is no count
        raise ValueError(f"{key} is not a count: {value!r}")
    return value


def _string(values: Document, key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a string: {value!r}")
    return clean(value)


def _process(args: Document) -> Process:
    found = ((key, args.get(key)) for key in ("exe", "cwd"))
    texts = {key: clean(text) if isinstance(text, str) else None for key, text in found}
    argv = args.get("argv")
    words = [clean(str(word)) for word in argv] if isinstance(argv, list) else []
    facts = {clean(key): value for key, value in args.items() if key not in ("ppid", "exe", "argv", "cwd", "uid")}
    uid = whole(args.get("uid"))
    return Process(whole(args.get("ppid")), texts["exe"], words, texts["cwd"], uid, facts)


def whole(value: object) -> int | None:
    """A whole number that a column of the catalogue holds; None when `value` is anything else."""
    usable = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX
    return cast(int, value) if usable else None


def documents(texts: Iterable[str | None]) -> list[object]:
    """The values of JSON texts of the catalogue, None for null. One call for all takes half the time."""
    given = list(texts)
    parsed = iter(json.loads(f"[{','.join(text for text in given if text)}]"))
    return [next(parsed) if text else None for text in given]
