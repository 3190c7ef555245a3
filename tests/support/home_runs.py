"""The runs that a test leaves in this user's home directory, where those of users go who did not ask for tracing."""

import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def runs_in_home() -> Iterator[Callable[[], list[Path]]]:
    """Gives a function that lists the runs made since then; these are removed in the end, and no other ones."""
    folder = Path(pwd.getpwuid(os.geteuid()).pw_dir, "tailrace-runs")
    was_there, before = folder.exists(), set(folder.glob("*"))

    def made() -> list[Path]:
        return sorted({*folder.glob("*")} - before)

    try:
        yield made
    finally:
        for run in made():
            shutil.rmtree(run)
        if not was_there and folder.exists():
            folder.rmdir()
