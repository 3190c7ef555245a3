"""Findings about what orders tasks: what they declare, wait for and leave running."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from posixpath import basename, dirname, splitext

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.early_reads import EarlyRead
from tailrace.analyzer.insights.finding import (
    EVIDENCE,
    FLOOR,
    IO,
    LEAST,
    NOTE,
    ORDER,
    QUALITY,
    RACE,
    TIME,
    Evidence,
    Match,
    Rule,
    Threshold,
    more,
    rows_of,
)
from tailrace.analyzer.insights.findings.races import EARLY, SCRATCH, early_words, pairs_of
from tailrace.analyzer.insights.findings.waits import late
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.insights.polls import TRIES, Loop
from tailrace.analyzer.insights.shared_scratch import of_pair
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.model.order import AWAITED, IN_TIME, NONE, UNTOLD
from tailrace.analyzer.model.partly_declared import PartlyDeclared
from tailrace.analyzer.store.processes import keys
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Bools, Row

UNDECLARED_SOURCE = "The declared DAG compared with the observed one (docs/declared-dag.md)"
UNDECLARED_QUERY = "tailrace query {run} {task} --where dir=r --by path --agg count --agg sum:size --sort sum_size"


def undeclared_matches(found: Analyses, order: str, words: str) -> Iterator[Match]:
    """One match for the undeclared dependencies of an order (`order.ORDERS`); it tells of the largest, of early reads
    where there are any.

    Args:
        words: the end of the sentence about the two tasks and the bytes, with {producer} and {consumer}; of `UNTOLD`
            also with {manager} and {declares} (partly_declared.py).
    """
    rows = found.declared.undeclared
    rows = rows[rows["order"] == order] if len(rows) else rows
    rows = rows[~_of_scratch(found, rows)] if order == NONE else rows
    if len(rows) == 0:
        return
    early = _early(found, rows) if order == NONE else {}
    first = next(iter(early), 0)
    top = rows.iloc[first]
    producer, consumer = found.ends(top.to_dict())
    names = {"producer": producer, "consumer": consumer}
    if order == UNTOLD:
        partly = PartlyDeclared(found.inputs.tables.get("declared_workflows"), None)
        names["manager"], names["declares"] = partly.words(str(top["workflow"]))
    read = f"{consumer} read {bytes_text(int(top['bytes']))} that {producer} wrote"
    if early:
        read = early_words(found, early[first])
    yield Match(
        title=f"{read}{words.format(**names)}{more(len(rows))}",
        advice=EARLY if early else "",
        names={"task": found.of_tag(str(top["consumer_workflow"]), str(top["consumer"]))},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "bytes", "files"]]),
        tasks=found.tagged(rows, "producer", "consumer"),
    )


def _early(found: Analyses, rows: pd.DataFrame) -> dict[int, EarlyRead]:
    """Position -> the early read of the row's two tasks, if there is one."""
    known = {read[:2]: read for read in reversed(found.early_reads)}
    pairs = pairs_of(found, rows)
    return {at: known[pair] for at, pair in enumerate(pairs) if pair in known}


def undeclared_dependency(found: Analyses) -> Iterator[Match]:
    """All undeclared dependencies that nothing orders, as one match, and those over scratch files that tasks share as
    another one."""
    rows = found.declared.undeclared
    rows = rows[rows["order"] == NONE] if len(rows) else rows
    yield from _shared(found, rows)
    yield from undeclared_matches(found, NONE, ", but no dependency is declared and nothing orders them")


