"""Files whose identity came again: an inode is reused, and the new file has the number of the removed one.

An identity is (device, inode, birth time). File systems reuse inodes at once, and the clock of birth times ticks every
4 or 10 ms or does not exist (NFS), so a file that is created right after another one was removed can have its
identity. Then the identity names one file up to the removal of its last name, and another one from the next creation:

    lock:  create  write  unlink
    result:                        create  write  ...  read          (the same identity)
           └──── identity ───────┘ └──── identity~2 ─────────┘

What ends a file is the removal of its last name: unlink, remove, rmdir, or a rename to its name. Names are counted: one
at the creation (none with O_TMPFILE), one more for each hard link. What begins the next one is the next call that can
create a file (O_CREAT, mkstemp, mkdir, ...) and got this identity. What happens between the two belongs to the file
that ended, through descriptors: as long as one is open, its inode is in use. A call that is certain to have made the
file (O_EXCL, mkstemp) begins one even where no removal was seen (an untraced program removed it); but not where several
hosts saw the identity, since their clocks may differ.

    events of a partition --split--> identity~NS, where the partition itself shows it --fold, combine--> EdgeTable
    EdgeTable             --resolve--> identity, identity~2, identity~3 by the removals and creations of all processes

`split` keeps apart what the fold would otherwise merge into one access burst; `resolve` decides. A table can be
resolved again after its times have changed (clocks.py).

Only the analyzer sees all processes: a rank removes its lock file, and another one's result gets the inode in the same
tick. Rejected: the inode's generation (FS_IOC_GETVERSION), one more call an open, and none for a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from tailrace import _native
from tailrace.analyzer.edges import edge_table, row_order
from tailrace.analyzer.edges.batch import Batch, Text
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Bools, Ints, Objects

MARK = "~"
_KERNELS = re.compile(r":\d+:\d*(?:~\d+)?$")
"""The end of an identity that the kernel gave: inode and birth time. Other tracers' files are known by their paths."""

REMOVED, MADE, NEW, NAMELESS, LINKED = range(5)
"""What happens to the names of a file, in the order in which simultaneous ones count."""
_FACTS = {"unlink": REMOVED, "create": MADE, "new": NEW, "nameless": NAMELESS, "link": LINKED}

O_CREAT, O_EXCL, O_TEMPORARY = 0o100, 0o200, 0o20000000


def raw(identity: str) -> str:
    """The identity as the kernel gave it, without the number of its use."""
    return identity.rsplit(MARK, 1)[0] if MARK in identity and _KERNELS.search(identity) else identity


@dataclass(frozen=True)
class Happened:
    """What happened to the names of a file: when, and a kind from `REMOVED` on.

    sorted_ns: what the order goes by, the begin of a removal and the end of a creation, since a creation waits in the
    kernel for the removal that it overlaps; begin_ns: when the call began.
    """

    sorted_ns: int
    kind: int
    begin_ns: int


def begins(happened: Iterable[Happened], seen_ns: int) -> list[int]:
    """The times from which on an identity names another file than before, ascending.

    Args:
        seen_ns: when a call on the identity had first been seen; a certain creation after it begins another file.
    """
    found: list[int] = []
    names, removed_ns = 1, 0
    for now in sorted(happened, key=lambda one: (one.sorted_ns, one.kind)):
        if now.kind == REMOVED:
            names, removed_ns = max(names - 1, 0), now.begin_ns
        elif now.kind == LINKED:
            names += 1
        elif now.kind == NAMELESS:
            names, removed_ns = 0, now.begin_ns
        else:
            at = max(now.begin_ns, removed_ns + 1)
            another = names == 0 if now.kind == MADE else at > seen_ns
            if another and (not found or at > found[-1]):
                found.append(at)
            if another or now.kind == NEW:
                names = 1
    return found


# --- a partition of events -------------------------------------------------------------------------------------------


