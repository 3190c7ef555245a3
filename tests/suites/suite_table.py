"""The suites that `foreign.py` runs: where each comes from, what is run of it, and how its output is read.

`{tree}` in a unit's words is what `Suite.source` made, `{folder}` an empty directory that is the unit's. A unit that
prints no line per test is a test itself: its exit code is the result. The units are chosen for what a tracer can
disturb (files, memory, processes, signals), and so that all of them take less than half an hour on two cores.

Left out: xfstests itself (in no registry; fsx and fsstress are LTP's), and gVisor's system call tests (C++ for Bazel;
Debian's mirrors lack the source of golang-gvisor-gvisor, the only package that has them).
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from results import TAP

Words = tuple[str, ...]
_HERE = Path(__file__).resolve().parent
PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter itself: its own tests do not expect a virtual environment."""


@dataclass(frozen=True)
class Debian:
    """A source package, and what builds its tests, by sh in its tree."""

    package: str
    build: str


@dataclass(frozen=True)
class Installed:
    """A program on PATH, and the words that print its version."""

    version: Words


@dataclass(frozen=True)
class Packages:
    """Binary packages and what they need, unpacked into a folder and not installed; `build` makes the tests there.
    `version`: None if it is the first package's."""

    packages: Words
    build: str
    version: str | None = None


@dataclass(frozen=True)
class Wheels:
    """Requirements, installed into a folder; the first one's version is the suite's. `sources`: the first one's source
    distribution, unpacked into `sources` there, if its wheel lacks the tests."""

    requirements: Words
    sources: bool = False


@dataclass(frozen=True)
class Given:
    """A directory that an option names; the file with its version, below it."""

    option: str
    version: str


@dataclass(frozen=True)
class Suite:
    """`units`: from the tree, names and words. `where`: the folder of the tree in which they run; None: `{folder}`.
    `result`: a test's line (`results.parsed`); None: the unit is the test, or `junit` is true and the words take
    `--junit-xml FILE`. `skipped`: in the output of a unit that is a test."""

    source: Debian | Installed | Packages | Wheels | Given
    units: Callable[[Path], Iterator[tuple[str, Words]]]
    where: str | None = None
    result: re.Pattern[str] | None = None
    junit: bool = False
    skipped: re.Pattern[str] | None = None


_CLASSES = ("filesystem", "memory", "cpu-cache", "os", "vm")
# They take memory, processor, devices, network or mounts from all that runs beside them, or end by chance.
_NOT_ALONE = frozenset(
    """bigheap bind-mount brk clone cpu-online cyclic dccp dev efivar forkheavy icmp-flood kill klog kvm loop memhotplug
    mlockmany module netlink-proc netlink-task numa oom-pipe opcode pci personality physpage ping-sock plugin procfs
    quota race-sched ramfs rawpkt rawsock rawudp reboot resources schedpolicy stack swap sysbadaddr syscall sysfs
    sysinval tmpfs tun udp-flood umount unshare vforkmany watchdog x86syscall zombie""".split()
)


def _stressors(_: Path) -> Iterator[tuple[str, Words]]:
    """All of the classes, one after the other; each once."""
    names: dict[str, None] = {}
    for kind in _CLASSES:
        words = ["stress-ng", "--class", f"{kind}?"]
        listed = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
        names.update(dict.fromkeys(listed.partition("stressors:")[2].split()))
    for name in names:
        if name not in _NOT_ALONE:
            yield name, ("stress-ng", f"--{name}", "1", "--timeout", "1", "--verify", "--temp-path", "{folder}")


def _each(names: str, *words: str) -> Callable[[Path], Iterator[tuple[str, Words]]]:
    """A unit for each name; `{name}` in the words is it."""

    def units(_: Path) -> Iterator[tuple[str, Words]]:
        for name in names.split():
            yield name, tuple(word.replace("{name}", name) for word in words)

    return units


def _coreutils(tree: Path) -> Iterator[tuple[str, Words]]:
    for name in ("cp", "dd", "ln", "mkdir", "touch"):
        tests = sorted(str(path.relative_to(tree)) for path in (tree / "tests" / name).glob("*.sh"))
        yield name, ("make", "-s", "check-TESTS", f"TESTS={' '.join(tests)}")


def _node(tree: Path) -> Iterator[tuple[str, Words]]:
    for test in sorted((tree / "test" / "parallel").glob("test-fs-*.js")):
        yield test.stem, ("node", str(test))


# They use up all process numbers, all links of a directory on five file systems, or race for minutes.
_LTP = re.compile(
    r"(?!fork13|rename11|writev03)"
    r"(access|brk|chdir|chmod|clone|close|copy_file_range|creat|dup|execve|fallocate|fcntl|flock|fork|fsync|ftruncate"
    r"|getcwd|getdents|getrlimit|io_setup|io_submit|kill|link|lseek|lstat|madvise|mincore|mkdir|mknod|mmap|mremap"
    r"|msync|munmap|open|openat|pipe|pipe2|pread|preadv|pwrite|pwritev|read|readlink|readv|rename|renameat2"
    r"|rt_sigaction|sendfile|setrlimit|sigaltstack|splice|stat|statx|symlink|tee|truncate|unlink|vfork|wait|wait4"
    r"|waitpid|write|writev)\d+(_64)?$"
)


