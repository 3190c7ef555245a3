"""Numbers and names for people. Bytes are in powers of 1024, times in the unit that fits, both with three significant
digits."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def bytes_text(amount: float) -> str:
    """1536 -> "1.50 KiB"."""
    value, unit = float(amount), 0
    while abs(value) >= 1024 and unit < len(BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{_three(value)} {BYTE_UNITS[unit]}"


def count_text(number: int, one: str, plural: str = "s") -> str:
    """2, "stage" -> "2 stages"."""
    return f"{number:,} {one}" + ("" if number == 1 else plural)


def time_text(amount_ns: float) -> str:
    """1500000 -> "1.50 ms"; from two minutes on minutes and seconds, from two hours on hours and minutes."""
    seconds = amount_ns / 1e9
    if seconds >= 7200:
        return _two(seconds // 3600, "h", seconds % 3600 // 60, "min")
    if seconds >= 120:
        return _two(seconds // 60, "min", seconds % 60, "s")
    for size, unit in TIME_UNITS:
        if amount_ns >= size:
            return f"{_three(amount_ns / size)} {unit}"
    return "0 s"


def _two(amount: float, unit: str, rest: float, smaller: str) -> str:
    return f"{int(amount)} {unit}" + (f" {int(rest)} {smaller}" if int(rest) else "")


def _three(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def moment_text(ns: int | None, first_ns: int | None) -> str:
    """A time of the run, from its first event on: "+1.250 s"; "" where it is unknown. first_ns: 0 for a date, UTC."""
    if ns is None or first_ns is None:
        return ""
    if first_ns == 0:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        return "an impossible time"
    return f"+{(ns - first_ns) / 1e9:.3f} s"


def percent_text(part: int, whole: int) -> str:
    """A share as a percentage, truncated, not rounded: 100% means that nothing is missing."""
    if whole == 0 or part >= whole:
        return "100%"
    thousandths = part * 100_000 // whole
    return f"{thousandths / 1000:.2f}%" if thousandths < 99_900 else f"{thousandths / 1000:.3f}%"


def with_stage(name: str, stage: str) -> str:
    """A task's name with its stage in front, unless it contains the stage already: "scan 22"."""
    return name if not stage or stage in name else f"{stage} {name}"


def shortened(name: str, length: int) -> str:
    """A name of at most `length` characters: the middle of a longer one is left out."""
    half = (length - 1) // 2
    return name if len(name) <= length else f"{name[: length - 1 - half]}\u2026{name[-half:]}"
