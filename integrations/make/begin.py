"""Begins the declarations of one make, for tailrace.mk: `tailrace adapter make --begin MAKEFILE VERSION MAKEFILES`."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tailrace import context, hashed_names
from tailrace import tags as tag_strings
from tailrace.errors import UsageError
from tailrace.integrations.declared_log import DeclaredLog
from tailrace.integrations.messages import say
from tailrace.integrations.task_tags import tag_value
from tailrace.integrations.workflow import unused_name
from tailrace.make.passing import Passing
from tailrace.make.rules import Rule, rules

_GROUPED = (4, 3)
"""The first version of make that knows `&:`."""


def begin(makefile: str, version: str, makefiles: str) -> bytes:
    """Words for tailrace.mk: the tags of its targets, its rules with several targets or without a recipe as lines of a
    makefile, encoded, and the file, which may have blanks, to which the declarations are appended; b"" where make isn't
    traced, or that file can't be written.

    makefiles: $(MAKEFILE_LIST), of which tailrace.mk leaves out what a compiler wrote.
    """
    directory = context.run_directory() if context.active() else None
    if directory is None:
        return b""
    try:
        # The shell of a recipe declares its target itself (sh).
        hashed_names.refuse(directory, "make's targets are neither declared nor tagged")
    except UsageError as error:
        say(str(error))
        return b""
    name = unused_name(Path(directory), tag_value(workflow_name(makefile)))
    log = DeclaredLog(directory, "make")
    config = {"makefile": makefile, "cwd": str(Path.cwd()), "ends": False}
    log.write("workflow", workflow=name, manager="make", version=version, t_ns=time.time_ns(), config=config)
    log.close()
    if log.path is None or log.lost:
        return b""
    read = [path for path in listed(makefiles) if path.name != "tailrace.mk"]
    found, without = rules(read, grouped=_number(version) >= _GROUPED)
    text = lines(found, () if takes_for_old(_make_words()) else without)
    return os.fsencode(f"{tag_strings.encode({'workflow': name})} ={_word(text)} {log.path}")


def workflow_name(makefile: str) -> str:
    """The makefile's name, or of one that is called as make expects it the folder's."""
    path = Path(makefile).absolute()
    plain = path.name.lower() in ("makefile", "gnumakefile")
    return (path.parent.name if plain else path.stem) or "make"


def listed(makefiles: str) -> list[Path]:
    """The files of a list of make's, which separates by blanks what may have blanks itself: such a name is put together
    again where there is such a file."""
    found: list[Path] = []
    part = ""
    for word in makefiles.split():
        part = f"{part} {word}" if part else word
        if Path(part).exists():
            found.append(Path(part))
            part = ""
    return found + [Path(word) for word in part.split()]


def _make_words() -> list[str]:
    """The command line of the make that has started this process, perhaps by a shell; [] where it can't be found."""
    process = os.getppid()
    for _ in range(3):
        try:
            words = os.fsdecode(Path(f"/proc/{process}/cmdline").read_bytes()).split("\0")
            if "make" in Path(words[0]).name:
                return words
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return []


def takes_for_old(words: Sequence[str]) -> bool:
    """Whether a make with this command line has `-o FILE`: then it does not wait for what FILE has as prerequisites."""
    for word in words[1:]:
        if word.startswith(("--old", "--assume-o")):
            return True
        if word.startswith("-") and not word.startswith("--"):
            letters = re.match("[^CfIjlOWEo]*", word)
            if letters and word[letters.end() :].startswith("o"):
                return True
    return False


def lines(found: Sequence[Rule], without: Sequence[Passing]) -> str:
    """What has tailrace.mk expand the rules' targets."""
    text: list[str] = []
    for rule in found:
        kind = "$(tailrace_grouped_rule)" if rule.grouped else "$(tailrace_pattern_rule)"
        text += _under(rule, [f"tailrace_targets := {rule.targets}", f"tailrace_from := {rule.sources}", kind])
    for number, one in enumerate(without):
        text += _under(one, one.lines(number))
    return "\n".join(text)


def _under(rule: Rule | Passing, body: Iterable[str]) -> Iterator[str]:
    """The lines under the conditions of the rule, and where its variables are what they seem."""
    for level in rule.conditions:
        yield from level
    if rule.names or rule.unknown:
        # A value of the command line or the environment may do what those of makefiles were refused for.
        yield f"ifeq ($(call tailrace_doubt,{' '.join(sorted(rule.names))},{' '.join(sorted(rule.unknown))}),)"
    yield from body
    yield from ["endif"] * (bool(rule.names or rule.unknown) + len(rule.conditions))


def _word(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A").replace(" ", "%20").replace("\t", "%20")


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(int(part) for part in found.groups()) if found else (0,)
