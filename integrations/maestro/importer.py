"""A study's folder of Maestro: meta/metadata.yaml has steps and dependencies, status.csv what became of them.

Maestro keeps the expanded graph as a pickle only, which is not read. A step's instance depends on those of
the steps that it names which have the same values of the parameters that both use, and on all of a step that it names
with `_*`. An instance is named as its script is: make_N.10.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, local_moment, rows_of, yaml_of

_METADATA = Path("meta/metadata.yaml")
_STATUS = "status.csv"
_FILES = (_STATUS, ".status.lock", ".conductor.lock", "batch.info")
_SOURCE = "_source"
_STATES = {
    "FINISHED": "done",
    "FAILED": "failed",
    "TIMEDOUT": "timeout",
    "CANCELLED": "canceled",
    "HWFAILURE": "killed",
}

Steps = Mapping[str, Mapping[str, Any]]


def recognizes(path: Path) -> bool:
    """Whether a folder is a study's."""
    return (path / _METADATA).is_file() and (path / _STATUS).is_file()


def read(path: Path) -> ImportedWorkflow:
    """The steps of a study. Raises UsageError, OSError."""
    if not recognizes(path):
        raise UsageError(f"{path} has no {_METADATA} and {_STATUS}: give the output folder of a Maestro study")
    data = yaml_of(path / _METADATA)
    instances: Steps = {step: of for step, of in data["step_combinations"].items() if step != _SOURCE}
    rows = {str(row["Step Name"]): row for row in rows_of(path / _STATUS)}
    values = {name: _values(row) for name, row in rows.items()}
    tasks = []
    for step, names in instances.items():
        alike, all_of = ([one for one in data[kind].get(step) or () if one != _SOURCE]
                         for kind in ("dependencies", "hub_dependencies"))  # fmt: skip
        for name in names:
            after = [one for parent in alike for one in instances.get(parent, ()) if _agree(values, name, one)]
            after += [one for parent in all_of for one in instances.get(parent, ())]
            tasks.append(_task(step, name, tuple(dict.fromkeys(after)), rows.get(name, {})))
    return ImportedWorkflow(
        manager="maestro",
        version="",
        name=path.resolve().name,
        tasks=tasks,
        root=path.resolve(),
        times="polls",
        own_directories=["meta", "logs", *_FILES, *(file.name for file in path.glob("*.pkl"))],
    )


def _values(row: Mapping[str, str]) -> dict[str, str]:
    """ "N:10;M:2" as a mapping."""
    pairs = (pair.partition(":") for pair in (row.get("Params") or "").split(";") if pair)
    return {name: value for name, _, value in pairs}


def _agree(values: Mapping[str, Mapping[str, str]], one: str, other: str) -> bool:
    mine, theirs = values.get(one, {}), values.get(other, {})
    return all(theirs[name] == value for name, value in mine.items() if name in theirs)


def _task(step: str, name: str, after: tuple[str, ...], row: Mapping[str, str]) -> ImportedTask:
    state = row.get("State", "")
    status = _STATES.get(state, "")
    restarts = row.get("Number Restarts", "")
    submitted, started = local_moment(row.get("Submit Time")), local_moment(row.get("Start Time"))
    # Maestro calls the steps behind a failed one failed, too.
    never_ran = status == "failed" and bool(after) and submitted is None and started is None
    status = "dep_failed" if never_ran else status
    return ImportedTask(
        names=(name,),
        stage=step,
        kind="bash",
        after=after,
        t_submit_ns=submitted,
        t_start_ns=started,
        t_end_ns=local_moment(row.get("End Time")),
        status=status,
        tries=0 if never_ran else 1 + int(restarts) if restarts.isdigit() else 1,
        error=f"Maestro's state {state}" if status not in ("", "done") else None,
        annotations={"job": row["Job ID"]} if row.get("Job ID") else {},
    )


IMPORTER = Importer("maestro", "the folder of a Maestro study", recognizes, read)
