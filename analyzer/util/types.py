"""Names for the types of arrays, rows, documents and graphs, used in all packages of the analyzer.

`Any` is used only where a library leaves a type open, under one name for each: `Array` (numpy, the dtype), `Row`
(pandas), `SqlRow` (sqlite3), `Attributes` (networkx); beyond these for rows that are made of them
(`ledger.Row`, `summary.limits.JsonObject`), keyword filters of events, whose keys are columns, and dataclasses
that are filled by field name. A document that was read from a file is unchecked: its values are `object` until
`isinstance` narrows them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Codes: TypeAlias = "npt.NDArray[np.int32]"
Objects: TypeAlias = "npt.NDArray[np.object_]"
Array: TypeAlias = "npt.NDArray[Any]"
"""An array of any dtype."""

Row: TypeAlias = Mapping[Hashable, Any]
"""A row of a frame: `frame.to_dict("records")`."""

SqlValue: TypeAlias = str | int | float | bytes | None
"""A value of a row of SQLite."""
SqlRow: TypeAlias = tuple[Any, ...]
"""A row that sqlite3 read, whose types it leaves open."""

Document: TypeAlias = dict[str, object]
"""A JSON object read from a file; its values are unchecked."""
Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
"""A value that JSON can hold."""

Attributes: TypeAlias = Mapping[str, Any]
"""The attributes of a node or edge of a graph, whose types networkx leaves open."""
Graph: TypeAlias = "nx.MultiDiGraph[str]"
"""A dataflow graph (tailrace.analyzer.model.graphs); its nodes are strings."""