def split(events: Batch, meanings: Mapping[str, npt.NDArray[np.uint32]]) -> Batch:
    """The events with `identity~NS` for the files that began at NS as the second or a later one of their identity.

    Args:
        meanings: what each text of the columns name and cat means, by its position in `Text.texts`: bits of
            `_native.bits`.
    """
    kinds = _kinds(events, meanings["name"])
    rows = np.flatnonzero(kinds)
    file, ts = events.text["file"], events.number["ts"]
    ended, made, new = (rows[(kinds[rows] & 1 << kind) != 0] for kind in (REMOVED, MADE, NEW))
    ended = np.concatenate((ended, rows[(kinds[rows] & 1 << NAMELESS) != 0]))
    never = np.iinfo(np.int64).max
    first_end = np.full(len(file.texts), never)
    np.minimum.at(first_end, file.code[ended], ts[ended])
    again = np.zeros(len(file.texts), dtype=np.bool_)
    again[file.code[made[ts[made] > first_end[file.code[made]]]]] = True
    again[_seen_before(events, new)] = True
    again[[not _KERNELS.search(text or "") for text in file.texts]] = False
    if not again.any():
        return events
    places = _places(events, kinds, again)
    above = meanings["cat"][events.text["cat"].code] & np.uint32(_native.bits()["upper"]) != 0
    when = ts + np.where(above, events.number["dur"], 0)  # a call of HDF5 begins before the open in it
    texts = {name: _renamed(events.text[name], when, places) for name in ("file", "file2")}
    return replace(events, text={**events.text, **texts})


def _kinds(events: Batch, meanings: npt.NDArray[np.uint32]) -> Ints:
    """What each event does to its file's names: a set of bits 1 << kind; 0 for most."""
    bit = _native.bits()
    wanted = sum(bit[name] for name in ("opens", "makes", "new", "nameless", "unlinks", "links"))
    kinds = np.zeros(len(events.number["ts"]), dtype=np.int64)
    of_row = meanings[events.text["name"].code]
    rows = np.flatnonzero(of_row & np.uint32(wanted))
    number = events.number
    succeeded = (number["errno"][rows] == 0) & (number["ret"][rows] >= 0) & (events.text["file"].code[rows] > 0)
    rows = rows[succeeded]
    means, flags = of_row[rows].astype(np.int64), number["flags"][rows]
    opens = (means & bit["opens"]) != 0
    temporary = opens & ((flags & O_TEMPORARY) != 0)
    creates = opens & ((flags & O_CREAT) != 0)
    facts = {
        REMOVED: (means & bit["unlinks"]) != 0,
        MADE: creates | ((means & (bit["makes"] | bit["new"])) != 0) | temporary,
        NEW: (creates & ((flags & O_EXCL) != 0)) | ((means & bit["new"]) != 0) | temporary,
        NAMELESS: ((means & bit["nameless"]) != 0) | temporary,
        LINKED: (means & bit["links"]) != 0,
    }
    for kind, true in facts.items():
        kinds[rows[true]] |= 1 << kind
    return kinds


def _seen_before(events: Batch, new: Ints) -> Ints:
    """The codes of files that were certainly made by an event of `new` and seen before it, on one host."""
    file, ts, host = events.text["file"], events.number["ts"], events.text["host"].code
    wanted = np.zeros(len(file.texts), dtype=np.bool_)
    wanted[file.code[new]] = True
    rows = np.flatnonzero(wanted[file.code])
    first = np.full(len(file.texts), np.iinfo(np.int64).max)
    np.minimum.at(first, file.code[rows], _first_ends(events, rows))
    low, high = np.full(len(file.texts), len(events.text["host"].texts)), np.full(len(file.texts), -1)
    np.minimum.at(low, file.code[rows], host[rows])
    np.maximum.at(high, file.code[rows], host[rows])
    found = file.code[new[ts[new] > first[file.code[new]]]]
    return np.asarray(found[low[found] == high[found]], dtype=np.int64)


def _first_ends(events: Batch, rows: Ints) -> Ints:
    """When the first call of each row was over; of totals, whose `dur` is a sum, when it began."""
    number = events.number
    return np.asarray(number["ts"][rows] + np.where(number["span"][rows] < 0, number["dur"][rows], 0), dtype=np.int64)


def _places(events: Batch, kinds: Ints, again: Bools) -> dict[str, list[int]]:
    """identity -> when another file of it begins, for the files of `again`."""
    file, ts, dur, host = events.text["file"], events.number["ts"], events.number["dur"], events.text["host"].code
    rows = np.flatnonzero(again[file.code])
    found = {}
    groups = grouping.groups(file.code[rows].astype(np.int64))
    for mine in np.split(rows[groups.order], groups.at[1:]):
        one_host = len(np.unique(host[mine])) == 1
        happened = [
            Happened(int(ts[row] + (0 if kind == REMOVED else dur[row])), kind, int(ts[row]))
            for row in mine[kinds[mine] != 0].tolist()
            for kind in range(len(_FACTS))
            if kinds[row] & 1 << kind and (kind != NEW or one_host)
        ]
        found[str(file.texts[file.code[mine[0]]])] = begins(happened, int(_first_ends(events, mine).min()))
    return found


