"""The script of a round's nested instance: its simulations, and the analysis of each as soon as it is done.

python micro.py FOLDER ROUND [--trace]        (inside of `flux batch`)
"""

import argparse
from pathlib import Path

import plan
from jobs import finish, flux, traced


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("round", type=int)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    # bulksubmit puts its inputs in for {0} and {1}: one command for all jobs of a kind.
    simulation, analysis = plan.micro_steps(options.folder, options.round, "{0}")
    numbers = list(map(str, range(plan.SIMULATIONS)))
    ids = bulk(simulation, options, [numbers]).split()
    bulk(analysis, options, [numbers, ids], "--dependency=afterok:{1}")
    finish()


def bulk(step, options, inputs, *more):
    """Submits a job of `step` for every row of `inputs` (lists of one length). Returns their ids, one a line."""
    lists = [word for number, words in enumerate(inputs) for word in (":::+" if number else ":::", *words)]
    flags = (f"--job-name={step.name}", "-n1", *more, *traced(options, step.stage))
    return flux("bulksubmit", *flags, *step.command, *lists)


if __name__ == "__main__":
    main()
