#!/usr/bin/env python3
"""Runs the tests of all workflow managers, with those that CI has no environments for.

    python tools/managers_check.py FOLDER [--only ray toil ...] [PYTEST ARGUMENTS...]

Each manager of packaging/managers gets an environment FOLDER/NAME: a virtual one of this Python with the packages of
NAME.txt, Nextflow its jars by Maven (Debian: maven default-jdk-headless). One that is there is kept while its file
is the same. The tests find them by PATH. Managers that lie elsewhere (make, Makeflow, Slurm, Flux) are tested where
they are found; for each test that was skipped the reason is said.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPES = {file.stem: file for file in sorted((ROOT / "packaging" / "managers").iterdir())}
TESTS = (
    "airflow", "conformance", "conformance_files", "conformance_python", "cwl", "dask", "executorlib", "luigi", "make",
    "makeflow", "managers", "merlin", "nested_managers", "nextflow", "parsl", "ray", "same_dataflow", "slurm",
    "snakemake", "toil",
)  # fmt: skip
# What Nextflow's own launcher opens to it of Java's modules.
OPENED = ("java.io", "java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch", "sun.nio.fs")
NEXTFLOW = f"""#!/bin/sh
exec java {' '.join(f'--add-opens=java.base/{name}=ALL-UNNAMED' for name in OPENED)} -cp '@FOLDER@/lib/*' \\
    nextflow.cli.Launcher "$@"
"""


def run(*words: str | Path) -> None:
    done = subprocess.run(words, check=False)
    if done.returncode:
        sys.exit(f"managers_check.py: {' '.join(map(str, words))} ended with {done.returncode}")


def make_python(recipe: Path, folder: Path) -> None:
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--requirement", recipe)


def make_nextflow(recipe: Path, folder: Path) -> None:
    """The launcher of PyPI loads the framework from the project's site; its jars are Maven's, too."""
    if missing := [name for name in ("mvn", "java") if shutil.which(name) is None]:
        sys.exit(f"managers_check.py: no {' and no '.join(missing)}: apt-get install maven default-jdk-headless")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    run("mvn", "--quiet", "--batch-mode", f"--file={recipe}", goal, f"-DoutputDirectory={folder / 'lib'}")
    (folder / "bin").mkdir()
    (folder / "bin" / "nextflow").write_text(NEXTFLOW.replace("@FOLDER@", str(folder)))
    (folder / "bin" / "nextflow").chmod(0o755)


def environment(name: str, folder: Path) -> Path:
    """Where a manager's programs are; made anew where its recipe has changed, or making it was interrupted."""
    recipe, stamp = RECIPES[name], folder / "recipe"
    if not stamp.exists() or stamp.read_text() != recipe.read_text():
        print(f"making {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (make_nextflow if recipe.suffix == ".xml" else make_python)(recipe, folder)
        stamp.write_text(recipe.read_text())
    return folder / "bin"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the environments; outside of the clone")
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), default=list(RECIPES), help="these environments")
    given, words = parser.parse_known_args()
    places = [str(environment(name, given.folder.resolve() / name)) for name in given.only]
    # Behind the caller's, whose python and tailrace are tested.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], *places])
    variables = {**os.environ, "PATH": path, "TAILRACE_ALL_MANAGERS": "1", "NXF_OFFLINE": "true"}
    tests = [f"tests/integration/test_{name}.py" for name in TESTS]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", *tests, *words], cwd=ROOT, env=variables, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
