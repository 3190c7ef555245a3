"""docs/cookbook.md: every answer is what its command prints now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import cookbook

        return str(cookbook.page())
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_the_page_is_what_the_commands_print(page: str) -> None:
    written = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    assert page == written, "run python tools/cookbook.py"


def test_there_are_thirty_questions_with_a_command_each(page: str) -> None:
    assert page.count("\n### ") == page.count("\n    $ tailrace ") == 30
