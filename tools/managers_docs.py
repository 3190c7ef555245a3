"""Writes what is made of the table of managers (tailrace.managers): their variables in core/src/format/managers.def,
and in docs/managers.md.

python tools/managers_docs.py            write them
python tools/managers_docs.py --check    exit with 1 where one differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from generated import write_or_check

from tailrace.managers import MANAGERS, Row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "managers.md"
BEGIN, END = "<!-- tools/managers_docs.py -->\n", "<!-- end -->\n"
CORE = ROOT / "core" / "src" / "format" / "managers.def"
CORE_BEGIN = "// tools/managers_docs.py:\n"
KEYS = ("workflow", "stage", "task", "try", "job", "rank")


def page() -> str:
    """The whole page: the text that it has, with the table made anew."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{head}{BEGIN}{_table()}{END}{rest.partition(END)[2]}"


def _table() -> str:
    lines = [f"| manager | {' | '.join(KEYS)} |", f"|---{'|---' * len(KEYS)}|"]
    for row in MANAGERS:
        if row.mark:
            cells = [" ".join(_words(row.tags[key])) if key in row.tags else "" for key in KEYS]
            lines.append(f"| {row.title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _words(value: str) -> Iterator[str]:
    for before, name, how, _ in Formatter().parse(value):
        if before:
            yield f"`{before}`"
        yield f"the last two names of `{name}`" if how == "end" else f"`{name}` - 1" if how == "-1" else f"`{name}`"


def core() -> str:
    """The core's table: the comment that it has, with the rows made anew."""
    head, _, _ = CORE.read_text().partition(CORE_BEGIN)
    return head + CORE_BEGIN + "".join(f"{line}\n" for row in MANAGERS if row.mark for line in _core_rows(row))


def _core_rows(row: Row) -> Iterator[str]:
    yield f'\n{"WORKER" if row.workers else "MANAGER"}("{row.title}", "{row.mark}")'
    for tag, value in row.tags.items():
        for before, name, how, _ in Formatter().parse(value):
            if how == "end":
                yield f'PATH_END({tag}, "{name}")'
            elif how == "-1":
                yield f'FROM_ONE({tag}, "{name}")'
            elif how == "ad":
                yield f'JOB_AD({tag}, "{before}", "{name}")'
            else:
                yield f'VARIABLE({tag}, "{before}", "{name}", "{(how or "").removeprefix("not ")}")'
    yield from (f'WORLD_SIZE("{name}")' for name in row.world_size)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page(), CORE: core()}))
