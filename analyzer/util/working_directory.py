"""The working directory of this process for a while, as `contextlib.chdir` from Python 3.11 on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def working_directory(folder: Path) -> Iterator[None]:
    """Makes `folder` the working directory inside of the block. It is the process's, so no other thread may run."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