def _shared(found: Analyses, rows: pd.DataFrame) -> Iterator[Match]:
    rows = rows[_of_scratch(found, rows)]
    if not len(rows):
        return
    top: Row = rows.iloc[0].to_dict()
    consumer, producer = pairs_of(found, rows)[0]
    scratch = of_pair(found.shared_scratch, consumer, producer)
    assert scratch is not None
    stage, called = str(found.inputs.stages["stage"].iat[scratch.stage]), found.inputs.called
    yield Match(
        title=f"{found.counted(scratch.tasks)} of {stage} each write {scratch.path} anew and then read it, and nothing"
        f" orders them: {called(consumer)} read {bytes_text(int(top['bytes']))} that {called(producer)}"
        f" wrote{more(len(rows))}",
        advice=SCRATCH,
        names={"task": found.of_tag(str(top["consumer_workflow"]), str(top["consumer"]))},
        cost_bytes=int(rows["bytes"].sum()),
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "bytes", "files"]]),
        tasks=found.tagged(rows, "producer", "consumer"),
    )


def _of_scratch(found: Analyses, rows: pd.DataFrame) -> Bools:
    """Whether each undeclared dependency is over one file alone, and that a scratch file that its tasks share."""
    pairs = pairs_of(found, rows) if len(rows) else []
    shared = [of_pair(found.shared_scratch, *pair) is not None for pair in pairs]
    return np.array(shared, dtype=np.bool_) & (rows["files"] <= 1).to_numpy() if len(rows) else np.zeros(0, np.bool_)


UNDECLARED_DEPENDENCY = Rule(
    kind="undeclared dependency",
    about=RACE,
    title="Data passed between tasks that nothing orders",
    definition=(
        "A task read what another task wrote. No declared dependency, direct or over other tasks, puts the writer"
        " first, the submitting program did not wait for it, and the reader was submitted before the writer was"
        " over: in this run the order was right by chance; or the reader was over before the writer's last write, and"
        " what came later is missing from its result. Tasks of a run that declares nothing are not reported. Where"
        " several tasks of a stage each write one file anew before they read it, it is their scratch file: each"
        " needs one of its own."
    ),
    advice="Declare the dependency: with another schedule the consumer starts before its data exists.",
    source=UNDECLARED_SOURCE,
    query=UNDECLARED_QUERY,
    find=undeclared_dependency,
    absence=True,
)


