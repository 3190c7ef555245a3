"""Checksums of a lineage's files: of those that are still on this machine as the run left them.

    artifacts --PresentFiles--> Artifact.sha256, and notes on those that have none

Invariant: a checksum belongs to the bytes of its version. So only the last version of a file has one, and only if
nobody changed the file since (insights/present_files.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailrace.analyzer.edges.edge_table import STREAM_TYPES
from tailrace.analyzer.insights.present_files import ANOTHER, CHANGED, GONE, SAME, UNREADABLE, PresentFiles
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util.formatting import count_text

if TYPE_CHECKING:
    from tailrace.analyzer.exports.lineage import Artifact

_OLDER = "older"
_REASONS = {
    _OLDER: "written again later in the run",
    CHANGED: "changed since the run",
    GONE: "no longer there",
    ANOTHER: "replaced by other files since",
    UNREADABLE: "that can't be read",
}


def add_checksums(m: Model, artifacts: Sequence[Artifact]) -> list[str]:
    """Sets `sha256` (hex) of the artifacts whose bytes are still there; reads these files. Returns a note on the
    others."""
    table = m.versions.table
    file, number = (table[name].to_numpy(dtype=np.int64) for name in ("file", "number"))
    last = np.full(len(m.table.files), -1, dtype=np.int64)
    np.maximum.at(last, file, number)
    streams = m.table.files["ftype"].isin(STREAM_TYPES).to_numpy()
    present = PresentFiles(m)
    reasons: Counter[str] = Counter()
    for artifact in artifacts:
        code = int(file[artifact.version])
        if streams[code]:
            continue
        state = _OLDER
        if int(number[artifact.version]) == last[code]:
            now = present.of(code)
            state, artifact.sha256 = now.state, now.sha256 if now.state == SAME else None
        reasons[state] += 1
    without = reasons.total() - reasons.pop(SAME, 0)
    if not without:
        return []
    words = ", ".join(f"{reasons[state]:,} {words}" for state, words in _REASONS.items() if reasons[state])
    return [f"without a checksum: {count_text(without, 'version')} of files ({words})"]
