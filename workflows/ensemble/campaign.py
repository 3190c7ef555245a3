"""A multi-scale campaign under Flux: three rounds, 63 jobs, all submitted at once with what each waits for.

    macro (x3)      a fluid that separates into liquid and vapour, on a grid; continued from round to round
    select (x3)     picks the patches of it that are worth a closer look
    micro (x3)      a Flux instance of its own, in which run
      simulate (x24)  LAMMPS: the molecules of a patch
      analyze (x24)   structure, diffusion, energy and pressure of a simulation
    reduce (x3)     the equation of state by all that was simulated, for the next round's macro model
    learn (x3)      what the selector knows, for the next round's picks

    flux start python campaign.py FOLDER [--rounds N] [--trace]

plan.py has the steps. With --trace every job is submitted with `--trace=STAGE`; the instance must know tailrace's
plugins then (run.sh shows how).
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import plan
from jobs import finish, flux, traced


def submit(step, ids, cores, options):
    """Submits a step that waits for the jobs of those before it. Returns its id."""
    waits = [f"--dependency=afterok:{ids[name]}" for name in step.after]
    common = [f"--job-name={step.name}", "--time-limit=10m", *waits, *traced(options, step.stage)]
    if step.stage != "micro":
        return flux("submit", "-n1", *common, *step.command)
    log = plan.Files(options.folder).log(step.name)
    trace = ["--trace"] * options.trace
    return flux("batch", f"-n{cores}", f"--output={log}", "--wrap", *common, *step.command, *trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the campaign's files go")
    parser.add_argument("--rounds", type=int, default=plan.ROUNDS)
    parser.add_argument("--trace", action="store_true", help="trace every job, by its stage")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    for program in ("flux", "lmp"):
        if shutil.which(program) is None:
            sys.exit(f"campaign.py: {program} is not on PATH; README.md says where it comes from")
    if "FLUX_URI" not in os.environ:
        sys.exit("campaign.py: not in a Flux instance; start it as `flux start python campaign.py ...`")
    plan.single_threaded()
    plan.Files.make(plan.Files(options.folder).log("").parent)
    cores = min(2, int(flux("resource", "list", "-n", "-s", "all", "-o", "{ncores}")))
    ids = {}
    for step in plan.steps(options.folder, options.rounds):
        options.round = step.round
        ids[step.name] = submit(step, ids, cores, options)
    finish()
    print(json.dumps(plan.Files(options.folder).summary(options.rounds)))


if __name__ == "__main__":
    main()
