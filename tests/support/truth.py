"""What a program does to files, by strace (the kernel's view) and by a trace, in one form that can be compared.

Invariants: paths are relative to the directory that the program worked in, so that two runs in two directories
compare; files outside it (libraries, locales, /proc) are left out, and all pipes are one entry, as their numbers differ
between runs; so are all sockets.
"""

import gzip
import json
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import reader

PIPES = "<pipes>"
SOCKETS = "<sockets>"

# A name is compared after these: what mkstemp and the like made up is X'd out.
Renaming = Sequence[tuple[str, str]]


@dataclass
class Moved:
    """Bytes of one file."""

    read: int = 0
    written: int = 0

    def __str__(self) -> str:
        return f"{self.read} r, {self.written} w"


@dataclass
class Account:
    """Bytes by file, and how often each class of call succeeded on it."""

    bytes: dict[str, Moved] = field(default_factory=lambda: defaultdict(Moved))
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, file: str | None, read: int = 0, written: int = 0) -> None:
        """Credits `file`; None is a file that doesn't count."""
        if file is not None and (read or written):
            self.bytes[file].read += read
            self.bytes[file].written += written

    def count(self, kind: str, file: str | None) -> None:
        """One more successful call."""
        if file is not None and file not in (PIPES, SOCKETS):
            self.calls[kind, file] += 1


# As the kernel names them, as a trace does, and as strace does.
SOCKET = re.compile(r"socket:\[|(tcp|sctp|udp|unix|unix-dgram)(@\d+)?:|(UNIX|TCP|UDP)(v6|-\w+)?:\[")


class Names:
    """Paths as an account has them."""

    def __init__(self, directory: Path, renaming: Renaming) -> None:
        self._root = os.path.realpath(directory)
        self._renaming = [(re.compile(pattern), name) for pattern, name in renaming]

    def of(self, path: str | None) -> str | None:
        """The name of `path` in an account, or None where it doesn't count."""
        if path is None:
            return None
        if path.startswith("pipe:["):
            return PIPES
        if SOCKET.match(path):
            return SOCKETS
        path = os.path.normpath(path)
        if path != self._root and not path.startswith(self._root + "/"):
            return None
        name = os.path.relpath(path, self._root)
        for pattern, replacement in self._renaming:
            name = pattern.sub(replacement, name)
        return name


# ---- strace --------------------------------------------------------------------------------------------------------

