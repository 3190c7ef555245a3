"""Why a process was not fully seen: the bytes that are missed are named with their true cause, and what need not be
missed is not. Every test compares with the kernel's count of the process, or with what it says itself.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support import ordinary_user
from support.commands import TAILRACE, TracedCommand, run_cli
from support.truth import read_run
from tailrace import installation
from tailrace.analyzer.store import ledger

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel keeps no I/O account")

Program = Callable[[str], Path]
LIBRARY = installation.PACKAGE / "lib" / "libtailrace.so"


@pytest.fixture
def traced(tmp_path: Path) -> TracedCommand:
    work = tmp_path / "work"
    work.mkdir()
    return TracedCommand(work, tmp_path / "run")


def rows(traced: TracedCommand) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tailrace.open(traced.run).coverage.to_dict("records")
    return found


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    return next(line for line in done.stderr.splitlines() if line.startswith("tailrace: "))


def build(directory: Path, name: str, source: str, *options: str) -> Path:
    """`directory/name`, of C source."""
    if shutil.which("cc") is None:
        pytest.skip("no cc to build with")
    (directory / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-w", "-o", directory / name, directory / f"{name}.c", *options], check=True, cwd=directory)
    return directory / name


@pytest.mark.parametrize(
    ("way", "call"), [("write", "write"), ("fwrite", "fwrite"), ("sendfile", "sendfile"), ("raw", "write")]
)
def test_a_signal_inside_a_call_is_named_with_the_call(
    program: Program, traced: TracedCommand, way: str, call: str
) -> None:
    done = traced(program("causes"), way, options=())
    pid, taken = map(int, done.stdout.split())
    (row,) = [row for row in rows(traced) if row["pid"] == pid]
    assert row["kernel_written"] == taken > 0 and row["captured_written"] == 0
    assert (row["signal"], row["cause_key"]) == (9, "cut_off") and row["cause"].endswith(f": {call}"), row
    assert ledger.WORDS["cut_off"] in last_line(done) and "nothing lost" not in done.stderr


def test_a_core_file_is_named(program: Program, traced: TracedCommand) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text()[0] in "|/":
        pytest.skip("core files are another program's, or lie elsewhere")
    done = traced(program("causes"), "core", options=())
    pid, is_dumped = map(int, done.stdout.split())
    if not is_dumped:
        pytest.skip("no core files here")
    (row,) = [row for row in rows(traced) if row["pid"] == pid]
    assert row["kernel_written"] > 8 << 20 and row["cause_key"] == "core_dump"
    assert ledger.WORDS["core_dump"] in last_line(done)


@pytest.mark.parametrize("taking", ["error", "suspend", "listio", "reuse", "exit"])
def test_an_asynchronous_result_counts_once_however_it_is_taken(
    program: Program, traced: TracedCommand, taking: str
) -> None:
    done = traced(program("causes"), f"aio_{taking}", options=())
    assert read_run(traced.run).written(traced.work / "data") == 80_000
    (row,) = rows(traced)
    assert (row["kernel_written"], row["captured_written"], row["cause"]) == (80_000, 80_000, "")
    assert "nothing lost" in last_line(done)


def test_an_asynchronous_result_that_is_cleared_before_anybody_asked_is_named(
    program: Program, traced: TracedCommand
) -> None:
    done = traced(program("causes"), "aio_clear", options=())
    (row,) = rows(traced)
    assert (row["kernel_written"], row["captured_written"], row["cause_key"]) == (80_000, 10_000, "aio")
    assert ledger.WORDS["aio"] in last_line(done)


AHEAD = """
#include <stdio.h>
int main(void) {
  FILE *f = fopen("data", "r");
  char got[8];
  for (int i = 0; i < 500; ++i) fseek(f, (i * 7919L % 500) * 4096 + 11, SEEK_SET), fread(got, 1, sizeof got, f);
  return fclose(f);
}
"""


def test_what_streams_read_for_nobody_is_a_figure_of_the_file_and_a_finding(traced: TracedCommand) -> None:
    (traced.work / "data").write_bytes(bytes(500 * 4096))
    done = traced(build(traced.work, "ahead", AHEAD), options=())
    assert "nothing lost" in last_line(done)
    (row,) = rows(traced)
    assert row["captured_read"] == row["kernel_read"] and row["ahead"] > 400 * 4000
    run = tailrace.open(traced.run)
    events = run.query("path", "sum:ahead").dropna(subset=["path"]).set_index("path")["sum_ahead"]
    # The process's other bytes that were read ahead: none.
    assert events[str(traced.work / "data")] == row["ahead"]
    (found,) = [finding for finding in run.findings() if finding.kind == "read ahead for nothing"]
    assert found.cost_bytes == row["ahead"]


RAW = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>
static long call(long n, long a, long b, long c) {
  long out;
  __asm__ volatile("syscall" : "=a"(out) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return out;
}
int main(void) {
  static char block[50000];
  long fd = call(2, (long)"data", O_WRONLY | O_CREAT, 0666);
  return call(1, fd, (long)block, sizeof block) != sizeof block;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls of one processor")
@pytest.mark.parametrize("pattern", ["raw", "*/work/r*"])
def test_a_program_that_calls_the_kernel_is_seen_where_it_is_followed(traced: TracedCommand, pattern: str) -> None:
    done = traced(build(traced.work, "raw", RAW), options=("--follow", pattern))
    if "ptrace" in done.stderr:
        pytest.skip("no ptrace here")
    assert read_run(traced.run).written(traced.work / "data") == 50_000
    assert [(row["share"], row["cause"]) for row in rows(traced)] == [(1.0, "")]
    assert "nothing lost" in last_line(done)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls of one processor")
def test_the_last_line_has_the_coverage_the_first_cause_and_what_to_do(traced: TracedCommand) -> None:
    raw = build(traced.work, "raw", RAW)
    done = traced("sh", "-c", "./raw; ./raw; :", options=())
    assert (
        "coverage " in last_line(done)
        and f"2 processes: {ledger.WORDS['own_calls']} (`tailrace run --follow {raw.name}` shows them)"
        in last_line(done)
        and "nothing lost" not in done.stderr
    ), done.stderr
    (group,) = tailrace.open(traced.run).coverage_causes()
    assert (group.key, group.processes, group.missing_bytes) == ("own_calls", 2, 100_000)
    shown = run_cli("info", traced.run).stdout
    assert shown.count(ledger.WORDS["own_calls"]) == 1 and "--follow raw" in shown


class Linked:
    """A program that needs the library libneeded.so of its directory."""

    def __init__(self, work: Path) -> None:
        self.library = build(work, "libneeded.so", "int needed(void) { return 0; }", "-shared", "-fPIC")
        source = "int needed(void); int main(void) { return needed(); }"
        self.program = build(work, "linked", source, "-L.", "-lneeded", "-Wl,-rpath,$ORIGIN")
        self.library.unlink()


@pytest.mark.parametrize("start", ["./linked; :", "exec ./linked"])
def test_a_program_without_its_library_is_named(traced: TracedCommand, start: str) -> None:
    Linked(traced.work)
    bare = subprocess.run(["sh", "-c", start], cwd=traced.work, capture_output=True, text=True, check=False)
    done = traced("sh", "-c", start, options=(), check=False)
    assert bare.stderr in done.stderr and done.returncode == bare.returncode
    (group,) = tailrace.open(traced.run).coverage_causes()
    assert (group.key, group.processes) == ("library", 1)
    assert ledger.WORDS["library"] in last_line(done)


KILLS = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["./linked"])
while not os.path.exists("libneeded.so") or "wait" not in open(f"/proc/{child.pid}/wchan").read():
    time.sleep(0.01)
child.kill()
child.wait()
"""


