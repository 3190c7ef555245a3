"""Functions of C, C++ and Fortran programs as regions, by -finstrument-functions (TAILRACE_NATIVE_FUNCTIONS).

The truth is the programs' own log of their calls (tests/programs/call_log.h), by compiler.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support.commands import TracedCommand
from support.run_files import Line, Trace

PROGRAMS = Path(__file__).parents[1] / "programs"
ALL = {"TAILRACE_FUNCTION_MINIMUM": "0"}


def compiled(compiler: str, source: str | Path, built: Path, *words: str) -> Path:
    """The program; skips the test where the compiler is not here."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    command = [compiler, "-finstrument-functions", "-w", f"-I{PROGRAMS}", PROGRAMS / source, "-o", built, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=built.parent)
    assert done.returncode == 0, done.stderr
    return built


def functions(trace: Trace, category: str = "native") -> list[Line]:
    return [e for e in trace.events if e["cat"] == "APP" and e["args"].get("category") == category]


def ended(trace: Trace) -> Counter[str]:
    return Counter(e["args"]["region"] for e in functions(trace) if not e["args"].keys() & {"kind", "open"})


def opened(trace: Trace, file: Path) -> Counter[str]:
    return Counter(e["args"].get("region", "") for e in trace.of(file, {"open", "openat"}))


