"""Builds the edge table from events: each partition becomes a `Partial`, a tree combines them (edge_table.py).

    events --batch.py--> codes and numbers --core/native/accesses.cc--> accesses --core/native/bursts.cc--> Partial

Invariants: a byte is counted once, at the lowest layer that recorded it (`schema.UPPER_LAYERS` is left out). Failed
calls make no edge. This module defines the meanings of texts (`MEANINGS`); the native fold gets codes and numbers, and
returns row numbers where texts are needed. Nothing here loops over events in Python.

The fold is native: numpy took 2.8 times a group-by, much of it to touch new temporaries. Names and categories have the
meanings of the core's tables (`_native.meanings`), so these are stated once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from tailrace import _native
from tailrace.analyzer.edges import batch, channels, edge_table, identities
from tailrace.analyzer.edges.batch import Batch
from tailrace.analyzer.edges.edge_table import STREAM_TYPES, WHO, EdgeTable, Partial, combine, sum_cuts, sum_facts
from tailrace.analyzer.store import engine
from tailrace.analyzer.store.loader import EventSource, Part
from tailrace.analyzer.store.schema import UPPER_LAYERS
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Ints, Objects

SYNONYMS = {
    "posix_spawnp": "fork",
    **{f"{name}64": name for name in ("creat", "fopen", "freopen", "open", "openat")},
}
"""Other tracers' names of calls -> the name of the equivalent hook."""
SEEKS = frozenset({"lseek", "lseek64", "fseek", "fseeko", "fseek64", "fseeko64", "rewind", "fsetpos", "fsetpos64"})
OTHER_NOT_IO = frozenset({"APP", "REGION", "PYTHON", "dftracer", "tailrace"})
"""Categories of other tracers whose time is not time in an I/O call."""


def _meanings() -> dict[str, dict[str, int]]:
    bit = _native.bits()
    names, categories = _native.meanings()
    others = {
        **dict.fromkeys(OTHER_NOT_IO, bit["not_io"]),
        **dict.fromkeys(UPPER_LAYERS, bit["upper"] | bit["not_io"]),
    }
    return {
        "name": {
            **names,
            **{name: names[hook] for name, hook in SYNONYMS.items()},
            **{name: names.get(name, 0) | bit["seeks"] for name in SEEKS},
        },
        "cat": {**others, **categories, "SOCKET": categories["SOCKET"] | bit["socket"]},
        "ftype": {
            **dict.fromkeys(STREAM_TYPES, bit["stream"]),
            "fifo": bit["stream"] | bit["channel"],
            "sock": bit["stream"] | bit["channel"] | bit["socket"],
            "reg": bit["regular"],
        },
        "dir": {"r": bit["reads"], "w": bit["writes"], "rw": bit["reads"] | bit["writes"]},
    }


MEANINGS = _meanings()
"""The meanings of texts for the native fold, by column: text -> bits. Those of names and categories are from the core's
tables."""
TEXTS = (
    "name",
    "cat",
    "host",
    "path",
    "file",
    "ftype",
    "path2",
    "file2",
    "dir",
    "workflow",
    "stage",
    "task",
    "start",
    "pieces",
    "sizes",
)
NUMBERS = {
    **dict.fromkeys(("ts", "dur", "size", "count", "ret", "errno", "flags", "prot", "followed"), 0),
    **dict.fromkeys(("placed", "unaligned", "blksize", "ahead", "at_once"), 0),
    **dict.fromkeys(("pid", "tid", "offset", "offset2", "span", "last", "run_ns", "ready_ns"), -1),
    "calls": 1,
}
"""The columns of numbers, with the value for null."""
# Here, not in the readers: a frame shows what the trace says, and no sum of the edge table wraps around.
POSSIBLE = {
    "ts": (0, 2**62),
    "dur": (0, 2**60),
    **dict.fromkeys(("offset", "offset2"), (-1, 2**62)),
    **dict.fromkeys(("span", "last", "run_ns", "ready_ns"), (-1, 2**60)),
    **dict.fromkeys(("size", "count"), (0, 2**50)),
    **dict.fromkeys(("calls", "followed", "placed", "unaligned"), (0, 2**31)),
    "blksize": (0, 2**40),
    "ahead": (-(2**50), 2**50),
}
"""The possible values (ns, bytes). Values of a damaged trace are clamped before aggregation, or sums would wrap
around."""
COLUMNS = [*TEXTS, *NUMBERS]
"""The columns of events that the edge table needs."""


def build(run: EventSource) -> EdgeTable:
    """The edge table of a run, in one pass over its events (engine.py; a tree of `combine`).

    Raises:
        RunError: the trace can't be read. A reader's errors pass through.
    """
    return identities.resolve(reduce(run.parts(columns=COLUMNS)))


