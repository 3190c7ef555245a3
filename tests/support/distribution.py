"""What a release gives to others: the source distribution, made of the tree, and the commands that take it from there.

The fixture `sdist` makes one a session. `CLEAN` is the environment of whoever has no tailrace yet.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailrace

ROOT = Path(__file__).parents[2]
NAME = f"tailrace-{tailrace.__version__}"
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "PYTHON", "LD_"))}


def step(*command: str | Path, **options: Any) -> str:
    """Runs a command, which fails the test where it fails; what it printed. options: subprocess.run's."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **{"env": CLEAN, **options})
    assert done.returncode == 0, f"{' '.join(words)}\n{(done.stdout + done.stderr)[-4000:]}"
    return done.stdout


def make_sdist(folder: Path) -> Path:
    """The source distribution of the tree, in the folder."""
    pytest.importorskip("build")
    step(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    return folder / f"{NAME}.tar.gz"