def logged(text: str, word: str) -> Counter[str]:
    lines = [line.partition(" ") for line in text.splitlines()]
    return Counter(path for kind, _, path in lines if kind == word)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_text("text")
    return made


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_calls_of_c_and_what_they_open(
    compiler: str, level: str, file: Path, run_traced: TracedCommand, tmp_path: Path
) -> None:
    program = compiled(compiler, "instrumented.c", tmp_path / "program", level, "-ldl")
    plugins = [
        compiled(
            compiler, "instrumented_plugin.c", tmp_path / f"{name}.so", level, "-shared", "-fPIC", f"-DNAME={name}"
        )
        for name in ("first", "second")
    ]
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "*:!main:!excluded:!loads:!plugin", **ALL}
    done = run_traced(program, file, *plugins, *plugins, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    assert opened(trace, file) == logged(done.stdout, "open")
    assert ended(trace) == logged(done.stdout, "call")
    assert {"lands/jumps", "grows/inlined", "forks/inlined", "first", "second"} <= set(ended(trace))


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_calls_of_cpp_with_exceptions_and_threads(
    compiler: str, level: str, file: Path, run_traced: TracedCommand, tmp_path: Path
) -> None:
    program = compiled(compiler, "instrumented.cc", tmp_path / "program", level, "-pthread")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "app", **ALL}
    done = run_traced(program, file, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    assert opened(trace, file) == logged(done.stdout, "open")
    assert ended(trace) == logged(done.stdout, "call")
    assert ended(trace)["app::works/app::catches/app::throws"] == 60


def test_procedures_of_fortran(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    program = compiled("gfortran", "instrumented.f90", tmp_path / "program", f"-J{tmp_path}")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "solver", **ALL}
    run_traced(program, file, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    assert ended(trace) == {"solver::step": 3, "solver::step/solver::reads": 3, "solver::reads": 1}
    assert opened(trace, file) == {"solver::step/solver::reads": 3, "solver::reads": 1}


def test_an_object_is_chosen_by_its_file(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    program = compiled("gcc", "instrumented.c", tmp_path / "program", "-ldl")
    plugin = compiled("gcc", "instrumented_plugin.c", tmp_path / "own.so", "-shared", "-fPIC", "-DNAME=first")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "own.so/*:program/tail", **ALL}
    run_traced(program, file, plugin, env={**os.environ, **chosen})
    assert set(ended(Trace(run_traced.run))) == {"tail", "plugin", "plugin/first"}


def test_without_symbols_a_function_is_its_address(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    program = compiled("gcc", "instrumented.c", tmp_path / "program", "-O2", "-ldl", "-s")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "program+*", **ALL}
    done = run_traced(program, file, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    names = {e["name"] for e in functions(trace)}
    assert names and all(re.fullmatch(r"program\+0x[0-9a-f]+", name) for name in names)
    assert {path.count("/") for path in ended(trace)} == {0, 1, 2}
    assert sum(opened(trace, file).values()) == sum(logged(done.stdout, "open").values())


def test_a_file_that_is_another_one_gives_no_names(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    program = compiled("gcc", "instrumented.c", tmp_path / "program", "-ldl")
    plugin = compiled("gcc", "instrumented_plugin.c", tmp_path / "own.so", "-shared", "-fPIC", "-DNAME=first")
    source = tmp_path / "replaces.c"
    source.write_text("""\
#include <stdio.h>
__attribute__((constructor, no_instrument_function)) static void replaces(void) { rename(OTHER, OWN); }
""")
    other = compiled("gcc", "instrumented_plugin.c", tmp_path / "other.so", "-shared", "-fPIC", "-DNAME=another")
    words = [f'-DOTHER="{other}"', f'-DOWN="{plugin}"', "-DNAME=first", str(source), "-shared", "-fPIC"]
    compiled("gcc", "instrumented_plugin.c", plugin, *words)
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "own.so/*", **ALL}
    run_traced(program, file, plugin, env={**os.environ, **chosen})
    names = {e["name"] for e in functions(Trace(run_traced.run))}
    assert len(names) == 2 and all(name.startswith("own.so+0x") for name in names), names


SHORT = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((noinline)) void inner(void) { __asm__ volatile(""); }
__attribute__((noinline)) void brief(void) { inner(); }
__attribute__((noinline)) void slow(void) { usleep(20000); }
__attribute__((noinline)) void opens(const char *file) { close(open(file, O_RDONLY)); }
int main(int count, char **words) {
  for (int i = 0; i < 5000; ++i) brief();
  for (int i = 0; i < 3; ++i) slow();
  opens(words[1]);
  return count < 2;
}
"""


def test_short_calls_leave_no_region(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    source = tmp_path / "short.c"
    source.write_text(SHORT)
    program = compiled("gcc", source, tmp_path / "program", "-O2")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "*:!main", "TAILRACE_FUNCTION_MINIMUM": "10000"}
    run_traced(program, file, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    found = ended(trace)
    assert (found["slow"], found["opens"]) == (3, 1)
    durations = [(e["args"]["region"], e["dur"]) for e in functions(trace) if not e["args"].keys() & {"kind", "open"}]
    # A pause of the machine makes any call a long one.
    short = Counter(path for path, us in durations if us < 10_000)
    # In two of its calls something is recorded: the other function's name, and that it is left out.
    assert short.pop("brief", 0) <= 2
    assert short == {"opens": 1} or not short, durations
    assert {e["name"] for e in functions(trace, "left out")} == {"inner", "brief"}
    for e in functions(trace):
        assert e["name"] != "slow" or e["dur"] >= 20_000, e


STACKS = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>
static const char *file;
static ucontext_t first, second;
__attribute__((noinline)) int deep(int n) { int found = n ? deep(n - 1) + 1 : 0; __asm__ volatile(""); return found; }
__attribute__((noinline)) void opens(void) { close(open(file, O_RDONLY)); }
__attribute__((noinline)) void elsewhere(void) { opens(); swapcontext(&second, &first); opens(); }
__attribute__((noinline)) void around(void) { opens(); swapcontext(&first, &second); opens(); }
__attribute__((noinline)) void handler(int n) { opens(); }
__attribute__((noinline)) void signalled(void) { raise(SIGUSR1); opens(); }
int main(int count, char **words) {
  file = words[1];
  if (deep(2000) != 2000) return 1;
  opens();
  getcontext(&second);
  second.uc_stack.ss_sp = malloc(65536);
  second.uc_stack.ss_size = 65536;
  second.uc_link = &first;
  makecontext(&second, elsewhere, 0);
  around();
  around();
  stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&other, 0);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, 0);
  signalled();
  return 0;
}
"""


def test_deep_calls_and_other_stacks_are_counted(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    source = tmp_path / "stacks.c"
    source.write_text(STACKS)
    program = compiled("gcc", source, tmp_path / "program", "-O1")
    chosen = {"TAILRACE_NATIVE_FUNCTIONS": "*:!main", **ALL}
    run_traced(program, file, env={**os.environ, **chosen})
    trace = Trace(run_traced.run)
    assert ended(trace) == {"deep": 512, "opens": 1, "around": 2, "around/opens": 4, "signalled": 1,
                            "signalled/opens": 1}  # fmt: skip
    assert opened(trace, file) == {"opens": 1, "around/opens": 4, "around": 2, "signalled": 1, "signalled/opens": 1}
    counters: dict[str, list[float]] = {}
    for e in functions(trace, "left out"):
        counters.setdefault(e["name"], []).append(e["args"]["value"])
    assert counters == {
        "calls of functions: too deep": [2.0**n for n in range(11)],
        "calls of functions: on another stack": [1, 2, 4],
    }


def test_it_changes_nothing_of_the_program(file: Path, run_traced: TracedCommand, tmp_path: Path) -> None:
    program = compiled("gcc", "instrumented.c", tmp_path / "program", "-O2", "-ldl")
    plain = subprocess.run([program, file], capture_output=True, text=True, check=True)
    assert run_traced(program, file).stdout == plain.stdout
    assert functions(Trace(run_traced.run)) == []
