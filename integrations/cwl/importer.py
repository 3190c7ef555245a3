"""CWLProv: the research object that `cwltool --provenance DIR` makes.

    DIR/metadata/provenance/*.cwlprov.json     PROV-JSON: each execution of a step, what it used and made
    DIR/workflow/packed.cwl                    the workflow, as JSON: which step takes something of which

A value (a number, a text) has no identity there, as a file has by its checksum, so the steps tell where one passes. A
step's execution is named as cwltool does, `sort_2` for the second one of `sort`. A research object has its files by
checksum, not by the paths that they had while the workflow ran: a dependency says that a file passed, and not which.
"""

import json
import re
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, json_of

_FOLDER = "metadata/provenance"
_WORKFLOW = "workflow/packed.cwl"
_LARGEST = 512 << 20

Document = dict[str, Any]


def recognizes(path: Path) -> bool:
    """Whether a folder is such a research object."""
    return next(_files(path), None) is not None


def read(path: Path) -> ImportedWorkflow:
    """The process runs of a research object. Raises UsageError, OSError."""
    if not recognizes(path):
        raise UsageError(f"{path} has no {_FOLDER}/*.cwlprov.json: give the folder of cwltool --provenance")
    runs = _Runs()
    for file in _files(path):
        runs.add(json_of(file, _LARGEST))
    told: dict[str, Any] = {"declares": "File and Directory inputs and outputs"}
    stages = _stage_deps(path / _WORKFLOW)
    return ImportedWorkflow(
        manager="cwltool",
        version="",
        name=path.resolve().name,
        tasks=runs.tasks(),
        root=path.resolve(),
        via="file",
        config=told if stages is None else {**told, "stage_deps": stages},
    )


def _stage_deps(packed: Path) -> list[tuple[str, str]] | None:
    """The steps between which something passes; a step that is a workflow stands between what is in it and outside.
    None where the workflow isn't told."""
    try:
        document = json_of(packed, _LARGEST)
        return sorted({pair for one in document.get("$graph", [document]) for pair in _pairs(one, document)})
    except (OSError, UsageError, AttributeError, KeyError, TypeError):
        return None


def _pairs(process: Document, document: Document) -> Iterator[tuple[str, str]]:
    """Of the steps of a workflow, and of those that are its steps."""
    steps = {step["id"]: step for step in process["steps"]} if process["class"] == "Workflow" else {}
    for name, step in steps.items():
        inner = _process(step["run"], document)
        inside = {one["id"] for one in inner["steps"]} if inner.get("class") == "Workflow" else set()
        for given in step["in"]:
            for giver in _givers(given.get("source"), steps):
                yield _stage(giver), _stage(name)
        for one in inner["steps"] if inside else ():
            if any(not set(_givers(given.get("source"), inside)) for given in one["in"]):
                yield _stage(name), _stage(one["id"])
        for output in inner["outputs"] if inside else ():
            for giver in _givers(output.get("outputSource"), inside):
                yield _stage(giver), _stage(name)
        if not isinstance(step["run"], str):
            yield from _pairs(inner, document)


def _process(run: Any, document: Document) -> Document:
    if not isinstance(run, str):
        return run
    return next((one for one in document.get("$graph", ()) if one["id"] == run), {})


def _givers(sources: Any, steps: Collection[str]) -> Iterator[str]:
    """The steps of which these sources are outputs; the others are inputs of the workflow."""
    for source in sources if isinstance(sources, list) else [sources]:
        step = str(source).rpartition("/")[0]
        if step in steps:
            yield step


def _stage(name: str) -> str:
    """ "#main/sort" is sort."""
    return name.rsplit("#", 1)[-1].partition("/")[2] or name


def _files(path: Path) -> Iterator[Path]:
    return iter(sorted((path / _FOLDER).glob("*.cwlprov.json")))


class _Runs:
    """Process runs, and how entities connect them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._steps: set[str] = set()
        self._times: dict[tuple[str, str], int] = {}
        self._used: list[tuple[str, str]] = []
        self._maker: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        self._content: dict[str, str] = {}

    def add(self, document: Document) -> None:
        for run, about in _rows(document, "activity"):
            label = _text(about.get("prov:label"))
            if "wfprov:ProcessRun" in json.dumps(about.get("prov:type")):
                # "Run of workflow/packed.cwl#main/sort_2"
                self._names[run] = _stage(label)
        for name, about in _rows(document, "entity"):
            if "wfdesc:Process" in json.dumps(about.get("prov:type")):
                self._steps.add(name.partition("/")[2])
        for _, row in _rows(document, "wasStartedBy"):
            self._times["begin", row["prov:activity"]] = _moment(row.get("prov:time"))
        for _, row in _rows(document, "wasEndedBy"):
            self._times["end", row["prov:activity"]] = _moment(row.get("prov:time"))
        self._used += [(row["prov:activity"], row["prov:entity"]) for _, row in _rows(document, "used")]
        for _, row in _rows(document, "wasGeneratedBy"):
            # A workflow "generates" what its steps did.
            if row["prov:activity"] in self._names:
                self._maker[row["prov:entity"]] = row["prov:activity"]
        for _, row in _rows(document, "hadMember"):
            self._members.setdefault(row["prov:collection"], []).append(row["prov:entity"])
        for _, row in _rows(document, "specializationOf"):
            self._content[row["prov:specificEntity"]] = row["prov:generalEntity"]

    def tasks(self) -> list[ImportedTask]:
        return [self._task(run, name) for run, name in sorted(self._names.items(), key=lambda item: item[1])]

    def _task(self, run: str, name: str) -> ImportedTask:
        # The second one of step `sort` is sort_2, which may be the name of another step, too.
        step = name if name in self._steps else re.sub(r"_\d+$", "", name)
        used = [entity for one, whole in self._used if one == run for entity in self._parts(whole, set())]
        makers = {self._names[maker] for entity in used for maker in self._makers(entity) if maker != run}
        return ImportedTask(
            names=(name,),
            stage=step if step in self._steps else name,
            after=tuple(sorted(makers)),
            t_start_ns=self._times.get(("begin", run)),
            t_end_ns=self._times.get(("end", run)),
            status="done" if ("end", run) in self._times else "",
        )

    def _makers(self, entity: str) -> set[str]:
        """Who made an entity; where it is only known by its content, who alone made that."""
        if entity in self._maker:
            return {self._maker[entity]}
        same = {self._maker[one] for one, content in self._content.items() if one in self._maker
                and content == self._content.get(entity)}  # fmt: skip
        return same if len(same) == 1 else set()

    def _parts(self, entity: str, seen: set[str]) -> Iterator[str]:
        """An entity and the members of the collection that it is, however nested."""
        if entity not in seen:
            seen.add(entity)
            yield entity
            for member in self._members.get(entity, ()):
                yield from self._parts(member, seen)


def _rows(document: Document, kind: str) -> Iterator[tuple[str, Any]]:
    """The (identifier, row) of a kind of PROV-JSON, where an identifier may have several rows."""
    for name, about in (document.get(kind) or {}).items():
        for row in about if isinstance(about, list) else [about]:
            yield name, row


def _text(value: Any) -> str:
    return str(value.get("$", "")) if isinstance(value, dict) else str(value or "")


def _moment(value: Any) -> int:
    """cwltool writes local times without a zone."""
    text = _text(value)
    return int(datetime.fromisoformat(text).timestamp() * 1e6) * 1000 if text else 0


IMPORTER = Importer("cwlprov", "a research object of CWL (cwltool --provenance)", recognizes, read)