def test_a_program_that_is_killed_before_it_began_is_named(traced: TracedCommand) -> None:
    # The dynamic linker waits for a writer.
    os.mkfifo(Linked(traced.work).library)
    traced("python3", "-c", KILLS, options=())
    (row,) = [row for row in rows(traced) if not row["traced"]]
    assert (row["signal"], row["cause_key"]) == (9, "began_not")
    assert row["cause"] == f"not traced: {ledger.WORDS['began_not']}"


@ordinary_user.MARKER
def test_in_a_root_without_the_library_a_program_runs_as_untraced(traced: TracedCommand) -> None:
    root = traced.work / "root"
    for file in ["/usr/bin/dd", *_libraries("/usr/bin/dd")]:
        place = root / str(file).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    command = ["chroot", root, "/usr/bin/dd", "if=/usr/bin/dd", "of=/out", "bs=1000", "count=20"]
    bare = subprocess.run(command, capture_output=True, text=True, check=True)
    done = traced(*command)
    assert _lines(done.stderr) == _lines(bare.stderr)
    (group,) = tailrace.open(traced.run).coverage_causes()
    assert group.key == "unreachable" and group.processes == 1 and group.missing_bytes >= 20_000


def _lines(text: str) -> list[str]:
    """Without dd's time and speed."""
    return [line.partition(" copied")[0] for line in text.splitlines()]


