"""Finds Work Queue and TaskVine (cctools), as Parsl imports them: `ndcctools.work_queue` and `ndcctools.taskvine`.

Debian's python3-workqueue has the module as `work_queue`; linked into a package `ndcctools`, it is what Parsl imports.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from support.ports import free_ports

_SYSTEM = Path("/usr/lib/python3/dist-packages")


def why_no_work_queue() -> str | None:
    """Why there is no Work Queue for this Python; None where there is one."""
    if shutil.which("work_queue_worker") is None:
        return "no work_queue_worker: apt-get install coop-computing-tools python3-workqueue"
    if _is_importable("work_queue") or _system_files():
        return None
    return f"no Work Queue for this Python: apt-get install python3-workqueue has none for {sys.version.split()[0]}"


def why_no_taskvine() -> str | None:
    """Why there is no TaskVine for this Python; None where there is one."""
    if shutil.which("vine_worker") is None or not _is_importable("taskvine"):
        return "no TaskVine, which neither Debian nor PyPI has: conda install -c conda-forge ndcctools"
    return None


def version() -> str:
    """That of the worker, as in "8.0.0"."""
    said = subprocess.run(["work_queue_worker", "--version"], capture_output=True, text=True, check=False)
    return re.findall(r"version (\S+)", said.stdout + said.stderr)[0]


def free_port() -> int:
    """For a manager: workers that an earlier one on its usual port left behind would take its tasks."""
    return free_ports(1)[0]


def python_path(folder: Path) -> str:
    """PYTHONPATH of programs that import `ndcctools.work_queue`; a package in `folder` where the system has it."""
    paths = [os.environ.get("PYTHONPATH", "")]
    if not _is_importable("work_queue"):
        package = folder / "ndcctools"
        package.mkdir()
        (package / "__init__.py").touch()
        for file in _system_files():
            (package / file.name).symlink_to(file)
        paths.insert(0, str(folder))
    return ":".join(filter(None, paths))


def _system_files() -> list[Path]:
    """The module and its library for this version of Python; none where the library is for another one."""
    files = [_SYSTEM / "work_queue.py", _SYSTEM / f"_work_queue{sysconfig.get_config_var('EXT_SUFFIX')}"]
    return files if all(file.is_file() for file in files) else []


def _is_importable(name: str) -> bool:
    """In a process of its own, since the package starts threads and makes directories."""
    return subprocess.run([sys.executable, "-c", f"import ndcctools.{name}"], capture_output=True).returncode == 0
