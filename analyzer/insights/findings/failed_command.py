"""The traced command did not end with exit code 0, or a process in it crashed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pandas as pd

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights import failures
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, FAILURE, Match, Row, Rule
from tailrace.analyzer.util import exit_codes
from tailrace.analyzer.util.exit_codes import signal_text
from tailrace.analyzer.util.formatting import count_text

SHELL = re.compile(r"(ba|da|z|k|c|tc|fi)?sh|busybox")


def find(found: Analyses) -> Iterator[Match]:
    """The command, and the processes that crashed, as one match."""
    faults, ends = found.command_faults, failures.process_faults(found.inputs)
    if not faults and not ends["crashed"].any():
        return
    parts = [f"The command {fault}" for fault in faults[-1:]]
    if len(ends):
        last = ends.iloc[0]
        if not (faults and last["root"]):
            number = int((~ends["root"]).sum()) - 1 if faults else len(ends) - 1
            others = f" (and {count_text(number, 'other process', 'es')} failed)" if number else ""
            parts.append(f"{_called(last)} {_end(last)}{others}")
        if last["files"]:
            parts.append(f"its last files: {', '.join(last['files'])}")
    yield Match(
        title="; ".join(parts),
        names={"process": _filters(ends.iloc[0])} if len(ends) else {},
        query="" if len(ends) else "tailrace.open({run}).command_ends",
        count=max(len(ends), 1),
        evidence=_evidence(ends),
        advice=exit_codes.PIPE_ADVICE if len(ends) and _ended_by_pipe(ends.iloc[0]) else "",
    )


def _called(row: pd.Series) -> str:
    return f"{PurePosixPath(str(row['exe'] or '?')).name} {row['host']}:{row['pid']}"


def _end(row: pd.Series) -> str:
    if row["crashed"]:
        return f"was killed by {signal_text(int(row['signal']))}"
    # Codes above 128 are what a shell returns; another program may mean anything by them.
    reason = exit_codes.cause(int(row["exit"])) if _is_shell(row) else ""
    return f"ended with exit code {row['exit']}{reason and ', '}{reason}"


def _is_shell(row: pd.Series) -> bool:
    return SHELL.fullmatch(file_classes.program(str(row["exe"] or ""))) is not None


def _ended_by_pipe(row: pd.Series) -> bool:
    return not row["crashed"] and _is_shell(row) and exit_codes.is_pipe_end(int(row["exit"]))


def _filters(row: pd.Series) -> list[str]:
    return ["--host", str(row["host"]), "--pid", str(row["pid"]), "--start", str(row["start"])]


def _evidence(rows: pd.DataFrame) -> list[Row]:
    return [
        {
            "process": _called(row),
            "end": _end(row),
            "command": " ".join(map(str, row["argv"]))[:400] if isinstance(row["argv"], list) else "",
            "last files": ", ".join(row["files"]),
        }
        for _, row in rows.head(EVIDENCE).iterrows()
    ]


RULE = Rule(
    kind="failed command",
    about=FAILURE,
    title="The traced command failed, or a process in it crashed",
    definition=(
        "The command of `tailrace run` ended with another exit code than 0 or by a signal, or a traced process was"
        " ended by a signal for a fault of its own (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), or, in"
        " a run without declared tasks, by SIGKILL. Shown is the process in which it began: of those that crashed, or"
        " without a crash ended with an exit code other than 0, the one that ended last, without the command itself; of"
        " its children the one that failed last, and so on."
    ),
    advice="Look at the last calls of that process: what it opened, read or wrote before it ended.",
    source="waitpid(2), signal(7)",
    query="tailrace query {run} {process} --columns ts,dur,name,path,size,errno --sort ts --limit 20",
    find=find,
)
