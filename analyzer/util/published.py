"""Files that appear when they are whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def published(path: Path) -> Iterator[Path]:
    """A file to write to, which gets the name `path` when all went well and else goes away.

    What is there and no regular file (a pipe, a terminal, a link: /dev/stdout is one) is written to as it is. Raises
    OSError.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    os.close(descriptor)
    scratch = Path(name)
    try:
        yield scratch
        mask = os.umask(0)
        os.umask(mask)
        scratch.chmod(0o666 & ~mask)
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise
