"""Files that processes inherited open.

A process that moves bytes of a file which it didn't open has the descriptor of the process that made it. Processes that
have one open file from a common ancestor share its position (open(2), "open file description"): the kernel takes and
moves it in one step for each read and write (write(2)), so two of them never write the same bytes, unless they seek.
The trace has the position that such a call left, read after it, where another process may have moved it on: of bytes
that two of them seem to have written both, the offsets are not known.

Invariant: processes without a common ancestor in the trace share nothing here, since nobody knows who opened their
files.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import process_tree
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.util.types import Ints


class Inherited:
    """Which processes of a run have which file open from a common ancestor."""

    def __init__(self, inputs: Inputs) -> None:
        self._m, self._lives = inputs.m, inputs.lives
        self._chains: dict[tuple[int, int], frozenset[int]] = {}

    def is_shared(self, one: int, other: int, file: int) -> bool:
        """Whether two actors of different processes have a file (a code of the model) open from a common ancestor."""
        process = self._lives.process
        first, second = int(process[one]), int(process[other])
        if first == second:
            return False
        return not self._chain(first, file).isdisjoint(self._chain(second, file))

    def _chain(self, process: int, file: int) -> frozenset[int]:
        """The process and its ancestors, up to the first that opened the file itself, and with that one."""
        key = (process, file)
        if key not in self._chains:
            found: set[int] = set()
            while process >= 0 and process not in found:
                found.add(process)
                process = -1 if (process, file) in self._opened else int(self._parents[process])
            self._chains[key] = frozenset(found)
        return self._chains[key]

    @cached_property
    def _parents(self) -> Ints:
        return process_tree.parents(self._m, self._lives)

    @cached_property
    def _opened(self) -> set[tuple[int, int]]:
        rows = self._m.table.patterns
        rows = rows[((rows["dir"] == edge_table.META) & (rows["opens"] > 0)).to_numpy(dtype=np.bool_)]
        process = self._lives.process[rows["who"].to_numpy(dtype=np.int64)]
        return set(zip(process.tolist(), rows["file"].tolist(), strict=True))
