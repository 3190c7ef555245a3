"""Names as the terminal report shows them: relative, shortened in the middle, never obeyed by the terminal.

    Names(cwd).path("/home/ada/flow/data/a.nc", 40)  ->  "data/a.nc"

Invariants: what is returned is printable; a path loses whole components before a component loses letters, and the last
one stays as long as there is room for it. A query that a user may copy is never shortened, only its directory is made
relative to the current one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

from tailrace.analyzer.summary.limits import JsonObject
from tailrace.analyzer.util import shell
from tailrace.analyzer.util.formatting import shortened
from tailrace.base.text import visible

ELLIPSIS = "\u2026"
CONTINUED = " \\"
OPENED = "run"
"""The open run in Python's queries."""


@dataclass(frozen=True)
class Names:
    """Names of a run that was started in `cwd` ("": not known) and lies in `directory`."""

    cwd: str = ""
    directory: str = ""

    def relative(self, path: str) -> str:
        """The path from the directory in which the run was started, where it is below that."""
        prefix = self.cwd.rstrip("/") + "/"
        return path[len(prefix) :] if self.cwd and path.startswith(prefix) and len(path) > len(prefix) else path

    def path(self, path: str, room: int) -> str:
        """A path in at most `room` columns, as far as its last component allows."""
        return fit(visible(self.relative(path)), room)

    def sentence(self, text: str) -> str:
        """A sentence with the paths in it relative."""
        prefix = self.cwd.rstrip("/") + "/"
        if len(prefix) > 1:
            text = re.sub(rf"(?<![^\s'\"(]){re.escape(prefix)}(?=[^\s/])", "", text)
        return visible(text)

    def query(self, query: str, width: int) -> list[str]:
        """A query as lines of at most `width` columns, as far as its words allow; a shell's lines continue. One in
        Python is about the variable of `opening`."""
        here = self._here()
        if not query.startswith("tailrace "):
            query = query.replace(f"tailrace.open({self.directory!r})", OPENED)
            return [visible(line) for line in _python_lines(query, width)]
        words = [
            shell.directory(here) if word == shell.directory(self.directory) else word for word in shell.words(query)
        ]
        lines, line = [], " ".join(words[:3])
        for option in _options(words[3:]):
            if cell_len(f"{line} {option}{CONTINUED}") > width:
                lines.append(line + CONTINUED)
                line = f"    {option}"
            else:
                line = f"{line} {option}"
        return [visible(part) for text in (*lines, line) for part in text.split("\n")]

    def quoted(self) -> str:
        """The run's directory as a word of a shell's command."""
        return shell.directory(self.directory)

    def opening(self) -> str:
        """The Python statement that opens the run for `query`."""
        return visible(f"{OPENED} = tailrace.open({self._here()!r})")

    def _here(self) -> str:
        return str(Path(self.directory).relative_to(Path.cwd())) if self._is_below_here() else self.directory

    def _is_below_here(self) -> bool:
        return bool(self.directory) and Path(self.directory).is_relative_to(Path.cwd())


def _python_lines(expression: str, width: int) -> list[str]:
    """A Python expression as lines of at most `width` columns, as far as its attributes allow: a line that continues
    ends with a backslash, before a dot outside of quotes and brackets."""
    parts = [""]
    depth, quote = 0, ""
    for before, char in zip(" " + expression, expression, strict=False):
        if quote:
            quote = "" if char == quote and before != "\\" else quote
        elif char in "'\"":
            quote = char
        depth += (char in "([{") - (char in ")]}") if not quote else 0
        if char == "." and depth == 0 and not quote and not before.isdigit():
            parts.append("")
        parts[-1] += char
    lines = [parts[0]]
    for part in parts[1:]:
        if cell_len(f"{lines[-1]}{part}{CONTINUED}") > width:
            lines[-1] += CONTINUED
            lines.append(f"    {part}")
        else:
            lines[-1] += part
    return lines


def _options(words: Iterable[str]) -> list[str]:
    """The quoted words of a command line, an option together with its value."""
    out: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not out:
            out.append([word])
        else:
            out[-1].append(word)
    return [" ".join(option) for option in out]


def fit(name: str, room: int) -> str:
    """A printable name in at most `room` columns: components in the middle of a path go first, then letters."""
    if cell_len(name) <= room:
        return name
    first, *parts = name.split("/")
    if parts:
        head = f"{first}/" if first else f"/{parts[0]}/" if len(parts) > 1 else "/"
        for lead in (f"{head}{ELLIPSIS}/", f"{ELLIPSIS}/"):
            for start in range(1, len(parts)):
                kept = lead + "/".join(parts[start:])
                if cell_len(kept) <= room:
                    return kept
        name = parts[-1] or name
    length = max(min(room, len(name) - 1), 3)  # cut in any case: it is not the whole name
    while length > 3 and cell_len(shortened(name, length)) > room:
        length -= 1
    return shortened(name, length)


def names_of(data: JsonObject) -> Names:
    """The names of what `summary.collect` returns."""
    return Names(str(data["about"]["cwd"]), str(data["about"]["directory"]))
