"""What the Parsl workflows of this folder have in common: their command line, and a configuration for one node.

main(__doc__, "hmmer", {"hmmbuild": "hmmer hmmer-examples"}, run_workflow)
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider

from tailrace.parsl import trace


def configuration(folder, executor, workers):
    """A Parsl configuration for this node: `workers` processes (htex) or threads."""
    executors = {
        "threads": lambda: ThreadPoolExecutor(label="workers", max_threads=workers),
        "htex": lambda: HighThroughputExecutor(
            label="workers",
            address="127.0.0.1",
            encrypted=False,
            max_workers_per_node=workers,
            cores_per_worker=1e-6,
            provider=LocalProvider(init_blocks=1, max_blocks=1),
        ),
    }
    # Parsl starts its first workers when it has waited for one period; its default is 5 s.
    return Config(
        executors=[executors[executor]()], run_dir=str(folder / "runinfo"), strategy="none", strategy_period=0.2
    )


def main(doc, name, packages, prepare, run_workflow):
    """The command line of the workflow `name`.

    packages: a program that it needs -> the Debian packages that have it.
    prepare: called with the folder of the workflow's files before anything is traced; what it returns is the second
        argument of run_workflow, the folder the first. What that returns is printed as JSON.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the workflow's files go")
    parser.add_argument("--executor", choices=["htex", "threads"], default="htex")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", type=Path, help="the run directory (default: FOLDER/run)")
    options = parser.parse_args()
    for program, found_in in packages.items():
        if shutil.which(program) is None:
            sys.exit(f"{program} is not on PATH: apt install {found_in}")
    # Parsl starts its programs by name, and they lie beside the Python that runs us.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folder = options.folder.resolve()
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    given = prepare(files)
    config = configuration(folder, options.executor, options.workers)
    with parsl.load(trace(config, run_dir=options.run or folder / "run", workflow=name)):
        print(json.dumps(run_workflow(files, given)))