def _renamed(column: Text, ts: Ints, places: dict[str, list[int]]) -> Text:
    """A column of identities, with `~NS` from each begin of `places` on."""
    known = np.array([places.get(text) is not None for text in column.texts], dtype=np.bool_)
    rows = np.flatnonzero(known[column.code])
    if not len(rows):
        return column
    texts = column.at(rows)
    renamed = texts.copy()
    for i, (text, at) in enumerate(zip(texts, ts[rows].tolist(), strict=True)):
        begun = places[text]
        use = int(np.searchsorted(begun, at, side="right"))
        if use:
            renamed[i] = f"{text}{MARK}{begun[use - 1]}"
    return column.put(rows, renamed)


# --- the whole table -------------------------------------------------------------------------------------------------


def resolve(table: EdgeTable) -> EdgeTable:
    """The table with a file of its own for each use of an identity: `identity`, `identity~2`, `identity~3`, ...; its
    rows in their order (row_order.py)."""
    table = row_order.ordered(table)
    names = table.files["file"].to_numpy()
    marked = np.array([MARK in name for name in names], dtype=np.bool_)
    kernels = np.array([raw(name) if flag else name for name, flag in zip(names, marked, strict=True)], dtype=object)
    base, _ = pd.factorize(kernels) if marked.any() else (np.arange(len(names)), names)
    starts = _starts(table, base.astype(np.int64), kernels)
    if not starts and not marked.any():
        return table
    return _renumbered(table, base.astype(np.int64), kernels, starts)


def _starts(table: EdgeTable, base: Ints, kernels: Objects) -> dict[int, list[int]]:
    """base -> when another file of the identity begins, for identities that name several files."""
    facts = table.facts[(table.facts["file"] >= 0) & table.facts["what"].isin(list(_FACTS))]
    rows = pd.DataFrame({"base": base[facts["file"].to_numpy()], "kind": facts["what"].map(_FACTS)}).assign(
        first_ns=facts["first_ns"].to_numpy(), last_ns=facts["last_ns"].to_numpy()
    )
    rows = pd.concat([rows, _replaced(table, base)], ignore_index=True)
    end, seen = np.full((2, len(kernels)), np.iinfo(np.int64).max)
    kind, of_row, first, last = (rows[name].to_numpy() for name in ("kind", "base", "first_ns", "last_ns"))
    ending = (kind == REMOVED) | (kind == NAMELESS)
    np.minimum.at(end, of_row[ending], first[ending])
    # Not the aliases: a call of HDF5 begins before the open in it.
    np.minimum.at(seen, of_row, first)
    np.minimum.at(seen, base[table.bursts["file"].to_numpy()], table.bursts["first_ns"].to_numpy())
    again = ((kind == MADE) & (last > end[of_row])) | ((kind == NEW) & (last > seen[of_row]))
    rows = rows[np.isin(of_row, of_row[again])]
    several = _on_several_hosts(table, base, rows["base"].unique())
    found = {}
    for one, mine in rows.groupby("base"):
        code = int(one)
        if not _KERNELS.search(str(kernels[int(np.argmax(base == code))])):
            continue
        happened = [
            Happened(int(first if kind == REMOVED else last), int(kind), int(first))
            for first, last, kind in zip(mine["first_ns"], mine["last_ns"], mine["kind"], strict=True)
            if kind != NEW or code not in several
        ]
        found[code] = begins(happened, int(seen[code]))
    return {code: times for code, times in found.items() if times}


def _on_several_hosts(table: EdgeTable, base: Ints, wanted: Ints) -> set[int]:
    """The identities that processes on more than one host accessed."""
    host = pd.factorize(table.who["host"])[0]
    places = []
    for rows in (table.bursts, table.facts[table.facts["file"] >= 0]):
        of_row = base[rows["file"].to_numpy()]
        mine = np.isin(of_row, wanted)
        places.append(np.column_stack((of_row[mine], host[rows["who"].to_numpy()[mine]])))
    codes, count = np.unique(np.unique(np.concatenate(places), axis=0)[:, 0], return_counts=True)
    return set(codes[count > 1].tolist())


