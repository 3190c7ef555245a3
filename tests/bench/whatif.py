"""How far the estimates of `tailrace whatif` are from reruns of real workflows.

    python tests/bench/whatif.py [--rounds N] [--only CASE ...] [--json FILE]

    run the workflow as it is --whatif--> estimate
    run it with the change    ----------> truth            error = (estimate - truth) / truth

workers    Montage under Parsl, one worker and two: each is estimated from the other
tier       a workflow of sorts and sums whose inputs lie on a slow tier (slow_reads.c), and again without: from the slow
           run, with the speed that the fast one measured
beside     the same workflow with the declared order of two independent stages, and without it

The makespans are those of the traced runs. A rerun differs from a run by chance, too: the spread of the truth over the
rounds stands beside the error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tailrace

HERE = Path(__file__).resolve().parent
MONTAGE = HERE.parents[1] / "workflows" / "montage" / "workflow.py"
RATE = 4_000_000
PARTS = 6

STEPS = """
import json, os, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
run, barrier = Path(sys.argv[1]), sys.argv[2] == "barrier"
(run / "declared").mkdir(exist_ok=True)
log = (run / "declared" / "script.jsonl").open("a")
def say(**line):
    print(json.dumps({"workflow": "w", **line}), file=log, flush=True)
def job(stage, number, command, before=()):
    deps = [{"task": one, "via": "afterok"} for one in before]
    say(type="task", stage=stage, task=f"{stage}-{number}", kind="bash", name=stage, deps=deps, inputs=[], outputs=[],
        t_submit_ns=submitted)
    return stage, number, command
def done(one):
    stage, number, command = one
    tags = f"stage={stage},task={stage}-{number},workflow=w"
    subprocess.run(["sh", "-c", command], env={**os.environ, "TAILRACE_TAGS": tags}, check=True)
    say(type="end", task=f"{stage}-{number}", t_end_ns=time.time_ns(), status="done", tries=1)
parts = range(6)
submitted = time.time_ns()
sorts = [job("sort", n, f"sort in/{n} > sorted-{n}") for n in parts]
sums = [job("sum", n, f"cat in/{n} in/{n} | md5sum > sum-{n}", [f"sort-{i}" for i in parts] if barrier else ())
        for n in parts]
last = job("merge", 0, "sort -m sorted-* > all", [f"sort-{i}" for i in parts])
with ThreadPoolExecutor(3) as pool:
    if barrier:
        list(pool.map(done, sorts))
        list(pool.map(done, sums))
    else:
        list(pool.map(done, [*sorts, *sums]))
done(last)
"""


def montage(folder: Path, workers: int) -> Path:
    """A run of Montage."""
    words = [sys.executable, MONTAGE, folder, "--workers", str(workers)]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "run"


def steps(folder: Path, slow: Path | None = None, barrier: bool = False) -> Path:
    """A run of the workflow of sorts and sums."""
    (folder / "in").mkdir(parents=True)
    for number in range(PARTS):
        lines = (f"{(line * 7919 + number) % 1000003:07d}\n" for line in range(60_000))
        (folder / "in" / str(number)).write_text("".join(lines))
    extra = {"SLOW_DIR": f"{folder}/in/", "SLOW_RATE": str(RATE), "LD_PRELOAD": str(slow)} if slow else {}
    words = ["tailrace", "run", "-o", folder / "run", "--", sys.executable, "-c", STEPS, folder / "run"]
    order = "barrier" if barrier else "free"
    subprocess.run([*words, order], cwd=folder, check=True, capture_output=True, env={**os.environ, **extra})
    return folder / "run"


def built(folder: Path) -> Path:
    """The slow tier's library."""
    library = folder / "slow_reads.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "slow_reads.c", "-ldl"], check=True)
    return library


def compared(case: str, before: Path, after: Path, **questions: Any) -> dict[str, Any]:
    """A row: the estimate from one run, and the other run's makespan."""
    estimate = tailrace.open(before).whatif(**questions)
    truth = tailrace.open(after).insights().inputs.makespan_ns
    return {
        "case": case,
        "before_s": estimate.makespan_ns / 1e9,
        "estimate_s": estimate.estimate_ns / 1e9,
        "truth_s": truth / 1e9,
        "error": (estimate.estimate_ns - truth) / truth,
        "inside": estimate.low_ns <= truth <= estimate.high_ns,
    }


def workers(folder: Path) -> Iterator[dict[str, Any]]:
    """One worker and two, each from the other."""
    one, two = montage(folder / "one", 1), montage(folder / "two", 2)
    yield compared("Montage: 2 workers, from 1", one, two, workers=2)
    yield compared("Montage: 1 worker, from 2", two, one, workers=1)


def tier(folder: Path) -> Iterator[dict[str, Any]]:
    """Slow inputs, and fast ones."""
    slow, fast = steps(folder / "slow", built(folder)), steps(folder / "fast")
    words = ["--path", f"{folder}/fast/in/*", "--where", "dir=r", "--agg", "sum:size", "--agg", "sum:dur"]
    done = subprocess.run(["tailrace", "query", fast, *words, "--format", "json"], check=True, capture_output=True)
    (sums,) = json.loads(done.stdout)
    rate = sums["sum_size"] / sums["sum_dur"] * 1e9
    yield compared("inputs on a fast tier", slow, fast, tier=f"{folder}/slow/in/*={rate:.0f}B/s")


def beside(folder: Path) -> Iterator[dict[str, Any]]:
    """A declared order that no data needs, and none."""
    library = built(folder)
    ordered, free = steps(folder / "ordered", library, barrier=True), steps(folder / "free", library)
    yield compared("without an order that no data needs", ordered, free, drop="sort,sum")


CASES: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {"workers": workers, "tier": tier, "beside": beside}


def main() -> None:
    """Prints a table of the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(options.rounds):
        for case in options.only:
            with tempfile.TemporaryDirectory(prefix="whatif-") as place:
                folder = Path(place)
                rows += [{"round": number, **row} for row in CASES[case](folder)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print("| case | as run, s | estimate, s | rerun, s | error | in the interval |\n|---|---|---|---|---|---|")
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        before, estimate, truth = (
            statistics.median(row[k] for row in mine) for k in ("before_s", "estimate_s", "truth_s")
        )
        errors = [row["error"] for row in mine]
        reruns = [row["truth_s"] for row in mine]
        print(
            f"| {case} | {before:.2f} | {estimate:.2f} | {truth:.2f} ({min(reruns):.2f} to {max(reruns):.2f}) |"
            f" {statistics.median(errors):+.0%} ({min(errors):+.0%} to {max(errors):+.0%}) |"
            f" {sum(row['inside'] for row in mine)} of {len(mine)} |"
        )


if __name__ == "__main__":
    main()
