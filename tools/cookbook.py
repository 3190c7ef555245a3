#!/usr/bin/env python3
"""Writes docs/cookbook.md: questions, the command that answers each, and what it prints for docs/cookbook/run.tar.gz.

    python tools/cookbook.py            write it
    python tools/cookbook.py --check    exit with 1 where the page differs

The run was recorded once (docs/cookbook/workflow.py), so what is printed changes with the commands only.
"""

from __future__ import annotations

import shlex
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner
from generated import SOURCE, write_or_check

from tailrace.analyzer.util.working_directory import working_directory
from tailrace.cli.main import group

PAGE = SOURCE / "docs" / "cookbook.md"
RUN = SOURCE / "docs" / "cookbook" / "run.tar.gz"
WIDTH = 80
MOST = 28
"""Lines of an answer that are shown, unless the recipe says otherwise."""
HEAD = """\
# Cookbook

Thirty questions about a run, each with one command and what it prints. The run is a small workflow of
17 tasks (`docs/cookbook/workflow.py`), recorded once; to try the commands:

    tar xzf docs/cookbook/run.tar.gz

`...` stands for lines that are left out here. This page is made by `tools/cookbook.py`.
"""


@dataclass(frozen=True)
class Recipe:
    """question; command, behind `tailrace`; note: what to look at; first, lines: which lines of the answer are shown;
    code: the command's exit code."""

    question: str
    command: str
    note: str = ""
    first: str = ""
    lines: int = MOST
    code: int = 0


SECTIONS: dict[str, list[Recipe]] = {
    "What happened": [
        Recipe("What ran, and was anything lost?", "info run", "", "", 22),
        Recipe("What should I look at first?", "report run", "What bounds the run, then findings by cost.", "", 32),
        Recipe("Which tasks did not succeed, and why?", "task run audit", "", "", 12),
        Recipe("Which task was tried again?", "task run check", "", "", 12),
        Recipe("What in short, for a log book?", "info run --summary", "", "", 40),
        Recipe("Which calls failed?", "query run --where 'errno>0' --by name,errno --agg count --sort count --limit 6"),
    ],
    "Where the time goes": [
        Recipe("What determines how long the run takes?", "report run", "The critical path.", "Critical path", 7),
        Recipe("Where did a task's time go?", "task run merge", "", "Time, by the trace", 7),
        Recipe(
            "Bandwidth over time, by stage?",
            "query run --by time:100ms,stage --agg rate:size --where dir=r",
            "A call that lasts longer than a range is divided among the ranges that it covers.",
        ),
        Recipe("Which stage spends the most time in calls?", "query run --by stage --agg sum:dur --sort sum_dur"),
        Recipe(
            "Which calls on files were the slowest?",
            "query run --columns task,name,path,dur --where ftype=reg --sort dur --limit 5",
        ),
        Recipe(
            "How much time do opens and look-ups take?",
            "query run --by name --where dir= --where cat=POSIX --agg count --agg sum:dur --sort sum_dur --limit 6",
        ),
        Recipe("Does a rank do more than the others?", "rank run 3", "", "", 10),
        Recipe("What sets a task apart from its stage?", "task run sample-3", "", "Beside", 8),
    ],
    "What the I/O is like": [
        Recipe(
            "How much of the I/O is small?",
            "query run --by size:log2 --agg count --agg share:size --where dir=r",
        ),
        Recipe("Who makes the small reads?", "query run --by stage --where 'size<4KiB' --where dir=r --agg count"),
        Recipe("Is the I/O of a stage sequential or random?", "stage run sample", "", "I/O on files", 14),
        Recipe("How is one file read, and by whom?", "file run part-03", "", "", 24),
        Recipe(
            "Which files are read the most?",
            "query run --by path --where dir=r --agg sum:size --sort sum_size --limit 6",
        ),
        Recipe(
            "How do read sizes spread?",
            "query run --by stage --where dir=r --agg p25:size --agg p50:size --agg p75:size --agg max:size",
        ),
    ],
    "Where data comes from and goes to": [
        Recipe("Who made this file, and from what?", "file run counts.txt --up", "", "Made from", 30),
        Recipe("Who used this file?", "file run sorted-0 --down", "", "Used for", 12),
        Recipe("Which input did a result depend on?", "file run report.txt --up", "", "Made from", 12),
        Recipe("What was written and never read?", "report run", "", "Written, kept", 6),
        Recipe("From when on can this file be deleted?", "file run all.txt", "When it was last used.", "", 5),
        Recipe("What flows between the stages?", "graph run --format dot", "", "", 20),
    ],
    "What would help": [
        Recipe("What would a faster disk gain?", "whatif run --tier '*/words/*=10x'", "", "", 6),
        Recipe("What would more workers gain?", "whatif run --workers 4", "", "", 36),
        Recipe(
            "Do declared dependencies hold the run up?", "whatif run --drop 'declared edges without data'", "", "", 7
        ),
        Recipe("What if two stages ran side by side?", "whatif run --together merge,count", "", "", 7),
    ],
}


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    with TemporaryDirectory(prefix="tailrace-") as folder:
        with tarfile.open(RUN) as archive:
            # Python 3.11 before 3.11.4 knows no filters; the archive is our own.
            kinds = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(folder, **kinds)  # noqa: S202
        with working_directory(Path(folder)):
            for title, recipes in SECTIONS.items():
                parts += [f"## {title}\n", *map(_shown, recipes)]
    return "\n".join(parts)


def _shown(recipe: Recipe) -> str:
    answer = _excerpt(answered(recipe), recipe)
    note = f"{recipe.note}\n\n" if recipe.note else ""
    block = "\n".join(f"    {line}".rstrip() for line in [f"$ tailrace {recipe.command}", *answer])
    return f"### {recipe.question}\n\n{note}{block}\n"


def answered(recipe: Recipe) -> list[str]:
    """The lines that the command prints, here."""
    environment = {"COLUMNS": str(WIDTH), "TAILRACE_STORE": "", "DASK_SCHEDULER_ADDRESS": ""}
    done = CliRunner().invoke(group, shlex.split(recipe.command), env=environment)
    if done.exit_code != recipe.code:
        raise SystemExit(f"tailrace {recipe.command}: exit code {done.exit_code}: {done.output}{done.exception!r}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _excerpt(lines: list[str], recipe: Recipe) -> list[str]:
    begin = next((at for at, line in enumerate(lines) if line.startswith(recipe.first)), None)
    if begin is None:
        raise SystemExit(f"tailrace {recipe.command}: no line begins with {recipe.first!r}")
    shown = lines[begin : begin + recipe.lines]
    while shown and not shown[-1]:
        shown.pop()
    left_out = any(lines[begin + recipe.lines :])
    return [*(["..."] if begin else []), *shown, *(["..."] if left_out else [])]


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
