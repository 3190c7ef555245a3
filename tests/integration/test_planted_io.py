"""Small real programs, each with one planted way to use files badly, or none: which findings they get.

Only what is about calls counts here (`KINDS`); a program may have other findings, as that nobody reads its result.
Each program does enough for the way to be most of its time, and no more.
"""

import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli

KINDS = {"small calls", "random offsets", "metadata load", "short processes"}

PRELUDE = """
import ctypes, mmap, os, random, sys
choose = random.Random(1)
def fill(name, size):
    with open(name, "wb") as file: file.write(os.urandom(size))
    return os.open(name, os.O_RDWR)
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fread.argtypes = libc.fwrite.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
"""

PROGRAMS = {
    "64-byte reads in order": (
        "small calls",
        """
fd = fill("d", 2 << 20)
while os.read(fd, 64): pass
""",
    ),
    "a line a write": (
        "small calls",
        """
fd = os.open("log", os.O_WRONLY | os.O_CREAT)
for i in range(30000): os.write(fd, b"step %d is done\\n" % i)
""",
    ),
    "64-byte reads all over a small file": (
        "small calls",
        """
fd = fill("d", 2 << 20)
for i in range(30000): os.pread(fd, 64, choose.randrange(2 << 20))
""",
    ),
    "small reads of many files": (
        "small calls",
        """
for name in range(20): os.close(fill(str(name), 100000))
for name in range(20):
    fd = os.open(str(name), os.O_RDONLY)
    while os.read(fd, 50): pass
    os.close(fd)
""",
    ),
    "512-byte writes backwards": (
        "small calls",
        """
fd = os.open("d", os.O_WRONLY | os.O_CREAT)
for i in range(20000, 0, -1): os.pwrite(fd, bytes(512), 512 * i)
""",
    ),
    "unbuffered copy": (
        "small calls",
        """
source, target = fill("a", 1 << 20), os.open("b", os.O_WRONLY | os.O_CREAT)
while part := os.read(source, 100): os.write(target, part)
""",
    ),
    "8 KiB at random offsets of 1 GiB": (
        "random offsets",
        """
fd = os.open("big", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 1 << 30)
for i in range(8000): os.pread(fd, 8192, choose.randrange(1 << 30))
""",
    ),
    "64 KiB written at random offsets": (
        "random offsets",
        """
fd = os.open("big", os.O_RDWR | os.O_CREAT)
for i in range(2000): os.pwrite(fd, bytes(65536), choose.randrange(256) << 16)
""",
    ),
    "an index of 100-byte records in a large file": (
        "random offsets",
        """
fd = os.open("big", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 1 << 30)
for i in range(20000): os.pread(fd, 100, choose.randrange(1 << 30))
""",
    ),
    "a stat of each name, again and again": (
        "metadata load",
        """
for name in range(200): os.close(os.open(str(name), os.O_CREAT))
for turn in range(100):
    for name in range(200): os.stat(str(name))
""",
    ),
    "open and close for each page": (
        "metadata load",
        """
os.close(fill("d", 4096))
for i in range(10000):
    fd = os.open("d", os.O_RDONLY); os.pread(fd, 4096, 0); os.close(fd)
""",
    ),
    "thousands of files made and removed": (
        "metadata load",
        """
for i in range(4000):
    os.close(os.open("lock", os.O_CREAT | os.O_EXCL)); os.unlink("lock")
""",
    ),
    "a search path of many directories": (
        "metadata load",
        """
for i in range(20000):
    try: os.stat(f"/nowhere/{i % 50}/module.py")
    except FileNotFoundError: pass
""",
    ),
    "a process for each item": (
        "short processes",
        """
for i in range(150): os.waitpid(os.posix_spawn("/bin/true", ["true"], {**os.environ}), 0)
""",
    ),
    "touch in a shell loop": (
        "short processes",
        """
os.execvp("sh", ["sh", "-c", "for i in $(seq 120); do touch f$i; done"])
""",
    ),
    # ---- nothing is wrong with these ----
    "large reads in order": (
        None,
        """
fd = fill("d", 64 << 20)
while os.read(fd, 1 << 20): pass
""",
    ),
    "large writes": (
        None,
        """
fd = os.open("d", os.O_WRONLY | os.O_CREAT)
for i in range(64): os.write(fd, bytes(1 << 20))
""",
    ),
    "buffered lines of Python": (
        None,
        """
with open("d", "w") as file:
    for i in range(100000): file.write(f"{i}\\n")
total = sum(len(line) for line in open("d"))
""",
    ),
    "small calls on a stream of the C library": (
        None,
        """
stream = libc.fopen(b"d", b"w")
for i in range(20000): libc.fwrite(b"x" * 16, 1, 16, stream)
libc.fclose(stream)
stream, room = libc.fopen(b"d", b"r"), ctypes.create_string_buffer(16)
while libc.fread(room, 1, 16, stream): pass
""",
    ),
    "large parts at random offsets": (
        None,
        """
fd = os.open("big", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 1 << 30)
for i in range(20): os.pread(fd, 4 << 20, choose.randrange(250) << 22)
""",
    ),
    "random accesses through a mapping": (
        None,
        """
fd = fill("d", 8 << 20)
with mmap.mmap(fd, 0) as data: total = sum(data[choose.randrange(8 << 20)] for i in range(100000))
""",
    ),
    "computing": (None, "total = sum(i * i for i in range(2000000))"),
    "a few settings": (
        None,
        """
for name in range(10): os.close(fill(str(name), 200))
for name in range(10): os.pread(os.open(str(name), os.O_RDONLY), 20, 0)
total = sum(i for i in range(1000000))
""",
    ),
    "a copy by the kernel": (
        None,
        """
source, target = fill("a", 32 << 20), os.open("b", os.O_WRONLY | os.O_CREAT)
while os.copy_file_range(source, target, 1 << 20): pass
""",
    ),
    "a few processes": (
        None,
        """
for i in range(10): os.waitpid(os.posix_spawn("/bin/true", ["true"], {**os.environ}), 0)
""",
    ),
    "small random reads that are nothing beside the computing": (
        None,
        """
fd = fill("d", 1 << 20)
for i in range(1200): os.pread(fd, 64, choose.randrange(1 << 20))
total = sum(i * i for i in range(6000000))
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_finding_that_was_planted_and_no_other(tmp_path: Path, name: str) -> None:
    planted, code = PROGRAMS[name]
    (tmp_path / "work").mkdir()
    command = (sys.executable, "-S", "-E", "-c", PRELUDE + code)
    run_cli("run", "-q", "-o", tmp_path / "run", "--", *command, cwd=tmp_path / "work")
    found = [one for one in tailrace.open(tmp_path / "run").findings() if one.kind in KINDS]
    assert {one.kind for one in found} == ({planted} if planted else set()), [one.title for one in found]
    for one in found:
        assert one.cost_ns > 0 and one.estimate and one.evidence
