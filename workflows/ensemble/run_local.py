"""The campaign without Flux: the same steps, one after the other, simulations two at a time.

    python run_local.py FOLDER [--rounds N]
    tailrace run -o RUN --tag workflow=ensemble -- python run_local.py FOLDER

Traced, each step has its stage, and its name as task.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import plan

from tailrace.context import scope


def run(*chain):
    """Runs steps one after the other; the tags of each are the calling thread's for as long.

    Each has a directory for temporary files of its own: two programs of Open MPI that start at once both make
    ompi.HOST.UID there, and one of them fails.
    """
    for step in chain:
        with scope(stage=step.stage, task=step.name), TemporaryDirectory() as scratch:
            environment = {**os.environ, "TMPDIR": scratch}
            code = subprocess.run(step.command, env=environment, check=False).returncode
        if code:
            sys.exit(f"run_local.py: {step.name} failed with code {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the campaign's files go")
    parser.add_argument("--rounds", type=int, default=plan.ROUNDS)
    parser.add_argument("--workers", type=int, default=2, help="simulations at a time")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if shutil.which("lmp") is None:
        sys.exit("run_local.py: lmp is not on PATH: apt install lammps")
    plan.single_threaded()
    with ThreadPoolExecutor(options.workers) as pool:
        for step in plan.steps(folder, options.rounds):
            if step.stage != "micro":
                run(step)
                continue
            chains = [plan.micro_steps(folder, step.round, position) for position in range(plan.SIMULATIONS)]
            list(pool.map(lambda chain: run(*chain), chains))
    print(json.dumps(plan.Files(folder).summary(options.rounds)))


if __name__ == "__main__":
    main()
