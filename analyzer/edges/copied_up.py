"""Files of an overlay that were copied up: one file, though its identity changed.

    stat, read         lower layer    7:42:1000:<birth in the lower layer>
    open for writing   copied up      7:42:1000:<birth of the copy>            the same file, the same inode number

A file of a lower layer gets another birth time when it is first opened for writing (overlayfs), and keeps its inode
number. So of two identities of one host, device and inode on an overlay the later one is the same file, unless the
first one's name was removed or given to another file before, or a call certainly made the second one (O_EXCL). A file
with several hard links gets another inode number when it is copied up, and is no more the file of its other names: that
one is two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tailrace.analyzer.edges import edge_table, identities, row_order
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.store.mounts import Place
from tailrace.analyzer.util.types import Ints

_IDENTITY = re.compile(r"(?P<inode>(?P<host>.+):\d+:\d+:\d+):\d+")
OVERLAYS = frozenset({"overlay", "overlayfs", "fuse.fuse-overlayfs"})
_KEYED = ("aliases", "bursts", "facts", "cuts", "patterns", "sizes")


def join(table: EdgeTable, mount_of: Callable[[str, str], Place | None]) -> EdgeTable:
    """The edge table with the rows of each copy at the file that was copied up. mount_of: `mounts.finder`."""
    target = _targets(table, mount_of)
    if target is None:
        return table
    moved = {}
    for name in _KEYED:
        rows = getattr(table, name)
        moved[name] = rows.assign(file=np.append(target, -1)[rows["file"].to_numpy(dtype=np.int64)])
    # Rows of one key are summed; the codes of files stay, also of those that have no rows any more.
    same = replace(table, **moved)
    joined = edge_table.combine([same])
    return row_order.ordered(joined)


def _targets(table: EdgeTable, mount_of: Callable[[str, str], Place | None]) -> Ints | None:
    """Each file's code, of a copy that of the file that was copied up; None without a copy."""
    names = table.files["file"].to_numpy()
    by_inode: dict[str, list[int]] = {}
    for code, name in enumerate(names):
        found = _IDENTITY.fullmatch(str(name))
        if found:
            by_inode.setdefault(found["inode"], []).append(code)
    several = [codes for codes in by_inode.values() if len(codes) > 1]
    if not several:
        return None
    paths = edge_table.last_paths(table)
    aliases = table.aliases.groupby("file")["first_ns"].min()
    ended = identities.removals(table).groupby("file")["ns"].min().to_dict()
    new = set(table.facts["file"][table.facts["what"] == "new"].tolist())
    target = np.arange(len(names), dtype=np.int64)
    for codes in several:
        match = _IDENTITY.fullmatch(str(names[codes[0]]))
        place = mount_of(match["host"], str(paths[codes[0]])) if match else None
        if place is None or place.fstype not in OVERLAYS:
            continue
        codes.sort(key=lambda code: int(aliases.get(code, 0)))
        for before, after in pairwise(codes):
            if after not in new and ended.get(before, np.iinfo(np.int64).max) > aliases.get(after, 0):
                target[after] = target[before]
    return target if (target != np.arange(len(names))).any() else None
