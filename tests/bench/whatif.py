"""How far what tailrace says could be gained is from what is gained: remedies applied to real workflows.

    remedies/NAME.sh --as_is.sh, traced--> finding's cost, or `tailrace whatif`  --> stated gain
                     --as_is.sh, remedied.sh, untraced, in turns--> seconds      --> measured gain

    python tests/bench/whatif.py [--rounds N] [--only CASE ...] [--keep DIR] [--json FILE]

A finding states an estimate with an interval, or a bound ("at most"), `tailrace whatif` an estimate with an interval. A
stated gain is *inside* where the median of the measured ones is in it; the times of two runs of the same differ by
chance, so it may miss by the noise: 1.48 times the median deviation of the pairs' gains from their median. An error is
that of the estimate, or of the bound, over the measured gain.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tailrace

ROOM = Path(__file__).resolve().parent / "remedies"
ADAPTER = Path(__file__).resolve().parents[2] / "integrations" / "make" / "tailrace.mk"
LIMIT_S = 120
TRIES, OTHERS = 4, 0.05


@dataclass(frozen=True)
class Case:
    """name: of the workflow; question: the kind of the finding, or what `tailrace whatif` is asked."""

    name: str
    remedy: str
    question: str | dict[str, Any]


CASES = (
    Case("small_writes", "a buffer for small writes", "small calls"),
    Case("dd_blocks", "dd by 1 MiB, not by 16 B", "small calls"),
    Case("pipe_buffer", "a buffer for small writes to a pipe", "small pipe writes"),
    Case("flushes", "one fsync, not 8,000", "many flushes"),
    Case("transactions", "one transaction, not 2,500", "many flushes"),
    Case("lookups_in_sqlite", "one transaction, not 100,000 that read", "metadata load"),
    Case("stat_once", "stat once, not 200 times", "metadata load"),
    Case("look_in_one_place", "the right folder first, not last", "failing calls"),
    Case("chunk_cache", "an HDF5 chunk cache that holds the chunks", "read amplification"),
    Case("aligned_selection", "an HDF5 chunk's columns at once", "read amplification"),
    Case("read_once", "read once, not thirty times", "repeated reads"),
    Case("links", "a link in place of a copy", "file copies"),
    Case("expand_once", "expand once, not in six tasks", "repeated work"),
    Case("import_once", "one Python for 24", "repeated start-ups"),
    Case("one_process", "one awk for 2,400 processes", "short processes"),
    Case("long_one_first", "the long task first", "straggler"),
    Case("split_the_serial_one", "a serial task in two", "serial stage"),
    Case("shorter_lock", "compute before the lock", "lock contention"),
    Case("shorter_transaction", "fetch before the transaction", "lock contention"),
    Case("wait_for_the_file", "begin when the file is there, not a sleep loop", "polling"),
    Case("give_up_sooner", "3 tries, not 20", "sleep loop"),
    Case("pipe", "a FIFO in place of a file", {"together": "gen,use"}),
    Case("fast_tier", "inputs in memory, not at 4 MB/s", {"tier": "*/in/*=2GB/s"}),
    Case("make_two_at_a_time", "make -j2, not -j1", {"workers": 2}),
    Case("make_downloads", "make -j4, not -j2", {"workers": 4}),
    Case("order_without_data", "no order that no data needs", {"drop": "declared edges without data"}),
    Case("parsl_threads", "two Parsl threads, not one", {"workers": 2}),
)


@dataclass(frozen=True)
class Stated:
    """What tailrace says of a run as it is, s: the gain is from low to high; estimate: None for a bound. No number at
    all: high is None."""

    low: float
    high: float | None
    estimate: float | None = None


def stated(question: str | dict[str, Any], run: Path) -> Stated:
    """The gain that a run's finding, or `whatif`, states."""
    opened = tailrace.open(run)
    if isinstance(question, str):
        found = next((one for one in opened.findings() if one.kind == question and one.cost_ns), None)
        if found is None:
            return Stated(0, None)
        return Stated(found.least_ns / 1e9, found.most_ns / 1e9, None if found.is_bound else found.cost_ns / 1e9)
    told = opened.whatif(**question)
    whole = told.makespan_ns
    low, high, estimate = ((whole - ns) / 1e9 for ns in (told.high_ns, told.low_ns, told.estimate_ns))
    return Stated(low, high, estimate)


