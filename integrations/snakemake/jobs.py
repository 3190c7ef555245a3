"""A job of Snakemake in our words. All are read from its public properties, in any version from 7 on."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

_UNITS = {"mem_mb": ("memory_bytes", 1_000_000), "disk_mb": ("disk_bytes", 1_000_000), "runtime": ("time_s", 60)}
"""Resource -> what the declared log calls it, and its unit; Snakemake's MB are of 10^6 bytes."""
_OWN = ("_cores", "_nodes", "tmpdir", "mem", "disk", "mem_mib", "disk_mib")
"""Resources that say nothing more, or the same in another unit."""
_KINDS = ("shell", "script", "notebook", "wrapper", "cwl", "run")


def members(job: Any) -> list[Any]:
    """The jobs of a group, each after those it depends on; of a job, itself."""
    return list(job) if job.is_group() else [job]


def stage(job: Any) -> str:
    return str(job.rule.name)


def task(job: Any) -> str:
    """Rule and wildcards: the same in every process and at every execution, as job ids are not."""
    wildcards = job.wildcards_dict or {}
    values = ",".join(f"{name}={wildcards[name]}" for name in sorted(wildcards))
    return f"{stage(job)}:{values}" if values else stage(job)


def kind(job: Any) -> str:
    """shell, script, notebook, wrapper, cwl, run, or job where nothing is run."""
    return next((name for name in _KINDS if getattr(job, f"is_{name}", False)), "job")


def inputs(job: Any) -> list[str]:
    return list(_paths(job.input))


def outputs(job: Any) -> list[str]:
    """Also its logs, and the file of its benchmark."""
    benchmark = getattr(job, "benchmark", None)
    return [*_paths(job.output), *_paths(job.log), *_paths([benchmark] if benchmark else [])]


def _paths(files: Iterable[Any]) -> Iterator[str]:
    for file in files:
        path = os.fspath(file) if isinstance(file, os.PathLike) else str(file)
        if path:
            yield path


def requested(job: Any) -> dict[str, Any]:
    """Threads and resources that have a value: Snakemake has texts where that is known later."""
    found: dict[str, Any] = {"cores": int(job.threads)}
    for name, value in job.resources.items():
        if name in _OWN or isinstance(value, bool):
            continue
        if name in _UNITS and isinstance(value, int | float):
            ours, unit = _UNITS[name]
            found[ours] = int(value * unit)
        elif isinstance(value, int | float) or type(value) is str:
            found[name] = value
    return found


def predecessors(dag: Any, job: Any) -> list[Any]:
    """The jobs whose outputs it needs."""
    return list(dag.dependencies[job])


def to_run(dag: Any) -> list[Any]:
    """The jobs of this execution, also those of groups; not those whose outputs are up to date."""
    return list(dag.needrun_jobs())


def is_task(job: Any) -> bool:
    """Not so a rule that only names its inputs, such as `all`. One that has outputs and no command is: Snakemake makes
    them, as `touch()` says, and others wait for it."""
    return not getattr(job, "is_norun", False) or bool(list(job.output))


def touched(job: Any) -> set[str]:
    """The outputs that Snakemake touches itself when the job is over: they mark an order, and nothing passes."""
    return set(_paths(file for file in job.output if getattr(file, "flags", {}).get("touch")))


def only_looks(scheduler: Any) -> bool:
    """Whether no job is run: a dry run, or one that touches files."""
    return bool(scheduler.dryrun or scheduler.touch)


def workflow_name(snakefile: Any) -> str:
    """The Snakefile's name, or of one that is just called so its folder's; of a folder `workflow` the one above."""
    path = os.path.abspath(str(snakefile))  # noqa: PTH100 (pathlib keeps "..")
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]  # noqa: PTH122
    if stem.lower() != "snakefile":
        return stem
    above = os.path.basename(folder)  # noqa: PTH119
    if above == "workflow":
        above = os.path.basename(os.path.dirname(folder))  # noqa: PTH119, PTH120
    return above or "snakemake"
