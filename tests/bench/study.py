"""Where the cost of tracing comes from: recording, sealing and writing, and which factor explains the differences.

    python tests/bench/study.py [--repeats 30] [--only EXPERIMENT] [--json FILE [--add]] [--plots DIR] [--segments]

    repeats of (factor levels x ways), each in another order -> medians with intervals -> analysis of variance -> tables

The design is that of Mohror and Karavanic, "A Study of Tracing Overhead on a High-Performance Linux Cluster" (2006):
every combination of the factors 30 times, and by an analysis of variance the share of each factor in the differences.
Ways to trace: `untraced`; `sealer`, as `tailrace run` has it, whose node's sealer runs in this process; `alone`, where
each process seals for itself.

    events     one process, 100,000 reads of 4 KiB with 0 to 100 us of computing before each: the rate of events
    processes  640,000 reads, by 1 to 64 processes at once
    segments   with --segments: the library built with smaller and larger segments (needs CMake and a compiler); `alone`

In pieces, where others need the machine meanwhile: `--add` adds repeats to those in FILE.

Measured is processor time, which neighbours on the machine move least, and wall time. Recording is what the traced
processes take more than untraced ones; under `sealer` the rest is the sealer's own account of its thread, in which
writing is apart.
"""

import argparse
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import overhead
import pandas as pd
import peers
from rich.console import Console
from rich.table import Table

from tailrace.integrations import environment

UNTRACED, SEALER, ALONE = "untraced", "sealer", "alone"
WAYS = (UNTRACED, SEALER, ALONE)
PAUSES_NS = (0, 1_000, 10_000, 100_000)
PROCESSES = (1, 2, 4, 8, 16, 32, 64)
SEGMENT_SLOTS = (1024, 4096, 16384)
EVENTS_CALLS = 100_000
PROCESSES_CALLS = 640_000


@dataclass(frozen=True)
class Cell:
    """One combination: `experiment`, the level of its factor, the way, and what runs."""

    experiment: str
    level: int
    way: str
    calls: int
    processes: int = 1
    pause_ns: int = 0
    library: Path | None = None


