"""What functions as regions cost (docs/functions.md): a loop of short calls, untraced, traced, with functions recorded.

    python tests/bench/functions.py [--python PYTHON] [--rounds N]

Of Python the processor time of the loop, the median of rounds; the ways take turns. Of C the time of a call, the median
of bursts that are as long as a segment holds, with pauses in which the sealer works, less that of a function that is
not instrumented.
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


COMPILED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define UNSEEN __attribute__((noinline, no_instrument_function))
UNSEEN static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
__attribute__((noinline)) static void seen(void) { __asm__ volatile(""); }
UNSEEN static void unseen(void) { __asm__ volatile(""); }
UNSEEN static double each(void (*function)(void), int times) {
  double begin = now();
  for (int i = 0; i < times; ++i) function();
  return (now() - begin) / times;
}
UNSEEN static int order(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}
UNSEEN int main(int count, char **words) {
  int bursts = atoi(words[1]);
  double *found = malloc(bursts * sizeof *found);
  for (int i = 0; i < bursts; ++i) {
    found[i] = each(seen, 1500) - each(unseen, 1500);
    usleep(20000);
  }
  qsort(found, bursts, sizeof *found, order);
  printf("%f\n", found[bursts / 2]);
  return count < 2;
}
"""
NATIVE_WAYS: dict[str, dict[str, str] | None] = {
    "untraced": None,
    "traced": {},
    "other functions are chosen": {"TAILRACE_NATIVE_FUNCTIONS": "nothing"},
    "the function is chosen, and left out": {"TAILRACE_NATIVE_FUNCTIONS": "seen"},
    "the function is chosen, each call a region": {
        "TAILRACE_NATIVE_FUNCTIONS": "seen",
        "TAILRACE_FUNCTION_MINIMUM": "0",
    },
}


def native_ns(chosen: dict[str, str] | None, bursts: int, folder: Path) -> float:
    """What a call costs by being instrumented."""
    program = folder / "native"
    if not program.exists():
        source = folder / "native.c"
        source.write_text(COMPILED)
        subprocess.run(["cc", "-O2", "-finstrument-functions", source, "-o", program], check=True)
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    run = folder / f"native-{len(list(folder.iterdir()))}"
    words = [] if chosen is None else [tailrace, "run", "-q", "-o", str(run), "--"]
    environment = {**os.environ, **(chosen or {})}
    command = [*words, str(program), str(bursts)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


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
    parser.add_argument("--bursts", type=int, default=60, help="bursts of calls in C")
    options = parser.parse_args()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for way, chosen in WAYS.items():
                run = Path(folder) / f"{len(way)}-{number}"
                times[way].append(seconds(options.python, chosen, run))
        compiled = {way: native_ns(chosen, options.bursts, Path(folder)) for way, chosen in NATIVE_WAYS.items()}
    table = Table("1,000,000 calls", "ms", "of untraced", title=subprocess.getoutput(f"{options.python} --version"))
    least = statistics.median(times["untraced"])
    for way, found in times.items():
        middle = statistics.median(found)
        table.add_row(way, f"{1000 * middle:.0f}", f"{middle / least:.2f}")
    Console().print(table)
    table = Table("a call in C", "ns")
    for way, ns in compiled.items():
        table.add_row(way, f"{ns:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
