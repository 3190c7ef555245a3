"""Begins the declarations of one make, for tailrace.mk: `tailrace adapter make --begin MAKEFILE VERSION`."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from tailrace import context, hashed_names
from tailrace import tags as tag_strings
from tailrace.errors import UsageError
from tailrace.integrations.declared_log import DeclaredLog
from tailrace.integrations.messages import say
from tailrace.integrations.task_tags import tag_value
from tailrace.integrations.workflow import unused_name
from tailrace.make import plan


def begin(makefile: str, version: str) -> bytes:
    """Words for tailrace.mk: the tags of its targets, and the file, which may have blanks, in which the shell of a
    recipe says that it runs; b"" where make isn't traced, or that file can't be written."""
    directory = context.run_directory() if context.active() else None
    if directory is None:
        return b""
    try:
        # The shell of a recipe names its target itself (sh).
        hashed_names.refuse(directory, "make's targets are neither declared nor tagged")
    except UsageError as error:
        say(str(error))
        return b""
    name = unused_name(Path(directory), tag_value(workflow_name(makefile)))
    log = DeclaredLog(directory, "make")
    config = {"makefile": makefile, "cwd": str(Path.cwd()), "ends": False}
    log.write("workflow", workflow=name, manager="make", version=version, t_ns=time.time_ns(), config=config)
    words = _make_words()
    for line in plan.lines(plan.targets(words), passing=not takes_for_old(words)):
        log.write("plan", workflow=name, **line)
    log.close()
    if log.path is None or log.lost:
        return b""
    return os.fsencode(f"{tag_strings.encode({'workflow': name})} {log.path}")


def workflow_name(makefile: str) -> str:
    """The makefile's name, or of one that is called as make expects it the folder's."""
    path = Path(makefile).absolute()
    plain = path.name.lower() in ("makefile", "gnumakefile")
    return (path.parent.name if plain else path.stem) or "make"


def _make_words() -> list[str]:
    """The command line of the make that has started this process, perhaps by a shell; [] where it can't be found."""
    process = os.getppid()
    for _ in range(3):
        try:
            words = os.fsdecode(Path(f"/proc/{process}/cmdline").read_bytes()).removesuffix("\0").split("\0")
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
