"""Reads whose writer may have been on another host that has, or may have, the same file.

Two hosts' files are one where the file systems are known to be one (store/mounts.py). Of a host that nobody described
that can't be told: what it reads may have been written under the same name elsewhere in the run, and what it wrote may
have been read elsewhere. Such bytes are not "before the run".
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import READ
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util.types import Bools


def files(m: Model) -> Bools:
    """True for the files (codes of `m.table.files`) that have a namesake, written on another host, with which they may
    be one: one of the two hosts is not described."""
    found = np.zeros(len(m.table.files), dtype=np.bool_)
    if not m.undescribed:
        return found
    uses = pd.DataFrame(
        {
            "file": m.bursts["file"].to_numpy(),
            "path": m.paths[m.bursts["file"].to_numpy()],
            "host": m.who["host"].to_numpy()[m.bursts["who"].to_numpy()],
            "reads": m.bursts["dir"].to_numpy() == READ,
        }
    ).drop_duplicates()
    writes = uses[~uses["reads"]]
    pairs = uses[uses["reads"]].merge(writes, on="path", suffixes=("", "_writer"))
    pairs = pairs[(pairs["host"] != pairs["host_writer"]) & (pairs["file"] != pairs["file_writer"])]
    unknown = pairs["host"].isin(m.undescribed) | pairs["host_writer"].isin(m.undescribed)
    found[pairs.loc[unknown, "file"].to_numpy(dtype=np.int64)] = True
    return found