def undeclared_awaited(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; undeclared, but awaited: {producer} had been waited for before {consumer} was submitted"
    yield from undeclared_matches(found, AWAITED, words)


UNDECLARED_AWAITED = Rule(
    kind="undeclared, but awaited",
    about=NOTE,
    title="Data passed between tasks that the submitting program ordered by waiting",
    definition=(
        "A task read what another task wrote, and no dependency is declared. The program that submitted the two had"
        " waited for the writer before it submitted the reader: it took its result or waited for its future, or a"
        " shell waited for the command that ran it. That is an order, and no race. The workflow manager does not know"
        " it: when a resumed or memoized workflow leaves the writer out, or runs it again, the reader does not follow."
    ),
    advice="Declare the dependency where the workflow is to be resumed, reordered or run in parallel.",
    source=UNDECLARED_SOURCE,
    query=UNDECLARED_QUERY,
    find=undeclared_awaited,
    absence=True,
)


def undeclared_untold(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; {manager} declares only {declares}, so whether it orders the two is not known"
    yield from undeclared_matches(found, UNTOLD, words)


UNDECLARED_UNTOLD = Rule(
    kind="undeclared, order not told",
    about=NOTE,
    title="Data passed between tasks that their manager may order without saying so",
    definition=(
        "A task read what another task wrote, and no dependency is declared, in a workflow whose manager declares only"
        " some: values that pass from task to task order them, too, and what is kept of the workflow does not have"
        " them. The reader began when the writer was over, as where such a value passed. Where the manager tells"
        " between which stages values pass, only tasks of those are meant."
    ),
    advice="Where the reader must wait for the writer, let the manager pass the file, in what it declares.",
    source=UNDECLARED_SOURCE,
    query=UNDECLARED_QUERY,
    find=undeclared_untold,
    absence=True,
)


def undeclared_in_order(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; undeclared, but in order this time: {consumer} was submitted after {producer} had ended"
    for match in undeclared_matches(found, IN_TIME, words):
        yield replace(match, advice=WAITED) if _may_wait(found) else match


def _may_wait(found: Analyses) -> bool:
    """Whether each writer was submitted by a command that waited for it, and who ran that command is not known."""
    tasks, rows = found.inputs.tables.get("declared_tasks"), found.declared.undeclared
    if tasks is None or "submitter" not in tasks:
        return False
    waits = [isinstance(one, dict) and one.get("waits") is True for one in tasks["submitter"]]
    known = set(outcomes.task_keys(tasks[waits].assign(workflow=tasks["workflow"].fillna(""))))
    rows = rows[rows["order"] == IN_TIME]
    return known.issuperset(zip(rows["workflow"], rows["producer"], strict=True))


WAITED = (
    "Declare the dependency, or trace the script that submits them, too: the commands that submitted the writers wait"
    " for their tasks (as `flux run`), so where a script runs them one after the other, the order holds."
)

UNDECLARED_IN_ORDER = Rule(
    kind="undeclared, in order this time",
    about=ORDER,
    title="Data passed between tasks that only their times order",
    definition=(
        "A task read what another task wrote, and no dependency is declared. The reader was submitted when the writer"
        " was over, by the workflow manager's clock, so the two could not overlap in this run. That the program"
        " waited for the writer is not known: a loop that submits slowly looks the same."
    ),
    advice="Declare the dependency, or wait for the writer in the program: a slower writer would make it a race.",
    source=UNDECLARED_SOURCE,
    query=UNDECLARED_QUERY,
    find=undeclared_in_order,
    absence=True,
)


def undeclared_inputs(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows = _read(found)
    if not len(rows):
        return
    named = rows.assign(task=[found.inputs.called(int(task)) for task in rows["task"]])
    top = named.iloc[0]
    yield Match(
        title=f"{top['task']} read {bytes_text(int(top['bytes']))} of {top['path']}, which is from before the run and"
        f" declared by no task{more(named['path'].nunique())}",
        names={"path": str(top["path"])},
        cost_bytes=int(rows["bytes"].sum()),
        count=int(named["path"].nunique()),
        evidence=rows_of(named[["task", "path", "bytes"]]),
        tasks=set(rows["task"].tolist()),
    )


def _read(found: Analyses) -> pd.DataFrame:
    """task, path, bytes: what tasks with declared inputs read of such files, the most bytes first."""
    inputs, m = found.inputs, found.inputs.m
    declared = inputs.tables.get("declared_files")
    none: pd.DataFrame = pd.DataFrame(columns=["task", "path", "bytes"])
    if declared is None or not len(declared) or "path" not in declared:
        return none
    known = frozenset(str(path) for path in declared["path"].dropna())
    takes = declared[declared["direction"] == "r"]
    owners = set(outcomes.task_keys(takes.assign(workflow=takes["workflow"].fillna(""))))
    files = found.lifetime.files
    external = files[(files["writers"] == 0) & (files["read_bytes"] >= FLOOR_BYTES)]
    near = _places(known)
    mine = [file for file, path in external["path"].items() if _unknown(str(path), known, near)]
    pick = m.bursts["file"].isin(mine).to_numpy() & (m.bursts["dir"] == edge_table.READ).to_numpy()
    pick &= m.classed(("data",))
    rows = pd.DataFrame(
        {
            "task": inputs.of_who[m.bursts["who"].to_numpy()[pick]],
            "path": m.paths[m.bursts["file"].to_numpy()[pick]],
            "bytes": m.bursts["bytes"].to_numpy()[pick],
        }
    )
    names = outcomes.task_keys(inputs.tasks)
    rows = rows[np.array([names[task] in owners for task in rows["task"].tolist()], dtype=np.bool_)]
    sums = rows.groupby(["task", "path"], as_index=False, sort=False)["bytes"].sum()
    return sums[sums["bytes"] > 0].sort_values("bytes", ascending=False, kind="stable", ignore_index=True)


def _places(known: Collection[str]) -> tuple[str, ...]:
    """The directory that all declared files are in, with a slash: where the workflow keeps its data."""
    parts = [dirname(path).split("/") for path in known if path.startswith("/")]
    common: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ("/".join(common) + "/",) if len(common) > 1 else ()


def _unknown(path: str, known: frozenset[str], near: tuple[str, ...]) -> bool:
    """Whether a file lies among the declared ones and is neither one, nor in a declared directory, nor hidden, nor
    named after one (an index: ref.fa.fai, ref.dict of ref.fa)."""
    if path in known or not path.startswith(near) or not near or re.search(r"/\.", path):
        return False
    if any(path[: at.start()] in known for at in re.finditer(r"[/.-]", path)):
        return False
    stem = splitext(path)[0]
    return basename(path) != "" and not any(splitext(one)[0] == stem for one in known)


UNDECLARED_INPUTS = Rule(
    kind="undeclared input",
    about=ORDER,
    title="A file from before the run that a task read, and nobody declared",
    definition=(
        f"A task that declares inputs read {FLOOR} or more of a data file that nobody wrote in the run and no task"
        " declares, in the directory below which all declared files are. It is of an earlier run or made by hand: when"
        " it changes, nothing is made anew, and when it is stale, nobody sees it. Hidden files, and those that are"
        " named after a declared one (an index), are left out."
    ),
    advice="Declare it as an input of the task, or make it in the workflow; check that it is the version you mean.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md)",
    query="tailrace file {run} {path}",
    find=undeclared_inputs,
)


def declared_not_accessed(found: Analyses) -> Iterator[Match]:
    """All such declarations, as one match."""
    rows, tasks = found.declared.untouched, found.inputs.tasks
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    declared, did = ("input", "read") if top["direction"] == "r" else ("output", "wrote")
    task = int(np.flatnonzero((tasks["workflow"] == top["workflow"]) & (tasks["task"] == top["task"]))[0])
    name = found.inputs.called(task)
    yield Match(
        title=f"{name} declared {top['path']} as an {declared} and never {did} it{more(len(rows))}",
        names={"task": found.of_tag(str(top["workflow"]), str(top["task"]))},
        count=len(rows),
        evidence=rows_of(rows),
        tasks=found.tagged(rows, "task"),
    )


DECLARED_NOT_ACCESSED = Rule(
    kind="declared, not accessed",
    about=QUALITY,
    title="A declared input that was not read, or a declared output that was not written",
    definition=(
        "A task left events and did not fail, and none of them reads or runs its declared input, or writes its declared"
        " output, under any name that the file had in the run, or as a copy that an untagged process staged for it."
    ),
    advice="Correct the declaration: a wrong input delays the task, a missing output fails the tasks that need it.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md)",
    query="tailrace query {run} {task} --by path,path2,dir",
    find=declared_not_accessed,
    absence=True,
)


def dependency_without_data(found: Analyses) -> Iterator[Match]:
    """All dependencies without data, as one match."""
    rows = found.declared.empty
    if len(rows) == 0:
        return
    # With enough processors, and with the workers that the run may have had.
    estimate = whatif.estimate(found.inputs, drop=[whatif.WITHOUT_DATA])
    saved = max(min(found.declared.together_ns, found.inputs.makespan_ns - estimate.low_ns), 0)
    top = rows.iloc[0]
    producer, consumer = found.ends(top.to_dict())
    them = "it" if len(rows) == 1 else "them"
    gain = f"; without {them} the run could be up to {time_text(saved)} shorter" if saved else ""
    yield Match(
        title=f"{consumer} waited for {producer}, but read nothing that it wrote{more(len(rows))}{gain}",
        cost_ns=saved,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows[["producer", "consumer", "via", "path", "saved_ns"]]),
        tasks=found.tagged(rows, "producer", "consumer"),
    )


DEPENDENCY_WITHOUT_DATA = Rule(
    kind="dependency without data",
    about=TIME,
    title="A declared dependency on a file over which no data passed",
    definition=(
        "A task was declared to need a file of another task, ran without failing, and read nothing that the other"
        " wrote. The cost is by how much the longest chain of declared tasks would be shorter without all such"
        " dependencies, gaps between tasks left out, and no more than `tailrace whatif` estimates at most, with the"
        " workers that had tasks at a time, or one for each processor: an upper bound."
    ),
    advice="Remove the dependency, unless it stands for an effect that no file shows.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md); Kelley and Walker 1959",
    query="tailrace whatif {run} --drop 'declared edges without data'",
    find=dependency_without_data,
    change="no dependency without data",
    absence=True,
)


LONG = Threshold(100, "ms after the end of the task")


def outliving_processes(found: Analyses) -> Iterator[Match]:
    """All such processes, as one match."""
    rows = _outliving(found)
    if not len(rows):
        return
    inputs, top = found.inputs, rows.iloc[0]
    wrote = f", and wrote {top['path']}" if top["path"] else ""
    yield Match(
        title=f"{inputs.called(int(top['task']))} had ended, and its {top['program']} went on for"
        f" {time_text(int(top['after_ns']))}{wrote}{more(len(rows))}",
        names={"task": str(inputs.tasks["task"].iat[int(top["task"])])},
        cost_ns=0,
        count=len(rows),
        evidence=rows_of(rows.assign(task=[inputs.called(int(task)) for task in rows["task"]])),
        tasks=set(rows["task"].tolist()),
    )


def _outliving(found: Analyses) -> pd.DataFrame:
    """task, program, after_ns, path (of data that it wrote after the task's end, ""): the longest first."""
    inputs, lives, m = found.inputs, found.inputs.lives, found.inputs.m
    columns = ["task", "program", "after_ns", "path"]
    none: pd.DataFrame = pd.DataFrame(columns=columns)
    if "exit" not in m.processes or "ppid" not in m.processes:
        return none
    ended = m.processes[m.processes["exit"].notna()]
    has_end = set(keys(ended))
    parent = dict(zip(keys(m.processes), m.processes["ppid"].tolist(), strict=True))
    process_key = keys(m.who)
    of_task: dict[int, set[int]] = {}
    for actor in np.flatnonzero(inputs.works[inputs.of_who] & ~m.of_manager).tolist():
        of_task.setdefault(int(inputs.of_who[actor]), set()).add(int(lives.process[actor]))
    least = max(LONG.value * 1e6, LEAST.value / 100 * inputs.makespan_ns)
    rows = []
    for task, processes in of_task.items():
        if len(processes) < 2 or not inputs.tasks["task"].iat[task]:
            continue
        key_of = {process: process_key[lives.first(process)] for process in processes}
        pids = {(key[0], key[1]) for key in key_of.values()}
        roots = [p for p in processes if (key_of[p][0], parent.get(key_of[p])) not in pids]
        if len(roots) != 1 or key_of[roots[0]] not in has_end:
            continue
        over = int(lives.over[roots[0]])
        for process in processes - set(roots):
            after = int(lives.over[process]) - over
            if after >= least and int(lives.begun[process]) < over:
                actor = lives.last(process)
                program = m.program(actor) or "process"
                rows.append((task, program, after, _written_after(found, process, over)))
    out: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return out.sort_values("after_ns", ascending=False, kind="stable", ignore_index=True)


def _written_after(found: Analyses, process: int, over: int) -> str:
    m = found.inputs.m
    mine = (found.inputs.lives.process[m.bursts["who"].to_numpy()] == process) & m.classed(("data",))
    rows = m.bursts[mine & (m.bursts["dir"] == edge_table.WRITE).to_numpy() & (m.bursts["last_ns"] > over).to_numpy()]
    return str(m.paths[int(rows["file"].iat[-1])]) if len(rows) else ""


OUTLIVING_PROCESSES = Rule(
    kind="outliving processes",
    about=ORDER,
    title="Processes that go on when their task is over",
    definition=(
        f"The first process of a task ended, and another one that it had started went on for {LONG} or more, and for"
        f" {LEAST}. What depends on the task may begin before that one has written its data, and it takes processor"
        " and memory of others. Processes that serve several tasks (workers) are no such."
    ),
    advice="Wait for it in the task (`wait`, subprocess.Popen.wait), or stop it before the task ends.",
    source="wait(2): a shell or program that ends does not wait for what it left in the background",
    query="tailrace task {run} {task}",
    find=outliving_processes,
    thresholds=(LONG,),
)


LOOKS = Threshold(TRIES, "looks with a sleep after each")


def polling(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs = found.inputs
    rows = [loop for loop in found.loops if loop.maker not in (-1, loop.task) and not loop.connects]
    rows = [loop for loop in rows if LEAST.reached(loop.slept_ns, inputs.makespan_ns)]
    if not rows:
        return
    top = rows[0]
    yield Match(
        title=_words(found, top) + more(len(rows)),
        names={"task": found.of_task(top.task), "path": top.path},
        cost_ns=min(sum(late(found, rows).values()), inputs.makespan_ns),
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(loop.task),
                path=loop.path,
                looks=loop.looks,
                slept_ns=loop.slept_ns,
                maker=inputs.called(loop.maker),
            )
            for loop in rows[:EVIDENCE]
        ],
        tasks={task for loop in rows for task in (loop.task, loop.maker)},
    )


def _words(found: Analyses, loop: Loop) -> str:
    inputs = found.inputs
    name, maker = inputs.called(loop.task), inputs.called(loop.maker)
    what, made = ("for", "made it") if loop.absent else ("at", "made the last thing there")
    when = time_text(max(loop.made_ns - inputs.start_ns, 0))
    after = time_text(max(int(loop.times[-1, 1]) - loop.made_ns, 0))
    return (
        f"{name} looked {what} {loop.path} {count_text(loop.looks, 'time')} and slept {time_text(loop.slept_ns)} in"
        f" between; {maker} {made} {when} into the run, and {name} went on {after} later; nothing but that loop orders"
        " the two"
    )


POLLING = Rule(
    kind="polling",
    about=ORDER,
    title="Tasks that wait for others by looking for a file again and again",
    definition=(
        f"A task looked at a path again and again ({LOOKS}; fewer where it was"
        " not there, and was at the next look) and did nothing but sleep in between, for at least"
        f" {LEAST}, until another task made it, or made something in it. The task that makes it is what takes the time;"
        " the estimate is for how long the loop slept on the critical path when it was made: a bound."
        " The loop holds a worker or a processor's slot meanwhile, and the file may be there before it is complete."
    ),
    advice=(
        "Declare that the one task depends on the other, or start it when the other one is over (a rule of make, a"
        " manager's dependency, `wait`); where it has to be a file, write it under another name and rename it when it"
        " is complete."
    ),
    source="Reasoning: order that is not declared is not kept by a manager, and is not seen to be missing",
    query="tailrace query {run} {task} --path {path} --by name,errno --agg count --agg sum:dur",
    find=polling,
    thresholds=(LOOKS, LEAST),
    explains=(IO,),
)


RULES = (
    UNDECLARED_DEPENDENCY,
    UNDECLARED_AWAITED,
    UNDECLARED_UNTOLD,
    UNDECLARED_IN_ORDER,
    UNDECLARED_INPUTS,
    DECLARED_NOT_ACCESSED,
    DEPENDENCY_WITHOUT_DATA,
    OUTLIVING_PROCESSES,
    POLLING,
)
