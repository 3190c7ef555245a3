"""What regions cost (docs/regions.md): of C++ and of Python, in an untraced and in a traced program.

    python tests/bench/regions.py [--bursts N]

A burst has as many regions as a segment holds, then the program pauses while the sealer works; the figures are medians
of bursts, less the empty loop. What the sealer takes beside it is in `tailrace info`.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tailrace.installation import PACKAGE

EACH = 1500
PYTHON = """
import statistics, sys, time
import tailrace

bursts, each = int(sys.argv[1]), int(sys.argv[2])

@tailrace.region
def decorated(): pass

def plain(): pass

def block():
    with tailrace.region("block"): pass

found = {decorated: [], plain: [], block: []}
for _ in range(bursts):
    for function, times in found.items():
        begin = time.perf_counter_ns()
        for _ in range(each): function()
        times.append((time.perf_counter_ns() - begin) / each)
        time.sleep(0.02)
print(*(statistics.median(times) for times in found.values()))
"""


def figures(words: list[str], run: Path | None) -> list[float]:
    """What the program prints, traced into `run` or untraced."""
    traced = [str(Path(sys.executable).with_name("tailrace")), "run", "-q", "-o", str(run), "--"] if run else []
    done = subprocess.run([*traced, *words], check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what regions cost.")
    parser.add_argument("--bursts", type=int, default=60, help="how often each is measured")
    bursts = str(parser.parse_args().bursts)
    table = Table("ns", "untraced", "traced", title="A region's begin and end")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "regions"
        compiler = shutil.which("c++") or "c++"
        source = Path(__file__).with_suffix(".cc")
        subprocess.run([compiler, "-O2", f"-I{PACKAGE / 'include'}", "-o", program, source], check=True)
        cpp, python = [str(program), bursts, str(EACH)], [sys.executable, "-c", PYTHON, bursts, str(EACH)]
        native, traced = figures(cpp, None), figures(cpp, Path(folder) / "cpp")
        table.add_row("C++", *(f"{region - empty:.1f}" for region, empty, _ in (native, traced)))
        table.add_row("(a reading of the clock)", f"{native[2]:.1f}", f"{traced[2]:.1f}")
        rows = figures(python, None), figures(python, Path(folder) / "python")
        table.add_row("Python, decorated function", *(f"{decorated - plain:.0f}" for decorated, plain, _ in rows))
        table.add_row("Python, with block", *(f"{block - plain:.0f}" for _, plain, block in rows))
    Console().print(table)


if __name__ == "__main__":
    main()
