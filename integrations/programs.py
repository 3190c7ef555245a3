"""Which programs can carry the core: a preloaded library needs glibc's loader, and a loader that lets it in.

Only the first program of a run is looked at here; the core itself looks at what that one starts.
"""

import shutil
from dataclasses import dataclass

from tailrace import _native

_REASONS = {
    "static": "is statically linked, so that only what it starts can be traced",
    "go": "is a statically linked Go program, so that only what it starts with libc can be traced",
    "musl": "is linked with musl, and the core needs glibc",
    "setuid": "is set-uid, set-gid or has capabilities, and the loader keeps preloaded libraries out of such programs",
    "machine": "is for another processor or word size than the core",
}
_BREAKS = {"musl", "machine"}


@dataclass(frozen=True)
class Obstacle:
    """Why a program can't carry the core.

    word: as in the trace (docs/trace-format.md, "Programs that are not traced"). breaks: with the core in its
    environment it won't even start, or complains.
    """

    word: str
    program: str

    @property
    def reason(self) -> str:
        """In words, with the program's path."""
        return f"{self.program} {_REASONS[self.word]}"

    @property
    def breaks(self) -> bool:
        """Whether the program fails with the core in its environment."""
        return self.word in _BREAKS


def find_obstacle(command: str) -> Obstacle | None:
    """What keeps the core out of `command` (found by PATH); None when nothing does, or when it can't be read."""
    found = shutil.which(command)
    word = _native.obstacle(found) if found is not None else ""
    return Obstacle(word, found or command) if word else None
