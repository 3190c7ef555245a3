"""Programs that are built with a sanitizer run traced as untraced; and tests with a core that is built with one notice
what they are there for: a fault that is planted in a hook is reported and fails its test.

The faults are in a library that stands in for the core (../programs/planted.cc), in programs that aren't instrumented;
both in a function that the sanitizer's runtime replaces too (write) and in one that it leaves alone (ftruncate).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import sanitizer
from support.commands import TAILRACE
from support.harm import Harm, Program

FAULTS = {
    "address": {
        "heap": "heap-buffer-overflow",
        "stack": "stack-buffer-overflow",
        "undefined": "runtime error: signed integer overflow",
    },
    "thread": {"race": "data race"},
}
REPORTED = FAULTS.get(sanitizer.CHOSEN, {})


@pytest.fixture
def planted(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program whose calls come upon the planted faults when it is traced, in the directory of the test."""
    if not sanitizer.CHOSEN:
        pytest.skip("for runs with TAILRACE_SANITIZE")
    monkeypatch.setenv("TAILRACE_CORE_LIBRARY", str(program("planted") / "libtailrace.so"))
    monkeypatch.chdir(tmp_path)
    return program("planted_client")


def run_as_traced(*command: str | Path) -> None:
    subprocess.run([*TAILRACE, "run", "-q", "-o", "run", "--", *command], check=False, capture_output=True)


@pytest.mark.parametrize("hook", ["write", "ftruncate"])
@pytest.mark.parametrize("fault", REPORTED)
def test_a_planted_fault_is_reported(planted: Path, fault: str, hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", fault)
    monkeypatch.setenv("PLANTED_IN", hook)
    run_as_traced("sh", "-c", f"{planted}; true")
    if os.environ.get("PLANTED_STAYS"):
        return
    reports = sanitizer.take_reports()
    assert reports and all(REPORTED[fault] in report and "planted.cc" in report for report in reports)


@pytest.mark.parametrize("hook", ["write", "ftruncate"])
def test_without_a_fault_nothing_is_reported(planted: Path, hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "none")
    monkeypatch.setenv("PLANTED_IN", hook)
    run_as_traced(planted)
    assert Path("one").stat().st_size == 1


def test_a_report_fails_its_test(planted: Path, tmp_path: Path) -> None:
    fault = next(iter(REPORTED))
    test = f"{__file__}::test_a_planted_fault_is_reported[{fault}-write]"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}", test]
    env = {**os.environ, "PLANTED_STAYS": "1"}
    env.pop("LD_PRELOAD")
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed, 1 error" in done.stdout and REPORTED[fault] in done.stdout


FAULTY = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  char *block = malloc(8);
  return read(open("given", O_RDONLY), block, 9) != 9;
}
"""


@pytest.mark.skipif(bool(sanitizer.CHOSEN), reason="the program's runtime is not to be the core's")
@pytest.mark.parametrize("kind", ["address", "thread", "undefined"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("program", ["sound", "faulty"])
def test_a_program_that_is_built_with_a_sanitizer(
    harm: Harm, tmp_path: Path, kind: str, compiler: str, program: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} to build with")
    source, built = tmp_path / "source.c", tmp_path / "built"
    sound = Path(__file__).parent.parent / "programs" / "threads.c"
    source.write_text(sound.read_text() if program == "sound" else FAULTY)
    build = [compiler, f"-fsanitize={kind}", "-w", "-o", str(built), str(source), "-lpthread"]
    made = subprocess.run(build, check=False, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"{compiler} has no such sanitizer: {made.stderr[-300:]}")
    # ThreadSanitizer needs addresses with little randomization.
    fixed = ["setarch", "-R"] if kind == "thread" and shutil.which("setarch") else []
    done = harm(*fixed, built, "opens", same_files=False)
    assert ("AddressSanitizer: heap-buffer-overflow" in done.stderr) == (kind == "address" and program == "faulty")
    assert "ThreadSanitizer" not in done.stderr
    if program == "sound":
        assert len(done.seen.named("fclose")) >= 8 * 200 * 2
