"""What a call stack costs (docs/functions.md): processor time of a thread in a short call, without and with a stack.

    python tests/bench/stacks.py [--python PYTHON] [--rounds N]

Each call is a write of 10 bytes to /dev/null; the least of rounds, since other processes only add.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

COMPILED = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int fd;
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static double deep(int depth, int calls) {
  if (depth) return deep(depth - 1, calls) + (depth > 1000);
  double begin = now();
  for (int i = 0; i < calls; ++i) if (write(fd, "0123456789", 10) < 0) exit(1);
  return (now() - begin) / calls;
}
int main(int count, char **argv) {
  fd = open("/dev/null", O_WRONLY);
  printf("%f\\n", deep(atoi(argv[1]), 20000));
  return count < 2;
}
"""
SCRIPT = """
import os, sys, time
fd = os.open("/dev/null", os.O_WRONLY)
def deep(depth, calls):
    if depth: return deep(depth - 1, calls)
    begin = time.thread_time_ns()
    for _ in range(calls): os.write(fd, b"0123456789")
    return (time.thread_time_ns() - begin) / calls
print(deep(int(sys.argv[1]), 20000))
"""


def least(command: list[str], chosen: str, rounds: int, folder: Path) -> float:
    """ns a call."""
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    times = []
    for number in range(rounds):
        words = [tailrace, "run", "-q", "-o", str(folder / f"{Path(command[0]).name}-{command[-1]}-{chosen}-{number}")]
        env = {**os.environ, "TAILRACE_STACKS": chosen}
        done = subprocess.run([*words, "--", *command], env=env, check=True, stdout=subprocess.PIPE, text=True)
        times.append(float(done.stdout))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what call stacks cost.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured")
    options = parser.parse_args()
    table = Table("a call", "without a stack, ns", "with one, ns")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.c").write_text(COMPILED)
        (folder / "program.py").write_text(SCRIPT)
        # Without optimization the recursion stays one.
        subprocess.run(["gcc", "-O0", "-o", folder / "program", folder / "program.c"], check=True)
        version = subprocess.check_output([options.python, "--version"], text=True).strip()
        for depth in (2, 30):
            for what, command in (
                ("C", [str(folder / "program"), str(depth)]),
                (version, [options.python, str(folder / "program.py"), str(depth)]),
            ):
                ways = [least(command, chosen, options.rounds, folder) for chosen in ("off", "1")]
                table.add_row(f"{what}, {depth + 2} functions deep", *(f"{ns:.0f}" for ns in ways))
    Console().print(table)


if __name__ == "__main__":
    main()