def _ltp(tree: Path) -> Iterator[tuple[str, Words]]:
    programs = tree / "testcases" / "bin"
    path = f"PATH={programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    known = f"LTPROOT={tree}"
    for line in (tree / "runtest" / "syscalls").read_text().splitlines():
        name, _, command = line.partition(" ")
        if _LTP.match(name) and command and (programs / command.split()[0]).exists():
            yield name, ("env", path, known, *command.split())
    yield "fsx", (f"{programs}/fsx-linux", "-N", "5000", "-S", "1", "file")
    yield "fsstress", (f"{programs}/fsstress", "-d", "{folder}", "-n", "500", "-p", "2", "-s", "1")


# The small engines whole; of the others what is about files, tablespaces, signals and starts, as names tell.
_MARIADB = {
    "maria": "",
    "archive": "",
    "csv": "",
    "mariabackup": "^(full_backup|partial|xbstream)",
    "innodb": "^(flush|import_cfg|log_file|missing|skip_symbolic|tablespace|temp_table|tmpdir|truncate)",
    "main": "^(bootstrap|flush|init_file|kill|loaddata|outfile|rename|repair|shutdown|sighup|symlink|temp_table)",
}


def _mariadb(tree: Path) -> Iterator[tuple[str, Words]]:
    libraries = f"LD_LIBRARY_PATH={tree}/usr/lib/x86_64-linux-gnu"
    words = ("env", libraries, "perl", "./mariadb-test-run.pl", "--force", "--max-test-fail=0", "--retry=0")
    for suite, chosen in _MARIADB.items():
        yield suite, (*words, "--vardir={folder}/var", f"--suite={suite}", *([f"--do-test={chosen}"] if chosen else []))


def _pnetcdf(_: Path) -> Iterator[tuple[str, Words]]:
    mpi = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1".split()
    for name in ("C", "cdf_format", "header", "nc_test", "nonblocking", "testcases"):
        if name != "header":  # ranks alone
            yield name, ("env", *mpi, "sh", "-c", f"make -s -C {name} check-TESTS; cat {name}/*.log")
        yield f"{name}, ranks", ("env", *mpi, "make", "-s", "-C", name, "ptests")


