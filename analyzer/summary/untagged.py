"""What reports fold: the processes without tags, the workflow manager's files, and the declared results."""

from __future__ import annotations

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, order, stages
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.summary.limits import JsonObject
from tailrace.analyzer.util.formatting import count_text

NAMED = 4
"""Programs that are named."""


def untagged(run: AnalyzedRun, m: Model) -> JsonObject:
    """text: a sentence on the processes of the stage "(untagged)", "" where there is none; programs: their programs, by
    number of processes."""
    if dataflow.UNTAGGED not in set(m.who["label"]):
        return {"text": "", "programs": {}}
    own = m.who[m.who["label"] == dataflow.UNTAGGED].drop_duplicates(PROCESS)
    names = own["exe"].map(file_classes.program).replace("", "of an unknown program")
    programs = {str(name): int(number) for name, number in names.value_counts().items()}
    parts = [f"{number} {name}" for name, number in list(programs.items())[:NAMED]]
    if len(programs) > NAMED:
        parts.append(f"{sum(list(programs.values())[NAMED:])} of other programs")
    managers = _managers(run)
    who = f"{' and '.join(managers)} and what is outside of its tasks" if managers else "what has no stage"
    text = f"{dataflow.UNTAGGED}: {who}, {count_text(len(own), 'process', 'es')} ({', '.join(parts)})."
    return {"text": text, "programs": programs}


def levels(run: AnalyzedRun) -> str:
    """Sentences on the stages whose tasks ran inside of tasks, those of other managers included; "" without any."""
    tasks = run.declared_tasks
    parents = order.parents_of(tasks) if len(tasks) else {}
    if not parents:
        return ""
    rows = zip(tasks["workflow"], tasks["task"], tasks["stage"], strict=True)
    stage_of = {(str(workflow or ""), str(task)): str(stage) for workflow, task, stage in rows}
    inside: dict[str, list[str]] = {}
    for task, outer in parents.items():
        names = inside.setdefault(stage_of.get(outer, outer[1]), [])
        if stage_of[task] not in names:
            names.append(stage_of[task])
    sentences = []
    for outer_stage, names in inside.items():
        more = f" and {len(names) - NAMED} more stages" if len(names) > NAMED else ""
        sentences.append(f"Inside {outer_stage}: {', '.join(names[:NAMED])}{more}.")
    return " ".join(sentences)


def _managers(run: AnalyzedRun) -> list[str]:
    """The workflow managers of a run, with their versions: "parsl 2026.10.26"."""
    rows = run.declared_workflows
    if len(rows) == 0:
        return []
    named = (
        f"{manager} {version or ''}".strip() for manager, version in zip(rows["manager"], rows["version"], strict=True)
    )
    return list(dict.fromkeys(named))


def folded(m: Model) -> JsonObject:
    """manager: the workflow manager's own files; results: declared outputs that no other task read. Each with files,
    read_bytes, written_bytes."""
    fates = stages.file_fates(m)
    kinds = {"manager": fates["cls"] == file_classes.MANAGER, "results": fates["result"]}
    sums = {}
    for name, rows in kinds.items():
        mine = fates[rows]
        sums[name] = {"files": len(mine)} | {n: int(mine[n].sum()) for n in ("read_bytes", "written_bytes")}
    return sums