def reduce(parts: Sequence[Part]) -> EdgeTable:
    """The edge table of events with the columns `COLUMNS`; its identities are still to be resolved
    (`identities.resolve`)."""
    if not parts:
        return chunk(pd.DataFrame({column: [] for column in COLUMNS}))
    return engine.folded([partial(_chunk_of, part) for part in parts], combine)


def _chunk_of(part: Part) -> Partial:
    return chunk(part())


# --- a partition of events -------------------------------------------------------------------------------------------


EACH = (-(2**63), *(2**63 - 1,) * 3)
"""Limits in the place of `edge_table.limits()`: a burst for each call, or piece of a line of totals, and all ranges."""


def chunk(frame: pd.DataFrame, limits: tuple[int, int, int, int] | None = None) -> Partial:
    """The Partial of one partition: events (columns `COLUMNS`, any row order), folded natively by their codes."""
    events = channels.datagrams(batch.of(frame, TEXTS, NUMBERS))
    clamped = {name: _clamped(events.number[name], low, high) for name, (low, high) in POSSIBLE.items()}
    events = dataclasses.replace(events, number={**events.number, **clamped})
    bits = {name: _bits(events.text[name].texts, meanings) for name, meanings in MEANINGS.items()}
    events = identities.split(events, bits)
    text = {**events.text}
    text["file2"] = batch.recoded(text["file"], text["file2"])
    text["path2"] = batch.recoded(text["path"], text["path2"])
    files, paths = text["file2"].texts, text["path2"].texts
    found = _native.fold_events(
        {name: column.code for name, column in text.items()},
        bits,
        events.number,
        len(files),
        limits or edge_table.limits(),
        edge_table.MAX_BUSY,
        *([text or "" for text in text[name].texts] for name in ("pieces", "sizes")),
    )
    ftypes = np.append(text["ftype"].texts, "reg")  # -1, the last: files that occur only in file2
    notes = {name: Noted(*arrays) for name, arrays in found["notes"].items()}
    bursts, extents, times = edge_table.edges_of(found["edges"])
    return Partial(
        who=_actors(events, found["actors"]),
        files=grouping.frame({"file": files[found["file_codes"]], "ftype": ftypes[found["file_types"]]}),
        aliases=grouping.frame({**found["aliases"], "path": paths[found["aliases"]["path"]]}),
        bursts=bursts,
        extents=extents,
        times=times,
        thread_calls=Intervals(*found["busy"]),
        counts=grouping.frame(found["counts"]),
        patterns=grouping.frame(found["patterns"]),
        sizes=grouping.frame(found["sizes"]),
        functions=_named(found["functions"], text),
        lengths=_named(found["lengths"], text),
        threads=_threads(events, grouping.frame(found["threads"]), notes["account"]),
        facts=_facts(events, notes),
        cuts=_cuts(events, notes["size"]),
        process_events=_process_events(events, notes),
    )


def _named(columns: Mapping[str, Ints], text: Mapping[str, batch.Text]) -> pd.DataFrame:
    """A table whose categories and names are codes, with their texts."""
    return grouping.frame({**columns, **{name: text[name].texts[columns[name]] for name in ("cat", "name")}})


def _clamped(column: Ints, low: int, high: int) -> Ints:
    """The column, clamped to the possible range; the same array where it is within it."""
    if not len(column) or (column.min() >= low and column.max() <= high):
        return column
    return np.clip(column, low, high)


def _bits(texts: Objects, meanings: Mapping[str, int]) -> npt.NDArray[np.uint32]:
    """The meaning of each text."""
    return np.array([meanings.get(text, 0) for text in texts], dtype=np.uint32)


def _actors(events: Batch, rows: Ints) -> pd.DataFrame:
    """The actors, by the first row of each."""
    texts = {name: events.text[name].at(rows) for name in WHO if name in events.text}
    return grouping.frame({name: texts[name] if name in texts else events.number[name][rows] for name in WHO})


def _threads(events: Batch, rows: pd.DataFrame, noted: Noted) -> pd.DataFrame:
    """The threads with the kernel's accounts of them (`edge_table.ACCOUNT`)."""
    told = {name: np.full(len(rows), -1 if name.startswith("life") else 0) for name in edge_table.ACCOUNT}
    if len(noted.row):
        tid, run, ready = (events.number[name][noted.row] for name in ("tid", "run_ns", "ready_ns"))
        names = events.text["name"]
        what = names.texts[names.code[noted.row]]
        place = pd.MultiIndex.from_frame(rows[["who", "tid"]]).get_indexer(pd.MultiIndex.from_arrays([noted.who, tid]))
        whole, begins, ends = (what == name for name in ("thread", "enter", "leave"))
        np.maximum.at(told["life_run_ns"], place[whole], run[whole])
        np.maximum.at(told["life_ready_ns"], place[whole], ready[whole])
        for name, pick, sign in (("begun", begins, -1), ("ended", ends, 1)):
            np.add.at(told[name], place[pick], 1)
            np.add.at(told["unready"], place[pick], ready[pick] < 0)
            np.add.at(told["span_run_ns"], place[pick], sign * run[pick])
            np.add.at(told["span_ready_ns"], place[pick], sign * np.maximum(ready[pick], 0))
    return rows.assign(**told)


