"""Which programs can be traced: preloading needs glibc's dynamic linker, in its unprivileged mode.

Only the first program of a run is checked here; the core checks the programs that a traced process starts.
"""

import shutil
import sys
from dataclasses import dataclass

from tailrace import _native

_REASONS = {
    "static": "is statically linked, so only the processes it starts can be traced",
    "go": "is a statically linked Go program, so only the processes it starts can be traced",
    "musl": "is linked with musl, and the core needs glibc",
    "setuid": "is set-uid, set-gid or has capabilities, and the dynamic linker ignores LD_PRELOAD for such programs",
    "machine": "is for another processor or word size than the core",
}
_BREAKS = {"musl", "machine"}


@dataclass(frozen=True)
class Obstacle:
    """Why a program can't be traced.

    word: the reason as in the trace (docs/trace-format.md, "Programs that are not traced").
    """

    word: str
    program: str

    @property
    def reason(self) -> str:
        """The reason as a sentence that begins with the program's path."""
        return f"{self.program} {_REASONS[self.word]}"

    @property
    def breaks(self) -> bool:
        """Whether the program fails to start, or complains, with the core in LD_PRELOAD."""
        return self.word in _BREAKS


def module_command(module: str) -> list[str]:
    """The command that runs a module of ours, without the working directory among the places of modules: whoever may
    write there could put a module of his in front (Python 3.11)."""
    return [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-m", module]


def find_obstacle(command: str) -> Obstacle | None:
    """Why `command` (found by PATH) can't be traced; None when it can, or when it is unreadable."""
    found = shutil.which(command)
    word = _native.obstacle(found) if found is not None else ""
    return Obstacle(word, found or command) if word else None
