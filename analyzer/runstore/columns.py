"""The tables of a store: columns, types and units. docs/store.md has them; tools/store_docs.py writes that part.

Invariants: a table has `run` and `entry` first. Columns may be added; one that changes its meaning gets another name,
or `VERSION` grows. Readers take the columns that they know and give null for those that a file lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from tailrace.analyzer.store import schema
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

VERSION = 1
"""Of the tables; a part of another version is named and left out."""

TIME, NS, BYTES, SHARE, COUNT = "ns since the epoch", "ns", "bytes", "0..1", "count"
TEXT, INT, FLOAT, FLAG, TEXTS = "text", "int", "float", "flag", "texts"
"""Types: UTF-8 text, 64-bit integer, double, boolean, list of texts."""

MOST_TEXT = 4096
"""Bytes of a text that are kept: as many as a path can have."""
MOST_WORDS = 64
"""Texts of a list that are kept."""

DROP, CALL = "drop", "call"


@dataclass(frozen=True)
class Column:
    """kind: a type from `TEXT` on; unit: "" for a name or a flag; secret: what becomes of it in a copy for publishing
    ("name": hashed, "path": hashed component by component, "call": hashed unless tailrace itself gives that name,
    "drop": left out, "": kept; a run.json can say anything, so of its texts none is kept)."""

    kind: str
    unit: str
    meaning: str
    secret: str = ""


@dataclass(frozen=True)
class Table:
    """row: what a row is; columns; order: what compaction sorts by, after `run`."""

    row: str
    columns: dict[str, Column]
    order: tuple[str, ...] = field(default=())


def _text(meaning: str, secret: str = "") -> Column:
    return Column(TEXT, "", meaning, secret)


def _int(unit: str, meaning: str) -> Column:
    return Column(INT, unit, meaning)


_KEY = {
    "run": _text("id of the run: run_id of its run.json, else a hash of its path"),
    "entry": _text("id of this index of the run"),
}
PLACE = {
    "owner": _int("", "user id of the run's owner, by the directory of the store: what the rows say can't change it"),
    "day": _text("day on which the run began, UTC, as 2026-11-22"),
}
"""Columns that follow from where a row lies: in every view, in no file."""
_TASK = {
    "workflow": _text("workflow tag", "name"),
    "stage": _text("stage tag", "name"),
    "task": _text("task tag", "name"),
}
_PROCESS = {
    "host": _text("node", "name"),
    "pid": _int("", "process id"),
    "start": _text("when tracing of the process began, ns since the epoch, hexadecimal"),
}
_MOVED = {
    "read_bytes": _int(BYTES, "bytes read, each counted once, at the system-call level"),
    "written_bytes": _int(BYTES, "bytes written, each counted once, at the system-call level"),
}
_USED = {"first_ns": _int(TIME, "begin of the first call"), "last_ns": _int(TIME, "end of the last call")}

_EVENT_SECRETS = {
    **dict.fromkeys(("name", "cat"), CALL),
    **dict.fromkeys(("path", "path2"), "path"),
    **dict.fromkeys(("host", "file", "file2", "object", *schema.TAGS, "region", "category", "keys"), "name"),
    **dict.fromkeys(("sizes", "durs", "stack"), DROP),
}
_NOT_STORED = "pieces"
"""Of lines of totals: the table edges has what is made of them."""


def _event_columns() -> dict[str, Column]:
    """Those of `tailrace query`, with the free tags as one column."""
    own = {
        column.name: Column(
            TEXT if column.kind == schema.TEXT else INT, column.unit, column.doc, _EVENT_SECRETS.get(column.name, "")
        )
        for column in schema.COLUMNS
        if column.name != _NOT_STORED
    }
    return own | {"tags": _text('the other tags, as {"try":"0"}', DROP)}


EVENTS = "events"
"""The table of events, which an index has only where it was asked for."""

TABLES = {
    "runs": Table(
        "a run",
        {
            **_KEY,
            "indexed_ns": _int(TIME, "when it was indexed"),
            "path": _text("directory of the run", "path"),
            "created_ns": _int(TIME, "when the run began, by its run.json"),
            "t0_ns": _int(TIME, "begin of the first event"),
            "t1_ns": _int(TIME, "end of the last event"),
            "user": _text("user who ran it", "name"),
            "project": _text("tag project, else the account of the batch system", "name"),
            "account": _text("account of the batch system", "name"),
            "queue": _text("queue or partition of the batch system", "name"),
            "job": _text("job of the batch system, else the job tag where there is one", "name"),
            "application": _text("program of the command, without its directory", "name"),
            "command": Column(TEXTS, "", "command", "drop"),
            "cwd": _text("working directory", "path"),
            "tags": _text("tags of the run", "drop"),
            "workflows": Column(TEXTS, "", "workflow tags", "name"),
            "managers": Column(TEXTS, "", "workflow managers with their versions", "name"),
            "nodes": Column(TEXTS, "", "hosts with traced processes", "name"),
            "undescribed": Column(TEXTS, "", "those whose mounts nobody described", "name"),
            "kernel": _text("kernel release", "name"),
            "tailrace": _text("version of tailrace that recorded it", "name"),
            "failed": Column(FLAG, "", "whether a task, the command, or a process by a crash failed"),
            "outcome": _text("how it ended, in words; empty where all went well", "drop"),
            "failed_tasks": _int(COUNT, "declared tasks without a result"),
            "tasks": _int(COUNT, "tasks"),
            "processes": _int(COUNT, "traced processes"),
            "events": _int(COUNT, "events"),
            "event_rows": _int(COUNT, "its rows in the table events; null: it was indexed without --events"),
            **_MOVED,
            "io_ns": _int(NS, "wall time with at least one read, write or metadata call running"),
            "read_calls": _int(COUNT, "calls that read files"),
            "write_calls": _int(COUNT, "calls that wrote files"),
            "metadata_calls": _int(COUNT, "calls on files that moved no bytes"),
            "failed_calls": _int(COUNT, "of all calls, those that returned an error"),
            "coverage": Column(FLOAT, SHARE, "recorded bytes by the kernel's; null without byte accounting"),
            "lost": _int(COUNT, "lost events"),
            "problems": Column(TEXTS, "", "what of the run is missing or could not be read, sentences", "drop"),
        },
    ),
    "stages": Table(
        "a stage of a run",
        {
            **_KEY,
            "workflow": _TASK["workflow"],
            "stage": _text("stage as reports show it: tag, (untagged), or a program in parentheses", "name"),
            "tasks": _int(COUNT, "distinct task tags"),
            "processes": _int(COUNT, "processes"),
            **_USED,
            **_MOVED,
            "io_ns": _int(NS, "wall time with at least one read, write or metadata call running"),
            "read_ns": _int(NS, "the same for reads of files"),
            "write_ns": _int(NS, "the same for writes of files"),
            "metadata_ns": _int(NS, "the same for calls that move no bytes"),
            "stream_ns": _int(NS, "the same for calls on pipes and sockets"),
            "read_calls": _int(COUNT, "calls that read files"),
            "write_calls": _int(COUNT, "calls that wrote files"),
            "metadata_calls": _int(COUNT, "calls on files that moved no bytes"),
            "failed_calls": _int(COUNT, "of these calls, those that returned an error"),
        },
    ),
    "tasks": Table(
        "a task with events, or a declared one",
        {
            **_KEY,
            **_TASK,
            "name": _text("name by the workflow manager", "name"),
            "job": _text("job of the resource manager", "name"),
            "status": _text("failed, killed, timeout, canceled, dep_failed, memoized, retried, done; null: no end"),
            "error": _text("why it failed", "drop"),
            "tries": _int(COUNT, "how often it was started"),
            "processes": _int(COUNT, "processes with events in it"),
            "events": _int(COUNT, "events"),
            **_MOVED,
            "t0_ns": _int(TIME, "begin of the first event"),
            "t1_ns": _int(TIME, "end of the last event"),
        },
    ),
    "processes": Table(
        "a traced process",
        {
            **_KEY,
            **_PROCESS,
            "ppid": _int("", "pid of its parent"),
            "program": _text("program", "path"),
            "command": Column(TEXTS, "", "arguments", "drop"),
            "cwd": _text("working directory when it began", "path"),
            "uid": Column(INT, "", "user id", "drop"),
            "t0_ns": _int(TIME, "begin of the first event"),
            "t1_ns": _int(TIME, "end of the last event"),
            "exit": _int("", "exit code; null: unknown, or ended by a signal"),
            "signal": _int("", "signal that ended it; null: none"),
            "events": _int(COUNT, "events"),
            **_MOVED,
            "utime_ns": _int(NS, "CPU time of the program"),
            "stime_ns": _int(NS, "CPU time of the kernel for it"),
            "maxrss_kib": _int("KiB", "largest resident memory"),
            "coverage": Column(FLOAT, SHARE, "recorded bytes by the kernel's; null without byte accounting"),
        },
    ),
    "files": Table(
        "a file that a run used",
        {
            **_KEY,
            "file": _text("identity in the run; ends with ~2, ~3 where an inode was used again in it", "name"),
            "identity": _text("identity as the kernel gives it: the same in every run and on every host", "name"),
            "path": _text("last name", "path"),
            "names": Column(TEXTS, "", "its other names in the run, by time", "path"),
            "ftype": _text("reg, dir, lnk, chr, blk, fifo, sock, anon"),
            "class": _text("data, stream, software, system or manager"),
            "mount": _text("mount point of the file system that it is on", "path"),
            "fstype": _text("type of that file system", "name"),
            "size_bytes": _int(BYTES, "end of the last known byte"),
            **_MOVED,
            "read_calls": _int(COUNT, "calls that read it"),
            "write_calls": _int(COUNT, "calls that wrote it"),
            "versions": _int(COUNT, "versions that the run wrote"),
            **_USED,
            "gone_ns": _int(TIME, "when its last name was removed; null: it was not"),
        },
        ("file",),
    ),
    "versions": Table(
        "a version of a data file",
        {
            **_KEY,
            "file": _text("identity in the run", "name"),
            "version": _int("", "number in the run; 0: as it was before the run"),
            "begin_ns": _int(TIME, "first write; null for version 0"),
            "end_ns": _int(TIME, "last write; null for version 0"),
            "continues": _int("", "version whose bytes remain in it; null: none"),
            "whole": Column(FLAG, "", "whether it has only bytes that its own writers wrote"),
        },
        ("file", "version"),
    ),
    "edges": Table(
        "what a process in a task moved of a version of a data file in one direction",
        {
            **_KEY,
            **_TASK,
            **_PROCESS,
            "program": _text("program", "path"),
            "file": _text("identity in the run", "name"),
            "version": _int("", "version that was read or written"),
            "direction": _text("r or w"),
            "bytes": _int(BYTES, "bytes moved"),
            "calls": _int(COUNT, "calls"),
            **_USED,
            "exact": Column(FLAG, "", "whether the byte ranges behind it are exact"),
        },
        ("file", "version"),
    ),
    "findings": Table(
        "a finding",
        {
            **_KEY,
            "place": _int("", "position in the run's report, from 1"),
            "kind": _text("rule (docs/findings.md)"),
            "about": _text("failure, race, order, time, space, note, quality"),
            "title": _text("what, how much and where", "drop"),
            "advice": _text("what to do", "drop"),
            "query": _text("command, or line of Python, that shows it", "drop"),
            "cost_ns": _int(NS, "time that it costs; 0: not known"),
            "cost_bytes": _int(BYTES, "bytes that it costs; 0: not known"),
            "estimate": Column(FLAG, "", "whether the time is an estimate"),
            "count": _int(COUNT, "cases"),
            "doubts": Column(TEXTS, "", "why it may be wrong", "drop"),
        },
    ),
    EVENTS: Table("an event of a run that was indexed with --events", {**_KEY, **_event_columns()}),
}


@cache
def arrow_schema(table: str, placed: bool = False, coded: bool = False) -> pa.Schema:
    """The Arrow schema of a table; units are metadata of the fields. placed: with `PLACE`; coded: with texts as codes
    of a dictionary."""
    types = {
        TEXT: pa.dictionary(pa.int32(), pa.string()) if coded else pa.string(),
        INT: pa.int64(),
        FLOAT: pa.float64(),
        FLAG: pa.bool_(),
        TEXTS: pa.list_(pa.string()),
    }
    return pa.schema(
        [
            pa.field(name, types[column.kind], metadata={"unit": column.unit} if column.unit else None)
            for name, column in ({**TABLES[table].columns, **PLACE} if placed else TABLES[table].columns).items()
        ],
        metadata={"tailrace_store": str(VERSION)},
    )
