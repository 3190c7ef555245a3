"""Keys of regions from names and values of other tracers' interfaces, which may be anything (dftracer.py,
opentelemetry.py): a name becomes a tag's key, a value its text."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

NUMBERS = ("epoch", "step")
"""Arguments of a region that are whole numbers."""


@functools.lru_cache(maxsize=4096)
def key(name: str) -> str:
    """A name as a tag's: other tracers take any."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name.lower())[:64]
    return plain if plain[:1].isalpha() else f"k{plain}"[:64]


def of_any(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `regions.region`: epoch and step where they are whole numbers, further keys with texts of at most
    256 characters. None is left out."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in NUMBERS and _is_whole(value):
            found[name] = value
        else:
            # Epochs and steps that are no whole numbers are keys of another name.
            text = str(value)[:256]
            if not text.isprintable():
                text = "".join(c for c in text if c.isprintable())
            found[f"{name}_" if name in NUMBERS else key(name)] = text
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**62) < value < 2**62
