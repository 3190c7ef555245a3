"""How the tasks of a run ended, and the command that was traced.

    declared tasks and tries (docs/declared-dag.md) -> table() -> counts() -> sentence()

A status is the workflow manager's word; a task without one has not ended, or its manager ended first. A task *retried*
is done after more than one try.

Invariants: reads no events. A task is counted once, whatever the number of its tries.

Nothing is inferred from exit codes of a task's processes: grep ends with 1, and a task that was tried again has
processes that failed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from signal import SIGKILL, SIGPIPE
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.store.processes import Process, SignalEnd
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.lazy import lazy
from tailrace.base.exit_codes import CRASHES, cause, signal_name, signal_text

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

Task = tuple[str, str | None]
"""(workflow, task)."""
DONE, NEVER_RAN, MEMOIZED, RETRIED, OPEN = "done", "dep_failed", "memoized", "retried", "open"
FAILED = ("failed", "killed", "timeout", "canceled")
"""The statuses of tasks that ran, or could have run, and have no result."""
WORDS = {
    "failed": "failed",
    "killed": "killed",
    "timeout": "timed out",
    "canceled": "canceled",
    NEVER_RAN: "never ran",
    RETRIED: "retried",
    MEMOIZED: "memoized",
    DONE: "done",
}
"""status -> what a report says; `RETRIED` is no declared status."""
KILLED = CRASHES | {SIGKILL}
"""Signals that are a fault: those that ask a program to end (SIGTERM, SIGINT, SIGHUP) are none, nor is SIGPIPE, by
which `yes | head` ends."""
NOTES = {
    RETRIED: "done at a later try",
    MEMOIZED: "memoized",
    OPEN: "without an end (running, or their manager ended first)",
}
BECAUSE = {NEVER_RAN: " (a dependency failed)"}
UNENDED = "not ended"
COLUMNS = {
    "workflow": "the workflow tag",
    "stage": "the declared stage",
    "task": "the task tag",
    "status": "failed, killed, timeout, canceled, dep_failed (never run: a dependency failed), memoized, retried (done"
    " at a later try), done; null: no end was declared",
    "tries": "how often it was started",
    "error": "why it failed; of a retried task, why its first try did",
    "begin_ns": "when it was started first, ns since the epoch; null where it never was",
    "end_ns": "when it ended",
    "lost_ns": "time in tries that failed",
}


def table(run: AnalyzedRun) -> pd.DataFrame:
    """One row per declared task, columns `COLUMNS`: failures first (in the order of `WORDS`), then by end.

    Without those of whose ends nothing is known (`Untold`).
    """
    tasks = run.declared_tasks
    rows = run.declared_workflows
    silent = untold(zip(rows["workflow"], rows["config"], strict=True)) if "config" in rows else Untold(set(), set())
    if len(tasks) == 0 or "status" not in tasks:
        return pd.DataFrame(columns=list(COLUMNS))
    told = [silent.tells(*row) for row in zip(tasks["workflow"], tasks["status"].notna(), strict=True)]
    tasks = tasks[told].reset_index(drop=True)
    out = pd.DataFrame({name: tasks[name].fillna("").astype(str) for name in ("workflow", "stage", "task")})
    out["status"] = tasks["status"].astype(object).where(tasks["status"].notna(), None)
    out["tries"] = _integers(tasks, "tries").fillna(0)
    out["error"] = _texts(tasks, "error")
    started, launched = _integers(tasks, "t_start_ns"), _integers(tasks, "t_launch_ns")
    out["begin_ns"] = started.fillna(launched)
    out["end_ns"] = _integers(tasks, "t_end_ns")
    out.loc[out["status"].isin((NEVER_RAN, MEMOIZED)), "begin_ns"] = pd.NA
    again = (out["status"] == DONE) & (out["tries"] > 1)
    out.loc[again, "status"] = RETRIED
    _add_tries(out, run)
    rank = out["status"].map({status: place for place, status in enumerate(WORDS)}).fillna(len(WORDS))
    out = out.assign(rank=rank).sort_values(["rank", "end_ns", "task"], kind="stable")
    return out[list(COLUMNS)].reset_index(drop=True)


class Untold(NamedTuple):
    """The workflows of which nothing tells the ends of any task, or not those of all."""

    none: set[str]
    some: set[str]

    def tells(self, workflow: object, ended: bool) -> bool:
        """Whether a task's end, or that it has none, is known."""
        return str(workflow) not in self.none and (ended or str(workflow) not in self.some)