def _libraries(program: str) -> list[str]:
    words = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
    return [word for word in words if word.startswith("/")]


@ordinary_user.MARKER
@pytest.mark.parametrize("how", ["execve", "spawn"])
def test_a_user_who_cant_read_the_library_runs_programs_as_untraced(
    traced: TracedCommand, tmp_path: Path, how: str
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for library in LIBRARY.parent.iterdir():
        shutil.copy(library, private)
    prefix = ordinary_user.reach(tmp_path)
    traced.work.chmod(0o777)
    shell = "head -c 30000 /dev/zero > out.$1; cat missing; exit 7"
    words = ["sh", "-c", shell, "sh"]
    command = (
        [*ordinary_user.become(), *words, how] if how == "execve" else ["sh", "-c", _spawns(words), "sh", *words, how]
    )
    bare = subprocess.run([*prefix, *command], cwd=traced.work, capture_output=True, text=True, check=False)
    env = {**os.environ, "TAILRACE_CORE_LIBRARY": str(private / "libtailrace.so")}
    done = traced(*command, prefix=prefix, check=False, env=env)
    assert (done.returncode, done.stderr) == (bare.returncode, bare.stderr)
    causes = {group.key for group in tailrace.open(traced.run).coverage_causes()}
    assert causes == {"unreadable"}, rows(traced)


def _spawns(words: list[str]) -> str:
    return f"{' '.join(ordinary_user.become())} \"$@\"; exit $?"


FAKED = """
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *t) { t->tv_sec = 978307200 + clock, t->tv_nsec = 5; return 0; }
int gettimeofday(struct timeval *t, void *zone) { t->tv_sec = 978307200, t->tv_usec = 5; return 0; }
time_t time(time_t *t) { if (t) *t = 978307200; return 978307200; }
"""


def test_times_are_the_kernels_where_a_library_answers_the_clocks_calls(traced: TracedCommand) -> None:
    library = build(traced.work, "faked.so", FAKED, "-shared", "-fPIC")
    before = time.time_ns()
    done = traced(
        "sh", "-c", "head -c 3000 /dev/zero > a; cat a > b; date +%Y", env={**os.environ, "LD_PRELOAD": str(library)}
    )
    assert done.stdout == "2001\n"
    run = tailrace.open(traced.run)
    begins = [event["ts"] * 1000 for event in read_run(traced.run).events if "ts" in event]
    # Clocks are compared to the microsecond.
    assert before - 1000 <= min(begins) and max(begins) <= time.time_ns()
    assert len(run.processes) == 4 and run.info()["coverage"]["share"] == 1.0


@ordinary_user.MARKER
def test_a_disk_that_was_full_for_a_while_leaves_no_missing_files(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    job = "dd if=/dev/zero of=full/fill bs=4k 2>/dev/null; for i in 1 2 3 4 5; do head -c 9000 /dev/zero > b$i; done;"
    job += " sleep 0.5; rm full/fill; head -c 9000 /dev/zero > c"
    inner = '"$0" run -o full/run -- sh -c "$1" && "$0" info full/run --format json > info.json && cp -r full/run kept'
    script = f"mount -t tmpfs -o size=2m none full && {inner}"
    words = ["unshare", "--mount", "sh", "-c", script, *TAILRACE, job]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "mount" in done.stderr and "denied" in done.stderr:
        pytest.skip("no mounts here")
    assert done.returncode == 0 and "10 processes" in done.stderr and "nothing lost" in done.stderr, done.stderr
    run = tailrace.open(tmp_path / "kept")
    assert len(run.processes) == 10 and not run.loss_rows()
