"""Fixtures of all tests: the C++ side, built once a session into build/tests of the source tree.

$TAILRACE_TEST_BUILD names another build directory. What can't be built skips the tests that need it, and says why.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent


def build_directory() -> Path:
    """Where the C++ side is built."""
    return Path(os.environ.get("TAILRACE_TEST_BUILD", SOURCE / "build" / "tests"))


def run_step(command: list[str]) -> None:
    """Runs a step of the build; a failure fails the test with what the step said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-4000:]}", pytrace=False)


@pytest.fixture(scope="session")
def cpp_build() -> Path:
    """The build directory of the core, the C++ unit tests and the test programs, brought up to date."""
    missing = [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} to build with")
    build = build_directory()
    if not (build / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run_step(["cmake", "-S", str(SOURCE), "-B", str(build), "-DTAILRACE_TESTS=ON", *generator])
    run_step(["cmake", "--build", str(build), "--parallel", "2"])
    return build


@pytest.fixture(scope="session")
def program(cpp_build: Path) -> Callable[[str], Path]:
    """The path of a test program (tests/programs) by its name."""
    return lambda name: cpp_build / "tests" / "programs" / name
