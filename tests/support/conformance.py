"""One small workflow for the adapter of every manager, and the judge of what was recorded of it.

    make "a b"   --> sort "a b"   --+
                                    +--> merge (fails once) --> check (fails always) --> after (never runs)
    make "c'd:e" --> sort "c'd:e" --+

An Adapter runs the steps with its manager, traced, in a folder that has STEP_PROGRAM; `judge` compares the run with
what the steps are, by the trace's lines alone where it can: tags of whole process trees, dependencies, files, tries,
outcomes, and that what the manager writes for itself carries no task. A Verdict has right and total of each column.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pandas as pd

import tailrace
from support.run_files import Line, Trace
from tailrace import make
from tailrace.analyzer.model import declared_vs_observed

COLUMNS = ("stage", "task", "declared", "observed", "files", "retries", "failures", "own I/O apart", "results")
STEP_PROGRAM = "step.sh"
STEP_TEXT = """#!/bin/sh
# OUT (ok | once | always) IN...: several processes, some in a pipe.
out=$1 how=$2
shift 2
{ for file; do sed 's/^/> /' "$file"; done; echo "made $out"; } | sort > "$out"
case $how in
  once) [ -e "$out.tried" ] || { : > "$out.tried"; exit 3; } ;;
  always) exit 3 ;;
esac
"""
STRANGE = ("a b", "c'd:e")
_ADAPTERS = Path(make.__file__).parents[1]
WRITES = {"write", "writev", "fwrite", "pwrite64"}


@dataclass(frozen=True)
class Step:
    """A task. how: ok, once (fails at its first try) or always (fails)."""

    stage: str
    name: str
    out: str
    inputs: tuple[str, ...] = ()
    how: str = "ok"

    @property
    def words(self) -> list[str]:
        """Its command line, in the workflow's folder."""
        return ["sh", STEP_PROGRAM, self.out, self.how, *self.inputs]


def steps(names: tuple[str, str] = STRANGE, retries: bool = True) -> list[Step]:
    """The workflow. names: of the two files, for managers that can't have these; retries: whether it tries again."""
    made = [Step("make", name, f"data/{name}.txt") for name in names]
    sorts = [Step("sort", one.name, f"data/{one.name}.sorted", (one.out,)) for one in made]
    merge = Step("merge", "all", "data/merged", tuple(one.out for one in sorts), "once" if retries else "ok")
    check = Step("check", "all", "data/checked", (merge.out,), "always")
    return [*made, *sorts, merge, check, Step("after", "all", "data/never", (check.out,))]


@dataclass(frozen=True)
class Adapter:
    """A manager's adapter, under test.

    run: executes the steps in a folder, traced, and returns the run directory; names: of the two files; retries:
    whether the manager tries again; files: whether it declares files; task_files: patterns of files, relative to the
    folder, that tasks rightly write beside their outputs (standard output); keeps: whether outputs of failed tasks
    stay; ends: whether the manager tells how tasks ended; stages: those that have other names there; place: where the
    file of a step's name really is, for managers that run each task in a folder of its own; programs, once: how many
    programs of tailrace's, forks and what they start included, the adapter may run for each try of a task, and besides.
    """

    manager: str
    version: str
    run: Callable[[Path, list[Step]], Path]
    names: tuple[str, str] = STRANGE
    retries: bool = True
    files: bool = True
    task_files: tuple[str, ...] = ()
    keeps: bool = True
    ends: bool = True
    stages: Mapping[str, str] = field(default_factory=dict)
    place: Callable[[Path, str], Path] = Path.joinpath
    programs: int = 0
    once: int = 0

    def stage(self, step: "Step") -> str:
        """What the manager has for a step's stage."""
        return self.stages.get(step.stage, step.stage)


@dataclass
class Verdict:
    """Right and total of each column; a column that the manager can't have is missing. faults: sentences."""

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def put(self, column: str, facts: Iterable[tuple[bool, str]]) -> None:
        """Facts: whether it is as it must be, and the words otherwise."""
        told = list(facts)
        self.counts[column] = (sum(right for right, _ in told), len(told))
        self.faults += [f"{column}: {words}" for right, words in told if not right]


def prepare(folder: Path) -> None:
    """Puts the program of the steps into the folder."""
    (folder / "data").mkdir(parents=True)
    (folder / STEP_PROGRAM).write_text(STEP_TEXT)


