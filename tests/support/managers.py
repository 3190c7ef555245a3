"""Workflow managers that are installed in environments of their own, found by PATH."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tailrace
from support.harm import clean_environment
from support.run_files import Trace

SOURCE = Path(__file__).parents[2]
SNAKEMAKE_PLUGIN = SOURCE / "integrations" / "snakemake" / "plugins" / "snakemake_logger_plugin_tailrace"
_NEWEST = "import sys; print(*sys.version_info[:2])"


@dataclass(frozen=True)
class Manager:
    """A program of another Python environment: its path and what it says of its version."""

    program: Path
    version: str

    def __str__(self) -> str:
        return self.version

    @property
    def python(self) -> Path:
        return self.program.parent / "python"


def all_on_path(name: str, ask: str = "--version", **variables: str) -> list[Manager]:
    """The programs of that name in the environments on PATH whose Python can import this tailrace; one a version."""
    found: dict[str, Manager] = {}
    for folder in map(Path, os.environ.get("PATH", "").split(os.pathsep)):
        program = folder / name
        if not (program.is_file() and (folder / "python").exists()):
            continue
        python = _said(folder / "python", "-c", _NEWEST).split()
        version = _said(program, ask, **variables).splitlines()
        if python == [str(part) for part in sys.version_info[:2]] and version:
            found.setdefault(version[-1], Manager(program, version[-1]))
    return list(found.values())


def airflows_on_path() -> list[Manager]:
    """Airflow tells its version by a command, and makes a home to do so."""
    with tempfile.TemporaryDirectory() as home:
        return all_on_path("airflow", "version", AIRFLOW_HOME=home)


def airflow_home(folder: Path) -> dict[str, str]:
    """The environment of an Airflow that keeps all of its own in a folder, which is made."""
    (folder / "dags").mkdir(parents=True)
    return {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}


def _said(*command: str | Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def share_tailrace(folder: Path, *modules: Path) -> dict[str, str]:
    """The environment in which another Python imports what this one has, behind its own packages, as if it had been
    installed there. modules: of ours that a manager looks for in the folders of sys.path, where those of an editable
    installation are not."""
    folder.mkdir(parents=True, exist_ok=True)
    place = sysconfig.get_path("platlib")
    (folder / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({place!r})\n")
    for module in modules:
        (folder / module.name).symlink_to(module)
    return {"PYTHONPATH": str(folder)}


def run_python(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program of a manager with this Python, in `folder`; what it says as text."""
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=clean_environment({}), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def only_run(folder: Path) -> tuple[Trace, tailrace.Run]:
    """The one run that was recorded there: its events, without tailrace's code, and what tailrace says of it."""
    (directory,) = (folder / "tailrace-runs").iterdir()
    return Trace(directory), tailrace.open(directory)
