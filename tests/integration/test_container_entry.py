"""libtailrace-entry.so, which is preloaded into a container's first program: it brings the core in where the libc can
have it, and else takes its settings away; the program is the same."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import TAILRACE
from support.harm import clean_environment
from support.run_files import Trace
from tailrace.integrations import environment, rundir

ENTRY = "libtailrace-entry.so"
# What a program can see of how it was started.
SCRIPT = """#!{interpreter}
cat /proc/$$/comm
tr '\\0' '|' < /proc/$$/cmdline
echo
cp given copied
/usr/bin/env | grep -E '^(LD_PRELOAD|TAILRACE_)'
exit 3
"""
OLD_LIBC = 'const char *gnu_get_libc_version(void) { return "2.5"; }\n'
SHOWS = """
#include <stdio.h>
#include <string.h>
extern char **environ;
int main(void) {
  for (char **e = environ; *e; ++e)
    if (strstr(*e, "PRELOAD") || strstr(*e, "TAILRACE_")) puts(*e);
  fputs("written", fopen("copied", "w"));
  return 3;
}
"""


class Entered:
    """Starts programs as a container's first ones, in a directory of their own."""

    def __init__(self, tmp_path: Path, preload: str) -> None:
        self.work, self.run = tmp_path / "work", tmp_path / "run"
        self.work.mkdir()
        (self.work / "given").write_text("given to the program\n")
        rundir.open_run_directory(self.run, ["test"], "")
        variables = environment.task_environment(self.run, "", clean_environment({}))
        self.environment = {**variables, "LD_PRELOAD": preload}

    def __call__(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        plain = self._start(command, clean_environment({}))
        (self.work / "copied").unlink()
        done = self._start(command, self.environment)
        assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)
        assert (self.work / "copied").exists()
        subprocess.run([*TAILRACE, "seal", self.run], check=True, capture_output=True)
        return done

    def _start(self, command: tuple[str | Path, ...], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        options = {"cwd": self.work, "env": variables, "capture_output": True, "text": True}
        return subprocess.run([str(word) for word in command], check=False, **options)  # type: ignore[call-overload,no-any-return]

    def events(self) -> int:
        return len(Trace(self.run).of(self.work / "copied"))


def preload() -> str:
    """The library as it is installed."""
    return str(Path(environment.library_path()).with_name(ENTRY))


@pytest.fixture
def entered(tmp_path: Path) -> Entered:
    return Entered(tmp_path, preload())


@pytest.mark.parametrize("interpreter", ["/bin/sh", "/bin/sh -e", "/usr/bin/env bash"])
def test_a_script_is_itself_and_traced(entered: Entered, interpreter: str) -> None:
    script = entered.work / "script.sh"
    script.write_text(SCRIPT.format(interpreter=interpreter))
    script.chmod(0o755)
    done = entered("./script.sh", "a b", "")
    assert done.stdout.splitlines()[0] == ("bash" if "bash" in interpreter else "script.sh")
    assert entered.events()


@pytest.mark.parametrize("way", [["sh"], ["/bin/sh"], ["/proc/self/root/bin/sh"], ["env", "--argv0=other", "sh"]])
def test_a_program_is_itself_and_traced(entered: Entered, way: list[str]) -> None:
    if way[0] == "env" and subprocess.run([*way, "-c", ":"], capture_output=True, check=False).returncode:
        pytest.skip("this env can't set argv[0]")
    entered(*way, "-c", SCRIPT.partition("\n")[2], "zero", "one")
    assert entered.events()


def test_other_preloaded_libraries_stay(tmp_path: Path) -> None:
    other = next(iter(Path("/usr/lib").glob("*-linux-gnu/libz.so.1")), None) or Path("/usr/lib64/libz.so.1")
    if not other.exists():
        pytest.skip("no library to preload")
    for i, value in enumerate([f"{other}:{preload()}", f"{preload()}:{other}"]):
        room = tmp_path / str(i)
        room.mkdir()
        entered = Entered(room, value)
        done = entered._start(("sh", "-c", "cp given copied; echo $LD_PRELOAD"), entered.environment)
        assert (done.stdout, done.stderr) == (f"{other}\n", "")


def compiled(cc: str, source: str, target: Path, *options: str) -> Path:
    if shutil.which(cc) is None:
        pytest.skip(f"no {cc}")
    subprocess.run([cc, "-x", "c", "-", "-o", target, *options], input=source, text=True, check=True)
    return target


def test_under_an_older_libc_the_program_runs_untraced(tmp_path: Path) -> None:
    old = compiled("cc", OLD_LIBC, tmp_path / "old.so", "-shared", "-fPIC")
    entered = Entered(tmp_path, f"{preload()}:{old}")
    done = entered._start(("sh", "-c", SCRIPT.partition("\n")[2]), entered.environment)
    assert done.stdout.splitlines()[-1] == f"LD_PRELOAD={old}" and not done.stderr
    assert (entered.work / "copied").exists() and not entered.events()


def test_under_musl_the_program_runs_untraced(entered: Entered, tmp_path: Path) -> None:
    entered(compiled("musl-gcc", SHOWS, tmp_path / "shows"))
    assert not entered.events()


def test_without_the_core_beside_it_the_program_runs_untraced(tmp_path: Path) -> None:
    alone = tmp_path / ENTRY
    shutil.copy(preload(), alone)
    entered = Entered(tmp_path, str(alone))
    entered("sh", "-c", SCRIPT.partition("\n")[2])
    assert not entered.events()


def test_the_dynamic_linker_as_the_program_runs_untraced(entered: Entered) -> None:
    linker = Path("/lib64/ld-linux-x86-64.so.2")
    if os.uname().machine != "x86_64" or not linker.exists():
        pytest.skip("another dynamic linker")
    entered(linker, shutil.which("cp") or "cp", "given", "copied")
    assert not entered.events()
