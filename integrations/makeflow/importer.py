"""Makeflow's rules as `makeflow_viz -D json FLOW` prints them: command, inputs, outputs and category of each.

A rule is named by its number from 0, which is what `%%` is in `makeflow --wrapper`.
"""

import json
import re
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, contents

_APOSTROPHE = re.compile(r"(?<!\\)((?:\\\\)*)\\'")


def recognizes(path: Path) -> bool:
    """Whether a file has rules."""
    if not path.is_file() or path.suffix != ".json":
        return False
    data = _loaded(path)
    return isinstance(data, dict) and isinstance(data.get("rules"), list) and "categories" in data


def read(path: Path) -> ImportedWorkflow:
    """The rules of a file. Files are relative to the folder that Makeflow ran in: the file's own."""
    rules = _loaded(path)["rules"]
    return ImportedWorkflow(
        manager="makeflow",
        version="",
        name=path.stem,
        tasks=[_task(number, rule) for number, rule in enumerate(rules)],
        root=path.resolve().parent,
        ends="none",
        own_directories=[log.name for log in path.resolve().parent.glob("*.makeflowlog")],
    )


def _loaded(path: Path) -> Any:
    """Makeflow escapes apostrophes, as JSON doesn't."""
    text = contents(path).decode("utf-8", "replace")
    try:
        return json.loads(_APOSTROPHE.sub(r"\1'", text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON, or not all of it was written ({error})") from error


def _task(number: int, rule: Any) -> ImportedTask:
    resources = rule.get("resources") or {}
    known = {"cores": "cores", "gpus": "gpus"}
    sizes = {"memory": "memory_bytes", "disk": "disk_bytes"}  # in MB
    return ImportedTask(
        names=(str(number),),
        stage=str(rule.get("category") or "default").strip("\"'"),  # as the flow has it, with its quotes
        kind="bash",
        label=str(rule.get("command", ""))[:200],
        inputs=tuple(map(_name, rule["inputs"])),
        outputs=tuple(map(_name, rule["outputs"])),
        requested={
            **{ours: int(resources[theirs]) for theirs, ours in known.items() if theirs in resources},
            **{ours: int(resources[theirs]) << 20 for theirs, ours in sizes.items() if theirs in resources},
        },
    )


def _name(file: Any) -> str:
    """A file's name, also of one that has another name where the task runs ({"dag_name": ..., "task_name": ...})."""
    return str(file["dag_name"] if isinstance(file, dict) else file)


IMPORTER = Importer("makeflow", "rules of Makeflow (makeflow_viz -D json)", recognizes, read)
