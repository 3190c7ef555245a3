"""How long the commands take that answer questions about a run of many events.

    python tests/bench/answers.py [--calls N] [--rounds N] [--run DIR] [--only WORD ...]

Ten tasks copy a file each by calls of 64 B, `--calls` reads and as many writes: 50,000 make a run of a million events.
Each command is asked once before the rounds, so that the index is there, and each round asks all of them, one after the
other. The table has the least processor time, which other programs on the machine change little, and the least wall
time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASKS = 10
PIECE = 64
COPIES = f"""
import os, subprocess, sys
calls, copy = sys.argv[1], '''
import os, sys
source = os.open(sys.argv[1], os.O_RDONLY)
target = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
for _ in range(int(sys.argv[3])):
    os.write(target, os.read(source, {PIECE}))
'''
def start(number):
    tags = f"stage=copy{{number % 3}},task=copy-{{number}},workflow=w,rank={{number}}"
    words = [sys.executable, "-c", copy, f"in{{number}}", f"out{{number}}", calls]
    return subprocess.Popen(words, env={{**os.environ, "TAILRACE_TAGS": tags}})
sys.exit(max(one.wait() for one in [start(number) for number in range({TASKS})]))
"""
QUESTIONS = (
    "info RUN",
    "info RUN --summary",
    "query RUN --by stage",
    "query RUN --by path --agg sum:size --sort sum_size --limit 5",
    "query RUN --by time:1s,stage --agg rate:size",
    "query RUN --by size:log2",
    "query RUN --by stage --agg p50:size",
    "query RUN --where size<4KiB --where dur>1ms --limit 10",
    "file RUN out3",
    "file RUN out3 --up",
    "file RUN out3 --down",
    "task RUN copy-3",
    "stage RUN copy1",
    "host RUN",
    "rank RUN 3",
    "access RUN",
    "access RUN --by file",
    "whatif RUN --workers 4",
    "compare RUN RUN",
    "graph RUN",
    "export RUN --to wfformat -o OUT",
    "export RUN --to prov -o OUT",
    "export RUN --to graphml -o OUT",
    "report RUN",
    "report RUN --html OUT",
)
SLOW = ("export RUN --to perfetto -o OUT",)
"""Writes every event: asked for by --only."""


def make_run(place: Path, calls: int) -> Path:
    """A run of the tasks; their files are beside it."""
    run = place / "run"
    for number in range(TASKS):
        (place / f"in{number}").write_bytes(bytes(PIECE * calls))
    words = ["tailrace", "run", "-q", "-o", str(run), "--", sys.executable, "-c", COPIES, str(calls)]
    subprocess.run(words, cwd=place, check=True)
    return run


def asked(question: str, run: Path, place: Path) -> tuple[float, float]:
    """Processor and wall time in s of a command."""
    words = [{"RUN": str(run), "OUT": str(place / "out")}.get(word, word) for word in question.split()]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["tailrace", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Prints a table of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", type=Path, help="a run that this program made, to be asked again")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="only commands with one of these words")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it: compiled once
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as made:
        place = Path(made)
        run = options.run or make_run(place, options.calls)
        wanted = QUESTIONS
        if options.only:
            wanted = tuple(one for one in (*QUESTIONS, *SLOW) if any(word in one.split() for word in options.only))
        for question in wanted:
            asked(question, run, place)
        rounds = [{question: asked(question, run, place) for question in wanted} for _ in range(options.rounds)]
    print("| command | processor time, s | wall time, s |\n|---|--:|--:|")
    for question in wanted:
        processor, wall = (min(found[question][at] for found in rounds) for at in (0, 1))
        print(f"| `{question.replace(' -o OUT', '').replace('OUT', 'FILE')}` | {processor:.2f} | {wall:.2f} |")


if __name__ == "__main__":
    main()
