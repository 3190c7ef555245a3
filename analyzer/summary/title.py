"""What a run is called: its workflow and the program that was started, without the interpreter in front.

["python3", "-m", "words.main", "out"], workflow "words"  ->  "words: words.main out"
["/bin/sh", "-c", "sort a | uniq > b"]                    ->  "sort a | uniq > b"
["python3", "-m", "ipykernel_launcher", "-f", "k.json"], in /home/ada/flow, no workflow     ->  "flow"
several batch jobs, no workflow that all are of, in /scratch/ada/spring/run     ->  "3 jobs in spring/run"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby)[\d.]*|(?:ba|da|z|k)?sh|Rscript|julia|node|env")
"""Programs whose name says nothing about the workflow; the script or the code behind them does."""
CODE = {"-c", "-e", "-lc", "-ec"}
"""Options that code follows, which is then the whole name."""


NAMELESS = re.compile(
    r"(?:(?:.*[./])?(?:ipykernel_launcher|colab_kernel_launcher)(?:\.py)?|tailrace(?:\.cli\.main|-python)?)"
)
"""Programs that start a workflow and are none: the kernels of notebooks, and tailrace itself."""
FEW = 3
"""So many workflows are all named."""


def title(command: Sequence[str], workflows: Sequence[str] = (), directory: str = "") -> str:
    """The title of a run.

    Args:
        command: argv of what was started; may be empty.
        workflows: the workflow tags of the run; one is named before the program, a few where there is no program.
        directory: the working directory, whose last component is the title where nothing else says anything.

    Returns: "" where none of them says anything.
    """
    words = " ".join(program_words(command))
    names = ", ".join(workflows) if len(workflows) <= (1 if words else FEW) else ""
    # The shell of a Flux job names the workflow in the place of a command.
    if names and [*command] == ["flux:", "workflow", names]:
        words = ""
    return ": ".join(part for part in (names, words) if part) or PurePosixPath(directory).name


def shared_title(jobs: int, workflows: Sequence[str], directory: str) -> str:
    """The title of a run that several batch jobs share, in the directory `directory`.

    workflows: its workflow tags, "" among them where something has none.
    """
    if len(workflows) == 1 and workflows[0]:
        return workflows[0]
    return f"{jobs:,} jobs in {'/'.join(PurePosixPath(directory).parts[-2:])}"


def program_words(command: Sequence[str]) -> list[str]:
    """The words of a command behind its interpreter; programs and scripts by the last part of their paths. None of an
    interpreter alone, and of a program that names no workflow."""
    words = [str(word) for word in command]
    while words:
        program = words[0].rsplit("/", 1)[-1]
        if NAMELESS.fullmatch(program):
            return []
        if INTERPRETER.fullmatch(program) and len(words) == 1:
            return []
        if not INTERPRETER.fullmatch(program):
            return [program, *words[1:]]
        words = words[1:]
        while words and words[0].startswith("-"):
            option, words = words[0], words[1:]
            if words and option in CODE:
                return [words[0]]
            if words and option == "-m":
                return [] if NAMELESS.fullmatch(words[0]) else words
        while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
            words = words[1:]
    return []
