"""Small real programs, each with planted ways to use files badly, or none, and the findings that they should get.

A program is Python source behind `PRELUDE`. Each does enough for the way to be most of its time, and a twentieth of it
where the machine pauses for half a second, and no more. The test is tests/integration/test_planted_io.py;
tests/bench/planted.py prints precision and recall, and Drishti's issues.
"""

KINDS = {
    "small calls",
    "random offsets",
    "metadata load",
    "failing calls",
    "short processes",
    "many flushes",
    "useless seeks",
    "stream buffers",
    "shared file",
    "rank imbalance",
    "repeated writes",
    "misaligned calls",
    "independent MPI-IO",
}
"""What is about calls; a program may have other findings, as that nobody reads its result."""

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

FORKS = """
def fork(count, work):
    ready, go = os.pipe()
    children = []
    for child in range(count):
        if not (pid := os.fork()):
            os.close(go); os.read(ready, 1); work(child); os._exit(0)
        children.append(pid)
    os.close(go)
    for pid in children: os.waitpid(pid, 0)
"""

RANKS = """
def ranks(counts):
    children = [
        os.posix_spawn(
            "/bin/dd",
            ["dd", "if=/dev/zero", f"of=d{rank}", "bs=1M", f"count={count}", "status=none"],
            {**os.environ, "PMI_RANK": str(rank)},
        )
        for rank, count in enumerate(counts)
    ]
    for pid in children: os.waitpid(pid, 0)
"""

PROGRAMS: dict[str, tuple[str | None, str]] = {
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
        "random offsets, repeated writes",
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
for turn in range(300):
    for name in range(200): os.stat(str(name))
""",
    ),
    "open and close for each page": (
        "metadata load",
        """
os.close(fill("d", 4096))
for i in range(40000):
    fd = os.open("d", os.O_RDONLY); os.pread(fd, 4096, 0); os.close(fd)
""",
    ),
    "thousands of files made and removed": (
        "metadata load",
        """
for i in range(12000):
    os.close(os.open("lock", os.O_CREAT | os.O_EXCL)); os.unlink("lock")
""",
    ),
    "a search path of many directories": (
        "failing calls",
        """
for i in range(80000):
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
    "a flush after each record": (
        "many flushes",
        """
fd = os.open("log", os.O_WRONLY | os.O_CREAT)
for i in range(600): os.write(fd, b"a record\\n" * 10); os.fsync(fd)
""",
    ),
    "a database with a commit for each row": (
        "many flushes",
        """
import sqlite3
base = sqlite3.connect("base")
base.execute("pragma page_size=512")
base.execute("pragma journal_mode=memory")
base.execute("pragma locking_mode=exclusive")
base.execute("create table t (x)")
for i in range(300): base.execute("insert into t values (?)", (i,)); base.commit()
""",
    ),
    "a table that is written again and again": (
        "repeated writes",
        """
fd = os.open("table", os.O_WRONLY | os.O_CREAT)
for turn in range(10):
    for i in range(8): os.pwrite(fd, bytes(1 << 20), i << 20)
""",
    ),
    "a question for the place before each read": (
        "useless seeks",
        """
fd = os.open("d", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 64 << 20)
while os.read(fd, 8192):
    for i in range(20): os.lseek(fd, 0, os.SEEK_CUR)
""",
    ),
    "much data in short lines of the C library": (
        "stream buffers",
        """
stream = libc.fopen(b"d", b"w")
for i in range(150000): libc.fwrite(b"x" * 256, 1, 256, stream)
libc.fclose(stream)
""",
    ),
    "four writers of one file": (
        "shared file",
        FORKS
        + """
fd = os.open("d", os.O_WRONLY | os.O_CREAT)
fork(4, lambda child: [os.pwrite(fd, bytes(8192), (4 * i + child) << 13) for i in range(3000)])
""",
    ),
    "one rank writes for all": (
        "rank imbalance",
        RANKS
        + """
ranks([200, 1, 1, 1, 1, 1])
""",
    ),
    # ---- nothing is wrong with these ----
    "ranks that all do the same": (
        None,
        RANKS
        + """
ranks([8] * 6)
""",
    ),
    "a flush for each file": (
        None,
        """
for i in range(110):
    fd = os.open(str(i), os.O_WRONLY | os.O_CREAT); os.write(fd, bytes(4096)); os.fsync(fd); os.close(fd)
""",
    ),
    "a seek to each record": (
        None,
        """
fd = os.open("d", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 64 << 20)
for i in range(3000): os.lseek(fd, i * 20000, os.SEEK_SET); os.read(fd, 8192)
""",
    ),
    "four writers of four files": (
        None,
        FORKS
        + """
def write(child):
    fd = os.open(f"d{child}", os.O_WRONLY | os.O_CREAT)
    for i in range(2000): os.write(fd, bytes(8192))
fork(4, write)
""",
    ),
    "large parts of one file by four writers": (
        None,
        FORKS
        + """
fd = os.open("d", os.O_WRONLY | os.O_CREAT)
fork(4, lambda child: [os.pwrite(fd, bytes(1 << 20), (4 * i + child) << 20) for i in range(8)])
""",
    ),
    "large items through a stream of the C library": (
        None,
        """
stream, item = libc.fopen(b"d", b"w"), bytes(1 << 20)
for i in range(48): libc.fwrite(item, 1, 1 << 20, stream)
libc.fclose(stream)
""",
    ),
    "a result that is written anew": (
        None,
        """
for turn in range(5):
    with open("d", "wb", buffering=0) as file: file.write(bytes(2 << 20))
    open("d", "rb", buffering=0).read(2 << 20)
""",
    ),
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
total = sum(i * i for i in range(30000000))
""",
    ),
}


def planted(name: str) -> set[str]:
    """The findings that a program should get."""
    return set((PROGRAMS[name][0] or "").split(", ")) - {""}


def source(name: str) -> str:
    """A program's source."""
    return PRELUDE + PROGRAMS[name][1]
