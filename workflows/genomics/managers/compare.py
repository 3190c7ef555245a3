"""Runs the computation under each workflow manager that is here, one task at a time, and sets their runs side by side.

    python compare.py FOLDER [--only NAME]... [--table FILE.md]

Each manager gets FOLDER/NAME with the same genome, and the run FOLDER/NAME/run. All must have moved the same data:
every file from the same step to the same steps. The table says where the time of each went:
before the first task began, in which no task ran between the first and the last one, and after the last one.
Slurm is run where a cluster is configured whose plugstack.conf has tailrace's line.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from genome import make_genome

import tailrace
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.util.formatting import bytes_text

STEPS = ("unpack", "index", "simulate", "align", "sort", "count", "pile", "call", "merge", "summarize")
TAILRACE = [str(Path(sys.executable).with_name("tailrace"))]
# make's stages are the rules' patterns, or the first target of a rule.
OF_MAKE = (
    (r"genome\.fa.*", "unpack"),
    (r"genome\.bwa.*", "index"),
    (r"%\.(1\.fq|2\.fq|truth)", "simulate"),
    (r"%\.sam", "align"),
    (r"%\.bam.*", "sort"),
    (r"%\.count", "count"),
    (r"%\.bcf", "pile"),
    (r"%\.vcf.*", "call"),
    (r"all\.vcf", "merge"),
    (r"summary\.json", "summarize"),
)


@dataclass(frozen=True)
class Manager:
    """command: of the manager's run in a folder; needs: the program it is found by; traced: whether `tailrace run` has
    to start it; after: a command then; tasks: how many it runs; also_needs: programs that its steps are run by."""

    needs: str
    command: Callable[[Path, str], list[str]]
    traced: bool = True
    after: Callable[[Path], list[str]] | None = None
    tasks: int = 28
    also_needs: tuple[str, ...] = ()


def _words(*words: object) -> list[str]:
    return [str(word) for word in words]


def _adapter(name: str) -> str:
    said = subprocess.run([*TAILRACE, "adapter", name], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def _cwl(folder: Path, program: str) -> list[str]:
    script, genome = ({"class": "File", "path": str(path)} for path in (HERE / "step.sh", folder / "genome.fa.gz"))
    job = {"script": script, "genome": [genome], "samples": ["ada", "bo", "cy", "dee"]}
    (folder / "job.yml").write_text(repr(job).replace("'", '"'))
    return [str(Path(program).with_name("python")), "-m", "tailrace.cwl", str(HERE / "genomics.cwl#main"), "job.yml"]


def _mpi(folder: Path, sbatch: str) -> list[str]:
    subprocess.run(["mpicc", "-O2", "-o", str(folder / "ranks"), str(HERE / "ranks.c")], check=True)
    return ["sh", str(HERE / "mpi.sh"), str(folder / "run")]


MANAGERS = {
    "make": Manager(
        "make", lambda folder, make: _words(make, "-s", "-f", HERE / "Makefile", "-f", _adapter("make"), "summary.json")
    ),
    "Snakemake": Manager(
        "snakemake",
        lambda folder, snakemake: _words(snakemake, "-s", HERE / "Snakefile", "--cores", 1, "--logger", "tailrace"),
    ),
    "Nextflow": Manager(
        "nextflow",
        lambda folder, nextflow: _words(
            nextflow, "-c", _adapter("nextflow"), "-c", HERE / "one.config", "run", HERE / "main.nf"
        ),
        after=lambda folder: [*TAILRACE, "declare", "run", "--from", "work"],
    ),
    "CWL": Manager("cwltool", _cwl),
    "Dask": Manager(sys.executable, lambda folder, python: [python, str(HERE / "dask_workflow.py")]),
    "Parsl": Manager(
        sys.executable,
        lambda folder, python: _words(
            python, HERE.parent / "workflow.py", folder, "--workers", 1, "--run", folder / "run"
        ),
    ),
    "Flux": Manager(
        "flux", lambda folder, flux: _words(flux, "start", "sh", HERE / "flux.sh", folder / "run"), traced=False
    ),
    "Slurm": Manager(
        "sbatch", lambda folder, sbatch: ["sh", str(HERE / "slurm.sh"), str(folder / "run")], traced=False
    ),
    # Six of its ten tasks have a rank for each sample.
    "Slurm, MPI": Manager("sbatch", _mpi, traced=False, tasks=10, also_needs=("mpicc",)),
}


def run(name: str, folder: Path) -> tuple[int, int] | str:
    """Runs the manager; the times of its begin and end, ns, or why it can't be run."""
    manager = MANAGERS[name]
    missing = [program for program in (manager.needs, *manager.also_needs) if shutil.which(program) is None]
    if missing:
        return f"no {missing[0]} on PATH"
    folder.mkdir(parents=True)
    if name != "Parsl":
        make_genome(folder)
    command = manager.command(folder, str(shutil.which(manager.needs)))
    if manager.traced:
        command = [*TAILRACE, "run", "-q", "-o", str(folder / "run"), "--", *command]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NXF_OFFLINE": "true"}
    begin = time.time_ns()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if manager.needs == "sbatch" and done.returncode == 0:
        wait_for_slurm(folder)
    end = time.time_ns()
    if done.returncode == 0 and manager.after:
        done = subprocess.run(manager.after(folder), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return begin, end


def wait_for_slurm(folder: Path) -> None:
    """Until none of this user's jobs is queued."""
    while subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout.strip():
        time.sleep(0.1)
    if not (folder / "summary.json").exists():
        sys.exit("Slurm's jobs left no summary.json")


def step_of(stage: str) -> str | None:
    """The step of a stage; None for what is none."""
    if stage.lower() in STEPS:  # Nextflow's processes are in capitals
        return stage.lower()
    return next((step for pattern, step in OF_MAKE if re.fullmatch(pattern, stage)), None)


def edges(opened: tailrace.Run) -> set[tuple[str, str, str]]:
    """(step that wrote, file, step that read) of all data that passed between steps."""
    model = dataflow.model(opened)
    _, activities = dataflow.activities(model, "stage")
    rows = dataflow.flow_table(model, "stage")
    rows = rows[rows["producer"] >= 0]
    steps = [step_of(stage) for stage in activities["stage"]]
    names = [Path(path).name for path in model.paths[rows["file"]]]
    found = zip((steps[i] for i in rows["producer"]), names, (steps[i] for i in rows["consumer"]), strict=True)
    return {(a, name, b) for a, name, b in found if a and b and a != b}


def times(opened: tailrace.Run, begin: int, end: int) -> tuple[int, dict[str, float]]:
    """How many tasks ran, and the seconds before the first, in tasks, in which no task ran between them, and after."""
    tasks = opened.tasks
    tasks = tasks[tasks["stage"].map(lambda stage: step_of(str(stage)) is not None) & tasks["t0_ns"].notna()]
    spans = sorted(zip(tasks["t0_ns"].astype(int), tasks["t1_ns"].astype(int), strict=True))
    busy, reached = 0, spans[0][0]
    for first, last in spans:
        busy += max(0, last - max(first, reached))
        reached = max(reached, last)
    found = {"before": spans[0][0] - begin, "tasks": busy, "after": end - reached}
    found["between"] = reached - spans[0][0] - busy
    return len(spans), {key: value / 1e9 for key, value in found.items()}


def own(name: str, opened: tailrace.Run) -> list[str]:
    """The manager's processes, and what they read and wrote outside of the steps. Those of daemons are not traced."""
    if not MANAGERS[name].traced:
        return ["", ""]
    stages = opened.stages
    others = stages[[step_of(str(stage)) is None for stage in stages["stage"]]]
    moved = int((others["read_bytes"] + others["written_bytes"]).sum())
    return [str(int(others["processes"].sum())), bytes_text(moved)]


def version(name: str, opened: tailrace.Run) -> str:
    """The manager's, as it is declared, else as it says."""
    declared = [text for text in opened.declared_workflows["version"].dropna() if text]
    if declared:
        return str(declared[0])
    option = "-v" if name == "Nextflow" else "--version"
    said = subprocess.run([MANAGERS[name].needs, option], capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", said.stdout)
    return found[0] if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", choices=list(MANAGERS), help="may be repeated")
    parser.add_argument("--table", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    rows, moved = [], {}
    for name in options.only or MANAGERS:
        folder = options.folder.resolve() / name
        ran = run(name, folder)
        if isinstance(ran, str):
            print(f"{name}: {ran}", file=sys.stderr)
            continue
        opened = tailrace.open(folder / "run")
        moved[name] = edges(opened)
        count, spent = times(opened, *ran)
        between = spent["between"] / (count - 1) * 1000
        cells = [f"{spent[key]:.2f} s" for key in ("before", "tasks", "between")]
        cells += [f"{between:.0f} ms", f"{spent['after']:.2f} s", *own(name, opened)]
        rows.append([name, version(name, opened), *cells])
    heads = ["manager", "version", "before the first", "in tasks", "between them", "that is a task", "after the last"]
    heads += ["own processes", "own bytes"]
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * 2 + ["---:"] * 7, *rows)]
    print("\n".join(lines))
    if options.table:
        options.table.write_text("\n".join(lines) + "\n")
    first = next(iter(moved.values()), set())
    different = {name: found ^ first for name, found in moved.items() if found != first}
    for name, found in different.items():
        print(f"{name} differs from {next(iter(moved))}: {sorted(found)}", file=sys.stderr)
    print(f"{len(first)} files' edges, the same under {', '.join(name for name in moved if name not in different)}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
