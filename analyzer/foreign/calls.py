"""The core's names of functions for other tracers' names: by symbol, `fopen64` is `fopen` of category STDIO."""

from __future__ import annotations

import json
from functools import cache
from urllib.parse import quote

from tailrace import _native
from tailrace.base.text import clean

_FLAGS = {"r": 0, "w": 0o1101, "a": 0o2101}
"""open(2)'s flags of a mode of fopen(3), without `+`."""


@cache
def known() -> dict[str, tuple[str, str]]:
    """Symbol -> (event name, category)."""
    return {symbol: (name, category) for symbol, name, category in _native.hooks()}


def flags_of_mode(mode: str) -> int | None:
    """open(2)'s flags for a mode of fopen(3); None where it is none."""
    flags = _FLAGS.get(mode[:1])
    return flags if flags is None or "+" not in mode else flags & ~0o3 | 0o2


def context(**tags: str) -> tuple[str, str]:
    """The canonical tag string and the members of lines, for `_native.ForeignWriter.context`."""
    values = {key: clean(value) for key, value in tags.items()}
    text = ",".join(f"{key}={quote(value, safe='_.:/@+-')}" for key, value in values.items())
    return text, "".join(f',"{key}":{json.dumps(value)}' for key, value in values.items())