def judge(adapter: Adapter, folder: Path, run_dir: Path, workflow: list[Step]) -> Verdict:
    """What is right of a run in `folder`."""
    verdict, trace, run = Verdict(), Trace(run_dir), tailrace.open(run_dir)
    ran = [step for step in workflow if step.stage != "after"]
    trees = {step: _tree(trace, folder, step) for step in ran}
    tags = {step: trace.tags(trees[step], "stage", "task") for step in ran}
    verdict.put("stage", ((_firsts(tags[step]) == {adapter.stage(step)}, f"{step} has {tags[step]}") for step in ran))
    names = {step: next(iter(tags[step]))[1] for step in ran if len(tags[step]) == 1}
    verdict.put(
        "task",
        (
            (names.get(step) is not None and list(names.values()).count(names[step]) == 1, f"{step} has {tags[step]}")
            for step in ran
        ),
    )
    declared = run.declared_tasks
    never = declared[~declared["task"].isin(set(names.values())) & (declared["stage"] == adapter.stage(workflow[-1]))]
    if len(never) == 1:
        names[workflow[-1]] = str(never["task"].iloc[0])
    _judge_edges(verdict, run, workflow, names)
    if adapter.files:
        _judge_files(verdict, run.declared_files, adapter, folder, workflow, names)
    outcomes = {str(row["task"]): row for row in declared.to_dict("records")}
    if adapter.retries:
        _judge_retries(verdict, trace, run.declared_tries, folder, workflow, names, outcomes)
    if adapter.ends:
        verdict.put("failures", (_outcome(step, outcomes.get(names.get(step, ""))) for step in workflow))
    _judge_own(verdict, trace, folder, adapter)
    expected = results(workflow, folder.with_name(f"{folder.name}-expected"))
    kept = [step for step in ran if adapter.keeps or step.how != "always"]
    found = {step.out: _text(adapter.place(folder, step.out)) for step in kept}
    verdict.put("results", ((found[s.out] == expected[s.out], f"{s.out} has {found[s.out]!r}") for s in kept))
    _judge_cost(verdict, trace, adapter, ran)
    return verdict


def results(workflow: Iterable[Step], folder: Path) -> dict[str, str | None]:
    """What the steps write when nothing but a shell runs them."""
    prepare(folder)
    for step in workflow:
        for _ in range(2 if step.how == "once" else 1):
            if step.stage != "after":
                subprocess.run(step.words, cwd=folder, check=False)
    return {step.out: _text(folder / step.out) for step in workflow}


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


def _firsts(tags: set[tuple[Any, ...]]) -> set[Any]:
    return {first for first, *_ in tags}


def _tree(trace: Trace, folder: Path, step: Step) -> list[Line]:
    """The events of the step's shell and of all that it started, from its start on."""
    begun: dict[int, int] = {}
    starts = sorted((event for event in trace.events if event["name"] == "start"), key=_ns)
    for event in starts:
        words = event["args"].get("argv", [])
        # A subshell of dash has the words that `shift` left.
        own = [Path(word).name for word in words[1:2]] + words[2:4] == step.words[1:4]
        if own or event["args"].get("ppid") in begun:
            begun.setdefault(event["pid"], _ns(event))
    return [event for event in trace.events if event["pid"] in begun and _ns(event) >= begun[event["pid"]]]


def _ns(event: Line) -> int:
    return int(event["ts"]) * 1000 + int(event["args"].get("ns", 0))


def _edges(workflow: Iterable[Step]) -> set[tuple[Step, Step]]:
    known = list(workflow)
    return {(one, then) for one in known for then in known if one.out in then.inputs}


def _judge_edges(verdict: Verdict, run: Any, workflow: list[Step], names: Mapping[Step, str]) -> None:
    by_name = {name: step for step, name in names.items()}
    wanted = _edges(workflow)
    rows = declared_vs_observed.compare_declared(run)
    rows = rows.assign(one=rows["producer"].map(by_name), then=rows["consumer"].map(by_name))
    status = {(row.one, row.then): row.status for row in rows.itertuples()}
    found = {pair for pair, how in status.items() if how != "undeclared"}
    verdict.put("declared", ((pair in found and pair in wanted, f"{_pair(pair)}") for pair in found | wanted))
    moved = {pair for pair in wanted if pair[1].stage != "after"}
    verdict.put("observed", ((status.get(pair) == "observed", f"{_pair(pair)}: {status.get(pair)}") for pair in moved))


