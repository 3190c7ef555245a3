"""Programs of an ordinary user, where tailrace is installed below a directory that only root may enter (/root).

`reach(directory)` gives the words before a command whose processes may become an ordinary user: in a mount namespace
of its own the closed directories are empty and open, and hold only what the tests need, at its path. Nothing outside of
that namespace changes. `become()` gives the words that make a process one.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tailrace import installation

ID = 65534
"""The user's and the group's number."""
UNNAMED = 65533
"""Another one, which has no entry in /etc/passwd."""

MARKER = pytest.mark.root("becomes another user")

_SOURCE = Path(__file__).resolve().parents[2]
_SEARCH = 0o001


def become(user: int = ID) -> list[str]:
    """Words before a command that root starts: it runs as that user and group alone."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def reach(directory: Path) -> list[str]:
    """Words before a command; none where the user can go everywhere already. Skips where root may not mount.

    directory: the command's working directory or one above it; it stays where it is.
    """
    wanted = {_SOURCE, installation.PACKAGE, Path(sys.prefix), Path(sys.base_prefix)}
    wanted |= {path.resolve() for path in wanted}
    closed = {path: ancestor for path in wanted if (ancestor := _closed_above(path)) is not None}
    if not closed:
        return []
    hidden = [above for above in directory.parents if above in closed.values()]
    if hidden:
        closed[directory] = hidden[-1]
    # Private, so that no mount is seen outside; a chroot has no mount point of its own to set that on.
    unshare = ["unshare", "--mount", "--propagation", "private" if _shares_mounts() else "unchanged"]
    words = [*unshare, "sh", "-euc", "\n".join(_script(closed)), "sh"]
    probe = subprocess.run([*words, "true"], cwd=directory, capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"an ordinary user can't enter {min(closed.values())}, and no mounts here: {probe.stderr.strip()}")
    return words


def _closed_above(path: Path) -> Path | None:
    """The topmost directory above `path` that others may not search, or None."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & _SEARCH), None)


def _shares_mounts() -> bool:
    return "shared:" in Path("/proc/self/mountinfo").read_text()


def _script(closed: dict[Path, Path]) -> Iterable[str]:
    """Shell commands: each closed directory is mounted over, and what lies below it and is wanted put in again."""
    yield "here=$PWD; mask=$(umask); umask 022"
    for ancestor in sorted(set(closed.values())):
        below = [path for path, above in closed.items() if above == ancestor]
        # What lies in another of them is there with it.
        leaves = sorted(path for path in below if not any(other in path.parents for other in below))
        yield f"kept=$(mktemp -d) && mount --bind {shlex.quote(str(ancestor))} $kept"
        yield f"mount -t tmpfs -o mode=755 tailrace-tests {shlex.quote(str(ancestor))}"
        for leaf in leaves:
            place, source = shlex.quote(str(leaf)), shlex.quote(str(leaf.relative_to(ancestor)))
            yield f"mkdir -p {place} && mount --bind $kept/{source} {place}"
        yield "umount -l $kept && rmdir $kept"
    yield 'umask "$mask"; cd "$here"; exec "$@"'
