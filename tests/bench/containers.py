"""What a container costs a workflow, and what tracing costs in and out of one: wall and processor time, four repeats.

    python tests/bench/containers.py [--rounds N] [--only WORKLOAD...] [--json FILE]

    rounds of (outside, Apptainer, bubblewrap) x (untraced, traced), each round in another order --> a Markdown table

$APPTAINER, or the one on PATH, is run; a kind of container that can't be made here is left out. The programs are the
host's, bound into an empty image, so they are the same in and out. `genomics` is workflows/genomics by make, whole in
one container; `copies` writes 1 GiB in records of 1 to 16 KiB. Counted is the whole command, with starting and sealing.
The comparison is that of "I/O Monitoring for portable HPC applications" (Vijayakumar, 2023), figures 3 to 10:
with and without a container, with and without a tracer, four times.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[2]
GENOMICS = ROOT / "workflows" / "genomics"
sys.path[:0] = [str(GENOMICS)]

from genome import make_genome

TAILRACE = Path(sys.executable).parent / "tailrace"
GIVEN_BYTES = 256 << 20
COPIES = (
    "dd if=given of=a bs=4k status=none && dd if=a of=b bs=1k status=none && "
    "cat a b | dd of=c bs=16k iflag=fullblock status=none && rm a b c"
)
WORKLOADS = {
    "genomics": ["make", "-s", "-f", str(GENOMICS / "managers" / "Makefile"), "summary.json"],
    "copies": ["sh", "-c", COPIES],
}


@dataclass
class Times:
    """Of one way to run one workload, in s: a number for each repeat."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def make_input(workload: str, folder: Path) -> None:
    if workload == "genomics":
        make_genome(folder)
        return
    with (folder / "given").open("wb") as given:
        for _ in range(GIVEN_BYTES >> 20):
            given.write(os.urandom(1 << 20))


def make_image(folder: Path) -> Path:
    """An image of empty places; what is in it is bound."""
    image = folder / "image"
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "root", "home"):
        (image / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (image / name).symlink_to(f"usr/{name}")
    return image


def containers(image: Path, work: Path) -> dict[str, list[str]]:
    """The words before a command, by where it then runs."""
    bound = [str(work), str(GENOMICS), str(Path(sys.prefix))]
    apptainer = os.environ.get("APPTAINER") or shutil.which("apptainer") or "apptainer"
    binds = [word for path in ["/usr", "/etc", *bound] for word in ("--bind", path)]
    links = [word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    shown = [word for path in ["/usr", "/etc"] for word in ("--ro-bind", path, path)]
    shown += [word for path in bound for word in ("--bind", path, path)]
    ways = {
        "outside": [],
        "Apptainer": [apptainer, "--silent", "exec", "--userns", *binds, "--pwd", str(work), str(image)],
        "bubblewrap": ["bwrap", "--proc", "/proc", "--dev", "/dev", *links, *shown, "--chdir", str(work)],
    }
    return {name: words for name, words in ways.items() if can_run(name, words)}


def can_run(name: str, words: list[str]) -> bool:
    try:
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print(f"{name}: {words[0]} is not here", file=sys.stderr)
        return False
    if done.returncode:
        print(f"{name} can't make a container here: {done.stderr}", file=sys.stderr)
    return done.returncode == 0


def run(command: list[str], work: Path, given: Path) -> tuple[float, float]:
    """Wall and processor time in s of a command that finds the files of `given` in `work`."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(given, work)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=work, check=True, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def repeat(workload: str, rounds: int, folder: Path) -> dict[str, dict[str, Times]]:
    """Times by where it ran, then by "untraced" and "traced"."""
    given, work = folder / "given", folder / "work"
    for made in (given, work):
        made.mkdir()
    make_input(workload, given)
    places = containers(make_image(folder), work)
    found = {place: {"untraced": Times(), "traced": Times()} for place in places}
    ways = [(place, how) for place in places for how in ("untraced", "traced")]
    for n in range(-1, rounds):  # the first one warms the caches, and isn't counted
        turned = ways[n % len(ways) :] + ways[: n % len(ways)]
        for place, how in turned if n % 2 else reversed(turned):
            run_dir = folder / "run"
            shutil.rmtree(run_dir, ignore_errors=True)
            traced = [str(TAILRACE), "run", "-q", "-o", str(run_dir), "--"] if how == "traced" else []
            command = [*traced, *places[place], *WORKLOADS[workload]]
            if place == "bubblewrap":  # the run is bound by hand: it has to be there
                run_dir.mkdir()
                command[command.index("--chdir") : command.index("--chdir")] = ["--bind", str(run_dir), str(run_dir)]
            wall, processor = run(command, work, given)
            if n >= 0:
                found[place][how].wall.append(wall)
                found[place][how].processor.append(processor)
    return found


def table(workload: str, found: dict[str, dict[str, Times]]) -> str:
    lines = [f"| {workload} | untraced | traced | processor time untraced | traced |", "|---|---|---|---|---|"]
    for place, hows in found.items():
        cells = [cell(times.wall) for times in hows.values()] + [cell(times.processor) for times in hows.values()]
        lines.append(f"| {place} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: list[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("a deviation needs at least --rounds 2")
    results = {}
    for workload in options.only:
        with tempfile.TemporaryDirectory(prefix="tailrace-containers-") as folder:
            found = repeat(workload, options.rounds, Path(folder).resolve())
        print(table(workload, found), end="\n\n", flush=True)
        results[workload] = {place: {how: vars(t) for how, t in hows.items()} for place, hows in found.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
