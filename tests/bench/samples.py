"""What samples cost (docs/tracing.md): the launcher's processor time for a sample, by the number of traced processes.

    python tests/bench/samples.py [--seconds N]

The processes sleep, so that all that the launcher uses beyond an unsampled run's is the samples'.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tailrace.analyzer.store import samples

PROCESSES = (1, 10, 100)
RATE = 50


def used_ns(run: Path, processes: int, seconds: float, rate: int) -> float:
    """The processor time of a traced run of that many sleeping processes, with what they need themselves."""
    environment = {**os.environ, **({"TAILRACE_SAMPLE": str(rate)} if rate else {})}
    script = f"for i in $(seq {processes}); do sleep {seconds} & done; wait"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [str(Path(sys.executable).with_name("tailrace")), "run", "-q", "-o", str(run), "--", "sh", "-c", script]
    subprocess.run(words, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what samples cost.")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a run takes")
    seconds = parser.parse_args().seconds
    table = Table("processes", "samples", "us of a processor a sample", title="Samples")
    with tempfile.TemporaryDirectory() as name:
        for processes in PROCESSES:
            bare, run = Path(name) / f"bare{processes}", Path(name) / f"run{processes}"
            without, with_them = used_ns(bare, processes, seconds, 0), used_ns(run, processes, seconds, RATE)
            taken = len(samples.read(run).node)
            table.add_row(str(processes), f"{taken:,}", f"{(with_them - without) / taken / 1000:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
