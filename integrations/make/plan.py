"""What make may do, from make itself: `make -pn` reads the makefiles once more, and prints its database of rules.

No line of a recipe runs meanwhile, not even one that `-n` would run (`+`, $(MAKE)): tailrace.mk has such a make run
them by a shell that does nothing. The makefiles' own $(shell) run again, as for everybody's `make -n`.

Rejected: to find rules in the makefiles' text, which knew neither rules by $(eval) nor variables with $(shell), and
took 600 lines to know when it didn't know.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailrace.integrations.declared_log import declared_file

PLANNING = "TAILRACE_MAKE_PLAN"
"""The variable that tailrace.mk knows such a make by."""
_PATIENCE_S = 60.0
_ATTRIBUTE = re.compile(r"#  (?:Also makes: (?P<also>.*)|(?P<phony>Phony target))")
_OF_MAKE = re.compile(r"\.[A-Z_]+\Z")
"""Special targets; of built-in rules make says what they are."""
_KEPT = re.compile(r"LD_PRELOAD|TAILRACE_|LC_|LANGUAGE$")


@dataclass
class Target:
    """A target, with or without a recipe, as make has it in the end: after patterns, VPATH and secondary expansion."""

    name: str
    needs: list[str] = field(default_factory=list)
    order_only: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    phony: bool = False
    recipe: bool = False


def targets(words: Sequence[str]) -> list[Target]:
    """Those of a make with this command line, whose working directory is this process's; none where make fails."""
    environment = {name: value for name, value in os.environ.items() if not _KEPT.match(name)}
    command = [*_without_directory(words), "-pn", "-j1"]
    try:
        done = subprocess.run(
            command,
            env={**environment, PLANNING: "1", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return parsed(os.fsdecode(done.stdout))


def _without_directory(words: Sequence[str]) -> Iterator[str]:
    """The command line without `-C`, which has been followed."""
    rest = iter(words)
    for word in rest:
        if word in ("-C", "--directory"):
            next(rest, None)
        elif not word.startswith(("-C", "--directory=")):
            yield word


def parsed(text: str) -> list[Target]:
    """The targets of a database as `make -p` prints it."""
    _, _, files = text.rpartition("\n# Files\n")
    files, _, _ = files.partition("\n# files hash-table stats:")
    entries = [entry for block in files.split("\n\n") if (entry := _entry(block))]
    names = {_name(head) for head, _ in entries}
    spaced = _by_first_word(names)
    found: dict[str, Target] = {}
    for head, lines in entries:
        name = _name(head)
        target = found.setdefault(name, Target(name))  # of a double colon several
        needs, _, order = head[len(name) :].lstrip(":").partition(" | ")
        target.needs += _words(needs, names, spaced)
        target.order_only += _words(order, names, spaced)
        _take_attributes(target, lines, names, spaced)
    return list(found.values())


def _entry(block: str) -> tuple[str, list[str]] | None:
    """The line of a target with its prerequisites, and those after it. Before it are its own variables."""
    lines = block.split("\n")
    at = next((number for number, line in enumerate(lines) if line.startswith("#  ")), 0)
    head = lines[at - 1] if at else ""
    known = at and ":" in head and head[0] not in "#\t" and "#  Builtin rule" not in lines
    return (head, lines[at:]) if known else None


def _name(head: str) -> str:
    end = re.search(r"::?(?: |$)", head)
    return head[: end.start()] if end else head


def _by_first_word(names: Iterable[str]) -> dict[str, list[list[str]]]:
    """Names that have blanks, in words, by the first one; the longest first."""
    found: dict[str, list[list[str]]] = {}
    for words in (name.split(" ") for name in names if " " in name):
        found.setdefault(words[0], []).append(words)
    for several in found.values():
        several.sort(key=len, reverse=True)
    return found


def _words(text: str, names: set[str], spaced: dict[str, list[list[str]]]) -> Iterator[str]:
    """The names of a list, which are separated by blanks that they may have themselves."""
    words = [word for word in text.split(" ") if word]
    at = 0
    while at < len(words):
        of = next((one for one in spaced.get(words[at], ()) if words[at : at + len(one)] == one), words[at : at + 1])
        yield " ".join(of)
        at += len(of)


def _take_attributes(target: Target, lines: Iterable[str], names: set[str], spaced: dict[str, list[list[str]]]) -> None:
    in_recipe = False
    for line in lines:
        if in_recipe:
            target.recipe = target.recipe or bool(line[1:].strip())
        elif found := _ATTRIBUTE.match(line):
            target.also += [name for name in _words(found["also"] or "", names, spaced) if name != target.name]
            target.phony = target.phony or bool(found["phony"])
        in_recipe = in_recipe or line.startswith("#  recipe to execute")


def lines(found: Iterable[Target], *, passing: bool) -> Iterator[dict[str, Any]]:
    """The `plan` lines (docs/declared-dag.md) of the targets that wait for something or have a recipe.

    passing: whether who waits for a target without a recipe has waited for its prerequisites.
    """
    found = [target for target in found if not _OF_MAKE.match(target.name)]
    makers = {name: target for target in found if target.recipe for name in (target.name, *target.also)}
    for target in found:
        if not target.recipe and (not passing or not (target.needs or target.order_only)):
            continue
        inputs = [told for name in target.needs if (told := _input(name, makers.get(name))) is not None]
        yield {
            "task": target.name,
            "also": target.also,
            "deps": [{"task": name, "via": "prerequisite"} for name in dict.fromkeys(target.needs + target.order_only)],
            "inputs": inputs,
            "outputs": [] if target.phony else [declared_file(path) for path in (target.name, *target.also)],
        }


def _input(name: str, maker: Target | None) -> dict[str, str] | None:
    """A prerequisite that is a file, or becomes one when its recipe runs."""
    path = Path(name)
    if path.exists():
        return declared_file(name)
    return None if maker is None or maker.phony else {**declared_file(name), "maker": maker.name}
