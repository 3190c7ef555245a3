"""Locks as they are recorded: range and kind are those that the kernel has (/proc/locks), whatever call takes them."""

import shutil
import subprocess
import sys

import pytest

LOCKS = r"""
import fcntl, os, struct
OFD_SETLK = 37
file = os.open("locked", os.O_RDWR | os.O_CREAT)
inode = os.fstat(file).st_ino
os.write(file, bytes(100))

def ofd(kind, whence, start, length):
    fcntl.fcntl(file, OFD_SETLK, struct.pack("hhqqi", kind, whence, start, length, 0))

steps = [
    lambda: fcntl.lockf(file, fcntl.LOCK_EX, 10, 5),
    lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 10, 20, os.SEEK_CUR),
    lambda: fcntl.lockf(file, fcntl.LOCK_EX, 10, -10, os.SEEK_END),
    lambda: fcntl.lockf(file, fcntl.LOCK_EX, 0, 200),
    lambda: os.lockf(file, os.F_TLOCK, -30),
    lambda: fcntl.flock(file, fcntl.LOCK_SH),
    lambda: fcntl.flock(file, fcntl.LOCK_EX),
    lambda: ofd(fcntl.F_WRLCK, os.SEEK_SET, 150, 3),
]
seen = set()
for step in steps:
    step()
    # "1: POSIX  ADVISORY  WRITE 77 fe:01:99 5 14"
    rows = [line.split() for line in open("/proc/locks") if f":{inode} " in line]
    now = {(kind, mode, first, last) for _, kind, _, mode, _, _, first, last in rows}
    print(*[",".join(row) for row in sorted(now - seen)])
    seen = now
fcntl.lockf(file, fcntl.LOCK_UN)
"""

STATIC = r"""
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
int main(void) {
  int fd = open("locked", O_RDWR | O_CREAT, 0644);
  if (write(fd, "0123456789", 10) != 10) return 1;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -4, .l_len = 2};
  if (fcntl(fd, F_SETLKW, &lock)) return 2;
  lock.l_type = F_UNLCK;
  if (fcntl(fd, F_SETLK, &lock)) return 3;
  return flock(fd, LOCK_SH | LOCK_NB);
}
"""


def locks(read_trace, run_traced):
    """The locks in the trace: (call, offset, count, flags)."""
    events = read_trace(run_traced.run).of(run_traced.work / "locked", {"fcntl", "flock", "lockf"})
    args = [(e["name"], e["args"]) for e in sorted(events, key=lambda e: (e["ts"], e["args"]["ns"]))]
    return [(name, a.get("offset"), a.get("count"), a["flags"]) for name, a in args if "flags" in a]


def test_a_lock_has_the_range_and_kind_that_the_kernel_has(run_traced, read_trace):
    printed = run_traced(sys.executable, "-c", LOCKS).stdout.splitlines()
    found = locks(read_trace, run_traced)
    assert len(found) == len(printed) + 1
    kinds = {"flock": "FLOCK", "fcntl": "POSIX", "lockf": "POSIX"}
    for line, (name, start, count, flags) in zip(printed, found, strict=False):
        kind = "OFDLCK" if flags & 16 else kinds[name]
        mode = "WRITE" if flags & 2 else "READ"
        last = "EOF" if count == 0 else str(start + count - 1)
        assert line == f"{kind},{mode},{start},{last}", (name, start, count, flags)
    assert found[-1] == ("fcntl", 0, 0, 8), "all of it released"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_locks_of_a_static_program_are_recorded_from_outside(run_traced, read_trace, tmp_path):
    (tmp_path / "locks.c").write_text(STATIC)
    built = subprocess.run(["gcc", "-static", "locks.c", "-o", "static_locks"], cwd=tmp_path, check=False)
    if built.returncode:
        pytest.skip("no static C library")
    run_traced("./static_locks", options=("-q", "--unseen=all"))
    assert locks(read_trace, run_traced) == [("fcntl", 6, 2, 2), ("fcntl", 6, 2, 12), ("flock", 0, 0, 5)]
