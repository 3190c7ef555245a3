"""A program in a container of bubblewrap: what must be bound for it to be recorded as outside (docs/containers.md)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.killed_script import SCRIPT, moved
from tailrace.integrations import environment


@pytest.fixture
def container(tmp_path: Path) -> list[str]:
    """A command line that runs the next words with /usr, /etc and the working directory alone."""
    links = [word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    words = ["bwrap", "--ro-bind", "/usr", "/usr", *links, "--ro-bind", "/etc", "/etc", "--proc", "/proc"]
    words += ["--dev", "/dev", "--tmpfs", "/tmp", "--unshare-pid"]
    words += ["--bind", str(tmp_path), str(tmp_path), "--chdir", str(tmp_path)]
    if shutil.which("bwrap") is None:
        pytest.skip("no bwrap")
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("bwrap can't make a container here")
    return words


def test_a_container_with_the_core_and_the_journals_records_as_outside(
    container: list[str], run_traced, tmp_path: Path
) -> None:
    run_traced("sh", "-c", SCRIPT, check=False)
    outside = moved(tmp_path / "run", tmp_path)
    assert ("log", "w", 18) in outside
    for name in ("log", "sorted"):
        (tmp_path / name).unlink()
    shutil.rmtree(tmp_path / "run")
    library = str(Path(environment.library_path()).parent)
    bound = ["--ro-bind", library, library, "--bind", "/dev/shm", "/dev/shm"]
    done = run_traced(*container, *bound, "sh", "-c", SCRIPT, check=False)
    assert done.returncode == 137, done.stderr
    assert moved(tmp_path / "run", tmp_path) == outside


def test_a_container_with_memory_of_its_own_that_is_killed_loses_nothing(
    container: list[str], run_traced, tmp_path: Path
) -> None:
    run_traced("sh", "-c", SCRIPT, check=False)
    outside = moved(tmp_path / "run", tmp_path)
    for name in ("log", "sorted"):
        (tmp_path / name).unlink()
    shutil.rmtree(tmp_path / "run")
    library = str(Path(environment.library_path()).parent)
    done = run_traced(*container, "--ro-bind", library, library, "sh", "-c", SCRIPT, check=False)
    assert done.returncode == 137, done.stderr
    assert moved(tmp_path / "run", tmp_path) == outside
    assert not (tmp_path / "run" / "journals").exists()
