"""What tracing costs Parsl's rate of tasks: tasks that do nothing, a second, with trace() by without.

    python tests/bench/parsl_tasks.py [--rounds N] [--tasks N] [--json FILE] [--only threads processes]

    rounds of (bare, traced), each in a process of its own, in changing order -> rates of the same round -> table

A round's process loads Parsl, runs a few tasks to warm up, then submits all and waits for all; loading and cleaning up
are not in the rate. `processes` is a HighThroughputExecutor with two workers, `threads` a thread pool of four.
`--monitoring` adds Parsl's own monitoring, where it is installed (pip install 'parsl[monitoring]').
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import overhead
from rich.console import Console
from rich.table import Table

BARE, TRACED, MONITORED = "bare", "traced", "monitored"
EXECUTORS = {"threads": 3000, "processes": 2000}
"""Executor -> tasks of a round."""


def run_tasks(executor: str, variant: str, tasks: int, directory: Path) -> float:
    """Tasks a second of one workflow, in this process."""
    import parsl
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
    from parsl.providers import LocalProvider

    if executor == "threads":
        chosen = ThreadPoolExecutor(label="threads", max_threads=4)
    else:
        provider = LocalProvider(init_blocks=1, max_blocks=1)
        chosen = HighThroughputExecutor(
            label="htex", address="127.0.0.1", max_workers_per_node=2, provider=provider, encrypted=False
        )
    config = Config(executors=[chosen], run_dir=str(directory / "runinfo"), strategy="none")
    if variant == MONITORED:
        from parsl.monitoring import MonitoringHub

        config.monitoring = MonitoringHub(hub_address="127.0.0.1", logging_endpoint=f"sqlite:///{directory}/m.db")
    if variant == TRACED:
        from tailrace.parsl import trace

        config = trace(config, directory / "run", workflow="rate")

    @parsl.python_app
    def nothing(number):  # type: ignore[no-untyped-def]
        return number

    with parsl.load(config):
        for future in [nothing(number) for number in range(50)]:
            future.result()
        start = time.perf_counter()
        futures = [nothing(number) for number in range(tasks)]
        for future in futures:
            future.result()
        return tasks / (time.perf_counter() - start)


def _one(executor: str, variant: str, tasks: int, scratch: Path) -> float:
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        command = [sys.executable, __file__, "--one", executor, variant, str(tasks), directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
        if done.returncode != 0:
            raise overhead.ProgramFailed(f"{executor}, {variant}: {done.stderr.strip()[-400:]}")
        return float(done.stdout.split()[-1])


def _cell(values: Sequence[float], digits: int) -> str:
    if len(values) < 3:
        return f"{median(values):.{digits}f}"
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures what tracing costs Parsl's rate of tasks.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tasks", type=int, help="of each round (default: by executor)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--only", nargs="+", choices=list(EXECUTORS), default=list(EXECUTORS), metavar="EXECUTOR")
    parser.add_argument("--monitoring", action="store_true", help="Parsl's own monitoring, too")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        executor, variant, tasks, directory = options.one
        print(run_tasks(executor, variant, int(tasks), Path(directory)))
        return 0

    console = Console(width=None if sys.stdout.isatty() else 120)
    variants = [BARE, TRACED, *[MONITORED] * options.monitoring]
    table = Table(title="Empty tasks a second", title_justify="left")
    for heading in ("executor", "", "tasks/s", "of bare"):
        table.add_column(heading)
    rates: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        for executor in options.only:
            found = rates[executor] = {variant: [] for variant in variants}
            for number in range(options.rounds):
                for variant in overhead.turns(variants, number):
                    count = options.tasks or EXECUTORS[executor]
                    found[variant].append(_one(executor, variant, count, Path(scratch)))
            for variant in variants:
                ratios = [own / bare for own, bare in zip(found[variant], found[BARE], strict=True)]
                table.add_row(executor, variant, _cell(found[variant], 0), _cell(ratios, 2))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps({"machine": overhead.machine(), "rates": rates}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
