"""Kills programs and their sealers at random points, and compares the trace with what the programs had done.

    python tests/bench/kills.py [--rounds 1000] [--seed 1] [--program COUNTED]

COUNTED is tests/programs/counted.c, compiled; without it, it is compiled with `cc`. Each round kills one of VICTIMS in
one of WAYS under one of CIRCUMSTANCES (tests/support/kill_rounds.py). Prints a table: how many rounds of each, the
program's calls that had returned, how many of them are in the trace, what the trace counts as lost by cause, and in how
many rounds something is unexplained: a call in neither, one that is there twice, a loss that was none. Of those it
keeps the files, says how to repeat them, and ends with 1.

Without the right to mount, all rounds have room. tests/integration/test_sealer.py does a few rounds in every test run.
"""

import argparse
import ctypes
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from support import kill_rounds
from support.kill_rounds import Outcome, Places, Round

_CLONE_NEWNS = 0x20000
_PR_SET_CHILD_SUBREAPER = 36
_FAULT = 1


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=1000)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", type=int, help="this round alone, as it is among the others")
    words.add_argument("--program", type=Path)
    given = words.parse_args()
    work = Path(tempfile.mkdtemp(prefix="tailrace-kills-"))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The programs' children are ours to wait for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    mounts = may_mount()
    if not mounts:
        print("no right to mount: all rounds have room")
    places = Places(given.program.resolve() if given.program else compiled(work), work)
    rounds = [given.only] if given.only is not None else range(given.rounds)
    sums: dict[Round, list[Outcome]] = defaultdict(list)
    begin = time.monotonic()
    for number in rounds:
        chance = random.Random(f"{given.seed}:{number}")
        what = Round.choose(chance, kill_rounds.CIRCUMSTANCES if mounts else (kill_rounds.ROOMY,))
        outcome = places.run(what, chance, f"round{number}")
        sums[what].append(outcome)
        for fault in outcome.faults:
            print(f"round {number}, {what.victim}, {what.way}, {what.circumstance}: {fault}", flush=True)
    print_table(sums)
    faults = sum(len(one.faults) > 0 for outcomes in sums.values() for one in outcomes)
    print(f"{len(rounds)} rounds in {time.monotonic() - begin:.0f} s, seed {given.seed}")
    if faults:
        print(f"{faults} rounds are unexplained; {work} has their files, and --seed {given.seed} --only N repeats one")
        return _FAULT
    print("each call that had returned is in the trace once, or counted as lost")
    shutil.rmtree(work)
    return 0


def may_mount() -> bool:
    """Gives this process mounts of its own, if it has the right to."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(_CLONE_NEWNS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


def compiled(work: Path) -> Path:
    program = work / "counted"
    source = TESTS / "programs" / "counted.c"
    subprocess.run(["cc", "-O2", "-w", "-o", str(program), str(source), "-lpthread"], check=True)
    return program


def print_table(sums: dict[Round, list[Outcome]]) -> None:
    """A row for what was done, and one for all."""
    head = ("killed", "by", "circumstance", "rounds", "calls", "in the trace", "lost by cause", "unexplained")
    rows = []
    for what, outcomes in sorted(sums.items(), key=lambda item: order(item[0])):
        rows.append((what.victim, what.way, what.circumstance, *figures(outcomes)))
    rows.append(("all", "", "", *figures([one for outcomes in sums.values() for one in outcomes])))
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def order(what: Round) -> tuple[int, int, int]:
    return (
        kill_rounds.VICTIMS.index(what.victim),
        list(kill_rounds.WAYS).index(what.way),
        kill_rounds.CIRCUMSTANCES.index(what.circumstance),
    )


def figures(outcomes: list[Outcome]) -> tuple[str, ...]:
    lost: Counter[str] = sum((one.lost for one in outcomes), Counter())
    return (
        str(len(outcomes)),
        str(sum(one.calls for one in outcomes)),
        str(sum(one.recorded for one in outcomes)),
        ", ".join(f"{cause} {number}" for cause, number in sorted(lost.items())) or "-",
        str(sum(len(one.faults) > 0 for one in outcomes)),
    )


if __name__ == "__main__":
    sys.exit(main())
