"""What tracing costs a Flux instance: jobs a second from submit to clean, and the job manager's memory.

    PYTHONPATH=tests python tests/bench/flux.py throughput [--jobs 500] [--rounds 7] [--dir DIR]
    PYTHONPATH=tests python tests/bench/flux.py memory [--jobs 10000] [--rounds 3]

--dir: where Flux's files, the jobs' and their runs lie; without it where temporary files do.

throughput: `true` jobs in one instance, in three ways in turn: without the plugins, with both but untraced, and traced.
A round is cut into slices, each of one of each way in an order that changes, so that what else goes on befalls all. The
quotients and differences are taken within a slice; their medians and quartiles are given. Processor time is the
kernel's, to the nanosecond for the broker's threads: the rate follows a machine's mood, this does not.
memory: the job manager's private memory before and after jobs that are held, so that it keeps all of them; a fresh
instance each, without and with the plugin, in turn. For that the job manager is a process of its own (flux-core 0.88):
the broker's caches grow by more than a hundred times of what is looked for.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pytest

from support.flux_instance import FluxInstance, FluxPlugins, require_flux, require_plugins

TRACED = "--setattr=user.trace.stage=bench"


def use_plugins(instance: FluxInstance, plugins: FluxPlugins, own_path: str, wanted: bool) -> None:
    """Loads both plugins, or removes them."""
    loaded = plugins.jobtap.name in instance.ask("jobtap", "list").split()
    if loaded and not wanted:
        instance.run("jobtap", "remove", plugins.jobtap.name)
    if wanted and not loaded:
        instance.run("jobtap", "load", plugins.jobtap)
    path = f"{own_path}:{plugins.shell_folder}" if wanted else own_path
    instance.run("setattr", "conf.shell_pluginpath", path)


def broker_cpu_s(pid: int) -> float:
    """The processor time of a broker and its modules."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


def children_cpu_s(pid: int) -> float:
    """The processor time of a process's children that have ended: of a broker, the shells and tasks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Of a job, the mean over many: from the first one's submit to the last one's clean, by the job manager's own
    times, and processor time. Milliseconds."""

    wall: float
    broker: float
    shell_and_task: float

    @property
    def cpu(self) -> float:
        return self.broker + self.shell_and_task


def run_jobs(instance: FluxInstance, jobs: int, traced: bool) -> Cost:
    (broker,) = instance.broker_pids()
    before = broker_cpu_s(broker), children_cpu_s(broker)
    words = ["submit", "--quiet", f"--cc=1-{jobs}", "--wait", *([TRACED] if traced else []), "true"]
    instance.run(*words, timeout=600)
    times = instance.ask("jobs", "-a", "-n", "-c0", "-o", "{t_submit:f} {t_inactive:f}").split()
    assert len(times) == 2 * jobs, len(times)
    after = broker_cpu_s(broker), children_cpu_s(broker)
    instance.run("job", "purge", "--force", "--num-limit=0")
    wall_s = max(map(float, times[1::2])) - min(map(float, times[::2]))
    return Cost(*(1000 * s / jobs for s in (wall_s, after[0] - before[0], after[1] - before[1])))


SLICES = 5


