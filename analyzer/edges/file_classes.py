"""File classes of the dataflow: data, stream, software, system or manager. Nothing is dropped; graphs fold the last
three.

A path alone is not enough: `/usr/lib/python3.11/os.py` is software to the interpreter that imports it, and data to the
`wc` that counts its lines or to the Python task that reads it as text. So an *access* (a process reading or writing a
file) gets a class, by the first rule that fits:

    1. the user's own patterns (`data`, `software` of `classify`)
    2. pipes, sockets, anonymous files                                                   -> stream
       those that one process alone writes and reads (`_inside`)                          -> system
    3. kernel interfaces (/proc, /sys, /dev but /dev/shm), devices, the run's own files,
       synchronisation (`SYNCHRONISATION`)                                               -> system
    4. files that the workflow manager declared as an input or output                    -> data
       files that it keeps for itself (`MANAGER_FILES`, and what it declared as its own)  -> manager
       files that its servers write and nobody else uses (`MANAGER_PROGRAMS`)             -> manager
       files that only processes of its own read (`of_manager`), of what would be data    -> manager
    5. byte-compiled caches (__pycache__, .pyc)                                           -> software
    6. a write, or a file written in this run                                             -> data
    7. configuration of the machine: `SYSTEM_PATHS` (/etc, locales, time zones, ...)            -> system
    8. shared objects, wherever they are                                                  -> software
    9. the program itself, or a script that a process of this run runs (`_script`)        -> software
   10. a Python source that the reader imported, Java's archives and classes read by java -> software
   11. outside every prefix of software (`SOFTWARE_PATHS`, virtual environments)          -> data
   12. a Python source read by Python, and not imported                                   -> data
   13. read by the program that loads this kind of file as its code (`LOADERS`)           -> software
   14. read by a general tool (`TOOLS`), or named in the reader's argv                    -> data
   15. anything else: a resource of the program                                           -> software

A source was imported by a process that failed to open its .pyc, or wrote it: an interpreter with a valid .pyc does not
open the source. In an untagged process reading the .pyc is enough: inspect and tracebacks read the sources of imported
modules. A file is data if one access of it is data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import join, normpath

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.analyzer.edges.edge_table import STREAM_TYPES, WRITE, EdgeTable, last_paths
from tailrace.analyzer.store.processes import Process, keys, numbers
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Objects
from tailrace.managers import MANAGERS

DATA, STREAM, SOFTWARE, SYSTEM, MANAGER = range(5)
CLASSES = ("data", "stream", "software", "system", "manager")

_SUFFIX = re.compile(r"[-.][^/.-]+")
KERNEL = re.compile(r"^/(proc|sys|dev)(/|$)")
SHARED_MEMORY = "/dev/shm/"
SYNCHRONISATION = re.compile(
    r"^/dev/shm/sem\.|/dev/shm/pym-\d+-|/pymp-[^/]+/pym-\d+-"
    r"|^/dev/shm/(vader_segment|sm_segment|osc_rdma|ucx_shm_posix|psm[23]_shm|mpich_shar|Intel_MPI)"
    r"|/(ompi|prte|prrte)\.[^/]+\.\d+/"
)
"""Synchronisation between processes: POSIX semaphores (glibc's names), the arenas in which Python's multiprocessing
keeps its values and arrays, and the memory and session directories by which the ranks of Open MPI, MPICH and Intel MPI
(also UCX and PSM below them) exchange messages. Python's SharedMemory (/dev/shm/psm_*) is data: processes exchange
arrays in it."""
SYSTEM_PATHS = re.compile(
    r"^/(etc|run|var/run|boot)(/|$)|^/usr/(share|lib)/(locale|zoneinfo|i18n|terminfo|ssl)(/|$)|^/lib/terminfo/"
    r"|/gconv/|/locale-archive$|^/usr/share/misc/magic|^/var/lib/(dpkg|apt|nss_db|sss)(/|$)"
)
SOFTWARE_PATHS = re.compile(
    r"^/(usr|lib|lib32|lib64|bin|sbin|opt|nix/store|gnu/store|snap)(/|$)"
    r"|/(site|dist)-packages(/|$)|/lib/python\d(\.\d+)?(/|$)|/(conda|mamba|miniconda3?|anaconda3?|miniforge3?)(/|$)|/\.?venv/"
    r"|/spack/(opt|installations)/|^/cvmfs/"
)
MANAGER_FILES = re.compile("|".join(pattern for row in MANAGERS for pattern in row.own_files))
MANAGER_PROGRAMS = frozenset(name for row in MANAGERS for name in row.servers)
"""Servers of managers."""
STARTERS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "busybox", "env", "time", "timeout", "tailrace"})
"""Programs that stand before the one that a user launches."""
TASK_FILES = re.compile("|".join(pattern for row in MANAGERS for pattern in row.task_files))
CACHES = re.compile(r"/__pycache__/|\.py[co]$")
SHARED_OBJECT = re.compile(r"\.so(\.[0-9.]+)?$|\.dylib$")
LOADERS = (
    (
        re.compile(r"\.(py|pyi|pyx|pth|pyd|egg-link|typed)$|/(METADATA|RECORD|entry_points\.txt|pyvenv\.cfg)$"),
        r"python|pypy|ipython",
    ),
    (re.compile(r"\.(pm|pl|ph|al|ix)$"), r"perl"),
    (re.compile(r"\.(rb|gemspec)$"), r"ruby"),
    (re.compile(r"\.(R|rds|rdb|rdx|RData)$|/DESCRIPTION$|/NAMESPACE$"), r"R$|Rscript"),
    (re.compile(r"\.(jl|ji)$"), r"julia"),
    (re.compile(r"\.(m?js|cjs|node|json)$"), r"node|npm"),
    (re.compile(r"\.(jar|class|jmod|jimage)$|/modules$"), r"java"),
    (
        re.compile(r"\.(h|hh|hpp|hxx|inc|o|a|lds|specs|mod)$|/include/"),
        r"cc1|cc1plus|g?cc|[gc]\+\+|clang|f951|gfortran|ld|as$|collect2|make|cmake|x86_64",
    ),
    (re.compile(r"\.(sh|bash|zsh)$"), r"(ba|da|z|k)?sh$|busybox"),
    (re.compile(r"\.(lua|tcl|tm)$"), r"lua|tclsh|wish"),
)
"""(kind of file, programs that load it as code); the second is matched at the start of the program's name."""
INTERPRETERS = (
    (r"python|pypy|ipython", "cm-", "WX"),
    (r"perl", "eE-", "IMm"),
    (r"ruby", "e-", "Ir"),
    (r"R$|Rscript", "e-", ""),
    (r"julia", "eE-", "Lpt"),
    (r"node|npm", "ep-", "r"),
    (r"java", "", ""),
    (r"(ba|da|z|k)?sh$|busybox", "cs", "oO"),
    (r"lua|tclsh|wish", "e-", "l"),
)
"""(program, letters of options after which no script follows, letters of options whose value is the next word). A
script follows `sh -e`, code follows `perl -e`. "-" is among the first letters where a single "-" means standard
input."""
# fmt: off
TOOLS = frozenset([
    "awk", "b2sum", "base64", "bzip2", "cat", "cmp", "comm", "cp", "cpio", "csplit", "cut", "dd", "diff", "expand",
    "fgrep", "file", "find", "fold", "gawk", "grep", "gunzip", "gzip", "head", "install", "join", "jq", "less",
    "lz4", "mawk", "md5sum", "mv", "nl", "od", "paste", "pr", "rg", "rsync", "scp", "sed", "sha1sum", "sha256sum",
    "sha512sum", "shuf", "sort", "split", "strings", "tac", "tail", "tar", "tee", "tr", "uniq", "unzip", "wc",
    "xargs", "xxd", "xz", "zcat", "zgrep", "zip", "zstd",
])
# fmt: on
"""Programs without notable resources: the files that they read are their input."""

PYTHON = re.compile(r"python|pypy|ipython")
JAVA = re.compile(r"java")
JAVA_CODE = (".jar", ".class", ".jmod")
COMPILED = re.compile(r"^(.*?/)(?:__pycache__/)?([^/]+?)\.[^/.]+(?:\.opt-[12])?\.py[co]$")
"""The .pyc of a source: directory and module, then the tag of the interpreter."""


@dataclass(frozen=True)
class Program:
    """The program of a process: exe ("" if unknown), argv, and the script it runs ("" if none)."""

    exe: str = ""
    argv: tuple[str, ...] = ()
    script: str = ""

    @property
    def name(self) -> str:
        return program(self.exe)


@dataclass(frozen=True)
class RuleInputs:
    """What the rules need beyond one access. own: the tracer's directories; imported: actor -> sources (`_module`)."""

    declared: frozenset[str] = frozenset()
    manager: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    data: Sequence[str] = ()
    software: Sequence[str] = ()
    environments: tuple[str, ...] = ()
    scripts: frozenset[str] = frozenset()
    imported: dict[int, set[str]] = field(default_factory=dict)


def stems(path: str) -> Iterator[str]:
    """The names that a file may be named after: `base` of base-journal and base.lock."""
    return (path[: at.start()] for at in _SUFFIX.finditer(path))


def program(exe: str) -> str:
    """The name of a program: the last part of its path."""
    return exe.rsplit("/", 1)[-1]


def is_library_code(path: str) -> bool:
    """Whether a file is code of installed software by its name, whoever reads it."""
    return SOFTWARE_PATHS.search(path) is not None and any(kind.search(path) for kind, _ in LOADERS)


def classify(
    table: EdgeTable,
    bursts: pd.DataFrame,
    programs: Sequence[Program],
    declared: Iterable[str] = (),
    own: Iterable[str] = (),
    data: Sequence[str] = (),
    software: Sequence[str] = (),
    manager: Iterable[str] = (),
    of_manager: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.int64]:
    """The class (position in `CLASSES`) of each burst.

    Args:
        bursts: rows of the edge table (columns who, file, dir).
        programs: the program of each actor, see `programs`. An unknown one reads no data below a prefix of software.
        declared: paths that a workflow manager declared.
        own: directories of the tracer, such as the run's.
        manager: directories and files of workflow managers, such as Parsl's.
        of_manager: whether each actor is a manager's own process.
        data, software: shell patterns of whole paths, applied before any other rule.
    """
    paths = last_paths(table)
    environments = tuple(str(p)[: -len("pyvenv.cfg")] for p in paths if str(p).endswith("/pyvenv.cfg"))
    scripts = frozenset(p.script for p in programs if p.script)
    inputs = RuleInputs(
        frozenset(declared), tuple(manager), tuple(own), data, software, environments, scripts, _imported(table, bursts)
    )
    of_burst: npt.NDArray[np.int64] = _settled(table, bursts, paths, programs, inputs)[bursts["file"].to_numpy()]
    known: dict[tuple[int, int], int] = {}
    rows = np.flatnonzero(of_burst < 0)
    actors, files = (bursts[name].to_numpy()[rows].tolist() for name in ("who", "file"))
    for row, *key in zip(rows.tolist(), actors, files, strict=True):
        pair = (key[0], key[1])
        if pair not in known:
            known[pair] = _by_reader(str(paths[key[1]]), programs[key[0]], inputs.imported.get(key[0], set()), inputs)
        of_burst[row] = known[pair]
    if of_manager is not None and of_manager.any():
        of_burst[_of_managers(table, bursts, of_burst, of_manager, inputs)] = MANAGER
    return of_burst


def _of_managers(
    table: EdgeTable,
    bursts: pd.DataFrame,
    classes: npt.NDArray[np.int64],
    of_manager: npt.NDArray[np.bool_],
    inputs: RuleInputs,
) -> npt.NDArray[np.bool_]:
    """The accesses of files that only managers' own processes read. One that they write and read no more may be a
    result, as a published copy, and so may be what a task or the user declared."""
    file, mine = bursts["file"].to_numpy(), of_manager[bursts["who"].to_numpy()]
    data, wrote = classes == DATA, (bursts["dir"] == WRITE).to_numpy()
    left = np.ones(len(table.files), dtype=np.bool_)
    left[file[data & ~mine]] = False
    read = np.zeros(len(table.files), dtype=np.bool_)
    read[file[data & ~wrote]] = True
    named = table.aliases["path"].isin(inputs.declared).to_numpy(dtype=np.bool_)
    left[table.aliases["file"].to_numpy()[named]] = False
    of_user = [any(fnmatchcase(str(path), pattern) for pattern in inputs.data) for path in last_paths(table)]
    return data & (left & read & ~np.array(of_user, dtype=np.bool_))[file]


class _Undecided:
    """The files without a class so far: `at` their codes, `paths` their paths; `out` has the classes of the others.

    Arrow searches all paths of a run at once, for half a million of them ten times as fast as Python's re. It uses RE2,
    so the patterns of this module have no lookahead and no lookbehind.
    """

    def __init__(self, paths: Objects) -> None:
        self.out = np.full(len(paths), -1, dtype=np.int64)
        self.at = np.arange(len(paths))
        self.paths = pa.array(paths, type=pa.large_string())

    def decide(self, fits: npt.NDArray[np.bool_], result: int) -> None:
        """Gives the files of `fits` (parallel to `at`) the class `result`."""
        if fits.any():
            self.out[self.at[fits]] = result
            self.at, self.paths = self.at[~fits], self.paths.filter(pa.array(~fits))

    def found(self, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
        return np.asarray(pc.match_substring_regex(self.paths, pattern.pattern), dtype=np.bool_)

    def below(self, directories: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Whether each path begins with one of `directories`, which end in a slash."""
        found = [np.asarray(pc.starts_with(self.paths, name), dtype=np.bool_) for name in directories]
        return np.logical_or.reduce(found) if found else np.zeros(len(self.at), dtype=np.bool_)

    def any_of(self, paths: Sequence[str]) -> npt.NDArray[np.bool_]:
        return np.asarray(pc.is_in(self.paths, pa.array(paths, pa.large_string())), dtype=np.bool_)

    def named(self, patterns: Sequence[str]) -> npt.NDArray[np.bool_]:
        if not patterns:
            return np.zeros(len(self.at), dtype=np.bool_)
        return np.array([any(fnmatchcase(str(path), p) for p in patterns) for path in self.paths], dtype=np.bool_)


def _settled(
    table: EdgeTable, bursts: pd.DataFrame, paths: Objects, programs: Sequence[Program], inputs: RuleInputs
) -> npt.NDArray[np.int64]:
    """The class of each file by rules 1 to 8, which don't depend on the reader, and by 11 where no reader can change
    it; -1 where the reader decides."""
    declared = np.zeros(len(paths), dtype=np.bool_)
    if inputs.declared:
        named = table.aliases["path"].isin(inputs.declared).to_numpy(dtype=np.bool_)
        declared[table.aliases["file"].to_numpy()[named]] = True
        declared |= pd.Series(paths, dtype=object).isin(inputs.declared).to_numpy(dtype=np.bool_)
    ftypes = table.files["ftype"]
    stream, device = (ftypes.isin(kinds).to_numpy(dtype=np.bool_) for kinds in (STREAM_TYPES, ("chr", "blk")))
    written = np.zeros(len(paths), dtype=np.bool_)
    written[bursts["file"].to_numpy()[(bursts["dir"].to_numpy() == WRITE)]] = True
    code = inputs.scripts.union(p.exe for p in programs)
    left = _Undecided(paths)
    left.decide(left.named(inputs.data), DATA)
    left.decide(left.named(inputs.software), SOFTWARE)
    left.decide((stream & _inside(table, bursts))[left.at], SYSTEM)
    left.decide(stream[left.at], STREAM)
    left.decide(left.below(directory.rstrip("/") + "/" for directory in inputs.own), SYSTEM)
    left.decide(device[left.at] | (left.found(KERNEL) & ~left.below([SHARED_MEMORY])), SYSTEM)
    left.decide(left.found(SYNCHRONISATION), SYSTEM)
    left.decide(declared[left.at], DATA)
    managed = left.below(directory.rstrip("/") + "/" for directory in inputs.manager) | left.found(MANAGER_FILES)
    managed |= left.any_of(inputs.manager)
    left.decide(managed & ~left.found(TASK_FILES), MANAGER)
    left.decide((written & ~_used_by_others(bursts, programs, len(paths)))[left.at], MANAGER)
    left.decide(left.found(CACHES), SOFTWARE)
    left.decide(written[left.at], DATA)
    left.decide(left.found(SYSTEM_PATHS), SYSTEM)
    left.decide(left.found(SHARED_OBJECT), SOFTWARE)
    special = left.found(SOFTWARE_PATHS) | left.below(inputs.environments)
    for ending in (".py", *JAVA_CODE):
        special |= np.asarray(pc.ends_with(left.paths, ending), dtype=np.bool_)
    special |= left.any_of(sorted(code))
    left.decide(~special, DATA)
    return left.out


def _inside(table: EdgeTable, bursts: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which files one process alone writes and reads. Of pipes and sockets these wake up its own threads, as an event
    loop's do (asyncio, libuv): what passes says that there is work, and the work is in memory. Whichever tasks the
    threads serve, nothing goes from one to the other there."""
    file, process = bursts["file"].to_numpy(), numbers(table.who)[bursts["who"].to_numpy()]
    wrote = (bursts["dir"] == WRITE).to_numpy()
    out = grouping.distinct(file, process, len(table.files)) == 1
    for way in (wrote, ~wrote):
        out &= np.bincount(file[way], minlength=len(table.files)) > 0
    return np.asarray(out, dtype=np.bool_)


def _used_by_others(bursts: pd.DataFrame, programs: Sequence[Program], files: int) -> npt.NDArray[np.bool_]:
    """Whether a program that is none of `MANAGER_PROGRAMS` reads or writes each file."""
    of_server = np.array([p.name in MANAGER_PROGRAMS for p in programs], dtype=np.bool_)
    out = np.zeros(files, dtype=np.bool_)
    out[bursts["file"].to_numpy()[~of_server[bursts["who"].to_numpy()]]] = True
    return out


def _by_reader(path: str, reader: Program, imported: set[str], inputs: RuleInputs) -> int:
    rules = _reader_rules(path, reader, imported, inputs)
    return next((result for fits, result in rules if fits), SOFTWARE)


def _reader_rules(path: str, reader: Program, imported: set[str], inputs: RuleInputs) -> Iterator[tuple[bool, int]]:
    """Rules 9 to 14, evaluated lazily, since most files need few of these searches."""
    python_source = path.endswith(".py") and PYTHON.match(reader.name) is not None
    yield path == reader.exe or path in inputs.scripts, SOFTWARE
    yield python_source and _module(path) in imported, SOFTWARE
    yield path.endswith(JAVA_CODE) and JAVA.match(reader.name) is not None, SOFTWARE
    yield SOFTWARE_PATHS.search(path) is None and not path.startswith(inputs.environments), DATA
    yield python_source, DATA
    yield any(kind.search(path) and re.match(loader, reader.name) for kind, loader in LOADERS), SOFTWARE
    yield reader.name in TOOLS or _names(reader.argv[1:], path), DATA


def _names(arguments: tuple[str, ...], path: str) -> bool:
    """Whether an argument is the file, or a directory above it that is deeper than a software prefix (`/usr/lib`)."""
    for argument in arguments:
        value = argument.split("=", 1)[-1].rstrip("/")
        if value == path or (value.count("/") >= 3 and path.startswith(value + "/")):
            return True
    return False


def _module(path: str) -> str:
    """A source by the last two parts of its path: the path of a missing .pyc has unresolved links."""
    return "/".join(path.split("/")[-2:])


def _imported(table: EdgeTable, bursts: pd.DataFrame) -> dict[int, set[str]]:
    """actor -> the sources (`_module`) that its process imported, under any tags."""
    missed = table.facts[table.facts["what"] == "missed"][["who", "path"]]
    caches = table.aliases[table.aliases["path"].str.contains(".py", regex=False)][["file", "path"]]
    touched = bursts[["who", "file", "dir"]].drop_duplicates().merge(caches, on="file")
    process = numbers(table.who)
    sure: dict[int, set[str]] = {}
    likely: dict[int, set[str]] = {}
    for out, rows in ((sure, missed), (sure, touched[touched["dir"] == WRITE]), (likely, touched)):
        for who, path in zip(rows["who"], rows["path"], strict=True):
            match = COMPILED.match(str(path))
            if match:
                out.setdefault(int(process[who]), set()).add(_module(f"{match[1]}{match[2]}.py"))
    inside = (table.who["stage"] + table.who["task"] != "").to_numpy()
    every = enumerate(process.tolist())
    return {who: sure.get(p, set()) | (set() if inside[who] else likely.get(p, set())) for who, p in every}


def programs(who: pd.DataFrame, processes: pd.DataFrame | None) -> list[Program]:
    """The program of each actor; `Program()` when it is unknown.

    Args:
        who: columns host, pid and start.
        processes: one row per process with host, pid, start, exe, argv (list or JSON text) and, if known, cwd.
    """
    known: dict[Process, Program] = {}
    if processes is not None and {"host", "pid", "exe"} <= set(processes.columns):
        size = len(processes)
        columns = {n: processes[n].tolist() if n in processes else [None] * size for n in ("exe", "argv", "cwd")}
        for key, exe, words, cwd in zip(keys(processes), *columns.values(), strict=True):
            exe, argv = exe if isinstance(exe, str) else "", arguments(words)
            script = _script(exe, argv, cwd if isinstance(cwd, str) else "")
            known[key] = Program(exe, argv, script)
    return [known.get(key, Program()) for key in keys(who)]


def _script(exe: str, argv: tuple[str, ...], cwd: str) -> str:
    """The script that an interpreter runs: its first argument that is no option; "" where code is given instead."""
    known = _interpreter(program(exe))
    if known is None:
        return ""
    code, valued = known
    words = iter(argv[1:])
    for word in words:
        if word == "--" or (word == "-" and "-" not in code):
            word = next(words, "")
        elif word.startswith(("-", "+")):
            letters = "" if word.startswith("--") else word[1:] or "-"
            until = next((letter for letter in letters if letter in code + valued), "")
            if until and until in code:
                return ""
            if until and letters.endswith(until):
                next(words, "")
            continue
        return normpath(join(cwd, word)) if word else ""
    return ""


@lru_cache
def _interpreter(name: str) -> tuple[str, str] | None:
    """The row of `INTERPRETERS` for a program, without its name."""
    return next(((code, valued) for kind, code, valued in INTERPRETERS if re.match(kind, name)), None)


def arguments(value: object) -> tuple[str, ...]:
    """An argv as a tuple; in a catalogue it is JSON text, a list, or null."""
    if isinstance(value, str):
        text = value
        try:
            value = json.loads(text)
        except ValueError:
            value = text.split()
    return tuple(str(v) for v in value) if isinstance(value, list | tuple | np.ndarray) else ()
