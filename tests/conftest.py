"""Fixtures and tables of all tests, and which of them are fast (support/selection.py).

The C++ side is built once a session into build/tests of the source tree, whatever the number of pytest's processes.

$TAILRACE_TEST_BUILD names another build directory. What can't be built skips the tests that need it, and says why.
$TAILRACE_SANITIZE (address or thread) runs the tests with a core that is built with that sanitizer (sanitizer.py).
"""

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Before its modules are imported: an assert in them shows its values, as one in a test does.
pytest.register_assert_rewrite("support")

from support import sanitizer, selection
from support.harm import Table
from tailrace.errors import CoreError
from tailrace.integrations import environment

SOURCE = Path(__file__).resolve().parent.parent

# By default an example that takes more than 0.2 s, or a second to make, is a failure, and on a busy machine any may.
# The same examples in each run: what the tests find depends on the code alone.
hypothesis.settings.register_profile(
    "same everywhere", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], derandomize=True
)
hypothesis.settings.load_profile("same everywhere")

# A shell without job control ignores it for what it starts in the background, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Ends here where no test can pass: without a core, or with one at a path that can't be preloaded."""
    try:
        environment.library_path()
    except CoreError as error:
        pytest.exit(f"tailrace can't trace here: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is not fast, by its fixtures and its module."""
    selection.mark(items, config.option.markexpr)


def build_directory() -> Path:
    """Where the C++ side is built."""
    build = Path(os.environ.get("TAILRACE_TEST_BUILD", SOURCE / "build" / "tests"))
    return build.with_name(f"{build.name}-{sanitizer.CHOSEN}") if sanitizer.CHOSEN else build


def run_step(command: list[str]) -> None:
    """Runs a step of the build; a failure fails the test with what the step said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-4000:]}", pytrace=False)


@pytest.fixture(scope="session")
def cpp_build() -> Path:
    """The build directory of the core and the test programs, brought up to date."""
    return bring_up_to_date("all")


@pytest.fixture(scope="session")
def cpp_tests() -> Path:
    """The binary of the C++ unit tests, brought up to date."""
    build = bring_up_to_date("unit")
    path = build / "tests" / "tailrace_unit"
    if not path.exists():
        pytest.skip("no GoogleTest to build the C++ tests with")
    return path


def bring_up_to_date(target: str) -> Path:
    """Configures the build directory where that was not done, and builds the target, one test process at a time."""
    missing = [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} to build with")
    build = build_directory()
    build.parent.mkdir(parents=True, exist_ok=True)
    with build.with_name(f"{build.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (build / "CMakeCache.txt").exists():
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            flags = ["-DTAILRACE_TESTS=ON", *sanitizer.cmake_flags()]
            run_step(["cmake", "-S", str(SOURCE), "-B", str(build), *flags, *generator])
        run_step(["cmake", "--build", str(build), "--target", target, "--parallel", "2"])
    return build


@pytest.fixture(scope="session")
def program(cpp_build: Path) -> Callable[[str], Path]:
    """The path of a test program (tests/programs) by its name."""
    return lambda name: cpp_build / "tests" / "programs" / name


@pytest.fixture(scope="session", autouse=True)
def _sanitized_core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Puts the sanitizer's core in the installed one's place."""
    if sanitizer.CHOSEN:
        library = request.getfixturevalue("cpp_build") / "core" / "libtailrace.so"
        sanitizer.install(library, tmp_path_factory.mktemp("reports"))


@pytest.fixture(autouse=True)
def _no_reports(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test fails when the sanitizer reports anything in any process that it, or a fixture before it, started."""
    if not sanitizer.CHOSEN:
        yield
        return
    reason = sanitizer.obstacle(request.node.nodeid)
    if reason:
        pytest.skip(reason)
    yield
    reports = sanitizer.take_reports()
    if reports:
        pytest.fail("\n".join(reports)[:8000], pytrace=False)


_TABLES = pytest.StashKey[dict[str, Table]]()


@pytest.fixture
def coverage_table(request: pytest.FixtureRequest) -> Table:
    """The one table of all workflows' coverage (coverage_table.py), printed when all tests are over."""
    return request.config.stash.setdefault(_TABLES, {}).setdefault("coverage", Table())


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    """The table of the test's module, printed when all tests are over."""
    tables = request.config.stash.setdefault(_TABLES, {})
    return tables.setdefault(request.module.__name__, Table())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes hands its tables to the one that prints."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        found = session.config.stash.get(_TABLES, {})
        output["tables"] = {name: asdict(table) for name, table in found.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes the tables of a process that has ended."""
    tables = node.config.stash.setdefault(_TABLES, {})
    for name, given in getattr(node, "workeroutput", {}).get("tables", {}).items():
        whole = tables.setdefault(name, Table())
        whole.heading = whole.heading or given["heading"]
        whole.rows += given["rows"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the tables."""
    for found in config.stash.get(_TABLES, {}).values():
        terminalreporter.section(found.heading)
        for row in found.rows:
            terminalreporter.write_line(row)
