"""What a run is called: its workflow and the program that was started, without the interpreter in front.

["python3", "-m", "words.main", "out"], workflow "words"  ->  "words: words.main out"
["/bin/sh", "-c", "sort a | uniq > b"]                    ->  "sort a | uniq > b"
"""

from __future__ import annotations

import re
from collections.abc import Sequence

INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby)[\d.]*|(?:ba|da|z|k)?sh|Rscript|julia|node|env")
"""Programs whose name says nothing about the workflow; the script or the code behind them does."""
CODE = {"-c", "-e", "-lc", "-ec"}
"""Options that code follows, which is then the whole name."""


def title(command: Sequence[str], workflows: Sequence[str] = ()) -> str:
    """The title of a run.

    Args:
        command: argv of what was started; may be empty.
        workflows: the workflow tags of the run; the title names the workflow where there is one only.

    Returns: "" where neither says anything.
    """
    words = " ".join(program_words(command))
    name = workflows[0] if len(workflows) == 1 else ""
    return ": ".join(part for part in (name, words) if part)


def program_words(command: Sequence[str]) -> list[str]:
    """The words of a command behind its interpreter; programs and scripts by the last part of their paths."""
    words = [str(word) for word in command]
    while words:
        program = words[0].rsplit("/", 1)[-1]
        if not INTERPRETER.fullmatch(program) or len(words) == 1:
            return [program, *words[1:]]
        words = words[1:]
        while words and words[0].startswith("-"):
            option, words = words[0], words[1:]
            if words and option in CODE:
                return [words[0]]
            if words and option == "-m":
                return words
        while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
            words = words[1:]
    return [str(command[0]).rsplit("/", 1)[-1]] if command else []
