"""Files that appear under their name only when they are complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def published(path: Path) -> Iterator[Path]:
    """A temporary file to write to: renamed to `path` at the end, removed when an exception is raised.

    An existing `path` that is not a regular file (a pipe, a terminal, a link such as /dev/stdout) is written to
    directly. Raises OSError.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    scratch = Path(name)
    try:
        yield scratch
        mask = os.umask(0)
        os.umask(mask)
        # By the descriptor: where others may write to the directory, the name may be a link of theirs by now.
        os.fchmod(descriptor, 0o666 & ~mask)
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise
    finally:
        os.close(descriptor)
