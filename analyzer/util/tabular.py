"""What a dataclass of tables prints: their names and sizes, not their rows."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from typing import Any, ClassVar

from tailrace.analyzer.util.html import lines


class Tabular:
    """Base of dataclasses whose fields are tables and arrays. To be declared with `@dataclass(repr=False)`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    title: ClassVar[str] = ""
    """What it is called, where that is not the class's name."""

    def __repr__(self) -> str:
        public = [field.name for field in fields(self) if not field.name.startswith("_")]
        return lines(
            f"{type(self).__name__}: " + ", ".join(f"{name} ({_size(getattr(self, name))})" for name in public)
        )


def _size(value: object) -> str:
    columns = getattr(value, "columns", None)
    if isinstance(value, Sized) and columns is not None:
        return f"{len(value):,} rows"
    if isinstance(value, Tabular):
        return type(value).__name__
    if isinstance(value, str | int | float | None):
        return repr(value) if not isinstance(value, int) or isinstance(value, bool) else f"{value:,}"
    first = getattr(value, "group", value)  # intervals are parallel arrays
    return f"{len(first):,}" if isinstance(first, Sized) else type(value).__name__
