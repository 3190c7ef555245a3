"""Writes the table of docs/managers.md, the variables of managers that become tags, from core/src/format/managers.def.

python tools/managers_docs.py            write it
python tools/managers_docs.py --check    exit with 1 where the page differs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generated import write_or_check

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "managers.md"
TABLE = ROOT / "core" / "src" / "format" / "managers.def"
BEGIN, END = "<!-- tools/managers_docs.py -->\n", "<!-- end -->\n"
KEYS = ("workflow", "stage", "task", "try", "job", "rank")
_ROW = re.compile(r"^(MANAGER|WORKER|VARIABLE|PATH_END|FROM_ONE|JOB_AD)\((.*)\)$")


def page() -> str:
    """The whole page: the text that it has, with the table made anew."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{head}{BEGIN}{_table()}{END}{rest.partition(END)[2]}"


def _table() -> str:
    managers: list[tuple[str, dict[str, str]]] = []
    for line in TABLE.read_text().splitlines():
        row = _ROW.match(line)
        if row is None:
            continue
        words = [word.strip() for word in re.findall(r'"(?:[^"]*)"|[^,]+', row[2])]
        values = [word.strip('"') for word in words if word]
        if row[1] in ("MANAGER", "WORKER"):
            managers.append((values[0], {}))
            continue
        cells = managers[-1][1]
        if row[1] == "PATH_END":
            cells[values[0]] = f"the last two names of `{values[1]}`"
        elif row[1] == "JOB_AD":
            tag, before, attribute = values
            cells[tag] = f"{cells[tag]} `{before}` `{attribute}`" if tag in cells else f"`{attribute}`"
        elif row[1] == "FROM_ONE":
            cells[values[0]] = f"`{values[1]}` - 1"
        else:
            tag, before, variable, _ = values
            cells[tag] = f"{cells[tag]} `{before}` `{variable}`" if tag in cells else f"`{variable}`"
    lines = [f"| manager | {' | '.join(KEYS)} |", f"|---{'|---' * len(KEYS)}|"]
    lines += [f"| {name} | {' | '.join(cells.get(key, '') for key in KEYS)} |" for name, cells in managers]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
