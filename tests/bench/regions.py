"""What regions cost (docs/regions.md): of C++ and of Python, in an untraced and in a traced program; and what ranges of
NVTX, tasks of ITT and spans of OpenTelemetry cost, where those packages are installed, by their own Python.

    python tests/bench/regions.py [--bursts N]

A burst has as many regions as a segment holds, then the program pauses while the sealer works; the figures are medians
of bursts, less the empty loop; those of other libraries are of processor time. What the sealer takes beside it is in
`tailrace info`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
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


LIBRARIES = """
import statistics, sys, time

bursts, each, library = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def of_nvtx():
    import nvtx
    def block():
        nvtx.push_range("block")
        nvtx.pop_range()
    return block

def of_itt():
    import ittapi
    domain, name = ittapi.domain("bench"), ittapi.string_handle("block")
    def block():
        ittapi.task_begin(domain, name)
        ittapi.task_end(domain)
    return block

def of_opentelemetry():
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    provider = TracerProvider()
    if "regions" in sys.argv:
        from tailrace.opentelemetry import RegionProcessor
        provider.add_span_processor(RegionProcessor())
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("bench")
    def block():
        with tracer.start_as_current_span("block"): pass
    return block

def plain(): pass

block = {"nvtx": of_nvtx, "itt": of_itt, "opentelemetry": of_opentelemetry}[library]()
found = {plain: [], block: []}
for _ in range(bursts):
    for function, times in found.items():
        begin = time.thread_time_ns()
        for _ in range(each): function()
        times.append((time.thread_time_ns() - begin) / each)
        time.sleep(0.02)
print(*(statistics.median(times) for times in found.values()))
"""
NAMES = {
    "nvtx": ("nvtx", "NVTX, push_range and pop_range"),
    "itt": ("ittapi", "ITT, task_begin and task_end"),
    "opentelemetry": ("opentelemetry.sdk", "OpenTelemetry, a span"),
}


def library_rows(library: str, bursts: str, folder: Path) -> list[str]:
    """ns of a range: untraced, traced without the setting, and as a region."""
    rows = []
    for way in ("untraced", "traced", "regions"):
        words = [sys.executable, "-c", LIBRARIES, bursts, str(EACH), library, way]
        chosen = library if way == "regions" and library != "opentelemetry" else "none"
        run = None if way == "untraced" else folder / f"{library}-{way}"
        plain, block = figures(words, run, TAILRACE_ANNOTATIONS=chosen)
        rows.append(f"{block - plain:.0f}")
    return rows


def figures(words: list[str], run: Path | None, **settings: str) -> list[float]:
    """What the program prints, traced into `run` or untraced."""
    traced = [str(Path(sys.executable).with_name("tailrace")), "run", "-q", "-o", str(run), "--"] if run else []
    environment = {**os.environ, **settings}
    done = subprocess.run([*traced, *words], check=True, stdout=subprocess.PIPE, text=True, env=environment)
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
        libraries = Table("ns", "untraced", "traced", "as a region", title="A range of another library, in Python")
        for library, (module, name) in NAMES.items():
            if all(find_spec(module[:end]) for end in (module.find("."), len(module)) if end > 0):
                libraries.add_row(name, *library_rows(library, bursts, Path(folder)))
    Console().print(table)
    Console().print(libraries)


if __name__ == "__main__":
    main()