# Without four tests of sparse files of 8 GiB, which are read in whole.
_TAR = "-60 61-120 121-166 171-"
_PYTEST = ("env", "PYTHONPATH={tree}", PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs")
_MODULES = """test_asyncio.test_subprocess test_fcntl test_file test_fileio test_io test_largefile test_mmap
test_multiprocessing_spawn test_os test_posix test_posixpath test_pty test_select test_shutil test_signal
test_sqlite3 test_subprocess test_tarfile test_tempfile test_threadsignals test_zipfile"""
_REDIS = "unit/dump unit/info unit/keyspace unit/shutdown integration/aof integration/rdb integration/redis-cli"
_SQLITE = """async attach backup bigmmap corrupt crash crash2 delete_db diskfull exclusive fallocate io journal1 lock
lock5 mmap1 mmap2 pager1 pagerfault shared shmlock syscall tempdb vacuum wal wal2 walmode"""
_GIT = """t0000-basic t0001-init t0005-signals t0050-filesystem t0061-run-command t0301-credential-cache
t1006-cat-file t1050-large t1301-shared-repo t1400-update-ref t1450-fsck t5000-tar-tree t5302-pack-index t5304-prune
t5500-fetch-pack t5510-fetch t7400-submodule-basic t7519-status-fsmonitor"""

_RUST = ("rustc-web", "cargo-web", "libstd-rust-web-dev", "rust-web-src")
_RUST_SETTINGS = "export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu PATH=$PWD/usr/bin:$PATH"

SUITES = {
    "stress-ng": Suite(
        Installed(("stress-ng", "--version")), _stressors, skipped=re.compile(r"skipping|not implemented")
    ),
    "cpython": Suite(Installed((PYTHON, "--version")), _each(_MODULES, PYTHON, "-m", "test", "{name}"), junit=True),
    "h5py": Suite(Wheels(("h5py", "pytest", "pytest-mpi")), _each("h5py", *_PYTEST, "{name}"), junit=True),
    "netcdf4-python": Suite(
        Wheels(("netcdf4", "numpy<2.3", "pytest"), sources=True),
        _each("tests", "env", "NO_NET=1", *_PYTEST, "."),
        where="sources/test",
        junit=True,
    ),
    "zarr": Suite(
        Wheels(("zarr<3", "numcodecs<0.16", "numpy<2.3", "fsspec", "msgpack", "pytest")),
        _each("zarr.tests.test_storage zarr.tests.test_hierarchy zarr.tests.test_sync", *_PYTEST, "{name}"),
        junit=True,
    ),
    "node": Suite(Debian("nodejs", "true"), _node, where="", skipped=re.compile(r"^1\.\.0 # Skipped", re.MULTILINE)),
    "redis": Suite(
        Debian(
            "redis",
            "for name in server cli benchmark check-aof check-rdb; do ln -sf $(command -v redis-$name) src; done",
        ),
        _each(_REDIS, "./runtest", "--clients", "1", "--single", "{name}"),
        where="",
        result=re.compile(r"^\[\S*?(?P<result>ok|err|skip|ignore)\S*\]: (?P<test>.*?)(?: \(\d+ ms\))?$", re.MULTILINE),
    ),
    "coreutils": Suite(
        Debian("coreutils", "FORCE_UNSAFE_CONFIGURE=1 ./configure -q && make -s -j2"),
        _coreutils,
        where="",
        result=re.compile(r"^(?P<result>X?PASS|X?FAIL|SKIP|ERROR): (?P<test>\S+)", re.MULTILINE),
    ),
    "tar": Suite(
        Debian(
            "tar", "FORCE_UNSAFE_CONFIGURE=1 ./configure -q && make -s -j2 && make -s -C tests check TESTSUITEFLAGS=1"
        ),
        _each(_TAR, "./testsuite", "{name}"),
        where="tests",
        result=re.compile(r"^ *(?P<test>\d+: .*?) +(?P<result>ok|FAILED|skipped)\b.*$", re.MULTILINE),
    ),
    "rsync": Suite(
        Debian(
            "rsync",
            "./configure -q --disable-openssl --disable-xxhash --disable-lz4 --disable-zstd --disable-md2man"
            " && make -s -j2 && make -s check",
        ),
        _each("rsync", "env", "rsync_bin={tree}/rsync", "./runtests.sh"),
        where="",
        result=re.compile(r"^(?P<result>PASS|FAIL|SKIP|ERROR) +(?P<test>\S+)", re.MULTILINE),
    ),
    "git": Suite(
        Debian("git", "make -s -j2 NO_GETTEXT=1 NO_TCLTK=1 all"),
        _each(_GIT, "sh", "./{name}.sh"),
        where="t",
        result=TAP,
    ),
    "sqlite": Suite(
        Debian("sqlite3", "./configure -q && make -s testfixture"),
        _each(_SQLITE, "{tree}/testfixture", "{tree}/test/{name}.test"),
        result=re.compile(r"^(?P<test>[^\s!]\S*)\.\.\.(?: (?P<result>Ok|Omitted))?$", re.MULTILINE),
    ),
    "mariadb": Suite(
        Packages(
            (
                "mariadb-server-core",
                "mariadb-server",
                "mariadb-client-core",
                "mariadb-client",
                "mariadb-backup",
                "mariadb-test",
                "mariadb-test-data",
            ),
            "true",
        ),
        _mariadb,
        where="usr/share/mysql/mysql-test",
        result=re.compile(r"^(?P<test>\w+\.\S+(?: '.*?')*) +\[ (?P<result>pass|fail|skipped) \]", re.MULTILINE),
    ),
    "pnetcdf": Suite(
        Debian(
            "pnetcdf",
            "autoreconf -i && ./configure -q --disable-fortran --disable-cxx && make -s -j2 && make -s -j2 tests",
        ),
        _pnetcdf,
        where="test",
        result=re.compile(r"^\*\*\* TESTING (?P<test>.*?) *-* (?P<result>pass|fail\w*)\b", re.MULTILINE),
    ),
    "rust-std": Suite(
        Packages(
            _RUST,
            f"{_RUST_SETTINGS} && export RUSTC_BOOTSTRAP=1"
            " && export STD_SOURCE=$(echo $PWD/usr/src/rustc-*/library/std/src)"
            # The one use of a private field.
            " && sed -i 's/dir_entry[.]0[.]path/dir_entry.path/' $STD_SOURCE/fs/tests.rs"
            f" && rustc --test --edition 2024 -o std_tests {_HERE}/std_tests.rs",
        ),
        _each("std", "{tree}/std_tests"),
        result=re.compile(r"^test (?P<test>\S+)(?: - should panic)? \.\.\. (?P<result>\w+)", re.MULTILINE),
    ),
    "pjdfstest": Suite(
        Packages(
            _RUST,
            f"{_RUST_SETTINGS} && ln -sf $(ldconfig -p | sed -n 's/.*libacl.so.1 .*=> //p') libacl.so"
            " && RUSTFLAGS=-L$PWD cargo install -q --locked --root . --version 0.2.2 pjdfstest",
            "0.2.2",
        ),
        _each("all", "{tree}/bin/pjdfstest", "-c", str(_HERE / "pjdfstest.toml")),
        result=re.compile(r"^(?P<test>[\w:]+) +(?P<result>ok|FAILED|skipped)$", re.MULTILINE),
    ),
    "ltp": Suite(
        Given("--ltp", "Version"),
        _ltp,
        result=re.compile(r"^(?P<test>\S+\.c:\d+|\S+ +\d+)[: ] +(?P<result>TPASS|TFAIL|TBROK|TCONF)\b", re.MULTILINE),
    ),
}
