"""Sizes and times as a person types them, in the units of the columns of events: bytes and ns."""

from __future__ import annotations

import re
from fractions import Fraction

from tailrace.errors import QueryError

# K, M, G and T without a B are powers of 1024, as in dd(1) and ls(1); kB and MB are those of 1000 (IEC 80000-13).
BYTES = {
    "B": 1,
    **{letter + end: 1024**power for power, letter in enumerate("KMGT", 1) for end in ("", "iB")},
    **{name: 1000**power for power, name in enumerate(("kB", "MB", "GB", "TB"), 1)},
}
TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_UNITS = {"bytes": BYTES, "ns": TIMES, "ns since the epoch": {"ns": 1}}
_MICRO = {0xB5: "u", 0x3BC: "u"}
"""MICRO SIGN and GREEK SMALL LETTER MU."""
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([A-Za-z\u00b5\u03bc]*)\s*", re.ASCII)


def whole(text: str, unit: str) -> int:
    """`text` as a whole number of `unit` (`schema.Column.unit`): "4KiB" in bytes is 4096, "1.5ms" in ns 1500000;
    without a unit it is in `unit`. Raises QueryError with the units that there are."""
    units = _UNITS.get(unit, {})
    match = _QUANTITY.fullmatch(text)
    given = match[2].translate(_MICRO) if match else ""
    any_case = {name.lower(): size for name, size in units.items()}
    factor = 1 if not given else units.get(given, any_case.get(given.lower()))
    if match is None or factor is None:
        example = f", as in 5, or with a unit: {', '.join(units)}" if units else ""
        raise QueryError(f"{text!r} is no whole number{f' of {unit}' if unit else ''}{example}")
    value = Fraction(match[1]) * factor
    if value.denominator != 1:
        raise QueryError(f"{text!r} is {float(value)} {unit}: give a whole number of it")
    return int(value)
