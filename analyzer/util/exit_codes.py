"""How a program ended, from its exit code in a shell's convention, in which 128+n stands for signal n.

ended(3)    ->  ("failed", "exit code 3")
ended(137)  ->  ("killed", "signal 9 (SIGKILL)")
"""

from __future__ import annotations

import signal

BY_SIGNAL = 128
"""A shell's exit code for signal n is this plus n."""
CRASHES = frozenset(
    {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
)
"""Signals by which a program ends for a fault of its own."""


def signal_name(number: int) -> str:
    """9 -> "SIGKILL"; "" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def signal_text(number: int) -> str:
    """9 -> "signal 9 (SIGKILL)"."""
    name = signal_name(number)
    return f"signal {number} ({name})" if name else f"signal {number}"


def signal_of(code: int) -> int | None:
    """The signal that an exit code of a shell, or a negative one of Python's subprocess, stands for."""
    number = -code if code < 0 else code - BY_SIGNAL
    return number if number in {int(known) for known in signal.valid_signals()} else None


def ended(code: int) -> tuple[str, str]:
    """The status (docs/declared-dag.md) and the reason for an exit code; ("done", "") for 0."""
    if code == 0:
        return "done", ""
    number = signal_of(code)
    return ("failed", f"exit code {code}") if number is None else ("killed", signal_text(number))
