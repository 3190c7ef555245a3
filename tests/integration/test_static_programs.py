"""Programs that are linked statically with libtailrace.a, by the linker's options in tailrace.wrap: what they record is
what strace sees, and they are neither called untraced nor followed from outside."""

import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

import tailrace
from support import sanitizer
from support.truth import Row, account_of, compare, read_run, strace, table

pytestmark = [
    pytest.mark.skipif(sanitizer.CHOSEN != "", reason="a core with a sanitizer has no static library"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc"),
]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/programs/static_calls.c"
PRINTED = "taken 13866\ncounted 13933\nabcde"
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "LD_PRELOAD"))}


@pytest.fixture(scope="module")
def prefix(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the core is installed."""
    place = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", cpp_build, "--prefix", place], check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def library(prefix: Path) -> Path:
    """The folder of the libraries in it."""
    (found,) = prefix.glob("lib*/**/libtailrace.a")
    return found.parent


@pytest.fixture(scope="module", params=["-static", "-static-pie"])
def linked(
    request: pytest.FixtureRequest, prefix: Path, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The program, linked statically, as it is or at an address that is chosen at its start."""
    built = tmp_path_factory.mktemp("linked") / "static_calls"
    words = ["gcc", "-O2", request.param, SOURCE, "-o", built, f"-I{prefix / 'include'}", f"-L{library}"]
    done = subprocess.run([*words, f"@{library / 'tailrace.wrap'}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "undefined" not in done.stderr
    return built


def traced(prefix: Path, place: Path, *command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    words = [prefix / "bin/tailrace", "run", "-o", place.parent / "run", *command]
    return subprocess.run(words, cwd=place, env=CLEAN | settings, capture_output=True, text=True, check=False)


def traced_beside_strace(
    prefix: Path, place: Path, *command: str | Path
) -> tuple[subprocess.CompletedProcess[str], list[Row]]:
    """The traced command, and its files' bytes beside those of another run of it below strace."""
    for name in ("truth", "seen"):
        (place / name).mkdir()
    words = [str(word) for word in command]
    truth = strace(words, place / "truth", place / "logs", env=CLEAN, capture_output=True)
    done = traced(prefix, place / "seen", *words)
    return done, compare(Path(words[-1]).name, truth, account_of(place / "run", place / "seen"))


def assert_they_agree(rows: list[Row], *files: str) -> None:
    assert {row.file for row in rows} >= set(files)
    wrong = [row for row in rows if not row.agrees]
    assert not wrong, "\n" + table(wrong)


def test_untraced_it_does_what_it_did(linked: Path, tmp_path: Path) -> None:
    done = subprocess.run([linked], cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=True)
    assert done.stdout == PRINTED and done.stderr == "static_calls: warned\n"


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_its_bytes_and_those_of_its_children_are_the_kernels(linked: Path, prefix: Path, tmp_path: Path) -> None:
    done, rows = traced_beside_strace(prefix, tmp_path, linked)
    assert done.returncode == 0 and done.stdout == PRINTED, done.stderr
    assert_they_agree(rows, "thread0", "lines", "renamed", "child", "sudden", "copied", "spawned")


def test_nothing_of_it_is_missing_in_the_kernels_account(linked: Path, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    done = traced(prefix, tmp_path / "seen", linked)
    assert "nothing lost" in done.stderr and "not traced" not in done.stderr
    info = tailrace.open(tmp_path / "run").info()
    assert (info["coverage"]["untraced"], info["coverage"]["below"]) == (0, 0), info["coverage"]
    assert info["processes"] == info["coverage"]["processes"] >= 8
    assert info["losses"] == []


def test_it_is_not_followed_from_outside(linked: Path, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    done = traced(prefix, tmp_path / "seen", "--unseen=all", "sh", "-c", f"{linked}; true")
    assert done.returncode == 0 and "not traced" not in done.stderr
    seen = read_run(tmp_path / "run")
    assert sum(event["args"]["size"] for event in seen.named("writev")) == 5
    assert not [event for event in seen.events if event["args"].get("followed")]


def test_it_names_its_own_stages(linked: Path, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    done = traced(prefix, tmp_path / "seen", "--tag", "stage=given", linked, "named")
    assert done.stdout == "active 1\n", done.stderr
    seen = read_run(tmp_path / "run")
    stages = {Path(seen.path(event) or "").name: event["args"].get("stage") for event in seen.named("write")}
    assert stages["before"] == "given" and stages["after"] == "named"


CPLUSPLUS = r"""
#include <sys/wait.h>
#include <unistd.h>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
int main() {
  { std::ofstream out("numbers"); for (int i = 0; i < 20000; ++i) out << i << '\n'; }
  std::ifstream in("numbers");
  std::string line;
  size_t n = 0;
  while (std::getline(in, line)) n += line.size();
  std::thread([] { std::ofstream("thread") << "words\n"; }).join();
  int status;
  pid_t pid = vfork();
  if (!pid) execlp("cp", "cp", "numbers", "copied", nullptr), _exit(1);
  waitpid(pid, &status, 0);
  pid = vfork();
  if (!pid) execl("/nowhere", "nothing", nullptr), _exit(7);
  waitpid(pid, &status, 0);
  std::cout << n << ' ' << WEXITSTATUS(status) << std::endl;
  _exit(0);
}
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_a_cplusplus_programs_bytes_are_the_kernels(prefix: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "program.cc").write_text(CPLUSPLUS)
    words = ["gcc", "-O2", "-static", tmp_path / "program.cc", "-o", tmp_path / "program", "-lstdc++", "-lm"]
    done = subprocess.run([*words, f"-L{library}", f"@{library / 'tailrace.wrap'}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done, rows = traced_beside_strace(prefix, tmp_path, tmp_path / "program")
    assert done.stdout == "88890 7\n" and "nothing lost" in done.stderr, done.stderr
    assert_they_agree(rows, "numbers", "thread", "copied")


FORTRAN = """
program main
  integer :: i, unit
  real(8) :: x(1000)
  x = 2
  open(newunit=unit, file='values', form='unformatted', access='stream')
  write(unit) x
  close(unit)
  x = 0
  open(newunit=unit, file='values', form='unformatted', access='stream', status='old')
  read(unit) x
  close(unit)
  open(newunit=unit, file='lines')
  do i = 1, 2000
    write(unit, '(I6)') i
  end do
  close(unit)
  print '(F8.1)', sum(x)
end program
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.skipif(shutil.which("gfortran") is None, reason="no gfortran")
def test_a_fortran_programs_bytes_are_the_kernels(prefix: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "program.f90").write_text(FORTRAN)
    subprocess.run(["gfortran", "-c", "program.f90"], cwd=tmp_path, check=True)
    program = str(tmp_path / "program")
    words = ["gcc", "-static", f"{program}.o", "-o", program, "-lgfortran", "-lquadmath", "-lm", f"-L{library}"]
    subprocess.run([*words, f"@{library / 'tailrace.wrap'}"], check=True)
    done, rows = traced_beside_strace(prefix, tmp_path, program)
    assert done.stdout == "  2000.0\n" and "nothing lost" in done.stderr, done.stderr
    assert_they_agree(rows, "values", "lines")


INSTRUMENTED = r"""
#include <fcntl.h>
#include <unistd.h>
static void inner(void) { close(open("data", O_RDONLY | O_CREAT, 0600)); }
void outer(void) { inner(); }
int main(void) {
  for (int i = 0; i < 3; ++i) outer();
  return 0;
}
"""


@pytest.mark.parametrize("way", ["-static", "-static-pie"])
def test_its_functions_are_regions(way: str, prefix: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "program.c").write_text(INSTRUMENTED)
    program = tmp_path / "program"
    words = ["gcc", "-O2", way, "-finstrument-functions", f"{program}.c", "-o", program, f"-L{library}"]
    subprocess.run([*words, f"@{library / 'tailrace.wrap'}"], check=True)
    settings = {"TAILRACE_NATIVE_FUNCTIONS": "inner:outer", "TAILRACE_FUNCTION_MINIMUM": "0"}
    done = traced(prefix, tmp_path / "seen", program, **settings)
    assert done.returncode == 0, done.stderr
    seen = read_run(tmp_path / "run")
    regions = [event["args"]["region"] for event in seen.events if event["args"].get("category") == "native"]
    assert sorted(regions) == ["outer"] * 3 + ["outer/inner"] * 3
    assert {event["args"].get("region") for event in seen.named("open")} == {"outer/inner"}


MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int rank, size;
  char name[32];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(name, sizeof name, "part%d", rank);
  FILE *part = fopen(name, "w");
  for (int i = 0; i < 10000 * (rank + 1); ++i) fprintf(part, "%d\n", i);
  fclose(part);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(name, sizeof name, "part%d", (rank + 1) % size);
  part = fopen(name, "r");
  long lines = 0, all = 0;
  for (int c; (c = getc(part)) != EOF;) lines += c == '\n';
  fclose(part);
  MPI_Reduce(&lines, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (!rank) printf("%ld lines\n", all);
  return MPI_Finalize();
}
/* Debian has no static libudev, which hwloc asks for the names of devices. */
void *udev_new(void) { return NULL; }
void *udev_unref(void *udev) { return udev; }
void *udev_device_unref(void *device) { return device; }
void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name) { return NULL; }
const char *udev_device_get_property_value(void *device, const char *key) { return NULL; }
"""
MPICH = ["-lmpich", "-Wl,--start-group", "-Wl,--whole-archive", "-lucs", "-lucm", "-luct", "-lucp"]
MPICH += ["-Wl,--no-whole-archive", "-libverbs", "-lefa", "-lnuma", "-lhwloc", "-lnl-3", "-lnl-route-3", "-lpciaccess"]
MPICH += ["-lxml2", "-lz", "-llzma", "-lm", "-Wl,--end-group"]
"""What a statically linked program of Debian's MPICH needs: UCX registers its parts in constructors."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.skipif(shutil.which("mpicc.mpich") is None, reason="no mpicc.mpich: apt-get install libmpich-dev")
def test_ranks_bytes_are_the_kernels(prefix: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(MPI)
    program = str(tmp_path / "program")
    words = ["mpicc.mpich", "-O2", "-static", f"{program}.c", "-o", program, *MPICH]
    untraced = tmp_path / "untraced"
    untraced.mkdir()
    for plain in (words, ["mpirun.mpich", "-n", "2", program]):
        done = subprocess.run(plain, cwd=untraced, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{plain[0]} fails without tailrace: {done.stderr.strip()[-200:]}")
    words += [f"-L{library}"]
    done = subprocess.run([*words, f"@{library / 'tailrace.wrap'}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done, rows = traced_beside_strace(prefix, tmp_path, "mpirun.mpich", "-n", "2", program)
    assert done.stdout == "30000 lines\n" and "nothing lost" in done.stderr, done.stderr
    assert "not traced" not in done.stderr
    files = {"part0", "part1"}
    assert [row.agrees for row in rows if row.file in files] == [True] * 2, "\n" + table(rows)
    seen = read_run(tmp_path / "run")
    places = [(event, Path(seen.path(event) or "").name) for event in seen.events]
    assert {event["args"].get("rank") for event, name in places if name in files} == {"0", "1"}
    starts = [event["args"] for event in seen.named("start") if event["args"].get("rank")]
    assert sorted((start["rank"], *start["argv"]) for start in starts) == [("0", program), ("1", program)]


def test_one_call_brings_in_one_function(library: Path, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text('#include <unistd.h>\nint main(void) { return write(1, "x", 1) != 1; }\n')
    words = ["gcc", "-static", tmp_path / "one.c", "-o", tmp_path / "one", f"-L{library}"]
    subprocess.run([*words, f"@{library / 'tailrace.wrap'}"], check=True)
    listed = subprocess.run(["nm", tmp_path / "one"], capture_output=True, text=True, check=True).stdout
    wrapped = set(re.findall(r" T __wrap_(\w+)", listed))
    assert "write" in wrapped and not wrapped & {"getaddrinfo", "getpwnam", "scanf", "popen"}


def hook_bodies(text: str, hooks: set[str]) -> dict[str, str]:
    """The functions of preprocessed C++ that are at the top of a namespace, by their names."""
    found: dict[str, str] = {}
    open_braces: list[bool] = []
    start = 0
    for match in re.finditer(r'namespace\s*[\w:]*\s*\{|extern\s+"C"\s*\{|[{};]', text):
        word = match.group()
        if word.endswith("{"):
            open_braces.append(word == "{")
        elif word == "}" and open_braces:
            open_braces.pop()
        if any(open_braces):
            continue
        chunk = text[start : match.end()]
        start = match.end()
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)+", "", chunk.split("{", 1)[0])
        name = re.search(r"(\w+)\s*\(", head)
        if word == "}" and name is not None:
            found[name[1]] = found.get(name[1], "") + chunk
    return found


def test_the_table_has_what_hooks_call_beside_their_own_functions() -> None:
    source = ROOT / "core/src"
    rows = "".join((source / "format" / name).read_text() for name in ("hooks.def", "hooks_libc.def"))
    hooks = set(re.findall(r"^HOOK\((\w+)", rows, re.MULTILINE))
    lines = (ROOT / "core/static/needs.txt").read_text().splitlines()
    table_of = {words[0]: set(words[1:]) for words in map(str.split, lines) if words[0] != "#"}
    assert set(table_of) | set().union(*table_of.values()) <= hooks
    bodies: dict[str, str] = {}
    for file in sorted(source.glob("hooks/**/*.cc")):
        words = ["g++", "-std=gnu++17", "-E", "-P", f"-I{source}", f"-I{source.parent / 'include'}", file]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        bodies.update(hook_bodies(done.stdout, hooks))
    calls = {name: set(re.findall(r"\b(\w+)\s*(?:<[^<>;]*>)?\(", body)) & set(bodies) for name, body in bodies.items()}
    lacking = defaultdict(set)
    # Those have no stub.
    for name in hooks & set(bodies) - {"dlopen", "dlmopen", "dlsym"}:
        reached, fresh = {name}, {name}
        while fresh := {call for at in fresh for call in calls[at]} - reached:
            reached |= fresh
        used = {
            use for at in reached for use in re.findall(r"real_address\(\s*(?:::tailrace::)?Fn::f_(\w+)", bodies[at])
        }
        lacking[name] = used - {name} - table_of.get(name, set())
    assert {name: sorted(uses) for name, uses in lacking.items() if uses} == {}