def busy_s() -> tuple[float, float]:
    """How long all processors have been busy, and with this program and what it has started and waited for."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def undisturbed(made: Path, script: str) -> float:
    """The seconds of a run beside which others took no more than `OTHERS` of the processors, or least of `TRIES`."""
    tries: list[tuple[float, float]] = []
    while len(tries) < TRIES and min(tries, default=(1.0, 0.0))[0] > OTHERS:
        busy, own = busy_s()
        took = run(made, script)
        others = busy_s()[0] - busy - (busy_s()[1] - own)
        tries.append((others / (took * (os.cpu_count() or 1)), took))
    return min(tries)[1]


def run(made: Path, script: str, traced: Path | None = None) -> float:
    """Runs a script in a copy of what a workflow needs, and returns the seconds that it took."""
    with tempfile.TemporaryDirectory(prefix="remedies-") as folder:
        place = Path(folder) / "workflow"
        shutil.copytree(made, place, symlinks=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_")}
        words = ["bash", script]
        if traced is not None:
            shutil.rmtree(traced, ignore_errors=True)
            words = ["tailrace", "run", "-q", "-o", str(traced), "--", *words]
            env |= {"ADAPTER": str(ADAPTER), "TRACED": "1"}
        begin = time.monotonic()
        how: dict[str, Any] = {"cwd": place, "env": env, "capture_output": True, "text": True, "timeout": LIMIT_S}
        done = subprocess.run(words, check=False, **how)
        took = time.monotonic() - begin
        if done.returncode:
            raise RuntimeError(f"{script} of {made.name} failed: {done.stdout}{done.stderr}")
        return took


def rounds_of(case: Case, rounds: int, room: Path) -> list[dict[str, Any]]:
    """Rows of a case, one a round. room: where the traced runs are left."""
    made = room / case.name / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    subprocess.run(["bash", ROOM / f"{case.name}.sh"], cwd=made, check=True)
    rows = []
    for number in range(rounds):
        traced = made.parent / f"run-{number}"
        as_is, remedied = undisturbed(made, "as_is.sh"), undisturbed(made, "remedied.sh")
        run(made, "as_is.sh", traced)
        rows.append({"case": case.name, "as_is": as_is, "remedied": remedied, **asdict(stated(case.question, traced))})
    return rows


@dataclass(frozen=True)
class Result:
    """A row of the table: medians of the rounds; least, most: of the measured gains; error: of what is stated."""

    case: Case
    as_is: float
    stated: Stated
    gain: float
    least: float
    most: float
    noise: float

    @property
    def inside(self) -> bool:
        """Whether the measured gain is where it is said to be."""
        high = self.stated.high
        return high is not None and self.stated.low - self.noise <= self.gain <= high + self.noise

    @property
    def error(self) -> float:
        """Of what is stated, over the measured gain."""
        told = self.stated.high if self.stated.estimate is None else self.stated.estimate
        return ((told or 0.0) - self.gain) / self.gain if self.gain else float("inf")

    def __str__(self) -> str:
        told = self.stated
        if told.high is None:
            said = "no number"
        elif told.estimate is None:
            said = f"at most {told.high:.2f}"
        else:
            said = f"{told.estimate:.2f} ({told.low:.2f} to {told.high:.2f})"
        measured = f"{self.gain:.2f} ({self.least:.2f} to {self.most:.2f})"
        error = "" if told.high is None else f"{self.error:+.0%}"
        inside = "yes" if self.inside else "no"
        return f"| {self.case.remedy} | {self.as_is:.2f} | {said} | {measured} | {error} | {inside} |"


def result(case: Case, rows: list[dict[str, Any]]) -> Result:
    """The row of a case."""
    gains = [row["as_is"] - row["remedied"] for row in rows]
    gain = statistics.median(gains)
    noise = 1.4826 * statistics.median(abs(one - gain) for one in gains)
    told = [Stated(*(row[name] for name in ("low", "high", "estimate"))) for row in rows]
    known = [one for one in told if one.high is not None]
    middle = Stated(0, None)
    if 2 * len(known) > len(told):
        low, high = (statistics.median(getattr(one, name) for one in known) for name in ("low", "high"))
        estimates = [one.estimate for one in known if one.estimate is not None]
        middle = Stated(low, high, statistics.median(estimates) if estimates else None)
    return Result(case, statistics.median(row["as_is"] for row in rows), middle, gain, min(gains), max(gains), noise)


def table(results: list[Result]) -> str:
    """The table, and what it sums up to."""
    head = "| remedy | as it is, s | stated gain, s | measured gain, s | error | inside |\n|---|--:|--:|--:|--:|:-:|"
    known = [one for one in results if one.stated.high is not None]
    bounds = [one for one in known if one.stated.estimate is None]
    kept = sum(one.inside for one in bounds)
    middle = statistics.median(abs(one.error) for one in known) if known else 0.0
    said = (
        f"{sum(one.inside for one in known)} of {len(known)} stated gains hold, median error {middle:.0%};"
        f" {kept} of {len(bounds)} bounds are one; {len(results) - len(known)} without a number"
    )
    return "\n".join([head, *map(str, results), "", said])


def main() -> None:
    """Runs the cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the traced runs there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every round; those of other cases in it stay")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    with tempfile.TemporaryDirectory(prefix="remedies-") as folder:
        for case in (case for case in CASES if not given.only or case.name in given.only):
            rows = [row for row in rows if row["case"] != case.name]
            rows += rounds_of(case, given.rounds, given.keep or Path(folder))
            print(result(case, [row for row in rows if row["case"] == case.name]), file=sys.stderr, flush=True)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1))
    of_case = [(case, [row for row in rows if row["case"] == case.name]) for case in CASES]
    print(table([result(case, mine) for case, mine in of_case if mine]))


if __name__ == "__main__":
    main()
