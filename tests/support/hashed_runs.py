"""Runs with hashed names (TAILRACE_REDACT=paths), and where a name can still be read in their files."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.commands import TAILRACE
from support.harm import active_environment

MARK = "zebra7f3"
"""In every name of a workflow. A hash can't have it: it has only hex digits."""
KEY = "000102030405060708090a0b0c0d0e0f"
HASHED = {**active_environment(), "TAILRACE_REDACT": "paths"}


def key_file(path: Path, key: str = KEY) -> Path:
    """A file with the key that names are hashed with."""
    path.write_text(f"{key}\n")
    path.chmod(0o600)
    return path


def traced(run: Path, folder: Path, *words: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command traced in `folder`, with hashed names unless `environment` says otherwise."""
    command = [*TAILRACE, "run", "-q", "-o", str(run), "--", *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env={**HASHED, **environment}, capture_output=True, text=True, check=False
    )


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below the folder, unpacked, and the folder's names."""
    for path in folder.rglob("*"):
        yield path, os.fsencode(path.relative_to(folder))
        if path.is_file():
            yield path, subprocess.run(["gzip", "-dcf", path], capture_output=True, check=True).stdout


def has_mark(folder: Path) -> list[str]:
    """Where `MARK` is in the files below the folder or their names, also in hexadecimal digits."""
    forms = [MARK.encode(), MARK.encode().hex().encode()]
    return [
        f"{path.name}: {content[at - 80 : at + 80]!r}"
        for path, content in contents(folder)
        for form in forms
        if (at := content.lower().find(form)) >= 0
    ]