def removals(table: EdgeTable) -> pd.DataFrame:
    """When a name of each file of a table was removed, or given to another file by a rename: file (code), ns."""
    facts = table.facts
    removed = facts[(facts["what"] == "unlink").to_numpy() & (facts["file"] >= 0).to_numpy()]
    replaced = _replaced(table, np.arange(len(table.files), dtype=np.int64))
    return grouping.frame(
        {
            "file": np.concatenate((removed["file"], replaced["base"])).astype(np.int64),
            "ns": np.concatenate((removed["last_ns"], replaced["last_ns"])).astype(np.int64),
        }
    )


def _replaced(table: EdgeTable, base: Ints) -> pd.DataFrame:
    """Removals by rename: the file that had a name which another file was given. Whose a name is, follows from when it
    was first seen of a file, from creations and links, and from renames and removals."""
    facts = table.facts[table.facts["file"] >= 0]
    moved = facts[facts["what"] == "rename"]
    if moved.empty:
        nothing = np.zeros(0, dtype=np.int64)
        return pd.DataFrame({"base": nothing, "kind": REMOVED, "first_ns": nothing, "last_ns": nothing})
    targets = moved["path2"].unique()
    taken = [
        (table.aliases, "path", "first_ns", True),
        (facts[facts["what"].isin(("create", "new"))], "path", "last_ns", True),
        (facts[facts["what"].isin(("rename", "link"))], "path2", "last_ns", True),
        (facts[facts["what"].isin(("rename", "unlink"))], "path", "first_ns", False),
    ]
    parts = []
    for rows, path, when, has in taken:
        mine = rows[rows[path].isin(targets)]
        parts.append(
            pd.DataFrame({"path": mine[path], "ns": mine[when], "owner": base[mine["file"].to_numpy()], "has": has})
        )
    owners = pd.concat(parts, ignore_index=True).sort_values("ns", kind="stable")
    renames = pd.DataFrame({"path": moved["path2"], "ns": moved["first_ns"], "mover": base[moved["file"].to_numpy()]})
    pairs = pd.merge_asof(
        renames.sort_values("ns", kind="stable"), owners, on="ns", by="path", allow_exact_matches=False
    )
    pairs = pairs[(pairs["has"] == True) & (pairs["owner"] != pairs["mover"])]  # noqa: E712 (null where none had it)
    return pd.DataFrame(
        {"base": pairs["owner"].astype(np.int64), "kind": REMOVED, "first_ns": pairs["ns"], "last_ns": pairs["ns"]}
    )


class _Uses:
    """The number of the use of an identity at a time: 0 for the first file that it names."""

    def __init__(self, starts: dict[int, list[int]]) -> None:
        self._times = np.unique(np.array([ns for times in starts.values() for ns in times], dtype=np.int64))
        self._width = len(self._times) + 1
        self._keys = np.sort(
            np.array(
                [
                    base * self._width + int(np.searchsorted(self._times, ns, side="right"))
                    for base, times in starts.items()
                    for ns in times
                ],
                dtype=np.int64,
            )
        )
        self._starts = starts

    def at(self, base: Ints, ns: Ints) -> Ints:
        key = base * self._width + np.searchsorted(self._times, ns, side="right")
        found = np.searchsorted(self._keys, key, side="right")
        return np.asarray(found - np.searchsorted(self._keys, base * self._width, side="left"), dtype=np.int64)

    def begin(self, base: int, use: int) -> int:
        """When the use of this number, which is not the first, begins."""
        return self._starts[base][use - 1]


