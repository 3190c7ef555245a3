"""What functions as regions cost (docs/functions.md): a loop of short calls, untraced, traced, with functions recorded.

    python tests/bench/functions.py [--python PYTHON] [--rounds N]

Processor time of the loop, the median of rounds; the ways take turns.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

PROGRAM = """
import time
def short(): pass
begin = time.process_time()
for _ in range(1_000_000): short()
print(time.process_time() - begin)
"""
WAYS: dict[str, dict[str, str] | None] = {
    "untraced": None,
    "traced": {},
    "other functions are chosen": {"TAILRACE_PYTHON_FUNCTIONS": "nothing.of.this"},
    "the function is chosen": {"TAILRACE_PYTHON_FUNCTIONS": "__main__"},
}


def seconds(python: str, chosen: dict[str, str] | None, folder: Path) -> float:
    """The processor time that the program prints."""
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    words = [] if chosen is None else [tailrace, "run", "-q", "-o", str(folder), "--"]
    script = folder.parent / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [*words, python, str(script)],
        env={**os.environ, **(chosen or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what functions as regions cost.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured")
    options = parser.parse_args()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for way, chosen in WAYS.items():
                run = Path(folder) / f"{len(way)}-{number}"
                times[way].append(seconds(options.python, chosen, run))
    table = Table("1,000,000 calls", "ms", "of untraced", title=subprocess.getoutput(f"{options.python} --version"))
    least = statistics.median(times["untraced"])
    for way, found in times.items():
        middle = statistics.median(found)
        table.add_row(way, f"{1000 * middle:.0f}", f"{middle / least:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
