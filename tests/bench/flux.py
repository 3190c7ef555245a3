"""What tracing costs a Flux instance: jobs a second from submit to clean, and the job manager's memory.

    python tests/bench/flux.py throughput [--jobs 500] [--rounds 7]
    python tests/bench/flux.py memory [--jobs 10000] [--rounds 3]

throughput: `true` jobs in one instance, in three ways in turn: without the plugins, with both but untraced, and traced.
A round is one of each in an order that changes; the quotients are taken within a round, and their medians are given.
memory: the job manager's private memory before and after jobs that are held, so that it keeps all of them; a fresh
instance each, without and with the plugin, in turn. For that the job manager is a process of its own (flux-core 0.88):
the broker's caches grow by more than a hundred times of what is looked for.
"""

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))

import pytest
from flux_instance import FluxInstance, FluxPlugins, require_flux, require_plugins

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


def cpu_s(pid: int) -> float:
    """The processor time of a process and of its children that have ended: shells and tasks, for a broker."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Of a number of jobs: from the first one's submit to the last one's clean, by the job manager's own times, and
    the processor time of the broker, the shells and the tasks. Seconds."""

    wall_s: float
    cpu_s: float


def run_jobs(instance: FluxInstance, jobs: int, traced: bool) -> Cost:
    (broker,) = instance.broker_pids()
    before = cpu_s(broker)
    words = ["submit", "--quiet", f"--cc=1-{jobs}", "--wait", *([TRACED] if traced else []), "true"]
    instance.run(*words, timeout=600)
    times = instance.ask("jobs", "-a", "-n", "-c0", "-o", "{t_submit:f} {t_inactive:f}").split()
    assert len(times) == 2 * jobs, len(times)
    spent = cpu_s(broker) - before
    instance.run("job", "purge", "--force", "--num-limit=0")
    return Cost(max(map(float, times[1::2])) - min(map(float, times[::2])), spent)


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
            for number in range(rounds):
                row = {}
                for way in orders[number % len(orders)]:
                    with_plugins, traced = ways[way]
                    use_plugins(instance, plugins, own_path, with_plugins)
                    row[way] = run_jobs(instance, jobs, traced)
                rows.append(row)
                print(
                    "  ".join(f"{way} {row[way].wall_s:.2f} s, cpu {row[way].cpu_s:.2f} s" for way in ways), flush=True
                )
        finally:
            instance.stop()
    for way in ways:
        rate = statistics.median(jobs / row[way].wall_s for row in rows)
        share = statistics.median(row["bare"].wall_s / row[way].wall_s for row in rows)
        added_ms = statistics.median(1000 * (row[way].cpu_s - row["bare"].cpu_s) / jobs for row in rows)
        print(f"{way:9} {rate:6.1f} jobs/s, {share:.3f} of bare; {added_ms:+.2f} ms of processor time a job")
    print(f"medians of {rounds} rounds of {jobs} jobs")
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
    chosen = parser.parse_args()
    try:
        if chosen.what == "throughput":
            throughput(chosen.jobs or 500, chosen.rounds or 7)
        else:
            memory(chosen.jobs or 10000, chosen.rounds or 3)
    except pytest.skip.Exception as absent:
        sys.exit(f"tests/bench/flux.py: {absent}")


if __name__ == "__main__":
    main()