def _renumbered(table: EdgeTable, base: Ints, kernels: Objects, starts: dict[int, list[int]]) -> EdgeTable:
    uses = _Uses(starts)
    most = 1 + max((len(times) for times in starts.values()), default=0)

    def key(rows: pd.DataFrame, when: Ints) -> Ints:
        of_row = base[rows["file"].to_numpy()]
        return np.asarray(of_row * most + uses.at(of_row, when), dtype=np.int64)

    facts, nowhere = table.facts[table.facts["file"] >= 0], table.facts[table.facts["file"] < 0]
    aliases = _cut(table.aliases, base, uses)
    creates = facts["what"].isin(("create", "new", "nameless")).to_numpy()
    keys = [
        key(aliases, aliases["first_ns"].to_numpy()),
        key(facts, np.where(creates, facts["last_ns"], facts["first_ns"])),
        key(table.bursts, table.bursts["first_ns"].to_numpy()),
        key(table.cuts, table.cuts["first_ns"].to_numpy()),
    ]
    origin = np.concatenate([rows["file"].to_numpy() for rows in (aliases, facts, table.bursts, table.cuts)])
    every = np.concatenate(keys)
    own = np.array([MARK in name for name in table.files["file"].to_numpy()], dtype=np.bool_)
    first = np.lexsort((np.arange(len(every)), ~own[origin]))  # a use's own rows tell its type
    files, place = np.unique(every[first], return_index=True)
    source = origin[first][place]
    texts = [
        f"{kernels[at]}{MARK}{use + 1}" if use else kernels[at] for at, use in zip(source, files % most, strict=True)
    ]
    codes = [np.searchsorted(files, one).astype(np.int64) for one in keys]
    of_use = _first_use(table.bursts, codes[2], aliases, codes[0])
    renamed = replace(
        table,
        patterns=table.patterns.assign(file=of_use(table.patterns)),
        sizes=table.sizes.assign(file=of_use(table.sizes)),
        files=grouping.frame({"file": np.array(texts, dtype=object), "ftype": table.files["ftype"].to_numpy()[source]}),
        aliases=aliases.assign(file=codes[0]),
        facts=pd.concat([facts.assign(file=codes[1]), nowhere], ignore_index=True),
        bursts=table.bursts.assign(file=codes[2]),
        cuts=table.cuts.assign(file=codes[3]),
    )
    return row_order.ordered(edge_table.combine([renamed]))


def _first_use(
    bursts: pd.DataFrame, of_burst: Ints, aliases: pd.DataFrame, of_alias: Ints
) -> Callable[[pd.DataFrame], Ints]:
    """The new files of rows by actor, file and direction, which have no times: that of the actor's first burst on it,
    else that of the file's first name."""
    named = dict(zip(aliases["file"].tolist()[::-1], of_alias.tolist()[::-1], strict=True))
    keys = bursts[edge_table.BURST_KEY].itertuples(index=False, name=None)
    first = dict(zip(list(keys)[::-1], of_burst.tolist()[::-1], strict=True))

    def of_rows(rows: pd.DataFrame) -> Ints:
        keys = rows[edge_table.BURST_KEY].itertuples(index=False, name=None)
        return np.array([first.get(key, named.get(key[1], 0)) for key in keys], dtype=np.int64)

    return of_rows


def _cut(aliases: pd.DataFrame, base: Ints, uses: _Uses) -> pd.DataFrame:
    """The names, in two rows where the first and the last time of one lie in different uses: up to the end of the
    first use, and at the last time."""
    of_row = base[aliases["file"].to_numpy()]
    first, last = (uses.at(of_row, aliases[when].to_numpy()) for when in ("first_ns", "last_ns"))
    apart = np.flatnonzero(first != last)
    until = aliases["last_ns"].to_numpy(copy=True)
    until[apart] = [uses.begin(int(of_row[row]), int(first[row]) + 1) - 1 for row in apart.tolist()]
    tail = aliases.iloc[apart]
    return pd.concat([aliases.assign(last_ns=until), tail.assign(first_ns=tail["last_ns"])], ignore_index=True)


class Use(NamedTuple):
    """A file of an identity that names several: the identity as events have it, the file's code, and the times from
    which and before which events of the identity are on this file (of calls above libc, their ends)."""

    identity: str
    code: int
    begin_ns: int
    end_ns: int


def uses(table: EdgeTable) -> list[Use]:
    """The files of identities that name several, in the order of their times."""
    names = table.files["file"].to_numpy()
    shared = {raw(str(name)) for name in names if raw(str(name)) != name}
    seen = np.full(len(names) + 1, np.iinfo(np.int64).max)  # the last: facts without a file
    for rows in (table.aliases, table.facts, table.bursts):
        np.minimum.at(seen, rows["file"].to_numpy(dtype=np.int64), rows["first_ns"].to_numpy(dtype=np.int64))
    found: dict[str, list[tuple[int, int]]] = {}
    for code, name in enumerate(names):
        if (kernel := raw(str(name))) in shared:
            found.setdefault(kernel, []).append((int(seen[code]), code))
    out = []
    for kernel, places in found.items():
        places.sort()
        begins = [0, *(begin for begin, _ in places[1:]), np.iinfo(np.int64).max]
        out += [Use(kernel, code, begins[i], int(begins[i + 1])) for i, (_, code) in enumerate(places)]
    return out
