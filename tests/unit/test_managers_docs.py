"""The core and docs/managers.md have the variables of tailrace.managers."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_files_are_up_to_date() -> None:
    words = [sys.executable, ROOT / "tools/managers_docs.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