class Noted(NamedTuple):
    """Events whose texts are needed: the row, its actor, its file (-1 for none)."""

    row: Ints
    who: Ints
    file: Ints


def _facts(events: Batch, notes: Mapping[str, Noted]) -> pd.DataFrame:
    """The facts (`edge_table.sum_facts`): changes of names. Only renames and links have a second path."""
    missed = notes["failed open"]
    path = events.text["path"].at(missed.row)
    # Failed opens of byte-compiled Python files: their sources were imported (file_classes.py).
    compiled = np.array([text.endswith((".pyc", ".pyo")) for text in path], dtype=np.bool_)
    nothing = np.full(int(compiled.sum()), -1, dtype=np.int64)
    facts = {
        **{what: notes[what] for what in ("create", "new", "nameless", "unlink", "rename", "link", "append")},
        "missed": Noted(missed.row[compiled], missed.who[compiled], nothing),
    }
    row, who, file = (np.concatenate(columns) for columns in zip(*facts.values(), strict=True))
    what = np.repeat(np.array(list(facts), dtype=object), [len(noted.row) for noted in facts.values()])
    texts = {name: events.text[name].at(row) for name in ("path", "path2")}
    texts["path2"][[one not in ("rename", "link") for one in what]] = ""
    times = {"first_ns": events.number["ts"][row], "last_ns": events.number["ts"][row] + events.number["dur"][row]}
    return sum_facts(grouping.frame({"who": who, "file": file, "what": what, **texts, **times}))


_KEEP_SIZE, _PUNCH_HOLE, _COLLAPSE, _ZERO, _INSERT = 0x01, 0x02, 0x08, 0x10, 0x20
"""Modes of fallocate(2)."""


def _cuts(events: Batch, noted: Noted) -> pd.DataFrame:
    """The cuts (`edge_table.sum_cuts`): truncations, but those to nothing, which begin bursts, and changes of
    blocks."""
    number = {name: events.number[name][noted.row] for name in ("ts", "dur", "offset", "count", "flags")}
    names = events.text["name"]
    truncates = (_bits(names.texts, MEANINGS["name"])[names.code[noted.row]] & _native.bits()["truncates"]) != 0
    mode = np.where(truncates, 0, number["flags"])
    start, count = number["offset"], np.maximum(number["count"], 0)
    what = np.full(len(start), "grow", dtype=object)
    for bits, kind in ((_PUNCH_HOLE | _ZERO, "zero"), (_COLLAPSE, "collapse"), (_INSERT, "insert")):
        what[(mode & bits) != 0] = kind
    what[truncates & (count > 0)] = "truncate"
    grows = what == "grow"
    end = np.where(truncates & grows, start, start + count)
    columns = {"who": noted.who, "file": noted.file, "what": what, "start": start, "end": end}
    times = {"first_ns": number["ts"], "last_ns": number["ts"] + number["dur"]}
    rows: pd.DataFrame = grouping.frame({**columns, **times})
    keep = np.where(truncates, start > 0, ~grows | ((mode & _KEEP_SIZE) == 0))
    # Zeros that are written may also make the file longer.
    longer = (what == "zero") & ((mode & (_PUNCH_HOLE | _KEEP_SIZE)) == 0)
    rows = pd.concat([rows[keep], rows[longer].assign(what="grow")], ignore_index=True)
    return sum_cuts(rows.assign(start=rows["start"].where(rows["what"] != "grow", 0)))


def _process_events(events: Batch, notes: Mapping[str, Noted]) -> pd.DataFrame:
    """(who, what, pid, ns): the children that were created, and those whose end was seen."""
    made, ended = notes["fork"], notes["wait"]
    row = np.concatenate((made.row, ended.row))
    ends = np.repeat((0, 1), (len(made.row), len(ended.row)))
    number = {name: events.number[name][row] for name in ("ret", "ts", "dur")}
    return grouping.frame(
        {
            "who": np.concatenate((made.who, ended.who)),
            "what": np.array(["fork", "wait"], dtype=object)[ends],
            "pid": number["ret"],
            "ns": number["ts"] + number["dur"] * ends,
        }
    )
