"""Begins the declarations of one make, for tailrace.mk: `tailrace adapter make --begin MAKEFILE VERSION`."""

import time
from pathlib import Path

from tailrace import context, hashed_names
from tailrace import tags as tag_strings
from tailrace.errors import UsageError
from tailrace.integrations.declared_log import DeclaredLog
from tailrace.integrations.messages import say
from tailrace.integrations.task_tags import tag_value
from tailrace.integrations.workflow import unused_name


def begin(makefile: str, version: str) -> str:
    """The tags of its targets, and the file to which their declarations are appended: two words, without blanks the
    first; "" where make isn't traced, or the file can't be written."""
    directory = context.run_directory() if context.active() else None
    if directory is None:
        return ""
    try:
        # The shell of a recipe declares its target itself (sh).
        hashed_names.refuse(directory, "make's targets are neither declared nor tagged")
    except UsageError as error:
        say(str(error))
        return ""
    name = unused_name(Path(directory), tag_value(workflow_name(makefile)))
    log = DeclaredLog(directory, "make")
    config = {"makefile": makefile, "cwd": str(Path.cwd()), "ends": False}
    log.write("workflow", workflow=name, manager="make", version=version, t_ns=time.time_ns(), config=config)
    log.close()
    return f"{tag_strings.encode({'workflow': name})} {log.path}" if log.path is not None and not log.lost else ""


def workflow_name(makefile: str) -> str:
    """The makefile's name, or of one that is called as make expects it the folder's."""
    path = Path(makefile).absolute()
    plain = path.name.lower() in ("makefile", "gnumakefile")
    return (path.parent.name if plain else path.stem) or "make"
