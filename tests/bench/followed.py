"""What being followed costs a program that no preload enters (`tailrace run --unseen=all`), a call; strace beside it.

    python tests/bench/followed.py [--calls N] [--rounds N] [--json FILE]

    link reads.c statically -> rounds of (alone, followed, strace), in changing order -> what each adds -> table

Times are the program's own, from before its first call to behind the last. Since the program stands still while its
follower works, they are the whole cost. `least` is the difference of the least times, which neighbours on the machine
move least; `median` [quartiles] are of the differences in the same round. strace writes the same calls to /dev/null.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import overhead
import peers
from rich.console import Console
from rich.table import Table

import tailrace

ALONE, FOLLOWED, STRACE = "alone", "tailrace", "strace"
KINDS = {"read": "data", "write": "written", "open": "files", "stat": "files"}
"""Of reads.c, and what each works on. A pair of open and close is one call; `stat` is not recorded."""

Times = dict[tuple[str, str], list[float]]
"""(kind, variant) -> ns a call, by round."""


def _words(variant: str, run: Path) -> list[str]:
    if variant == FOLLOWED:
        ours = shutil.which("tailrace", path=str(Path(sys.executable).parent)) or "tailrace"
        return [ours, "run", "-q", "--unseen=all", "-o", str(run), "--"]
    return ["strace", "-f", "-qq", "-o", os.devnull] if variant == STRACE else []


def _measure(scratch: Path, calls: int, rounds: int) -> Times:
    program = overhead.compile_c(Path(__file__).with_name("reads.c"), scratch / "static", "-static")
    variants = [ALONE, FOLLOWED, *([STRACE] if shutil.which(STRACE) else [])]
    times: Times = defaultdict(list)
    for number in range(rounds):
        for kind, place in KINDS.items():
            for variant in overhead.turns(variants, number):
                run = scratch / "run"
                # Alone it needs more calls for a time that can be measured.
                n = calls * 10 if variant == ALONE else calls
                words = [*_words(variant, run), str(program), kind, str(scratch / place), str(n)]
                done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
                times[kind, variant].append(int(done.stdout) / n)
                if variant == FOLLOWED:
                    _check(run, calls, kind)
                    shutil.rmtree(run)
    return times


def _check(run: Path, calls: int, kind: str) -> None:
    told = tailrace.open(run).info()
    wanted = {"read": calls, "write": calls, "open": 2 * calls, "stat": 0}[kind]
    if told["events"] < wanted or any(loss["unit"] == "events" for loss in told["losses"]):
        raise overhead.ProgramFailed(f"{kind}: {told['events']} events of {wanted} calls, {told['losses']}")


def _table(times: Times) -> Table:
    table = Table(title="A static program: us a call", title_justify="left")
    for heading in ("call", "by", "alone", "added: least", "added: median"):
        table.add_column(heading, justify="left" if heading in ("call", "by") else "right", no_wrap=True)
    for (kind, variant), taken in times.items():
        if variant == ALONE:
            continue
        alone = times[kind, ALONE]
        added = [(with_ - without) / 1e3 for with_, without in zip(taken, alone, strict=True)]
        low, middle, high = quantiles(added, n=4, method="inclusive")
        least = (min(taken) - min(alone)) / 1e3
        table.add_row(kind, variant, f"{min(alone) / 1e3:.2f}", f"{least:.1f}", f"{middle:.1f} [{low:.1f}, {high:.1f}]")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures what following a static program costs.")
    parser.add_argument("--calls", type=int, default=10_000, help="of each kind (default: 10000)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args(arguments)
    os.environ.update(peers.plain_environment())
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as made:
        scratch = Path(made).resolve()
        overhead.prepare(scratch)
        times = _measure(scratch, options.calls, options.rounds)
    Console(width=None if sys.stdout.isatty() else 120).print(_table(times))
    if options.json:
        rows = [{"kind": kind, "variant": variant, "ns": found} for (kind, variant), found in times.items()]
        options.json.write_text(json.dumps({"machine": overhead.machine(), "results": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
