"""Functions of Python programs as regions, without a change of the program (TAILRACE_PYTHON_FUNCTIONS).

By each way into the interpreter: sys.monitoring from 3.12 on, the profile function before.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from support.commands import TracedCommand
from support.run_files import Line, Trace

MODULE = """\
import asyncio, os, time

MOMENT = 0.02  # longer than any minimum below

def short(): pass

def slow(): time.sleep(MOMENT)

def reads(path):
    with open(path, "rb") as file:
        return file.read()

class Solver:
    def step(self): slow()

def fails():
    time.sleep(MOMENT)
    raise ValueError

def items():
    for number in range(3):
        time.sleep(MOMENT)
        yield number

async def waits():
    time.sleep(MOMENT)
    await asyncio.sleep(MOMENT)
    time.sleep(MOMENT)

def forks():
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    slow()
    os._exit(0)
"""
PROGRAM = """\
import asyncio, sys, threading
from planted import work

for _ in range(3): work.slow()
work.Solver().step()
try: work.fails()
except ValueError: pass
assert list(work.items()) == [0, 1, 2]
asyncio.run(work.waits())
thread = threading.Thread(target=work.slow)
thread.start()
thread.join()
work.forks()
for _ in range(5000): work.short()
work.reads(sys.argv[1])
"""
FUNCTIONS = {
    "planted.work.slow": 4,
    "planted.work.Solver.step": 1,
    "planted.work.Solver.step/planted.work.slow": 1,
    "planted.work.fails": 1,
    "planted.work.items": 3,
    "planted.work.waits": 2,
    "planted.work.forks": 1,
    "planted.work.forks/planted.work.slow": 1,
    "planted.work.reads": 1,
}
"""The calls of PROGRAM by path; a generator's and a coroutine's steps count. One call of `slow` is a thread's."""
DO_IO = {"planted.work.<module>", "planted.work.reads"}
"""Regions however short they are."""
SLEEPS = {"planted.work.slow": 6, "planted.work.items": 3}
MINIMUM_US = 10_000


@cache
def interpreter(newer: bool) -> str | None:
    """A Python with sys.monitoring, or without it, that runs; None: there is none here."""
    names = [f"python3.{minor}" for minor in ((12, 13, 14) if newer else (10, 11))]
    versions = Path.home() / ".pyenv" / "versions"
    places = [
        sys.executable,
        *map(shutil.which, names),
        *(next(versions.glob(f"{n[6:]}*/bin/{n}"), None) for n in names),
    ]
    for place in places:
        if place is None:
            continue
        asked = [place, "-c", "import sys; print(sys.version_info >= (3, 12), sys.version_info >= (3, 10))"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.split() == [str(newer), "True"]:
            return str(place)
    return None


@pytest.fixture(params=[True, False], ids=["monitoring", "profile"])
def python(request: pytest.FixtureRequest) -> str:
    found = interpreter(request.param)
    if found is None:
        pytest.skip("no Python " + ("from 3.12 on" if request.param else "3.10 or 3.11") + " on this machine")
    return found


@pytest.fixture
def planted(tmp_path: Path, run_traced: TracedCommand) -> Path:
    package = run_traced.work / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "work.py").write_text(MODULE)
    made = run_traced.work / "program.py"
    made.write_text(PROGRAM)
    return made


def functions(trace: Trace) -> list[Line]:
    return [e for e in trace.events if e["cat"] == "APP" and e["args"].get("category") in ("python", "left out")]


def test_functions_are_regions_by_module_and_duration(
    python: str, planted: Path, run_traced: TracedCommand, tmp_path: Path
) -> None:
    chosen = {"TAILRACE_PYTHON_FUNCTIONS": "planted.work", "TAILRACE_FUNCTION_MINIMUM": str(MINIMUM_US)}
    data = tmp_path / "data"
    data.write_bytes(bytes(100))
    run_traced(python, planted, data, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    found = functions(trace)
    ended = [e for e in found if not e["args"].keys() & {"kind", "open"}]
    regions = Counter(e["args"]["region"] for e in ended)
    # A pause of the machine makes any call a long one, and so the step of `items` that finds no more.
    assert {name: regions[name] for name in FUNCTIONS} in (FUNCTIONS, {**FUNCTIONS, "planted.work.items": 4})
    assert all(e["dur"] >= MINIMUM_US for e in ended if e["args"]["region"] not in DO_IO), ended
    assert [e["name"] for e in found if e["args"]["category"] == "left out"] == ["planted.work.short"]
    assert {e["args"].get("region") for e in trace.of(data, {"read"})} == {"planted.work.reads"}
    slept = {name: sorted(e["dur"] for e in ended if e["name"] == name)[-count:] for name, count in SLEEPS.items()}
    assert all(durations[0] >= 20_000 for durations in slept.values()), slept


def test_a_program_sees_nothing_of_it(python: str, run_traced: TracedCommand) -> None:
    program = "import sys; print(sys.path, sorted(sys.modules), sys.argv, sys.getprofile(), sys.gettrace())"
    chosen = {"TAILRACE_PYTHON_FUNCTIONS": "nothing.of.this"}
    plain = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, cwd=run_traced.work)
    traced = run_traced(python, "-c", program, env={**os.environ, **chosen})
    if python == interpreter(newer=True):
        assert traced.stdout == plain.stdout
    assert traced.stderr == ""
