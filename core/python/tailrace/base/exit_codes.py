"""How a program ended, from its exit code in a shell's convention, in which 128+n stands for signal n.

ended(3)    ->  ("failed", "exit code 3")
ended(137)  ->  ("killed", "signal 9 (SIGKILL)")
cause(141)  ->  "since a command of its pipe was ended by SIGPIPE (its reader had ended first)"
"""

from __future__ import annotations

import re
import signal

BY_SIGNAL = 128
"""A shell's exit code for signal n is this plus n."""
CRASHES = frozenset(
    {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
)
"""Signals by which a program ends for a fault of its own."""
PIPE_ADVICE = (
    "Let the reader read to the end (`awk 'NR <= 10'` in the place of `head`), or run this pipe without `pipefail`: its"
    " writer is asked to stop by SIGPIPE, which is no fault."
)
_TOLD = re.compile(r"exit(?:ed)?(?: with)?(?: non-zero)?(?: exit)? (?:status|code)\D{0,3}(\d+)", re.IGNORECASE)
"""The exit code in the words of a manager: "returned non-zero exit status 141", "exit code: 141"."""


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


def cause(code: int) -> str:
    """What a shell's exit code says of the program by whose end it ended; "" for a code of no signal."""
    number = signal_of(code)
    if number is None or not signal_name(number):
        return ""
    if number == signal.SIGPIPE:
        return "since a command of its pipe was ended by SIGPIPE (its reader had ended first)"
    return f"since a program in it was killed by {signal_text(number)}"


def code_in(text: str) -> int:
    """The exit code that a manager's error names; 0 where it names none."""
    told = _TOLD.search(text)
    return int(told[1]) if told and len(told[1]) <= 3 else 0


def is_pipe_end(code: int) -> bool:
    """Whether an exit code stands for SIGPIPE."""
    return signal_of(code) == signal.SIGPIPE
