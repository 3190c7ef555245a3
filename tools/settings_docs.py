"""Writes the table of settings in docs/tracing.md from the core's (core/src/format/settings.def).

python tools/settings_docs.py            write it
python tools/settings_docs.py --check    exit with 1 where the page differs
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import write_or_check

from tailrace.integrations import settings

PAGE = Path(__file__).parents[1] / "docs" / "tracing.md"
BEGIN, END = "<!-- tools/settings_docs.py -->\n", "<!-- end -->\n"


def page() -> str:
    """The whole page: the text that it has, with the table made anew."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{head}{BEGIN}{_table()}{END}{rest.partition(END)[2]}"


def _table() -> str:
    lines = ["| setting | default | values | what it does |", "|---|---|---|---|"]
    for row in settings.table().values():
        default = f"`{row.default}`" if row.default else ""
        choices = row.choices.replace("*", "\\*").replace("|", "\\|")
        lines.append(f"| `{row.name}` | {default} | {choices} | {row.doc} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
