"""Kills programs and their sealer at random points, and compares the trace with what the programs had done.

    python tests/bench/kills.py PROGRAM [--times 1000] [--seed 1]

PROGRAM is tests/programs/counted.c, compiled: `cc -O2 -o counted tests/programs/counted.c -lpthread`. Each time one
of support.counted.KILLS is done to a program of one to three threads and its sealer. Ends with the first trace that
lacks a call that had returned, or has one twice, and keeps its files; prints the number of kills and of the calls
looked for. tests/integration/test_sealer.py does a few of them in every test run.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import counted


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("program", type=Path)
    words.add_argument("--times", type=int, default=1000)
    words.add_argument("--seed", type=int, default=1)
    given = words.parse_args()
    work = Path(tempfile.mkdtemp(prefix="tailrace-kills-"))
    node = counted.Node(given.program.resolve(), work / "run", Path("/dev/shm") / work.name)
    chance = random.Random(given.seed)
    kills: Counter[str] = Counter()
    calls, begin = 0, time.monotonic()
    for time_number in range(given.times):
        whom = chance.choice(counted.KILLS)
        calls += counted.run_kill(node, work / f"log{time_number}", whom, chance)
        kills[whom] += 1
        (work / f"log{time_number}").unlink()
    shutil.rmtree(work)
    shutil.rmtree(node.journals, ignore_errors=True)
    print(f"{kills.total()} kills in {time.monotonic() - begin:.0f} s: {dict(kills)}")
    print(f"{calls} calls had returned; each is in its trace once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