READS = ("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "vmsplice")
# Which arguments are read from, written to.
COPIES = {"copy_file_range": (0, 2), "splice": (0, 2), "sendfile": (1, 0), "tee": (0, 1)}
CLASSES = {
    **dict.fromkeys(READS, "read"),
    **dict.fromkeys(WRITES, "write"),
    **dict.fromkeys(("open", "openat", "creat"), "open"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "unlink"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("link", "linkat"), "link"),
    **dict.fromkeys(("symlink", "symlinkat"), "symlink"),
    **dict.fromkeys(("stat", "lstat", "newfstatat", "statx"), "stat"),
}
# Where a call that names a file has the (new) name, and whether a directory descriptor stands before it.
NAMED = {
    **dict.fromkeys(("unlink", "rmdir", "mkdir", "stat", "lstat"), (0, False)),
    **dict.fromkeys(("unlinkat", "mkdirat", "newfstatat", "statx"), (1, True)),
    **dict.fromkeys(("rename", "link", "symlink"), (1, False)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (3, True)),
    "symlinkat": (2, True),
}
TRACED = ",".join([*CLASSES, *COPIES, "chdir"])

MESSAGE = re.compile(r"\bmsg_len=(\d+)")
CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(?:<(.*)>(?:\(deleted\))?)?(?: .*)?$")
DESCRIPTOR = re.compile(r"^(?:-?\d+|AT_FDCWD)<(.*?)>(?:\(deleted\))?$")


def strace(command: Sequence[str], directory: Path, logs: Path, renaming: Renaming = (), **options: Any) -> Account:
    """Runs `command` in `directory` under strace; `logs` gets one log a thread. Options are subprocess.run's."""
    logs.mkdir()
    tracer = ["strace", "-ff", "-qq", "-yy", "-s", "4096", "-e", f"trace={TRACED}", "-o", str(logs / "log")]
    subprocess.run([*tracer, *command], cwd=directory, check=False, **options)
    account = Account()
    names = Names(directory, renaming)
    for log in sorted(logs.iterdir()):
        reader = _LogReader(names, account, os.path.realpath(directory))
        for line in log.read_text(errors="surrogateescape").splitlines():
            reader.take(line)
    return account


def split_arguments(text: str) -> list[str]:
    """The arguments of a call as strace prints them: split at commas outside strings, brackets and <paths>."""
    parts, depth, quoted, start, i = [], 0, False, 0, 0
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
        i += 1
    parts.append(text[start:].strip())
    return parts


def _descriptor(argument: str) -> str | None:
    found = DESCRIPTOR.match(argument)
    return found[1] if found else None


@dataclass
class _LogReader:
    """One thread's calls; `working` is its directory, for relative paths without a directory descriptor."""

    names: Names
    account: Account
    working: str

    def take(self, line: str) -> None:
        """Puts one line of strace's into the account."""
        found = CALL.match(line)
        if not found or int(found[3]) < 0:
            return
        call, arguments, result = found[1], split_arguments(found[2]), int(found[3])
        kind = CLASSES.get(call, "")
        if call in ("sendmmsg", "recvmmsg"):
            result = sum(map(int, MESSAGE.findall(found[2])))
        if call in COPIES:
            source, sink = (self.names.of(_descriptor(arguments[i])) for i in COPIES[call])
            self.account.add(source, read=result)
            self.account.add(sink, written=result)
        elif kind in ("read", "write"):
            file = self.names.of(_descriptor(arguments[0]))
            self.account.add(file, **{"read" if kind == "read" else "written": result})
            self.account.count(kind, file)
        elif kind == "open":
            self.account.count(kind, self.names.of(found[4]))
        elif call == "chdir":
            self.working = str(Path(self.working, arguments[0][1:-1]))
        elif call in NAMED:
            self.account.count(kind, self.names.of(self._named(arguments, *NAMED[call])))

    def _named(self, arguments: list[str], where: int, at: bool) -> str | None:
        base = (_descriptor(arguments[where - 1]) if at else None) or self.working
        name = arguments[where][1:-1]
        return str(Path(base, name)) if name else None


# ---- a trace -------------------------------------------------------------------------------------------------------

EVENT_CLASSES = {
    **dict.fromkeys(("read", "pread", "readv", "preadv", "preadv2"), "read"),
    **dict.fromkeys(("write", "pwrite", "writev", "pwritev", "pwritev2"), "write"),
    **dict.fromkeys(("open", "openat", "creat", "fopen", "freopen", "opendir"), "open"),
    **dict.fromkeys(("mkstemp", "mkostemp", "mkstemps", "mkostemps"), "open"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir", "remove"), "unlink"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("link", "linkat"), "link"),
    **dict.fromkeys(("symlink", "symlinkat"), "symlink"),
    **dict.fromkeys(("stat", "lstat", "fstatat", "statx"), "stat"),
}


ABOVE = frozenset({"HDF5", "MPIIO"})
"""Categories of calls that are seen again below."""


def trace_files(run: Path) -> list[Path]:
    """The trace files of a run."""
    return sorted((run / "trace").glob("*.pfw.gz"))


def lines_of(run: Path) -> Iterator[dict[str, Any]]:
    """Every line of a run's trace files, completed as the format says; one that is no JSON raises."""
    for file in trace_files(run):
        with gzip.open(file) as lines:
            for line in lines:
                found = json.loads(line)
                yield {**found, "args": reader.complete(found)} if found.get("ph") == "X" else found


@dataclass
class Seen:
    """The events of a run, and the path of each file hash."""

    events: list[dict[str, Any]]
    files: dict[str, dict[str, Any]]

    def path(self, event: Mapping[str, Any], key: str = "fhash") -> str | None:
        """The path of an event's file."""
        file = self.files.get(event["args"].get(key, ""))
        return None if file is None else str(file["name"])

    def named(self, *names: str) -> list[dict[str, Any]]:
        """The events of these calls."""
        return [event for event in self.events if event["name"] in names]

    def written(self, path: Path) -> int:
        """Bytes written to a file."""
        return self._bytes(path, "w")

    def read(self, path: Path) -> int:
        """Bytes read from a file."""
        return self._bytes(path, "r")

    def _bytes(self, path: Path, way: str) -> int:
        wanted = os.path.realpath(path)
        total = 0
        for event in self.events:
            args = event["args"]
            if way in args.get("dir", "") and event["cat"] not in ABOVE:
                key = "fhash2" if way == "w" and args["dir"] == "rw" else "fhash"
                total += args["size"] if self.path(event, key) == wanted else 0
        return total


def read_run(run: Path) -> Seen:
    """All of a run."""
    events, files = [], {}
    for line in lines_of(run):
        if line["ph"] == "X":
            events.append(line)
        elif line["name"] == "FH":
            files[line["args"]["value"]] = line["args"]
    return Seen(events, files)


def account_of(run: Path, directory: Path, renaming: Renaming = ()) -> Account:
    """The accesses in a trace of the files under `directory`."""
    account = Account()
    names = Names(directory, renaming)
    seen = read_run(run)
    for event in seen.events:
        args = event["args"]
        file = names.of(seen.path(event))
        if args.get("dir") == "rw":
            account.add(file, read=args["size"])
            account.add(names.of(seen.path(event, "fhash2")), written=args["size"])
        elif "size" in args and event["cat"] not in ABOVE:
            account.add(file, **{"read" if args["dir"] == "r" else "written": args["size"]})
        kind = EVENT_CLASSES.get(event["name"])
        if kind is not None and args.get("ret", 0) >= 0 and "errno" not in args:
            account.count(kind, names.of(seen.path(event, "fhash2")) if kind in ("rename", "link") else file)
    return account


# ---- comparing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of the table: a program, a file, and both views of it."""

    program: str
    file: str
    truth: Moved
    seen: Moved
    ahead: bool = False  # stdio read ahead of the program; the trace has what the program took

    @property
    def agrees(self) -> bool:
        """Both views are the same, or differ by what stdio may read ahead."""
        if self.ahead:
            return self.seen.read <= self.truth.read and self.seen.written == self.truth.written
        return self.truth == self.seen

    @property
    def remark(self) -> str:
        """A remark for readers of the table."""
        if not self.agrees:
            return "DIFFERS"
        return "read ahead by stdio" if self.truth != self.seen else ""


def compare(
    program: str, truth: Account, seen: Account, ahead: Iterable[str] = (), skip: Iterable[str] = ()
) -> list[Row]:
    """One row a file that either view has bytes of, but those to `skip`."""
    files = sorted({*truth.bytes, *seen.bytes} - set(skip))
    return [Row(program, f, truth.bytes.get(f, Moved()), seen.bytes.get(f, Moved()), f in ahead) for f in files]


def table(rows: Iterable[Row]) -> str:
    """The rows as text: program, file, truth, seen."""
    cells = [("program", "file", "truth", "seen", "")]
    cells += [(r.program, r.file, str(r.truth), str(r.seen), r.remark) for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
