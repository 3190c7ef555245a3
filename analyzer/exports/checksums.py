"""Checksums of versions of files: of those that are still on this machine as the run left them.

    versions --PresentFiles--> Checksums.of(version), and notes on those that have none

Invariant: a checksum belongs to the bytes of its version. So only the last version of a file has one, and only if
nobody changed the file since (insights/present_files.py).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tailrace.analyzer.edges.edge_table import STREAM_TYPES
from tailrace.analyzer.insights.present_files import ANOTHER, CHANGED, GONE, SAME, UNREADABLE, PresentFiles
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util.formatting import count_text

_OLDER = "older"
_REASONS = {
    _OLDER: "written again later in the run",
    CHANGED: "changed since the run",
    GONE: "no longer there",
    ANOTHER: "replaced by other files since",
    UNREADABLE: "that can't be read",
}


class Checksums:
    """The checksums of a model's versions. Reads each file once."""

    def __init__(self, m: Model) -> None:
        self._file, self._number = (m.versions.table[name].to_numpy(dtype=np.int64) for name in ("file", "number"))
        self._last = np.full(len(m.table.files), -1, dtype=np.int64)
        np.maximum.at(self._last, self._file, self._number)
        self._streams = m.table.files["ftype"].isin(STREAM_TYPES).to_numpy()
        self._present = PresentFiles(m)
        self._asked: Counter[str] = Counter()

    def of(self, version: int) -> str | None:
        """The SHA-256 (hex) of a version, by its row in the model's table; None where its bytes are not there."""
        code = int(self._file[version])
        if self._streams[code]:
            return None
        state, sha256 = _OLDER, None
        if int(self._number[version]) == self._last[code]:
            now = self._present.of(code)
            state, sha256 = now.state, now.sha256 if now.state == SAME else None
        self._asked[state] += 1
        return sha256

    def notes(self) -> list[str]:
        """A note on the versions that were asked for and have none."""
        without = self._asked.total() - self._asked[SAME]
        if not without:
            return []
        words = ", ".join(f"{self._asked[state]:,} {words}" for state, words in _REASONS.items() if self._asked[state])
        return [f"without a checksum: {count_text(without, 'version')} of files ({words})"]