def _pair(pair: tuple[Any, Any]) -> str:
    return " -> ".join(str(getattr(one, "out", one)) for one in pair)


def _judge_files(
    verdict: Verdict,
    files: pd.DataFrame,
    adapter: Adapter,
    folder: Path,
    workflow: list[Step],
    names: Mapping[Step, str],
) -> None:
    told = {(row.task, row.direction, row.path) for row in files.itertuples()}
    wanted = [(step, "r", path) for step in workflow for path in step.inputs]
    wanted += [(step, "w", step.out) for step in workflow]
    facts = [(step, way, str(adapter.place(folder, path))) for step, way, path in wanted]
    verdict.put("files", (((names.get(step), way, path) in told, f"{way} {path}") for step, way, path in facts))


def _judge_retries(
    verdict: Verdict,
    trace: Trace,
    tries: pd.DataFrame,
    folder: Path,
    workflow: list[Step],
    names: Mapping[Step, str],
    outcomes: Mapping[str, Mapping[str, Any]],
) -> None:
    (step,) = (step for step in workflow if step.how == "once")
    seen = trace.tags(trace.of(folder / step.out, WRITES), "tag.try")
    name = names.get(step, "")
    told = tries[(tries["task"] == name) & (tries["status"] == "failed")]["try"].tolist()
    count = outcomes.get(name, {}).get("tries")
    verdict.put(
        "retries",
        [
            (seen == {("0",), ("1",)}, f"its tags have the tries {seen}"),
            (told == [0], f"the tries {told} failed"),
            (count == 2, f"it has {count} tries"),
        ],
    )


def _outcome(step: Step, row: Mapping[str, Any] | None) -> tuple[bool, str]:
    status, error = (row["status"], row["error"]) if row is not None else (None, None)
    if step.stage == "after":
        # A manager that never submits it says as much.
        return row is None or status in ("dep_failed", "canceled"), f"{step} is {status}"
    if step.how == "always":
        return status == "failed" and bool(error), f"{step} is {status}: {error}"
    return status == "done", f"{step} is {status}: {error}"


def _judge_own(verdict: Verdict, trace: Trace, folder: Path, adapter: Adapter) -> None:
    """Files outside of the steps' own that were written: no event of a task, but where tasks write them rightly."""
    written: dict[str, set[tuple[Any, ...]]] = {}
    for event in trace.events:
        path = event["path"]
        if (
            event["name"] in WRITES
            and path is not None
            and path.startswith("/")
            and not path.startswith(("/dev/", "/proc/"))
        ):
            written.setdefault(path, set()).add((event["args"].get("task"),))
    data = f"{os.path.realpath(folder)}/data/"
    others = {path: tasks for path, tasks in written.items() if not path.startswith(data)}
    rightly = {
        p
        for p in others
        if any(fnmatch(os.path.relpath(p, os.path.realpath(folder)), one) for one in adapter.task_files)
    }
    apart = [
        (tasks == {(None,)} or path in rightly, f"{path} is written by the tasks {tasks}")
        for path, tasks in others.items()
    ]
    verdict.put("own I/O apart", apart)


def _judge_cost(verdict: Verdict, trace: Trace, adapter: Adapter, ran: Iterable[Step]) -> None:
    """What the adapter adds to each try of a task, counted: programs. No column: it is right or a fault."""
    starts = sorted((event for event in trace.events if event["name"] == "start"), key=_ns)
    own: list[tuple[int, list[str]]] = []
    for event in starts:
        words = event["args"].get("argv", [])
        # An untagged program in such a process is one that the adapter starts: what it runs for a task has its tags.
        inside = event["args"].get("task") is None and event["pid"] in {pid for pid, _ in own}
        if inside or any(_is_ours(word) for word in words[:2]):
            own.append((event["pid"], words[:4]))
    begun = [event["args"].get("argv", [])[2:] for event in starts]
    tries = sum(begun.count(step.words[2:]) for step in ran)
    most = adapter.programs * tries + adapter.once
    if len(own) > most:
        verdict.faults.append(f"cost: of {tries} tries {len(own)} programs are tailrace's, and not {most}: {own}")


def _is_ours(word: str) -> bool:
    """Whether a program, or a shell's script, is tailrace's."""
    return Path(word).name == "tailrace" or Path(word).is_relative_to(_ADAPTERS)
