"""The tables of the code and the tables of the documentation are the same tables."""

import re
from pathlib import Path

import pytest

from tailrace import _native

DOCS = Path(__file__).parents[2] / "docs"
ROOT = Path(__file__).parents[2]


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """First column (without backquotes) -> the other cells, of the first table after `heading`."""
    text = (DOCS / page).read_text().split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    found = {}
    for line in table[0].splitlines()[2:]:
        first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        found[first.strip("`")] = rest
    return found


def test_every_loss_is_documented() -> None:
    source = (ROOT / "core/src/format/journal.cc").read_text()
    table = re.search(r"kLossNames\[[^]]*\] = \{([^}]*)\}", source)
    assert table is not None
    assert set(re.findall(r'"(\w+)"', table[1])) == set(rows("trace-format.md", "### Losses"))


@pytest.mark.parametrize(
    "part", ["hooks/open.cc", "hooks/data.cc", "hooks/meta.cc", "hooks/stdio.cc", "hooks/process.cc"]
)
def test_the_hook_table_names_its_files(part: str) -> None:
    assert (ROOT / "core/src" / part).exists()
    assert part in (ROOT / "core/src/format/hooks.def").read_text()


def test_no_hook_stands_twice() -> None:
    symbols = [symbol for symbol, _, _ in _native.hooks()]
    assert len(symbols) == len(set(symbols)) > 150


def test_every_cause_of_missing_bytes_is_documented() -> None:
    documented = [key for row in rows("report.md", "## Coverage") for key in row.split("`, `")]
    assert documented == [key for key, _, _ in _native.causes()]


def test_every_category_is_documented() -> None:
    text = (DOCS / "trace-format.md").read_text().split("| `cat` | calls |", 1)[1]
    documented = set(re.findall(r"^\| `([A-Z0-9]+)` \|", text, re.MULTILINE))
    assert {category for _, _, category in _native.hooks()} | {"APP", "GPU"} == documented
