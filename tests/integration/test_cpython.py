"""CPython's own test suite has the same results traced as untraced, test by test.

The suite drives the hooks as hard as any program does: thousands of odd calls whose results CPython's developers check.
Each module runs twice, untraced and traced, each in a process of its own. The outcomes of the single tests are
compared, except of tests that fail untraced (no network, another locale, a slow machine).

A few quick modules are in every run. All of them, which takes about half an hour; the run ends with a table of both
results:

    TAILRACE_ALL_CPYTHON=1 pytest tests/integration/test_cpython.py

The Python is the one that runs the tests, or the system's where that one's `test` package lacks a module.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from support import sanitizer
from support.commands import TAILRACE
from support.harm import Table

ALL = bool(os.environ.get("TAILRACE_ALL_CPYTHON"))


@dataclass(frozen=True)
class Module:
    """A module of the suite: which of its tests run (regrtest's patterns), and for how long at most."""

    name: str
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    quick: bool = False
    seconds: int = 300

    @property
    def arguments(self) -> list[str]:
        only = [word for pattern in self.only for word in ("-m", pattern)]
        without = [word for pattern in self.without for word in ("-i", pattern)]
        return [*only, *without, self.name]


MODULES = [
    # Without those that compare a file's time with the clock, to 20 ms.
    Module("test_os", without=("*test_utime_current*",), quick=True),
    Module("test_posix", quick=True),
    Module("test_fork1", quick=True),
    Module("test_fileio", quick=True),
    Module("test_file", quick=True),
    Module("test_mmap", quick=True),
    Module("test_tempfile", quick=True),
    Module("test_shutil", quick=True),
    Module("test_pathlib", quick=True),
    Module("test_gzip", quick=True),
    Module("test_posixpath", quick=True),
    Module("test_glob", quick=True),
    Module("test_pty", quick=True),
    Module("test_popen", quick=True),
    Module("test_wait4", quick=True),
    Module("test_fcntl", quick=True),
    Module("test_subprocess"),
    Module("test_io"),
    Module("test_threading"),
    Module("test_signal"),
    Module("test_zipfile"),
    Module("test_tarfile"),
    Module("test_sqlite3"),
    Module("test_faulthandler"),
    Module("test_cmd_line"),
    Module("test_select"),
    Module("test_selectors"),
    Module("test_epoll"),
    Module("test_poll"),
    Module("test_thread"),
    Module("test_largefile"),
    Module("test_mailbox"),
    Module("test_concurrent_futures", seconds=900),
    # Without a network, tests that connect to other machines wait until they time out.
    Module("test_socket", only=("*Pair*", "*Unix*", "*SCM*", "*Sendfile*", "GeneralModuleTests"), without=("*Host*",)),
    Module("test_asyncio", only=("*test_subprocess*", "*test_unix_events*", "*test_streams*"), seconds=600),
    Module("test_multiprocessing_fork", seconds=900),
    Module("test_multiprocessing_forkserver", seconds=900),
    Module("test_multiprocessing_spawn", seconds=900),
    Module("test_multiprocessing_main_handling", seconds=600),
]


@dataclass(frozen=True)
class Outcome:
    """How one run of a module went."""

    status: int | None  # the exit status; None when it was stopped for its time
    output: str
    results: Mapping[str, str] = field(default_factory=dict)  # "passed", "failed" or "skipped" by the test's name


@cache
def python_with(module: str) -> str | None:
    """A Python whose `test` package has this module: distributions leave out some of them, or all."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [str(Path(sys.base_prefix) / "bin" / version), sys.executable, "/usr/bin/python3"]
    for candidate in candidates:
        probe = [candidate, "-E", "-s", "-c", f"import test.regrtest, test.{module}"]
        if shutil.which(candidate) and subprocess.run(probe, check=False, capture_output=True).returncode == 0:
            return candidate
    return None


def read_results(report: Path) -> dict[str, str]:
    """The tests of a regrtest report; a test with subtests that went apart counts as failed."""
    results: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        result = "passed"
        if case.find("skipped") is not None:
            result = "skipped"
        if case.find("failure") is not None or case.find("error") is not None:
            result = "failed"
        if results.get(name) != "failed":
            results[name] = result
    return results


def run_module(prefix: list[str], python: str, module: Module, work: Path) -> Outcome:
    """Runs a module of the suite in a directory of its own, and everything that it left running is ended."""
    work.mkdir()
    report = work / "report.xml"
    options = ["--tempdir", str(work), "--junit-xml", str(report)]
    command = [*prefix, python, "-E", "-s", "-m", "test", *options, *module.arguments]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "LD_PRELOAD"))}
    env = {**kept, "LC_ALL": "C.UTF-8", "TERM": "dumb", **sanitizer.variables()}
    with (work / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(module.seconds)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    text = (work / "output").read_text(errors="replace")
    return Outcome(status, text, read_results(report) if report.exists() else {})


def differences(plain: Outcome, traced: Outcome) -> list[str]:
    """What is worse traced. Tests that fail untraced too aren't compared."""
    found = []
    for name, result in sorted(plain.results.items()):
        other = traced.results.get(name, "not run")
        if result != "failed" and other != result:
            found.append(f"{name}: {result} untraced, {other} traced")
    return found


def counted(outcome: Outcome) -> str:
    """How many tests went how."""
    counts = Counter(outcome.results.values())
    return " ".join(f"{counts[result]:5}" for result in ("passed", "failed", "skipped"))


def was_lost(output: str) -> list[str]:
    """The lines of `tailrace run`'s summary about losses."""
    summary = [line for line in output.splitlines() if line.startswith("tailrace:")]
    return [line for line in summary if "LOST" in line]


@pytest.mark.parametrize("module", [m for m in MODULES if ALL or m.quick], ids=lambda module: module.name)
def test_the_suite_has_the_same_results(tmp_path: Path, module: Module, table: Table) -> None:
    python = python_with(module.name)
    if python is None:
        pytest.skip(f"no Python here has test.{module.name} (Debian: libpython3-testsuite)")
    plain = run_module([], python, module, tmp_path / "plain")
    if not plain.results:
        pytest.skip(f"{module.name} doesn't run untraced: {plain.output[-300:]}")
    prefix = [*TAILRACE, "run", "-o", str(tmp_path / "run"), "--tag", "stage=cpython", "--"]
    traced = run_module(prefix, python, module, tmp_path / "traced")
    found = differences(plain, traced)
    table.heading = f"{'CPython suite: passed, failed, skipped':40} {'untraced':>17}   {'traced':>17}   differ"
    table.rows.append(f"{module.name:40} {counted(plain)}   {counted(traced)}   {len(found):6}")
    if found:
        # Excused is only what is seen to fail untraced too; a second traced run could hide harm that is rare.
        found = [
            line for line in found if line in differences(run_module([], python, module, tmp_path / "again"), traced)
        ]
    assert not found, traced.output[-4000:]
    assert not was_lost(traced.output)