def cells(libraries: Mapping[int, Path]) -> list[Cell]:
    """All combinations of the factors."""
    found = []
    for pause, way in itertools.product(PAUSES_NS, WAYS):
        calls = max(2_000, EVENTS_CALLS if pause < 10_000 else EVENTS_CALLS * 10_000 // (10 * pause))
        found.append(Cell("events", pause, way, calls, pause_ns=pause))
    found += [
        Cell("processes", count, way, PROCESSES_CALLS // count, count)
        for count, way in itertools.product(PROCESSES, WAYS)
    ]
    found += [
        Cell("segments", slots, way, EVENTS_CALLS * 4, library=library)
        for (slots, library), way in itertools.product(libraries.items(), (UNTRACED, ALONE))
    ]
    return found


def _children_cpu_ns() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


def measure(cell: Cell, scratch: Path) -> dict[str, Any]:
    """One run: ns a call of wall time, of the processes' time, of the sealer's and of its writing."""
    command = [str(scratch / "reads"), "read", str(scratch / "data"), str(cell.calls), str(cell.pause_ns)]
    with overhead.trace_directory(scratch) as directory:
        variables = peers.plain_environment()
        if cell.way != UNTRACED:
            (directory / "trace").mkdir()
            variables = environment.task_environment(directory, peers.TAGS, variables)
        if cell.library is not None and cell.way != UNTRACED:
            variables["LD_PRELOAD"] = str(cell.library)
        beside = peers.node_sealer(directory, variables) if cell.way == SEALER else nullcontext(dict[str, Any]())
        with beside as account:
            cpu, start = _children_cpu_ns(), time.perf_counter_ns()
            started = [
                subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) for _ in range(cell.processes)
            ]
            codes = [process.wait() for process in started]
            wall, cpu = time.perf_counter_ns() - start, _children_cpu_ns() - cpu
        if any(codes):
            raise overhead.ProgramFailed(f"{cell}: exit codes {codes}")
        total = cell.calls * cell.processes
        return {
            "experiment": cell.experiment,
            "level": cell.level,
            "way": cell.way,
            "wall": wall / total,
            "processes": cpu / total,
            "sealing": account.get("processor_ns", 0) / total,
            "writing": account.get("writing_ns", 0) / total,
            "bytes": peers.trace_bytes(directory / "trace") / total if cell.way != UNTRACED else 0,
        }


def split(samples: pd.DataFrame) -> pd.DataFrame:
    """By experiment, level and way: medians of what tracing added a call, in ns, with the bounds of their 95% interval.

    `recording`: of the traced processes; `sealing` and `writing`: of the sealer (`alone`: in `recording`); `added`: all
    processor time; `wall`: wall time. Each against the untraced run of the same repeat.
    """
    keys = ["experiment", "level", "repeat"]
    bare = samples[samples.way == UNTRACED].set_index(keys)[["wall", "processes"]]
    traced = samples[samples.way != UNTRACED].join(bare.add_suffix("_bare"), on=keys)
    traced["recording"] = traced.processes - traced.processes_bare
    traced["added"] = traced.recording + traced.sealing
    traced["sealing"] -= traced.writing
    traced["wall"] -= traced.wall_bare
    added: pd.DataFrame = traced.drop(columns=["processes", "processes_bare", "wall_bare"])
    return added


def interval(values: pd.Series) -> tuple[float, float]:
    """The 95% interval of the median, from its order statistics (binomial, normal approximation)."""
    ordered = values.sort_values().to_numpy()
    n = len(ordered)
    half = 0.98 * n**0.5
    low, high = int(max(0, n / 2 - half)), int(min(n - 1, n / 2 + half))
    return float(ordered[low]), float(ordered[high])


def variance(added: pd.DataFrame, experiment: str) -> pd.DataFrame | None:
    """Which factor explains the differences of `added`: the shares of the sums of squares, and p."""
    from statsmodels.formula.api import ols  # type: ignore[import-untyped]
    from statsmodels.stats.anova import anova_lm  # type: ignore[import-untyped]

    part = added[added.experiment == experiment]
    two_ways = part.way.nunique() > 1
    if part.level.nunique() < 2:
        return None
    fitted = ols("added ~ C(level) * C(way)" if two_ways else "added ~ C(level)", data=part).fit()
    table = anova_lm(fitted, typ=2)
    names = {"C(level)": experiment, "C(way)": "way", "C(level):C(way)": f"{experiment} x way", "Residual": "repeats"}
    shares = table.sum_sq / table.sum_sq.sum()
    explained: pd.DataFrame = pd.DataFrame({"share": shares, "p": table["PR(>F)"]}).rename(index=names)
    return explained


def show(console: Console, added: pd.DataFrame) -> None:
    """Prints the tables of every experiment."""
    for experiment, part in added.groupby("experiment", sort=False):
        table = Table(title=f"{experiment}: added to each call, ns", title_justify="left")
        for heading in (
            str(experiment),
            "way",
            "recording",
            "sealing",
            "writing",
            "added [95%]",
            "wall [95%]",
            "B/call",
        ):
            table.add_column(heading, justify="right")
        for (level, way), cell in part.groupby(["level", "way"], sort=True):
            spans = [f"{cell[name].median():.0f} [{low:.0f}, {high:.0f}]" for name in ("added", "wall")
                     for low, high in [interval(cell[name])]]  # fmt: skip
            parts = [f"{cell[name].median():.0f}" for name in ("recording", "sealing", "writing")]
            table.add_row(f"{level:,}", str(way), *parts, *spans, f"{cell.bytes.median():.1f}")
        console.print(table)
        shares = variance(part, str(experiment))
        if shares is not None:
            said = [f"{name} {row.share:.0%}" + ("" if pd.isna(row.p) else f" (p {row.p:.1g})")
                    for name, row in shares.iterrows()]  # fmt: skip
            console.print("explained by: " + ", ".join(said))


def plot(added: pd.DataFrame, directory: Path) -> None:
    """One SVG for each experiment: medians and intervals of the added processor time, stacked by part."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tailrace"
    import matplotlib.pyplot as plt

    axis_titles = {"events": "computing before each call, ns", "processes": "processes", "segments": "slots a segment"}
    for experiment, part in added.groupby("experiment", sort=False):
        ways = sorted(part.way.unique())
        figure, axes = plt.subplots(1, len(ways), sharey=True, figsize=(4 * len(ways), 3), squeeze=False)
        for axis, way in zip(axes[0], ways, strict=True):
            groups = part[part.way == way].groupby("level")
            labels = [f"{level:,}" for level in groups.groups]
            bottom = [0.0] * len(labels)
            for name, color in (("recording", "#4472a8"), ("sealing", "#e3a13c"), ("writing", "#7a7a7a")):
                heights = [max(0.0, float(cell[name].median())) for _, cell in groups]
                axis.bar(labels, heights, bottom=bottom, color=color, label=name)
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
            bounds = [interval(cell.added) for _, cell in groups]
            middles = [float(cell.added.median()) for _, cell in groups]
            errors = [[middle - low for middle, (low, _) in zip(middles, bounds, strict=True)],
                      [high - middle for middle, (_, high) in zip(middles, bounds, strict=True)]]  # fmt: skip
            axis.errorbar(labels, middles, yerr=errors, fmt="none", ecolor="black", capsize=3)
            axis.set_title(str(way))
            axis.set_xlabel(axis_titles[str(experiment)])
            axis.tick_params(axis="x", labelrotation=45)
        axes[0][0].set_ylabel("added processor time a call, ns")
        axes[0][-1].legend(frameon=False)
        figure.tight_layout()
        figure.savefig(directory / f"overhead-{experiment}.svg", metadata={"Date": None})
        plt.close(figure)


def build_libraries(scratch: Path) -> dict[int, Path]:
    """The library with segments of each size, built from this checkout."""
    source = Path(__file__).resolve().parents[2]
    built = {}
    for slots in SEGMENT_SLOTS:
        folder = scratch / f"slots-{slots}"
        options = [f"-DCMAKE_CXX_FLAGS=-DTAILRACE_SEGMENT_SLOTS={slots}", "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run(["cmake", "-S", source, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            ["cmake", "--build", folder, "--target", "tailrace", "-j2"], check=True, stdout=subprocess.DEVNULL
        )
        built[slots] = next(folder.rglob("libtailrace.so"))
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description="Splits what tracing costs, and says which factor explains it.")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--add", action="store_true", help="with --json: add to the samples that FILE has")
    parser.add_argument("--only", choices=("events", "processes", "segments"), help="this experiment alone")
    parser.add_argument("--libraries", type=Path, metavar="DIR", help="where --segments builds, to be used again")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write the pictures of docs/performance.md there")
    parser.add_argument("--segments", action="store_true", help="build the library with other segment sizes, too")
    parser.add_argument("--dir", type=Path, help="where files and traces lie meanwhile (default: $TMPDIR)")
    options = parser.parse_args()
    if options.repeats < (1 if options.add else 3):
        parser.error("--repeats: at least 3, since the variance is taken over them")
    if options.add and options.json is None:
        parser.error("--add: give --json FILE, to which samples are added")

    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", dir=options.dir) as made:
        scratch = Path(made).resolve()
        overhead.prepare(scratch)
        libraries = build_libraries(options.libraries or scratch) if options.segments and shutil.which("cmake") else {}
        combinations = [cell for cell in cells(libraries) if options.only in (None, cell.experiment)]
        for repeat in range(options.repeats):
            with console.status(f"repeat {repeat + 1} of {options.repeats}"):
                for number in overhead.turns(range(len(combinations)), repeat):
                    rows.append({**measure(combinations[number], scratch), "repeat": repeat})
    samples = pd.DataFrame(rows)
    if options.add and options.json.exists():
        earlier = pd.DataFrame(json.loads(options.json.read_text())["samples"])
        samples = pd.concat([earlier, samples.assign(repeat=samples["repeat"] + earlier["repeat"].max() + 1)])
    added = split(samples)
    show(console, added)
    if options.plots:
        plot(added, options.plots)
    if options.json:
        numbers = {"machine": overhead.machine(), "samples": samples.to_dict("records")}
        options.json.write_text(json.dumps(numbers) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
