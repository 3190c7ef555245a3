"""Words of a command that a user copies, in a form that sh, dash, bash, ksh and zsh read alike.

    quoted("it's")         'it'\\''s'
    quoted("a\\x1b[31m")    "$(printf 'a\\033\\13331m')"

Invariants: what is returned is printable, except for newlines at a name's end, and a shell makes the same text of it
again. `$'...'` is not used: dash, and sh before POSIX.1-2024, take it as a dollar and an ordinary quoted word, in
which `\\'` ends the quotes and the rest is code. printf has octal bytes everywhere; $(...) drops newlines at the end,
so those stand behind it, in quotes. The page does the same (report/page/panel.js), and a test compares the two.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"[^"]*")+""")
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]")


def quoted(text: str) -> str:
    """A text as one word."""
    body = text.rstrip("\n")
    if body.isprintable():
        return shlex.quote(text)
    octal = "".join(_octal(c) for c in body)
    return f"\"$(printf '{octal}')\"" + (f"'{text[len(body) :]}'" if len(body) < len(text) else "")


def _octal(character: str) -> str:
    """A character of printf's format. A dash is none, since a format that begins with it would be an option."""
    if _PLAIN.fullmatch(character) and character != "-":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))


def directory(path: str) -> str:
    """A directory as an argument, which is no option."""
    return quoted(f"./{path}" if path.startswith("-") else path)


def join(words: Iterable[str]) -> str:
    """Words as a command."""
    return " ".join(quoted(word) for word in words)


def words(command: str) -> list[str]:
    """The words of a command that `quoted` made, still quoted."""
    return _WORD.findall(command)