def spread(values: Sequence[float], form: str) -> str:
    """The median, with the quartiles in brackets."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:{form}} [{low:{form}}, {high:{form}}]"


def throughput(jobs: int, rounds: int) -> None:
    flux, plugins = require_flux(), require_plugins()
    ways = {"bare": (False, False), "untraced": (True, False), "traced": (True, True)}
    orders = list(permutations(ways))
    rows: list[dict[str, Cost]] = []
    with tempfile.TemporaryDirectory() as work:
        instance = FluxInstance(flux, cwd=work)
        try:
            own_path = instance.ask("config", "builtin", "shell_pluginpath")
            run_jobs(instance, min(jobs, 50), False)
            for number in range(rounds * SLICES):
                row = {}
                for way in orders[number % len(orders)]:
                    with_plugins, traced = ways[way]
                    use_plugins(instance, plugins, own_path, with_plugins)
                    row[way] = run_jobs(instance, max(1, jobs // SLICES), traced)
                rows.append(row)
                shown = (f"{way} {row[way].wall:.1f} ms, cpu {row[way].cpu:.1f} ms" for way in ways)
                print("  ".join(shown), flush=True)
        finally:
            instance.stop()
    for way in ways:
        rate = spread([1000 / row[way].wall for row in rows], ".1f")
        share = spread([row["bare"].wall / row[way].wall for row in rows], ".3f")
        parts = (
            f"{name} {spread([getattr(row[way], key) - getattr(row['bare'], key) for row in rows], '+.2f')}"
            for name, key in (("broker", "broker"), ("shell and task", "shell_and_task"))
        )
        cpu = statistics.median(row["bare"].cpu / row[way].cpu for row in rows)
        print(f"{way:9} {rate} jobs/s, {share} of bare; by processor time {cpu:.3f} of bare")
        print(f"          processor time a job against bare, ms: {', '.join(parts)}")
    print(f"medians [quartiles] of {len(rows)} slices of {jobs // SLICES} jobs")
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def private_bytes(pid: int) -> int:
    """The memory that only this process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


# flux-modprobe(1): the job manager as Flux has it, but as a process.
JOB_MANAGER = """
[[modules]]
name = "job-manager"
ranks = "0"
requires = ["resource", "kvs"]
after = ["resource", "kvs"]
exec = true
"""


def job_manager_pid(broker: int) -> int:
    """The child of the broker that is its job manager."""
    children = Path(f"/proc/{broker}/task").glob("*/children")
    pids = [int(word) for path in children for word in path.read_text().split()]
    (found,) = [pid for pid in pids if "job-manager" in Path(f"/proc/{pid}/cmdline").read_text()]
    return found


def bytes_a_job(flux: Path, plugins: FluxPlugins | None, jobs: int, traced: bool) -> float:
    """The growth of the job manager of a fresh instance by a held job."""
    with tempfile.TemporaryDirectory() as work:
        drop_in = Path(work) / "modprobe.d"
        drop_in.mkdir()
        (drop_in / "job-manager.toml").write_text(JOB_MANAGER)
        instance = FluxInstance(flux, cwd=work, env={"FLUX_MODPROBE_PATH_APPEND": work})
        try:
            if plugins:
                instance.run("jobtap", "load", plugins.jobtap)
            pid = job_manager_pid(instance.broker_pids()[0])
            words = ["submit", "--quiet", "--urgency=hold", *([TRACED] if traced else [])]
            # What is only made once is made by these.
            instance.run(*words, "--cc=1-200", "true", timeout=600)
            before = private_bytes(pid)
            instance.run(*words, f"--cc=1-{jobs}", "true", timeout=1200)
            grown = private_bytes(pid) - before
            assert len(instance.ask("jobs", "-n", "-c0", "-o", "{id}").split()) == jobs + 200
            return grown / jobs
        finally:
            instance.kill()
            instance.stop()


def memory(jobs: int, rounds: int) -> None:
    flux, plugins = require_flux(), require_plugins()
    ways: dict[str, list[float]] = {"bare": [], "untraced": [], "traced": []}
    for _ in range(rounds):
        ways["bare"].append(bytes_a_job(flux, None, jobs, False))
        ways["untraced"].append(bytes_a_job(flux, plugins, jobs, False))
        ways["traced"].append(bytes_a_job(flux, plugins, jobs, True))
        print("  ".join(f"{way} {found[-1]:.0f} B" for way, found in ways.items()), flush=True)
    bare = statistics.median(ways["bare"])
    for way, found in ways.items():
        middle = statistics.median(found)
        print(
            f"{way:9} {middle:7.0f} B a job, {middle - bare:+.0f} B against bare (medians of {rounds} of {jobs} jobs)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "memory"])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--dir")
    chosen = parser.parse_args()
    tempfile.tempdir = chosen.dir
    try:
        if chosen.what == "throughput":
            throughput(chosen.jobs or 500, chosen.rounds or 7)
        else:
            memory(chosen.jobs or 10000, chosen.rounds or 3)
    except pytest.skip.Exception as absent:
        sys.exit(f"tests/bench/flux.py: {absent}")


if __name__ == "__main__":
    main()
