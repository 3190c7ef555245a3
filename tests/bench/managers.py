"""What tracing costs with each workflow manager: processor time of whole workflows, traced less untraced.

    python tests/bench/managers.py [--tasks N] [--rounds N] [--only MANAGER...]

    rounds of workflows with few and many tasks, untraced and traced (manager_ways.py), in turns
    --> build/conformance/overhead/MANAGER.json --> python tools/conformance_docs.py

Counted is what the command and all that it leaves behind take of the processors until the last of them has ended, by a
control group, so needs root. (The kernel's count of a process's children lacks those that nobody waits for: Ray's
workers.) What the tasks cost follows from the difference of many and few; what is left, with starting the manager and
sealing, is paid once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from bench.manager_ways import MANY, WAYS, Missing, Way

RESULTS = ROOT / "build" / "conformance" / "overhead"
FEW = 10


def processor_ms(words: list[str], folder: Path, way: Way) -> float:
    """What a command and all that it leaves behind take, until the last of them has ended."""
    group = Path(tempfile.mkdtemp(prefix="tailrace-managers-", dir=control_groups()))
    try:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **way.environment}
        begin = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
        with (folder / "log").open("wb") as log:
            done = subprocess.run([*begin, *words], cwd=folder, env=environment, stdout=log, stderr=log, check=False)
        while "populated 1" in (group / "cgroup.events").read_text():
            time.sleep(0.05)
        used = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    finally:
        group.rmdir()
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{(folder / 'log').read_text()}")
    return int(used["usage_usec"]) / 1e3


def control_groups() -> str:
    """Where control groups of version 2 are."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [place for _, place, kind, *_ in mounts if kind == "cgroup2"]
    if not places or not os.access(places[0], os.W_OK):
        sys.exit("processor time is counted by a control group (cgroup2), which only root can make")
    return places[0]


def measured(way_of: Callable[[int, Path], Way], tasks: int, traced: bool) -> float:
    """Milliseconds of a workflow."""
    with tempfile.TemporaryDirectory(prefix="tailrace-managers-") as name:
        folder = Path(name)
        (folder / "out").mkdir()
        way = way_of(tasks, folder)
        for file, text in way.files.items():
            (folder / file).write_text(text)
        spent = processor_ms(way.traced if traced else way.plain, folder, way)
        if traced != any(folder.rglob("run.json")):
            sys.exit(f"{' '.join(way.traced)} was not traced, or the other one was:\n{(folder / 'log').read_text()}")
        return spent


def one_round(way_of: Callable[[int, Path], Way], tasks: int, backwards: bool) -> dict[str, float]:
    """plain: a task, untraced; more: what tracing adds to it; once: what it adds to a workflow. Milliseconds."""
    kinds = [(count, traced) for count in (FEW, FEW + tasks) for traced in (False, True)]
    spent = {kind: measured(way_of, *kind) for kind in (reversed(kinds) if backwards else kinds)}
    few, many = (spent[count, True] - spent[count, False] for count in (FEW, FEW + tasks))
    plain = (spent[FEW + tasks, False] - spent[FEW, False]) / tasks
    more = (many - few) / tasks
    return {"plain": plain, "more": more, "once": few - more * FEW}


def summed_up(manager: str, tasks: int, rounds: list[dict[str, float]]) -> dict[str, str | float]:
    row: dict[str, str | float] = {"manager": manager, "tasks": tasks, "rounds": len(rounds)}
    for what in ("plain", "more", "once"):
        values = [one[what] for one in rounds]
        row |= {f"{what}_ms": mean(values), f"{what}_stdev_ms": stdev(values) if len(values) > 1 else 0.0}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, help=f"by which many are more than {FEW}: 100, or as in MANY")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for manager in given.only:
        begun, tasks = time.monotonic(), given.tasks or MANY.get(manager, 100)
        try:
            rounds = [one_round(WAYS[manager], tasks, number % 2 == 1) for number in range(given.rounds)]
        except Missing as missing:
            print(f"{manager}: {missing} on PATH")
            continue
        row = summed_up(manager, tasks, rounds)
        (RESULTS / f"{manager}.json").write_text(json.dumps(row))
        print(
            "{manager}: a task {more_ms:.1f} ± {more_stdev_ms:.1f} ms more than {plain_ms:.1f}, a workflow "
            "{once_ms:.0f} ± {once_stdev_ms:.0f} ms more".format_map(row),
            f"({time.monotonic() - begun:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