def untold(workflows: Iterable[tuple[object, object]]) -> Untold:
    """Of workflows and their configurations (JSON), in which `"ends"` is false or "some". A workflow may have several,
    of its manager and of what was imported."""
    words: dict[str, set[object]] = {}
    for workflow, text in workflows:
        try:
            config = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            config = None
        ends = config.get("ends") if isinstance(config, dict) else None
        words.setdefault(str(workflow), set()).add(ends if ends is False or ends == "some" else "all")
    silent = {workflow for workflow, said in words.items() if said == {False}}
    return Untold(silent, {workflow for workflow, said in words.items() if "all" not in said} - silent)


def task_keys(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """(workflow, task) of each row."""
    return list(zip(rows["workflow"].astype(str), rows["task"].astype(str), strict=True))


def _add_tries(out: pd.DataFrame, run: AnalyzedRun) -> None:
    """Adds `lost_ns`, and the errors of retried tasks. A manager that declares no tries has one a task."""
    whole = (out["end_ns"] - out["begin_ns"]).where(out["status"].isin(FAILED))
    tries = run.declared_tries
    if len(tries):
        failed = tries[tries["t_end_ns"].notna()].assign(workflow=tries["workflow"].fillna("").astype(str))
        failed = failed.assign(took=(failed["t_end_ns"] - failed["t_launch_ns"]).clip(lower=0))
        sums = failed.groupby(["workflow", "task"]).agg(took=("took", "sum"), error=("error", "first"))
        at = sums.reindex(pd.MultiIndex.from_frame(out[["workflow", "task"]]))
        whole = pd.Series(at["took"].to_numpy(), index=out.index, dtype="Int64").fillna(whole)
        errors = pd.Series(at["error"].to_numpy(), index=out.index, dtype=object)
        first = (out["status"] == RETRIED) & errors.notna()
        out.loc[first, "error"] = errors[first]
    out["lost_ns"] = whole.astype("Int64").fillna(0).clip(lower=0)


def _integers(tasks: pd.DataFrame, name: str) -> pd.Series:
    values = tasks[name].tolist() if name in tasks else [None] * len(tasks)
    return pd.Series([None if pd.isna(v) else int(v) for v in values], index=tasks.index, dtype="Int64")


def _texts(tasks: pd.DataFrame, name: str) -> pd.Series:
    values = tasks[name].tolist() if name in tasks else [None] * len(tasks)
    return pd.Series([v if isinstance(v, str) else "" for v in values], index=tasks.index, dtype=object)


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many of the rows of `table` have each status; `OPEN`: none. A status that no task has is left out."""
    return _number(rows["status"].where(rows["status"].notna(), OPEN))


def unended(rows: pd.DataFrame | None) -> int:
    """How many tasks of `table` began, and have no declared end."""
    return 0 if rows is None or not len(rows) else int((rows["status"].isna() & rows["begin_ns"].notna()).sum())


def _number(statuses: Iterable[str]) -> dict[str, int]:
    found = Counter(statuses)
    known = {name: found.pop(name) for name in (*WORDS, OPEN) if name in found}
    return known | {str(name): number for name, number in found.most_common()}


def news(run: AnalyzedRun, dismissed: Collection[Process] = ()) -> tuple[dict[str, int], str, bool]:
    """`counts` and `sentence` of a run, and whether something in it failed. dismissed: processes that were killed when
    they were needed no more."""
    tasks = table(run)
    failed = {key for key, status in zip(task_keys(tasks), tasks["status"], strict=True) if status in FAILED}
    signals = [end for end in run.signal_ends if end.process not in dismissed]
    return _news(counts(tasks), failed, run.command_ends["status"], signals)


def said(
    tasks: Iterable[tuple[str | None, str, str | None, int | None]],
    workflows: Iterable[tuple[object, object]],
    commands: Iterable[int],
    signals: Iterable[SignalEnd],
) -> tuple[dict[str, int], str, bool]:
    """`news`, without pandas: of the workflow, task, status and tries of declared tasks, the workflows with their
    configurations, the wait statuses of the commands, and the processes that signals ended."""
    silent = untold(workflows)
    known = [row for row in tasks if silent.tells(row[0], row[2] is not None)]
    statuses = (RETRIED if status == DONE and (tries or 0) > 1 else status or OPEN for _, _, status, tries in known)
    failed = {(str(workflow or ""), task) for workflow, task, status, _ in known if status in FAILED}
    return _news(_number(statuses), failed, commands, signals)


def _news(
    number: dict[str, int], failed: Collection[Task], commands: Iterable[int], signals: Iterable[SignalEnd]
) -> tuple[dict[str, int], str, bool]:
    ends = faults(commands)
    killed = Counter(end.signal for end in signals if _is_fault(end, failed, bool(number)))
    return number, sentence(number, ends, killed), bool(ends or killed or {*number} & {*FAILED, NEVER_RAN})


def _is_fault(end: SignalEnd, failed: Collection[Task], managed: bool) -> bool:
    """Whether a process is one that a signal should not have ended.

    A manager ends its workers by signals, also after a task of theirs has failed, and they are outside of tasks before
    the first one; so all that a process did must be of tasks without a result.
    """
    if end.signal in (CRASHES if managed else KILLED):
        return True
    return end.signal != SIGPIPE and bool(end.tasks) and all(task in failed for task in end.tasks)


def faults(statuses: Iterable[int]) -> list[str]:
    """How the commands ended that did not end with exit code 0, in words: of wait statuses (`Run.command_ends`)."""
    return [fault for status in statuses if (fault := _fault(int(status)))]


def _fault(status: int) -> str:
    """A wait status in words, "" for success."""
    number, code = status & 0x7F, status >> 8
    if number:
        return f"was killed by {signal_text(number)}"
    reason = cause(code)  # a shell's
    return f"ended with exit code {code}{reason and ', '}{reason}" if code else ""


def _killed_text(killed: Mapping[int, int]) -> str:
    """{11: 1, 9: 2} -> "3 processes were ended by signals: 2 by SIGKILL, 1 by SIGSEGV."."""
    if sum(killed.values()) == 1:
        return f"1 process was ended by {signal_text(next(iter(killed)))}."
    by_number = sorted(killed.items(), key=lambda one: (-one[1], one[0]))
    kinds = ", ".join(f"{n:,} by {signal_name(signal) or signal}" for signal, n in by_number)
    return f"{count_text(sum(killed.values()), 'process', 'es')} were ended by signals: {kinds}."


def crashed(run_processes: pd.DataFrame, signals: Collection[int]) -> pd.DataFrame:
    """The processes that one of these signals ended, by end: rows of `Run.processes`; none of a table without signals.

    signals: `CRASHES` in a run with declared tasks, whose manager ends its workers by SIGKILL, else `KILLED`.
    """
    if "signal" not in run_processes:
        return run_processes.iloc[:0]
    picked = run_processes["signal"].isin({int(number) for number in signals}).to_numpy(dtype=np.bool_)
    return run_processes[picked].sort_values("t1_ns", kind="stable")


def sentence(
    number: Mapping[str, int], commands: Sequence[str] = (), killed: Mapping[int, int] = MappingProxyType({})
) -> str:
    """`counts`, the last one of `faults`, and how many processes each signal ended (`killed`), in words; "" where
    nothing is to be said."""
    parts = [f"The command {fault}." for fault in commands[-1:]]
    if killed and not commands:
        parts.append(_killed_text(killed))
    total = sum(number.values())
    failed = {name: number[name] for name in (*FAILED, NEVER_RAN) if name in number}
    notes = [f"{number[name]:,} {words}" for name, words in NOTES.items() if name in number]
    if failed:
        kinds = ", ".join(f"{n:,} {WORDS[name]}{BECAUSE.get(name, '')}" for name, n in failed.items())
        lost = sum(failed.values())
        tasks = count_text(total, "task")
        lead = f"None of {tasks} succeeded" if lost == total else f"{lost:,} of {tasks} did not succeed"
        parts.append(f"{lead}: {kinds}.")
        parts += [f"Of the others: {', '.join(notes)}."] if notes else []
    elif notes:
        parts.append(f"Of {count_text(total, 'task')}: {', '.join(notes)}.")
    return " ".join(parts)
