"""Real programs under strace and under tailrace: file by file, the trace has the bytes that the kernel moved.

Each program runs twice, in two directories that are made alike. Where a program calls the kernel one to one,
the number of calls is compared too. The whole table is printed when all have run.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.truth import PIPES, SOCKETS, Account, Renaming, Row, account_of, compare, strace, table

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace, the truth, is not installed")

PYTHON = sys.executable


@dataclass(frozen=True)
class Case:
    """A program (a bash script) and how to compare it."""

    name: str
    script: str
    needs: str = ""  # commands and, as `module:x`, Python modules, by blanks
    program: str = ""  # one of ../programs, which the script calls as $PROGRAM
    calls: str = ""  # the classes of calls that are compared, by blanks
    pipes: bool = True  # False where what goes through pipes and sockets depends on timing
    renaming: Renaming = ()
    timing: tuple[str, ...] = ()  # files of which more or less is read by chance
    ahead: tuple[str, ...] = ()  # files that stdio reads ahead of the program: seen is what was consumed, not more


NAMING = "rename unlink mkdir link symlink"
EXACT = f"open read write {NAMING} stat"
GIT = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'"

OWN = ("program.py",)  # Python looks at a program's first bytes by stdio, and then reads it anew

CASES = [
    Case("dd", "dd if=data.bin of=out bs=64k status=none", calls=EXACT),
    Case("dd conv", "dd if=data.bin of=out bs=4k skip=3 seek=5 count=20 conv=notrunc,fsync status=none", calls=EXACT),
    Case("cat", "cat text.txt small.txt > out", calls=f"open {NAMING}"),
    Case("cp", "cp data.bin out && cp -r tree copy", calls=NAMING),
    Case("mv ln rm", "mv small.txt moved && ln moved hard && ln -s moved soft && rm hard && mkdir d && rmdir d",
         calls=NAMING),
    Case("sort", "sort text.txt > out"),
    Case("sort -o", "sort -o text.txt text.txt", calls=NAMING),
    Case("sort pipe", "cat text.txt | sort -r | uniq > out"),
    Case("sort big", "sort -S 64k -T . text.txt -o out", renaming=[(r"sort\w{6}$", "sortX")], pipes=False),
    Case("tar", "tar cf out.tar tree && mkdir x && tar xf out.tar -C x", calls=NAMING),
    Case("tar gzip", "tar c tree data.bin | gzip > out.tgz && gunzip < out.tgz | tar t > list"),
    Case("sed", "sed s/line/row/ text.txt > out"),
    Case("sed -i", "sed -i s/line/row/ text.txt", calls=NAMING, renaming=[(r"^sed\w{6}$", "sedX")]),
    Case("grep", "grep -c 7 text.txt > out; grep -r alpha tree > found; grep -q zzz text.txt"),
    Case("gzip", "gzip -k data.bin && gunzip -c data.bin.gz > out && gzip text.txt && gunzip text.txt.gz",
         calls=NAMING),
    Case("head", "cat data.bin | head -c 1000 > out; head -n 3 text.txt > three", pipes=False),
    Case("tail", "tail -n 5 text.txt > out; tail -c 100 data.bin >> out"),
    Case("tee", "cat data.bin | tee one two > three"),
    Case("awk", "awk '{ n += NF; print $1 > \"first\" } END { print n }' text.txt > out", needs="awk"),
    Case("wc", "wc text.txt data.bin > out; wc -l < text.txt >> out"),
    Case("redirects", "tr a-z A-Z < text.txt > out; cat <<< here >> out; cat >> out << EOF\nhere $PWD\nEOF",
         pipes=False),
    Case("redirects built in", "while read -r a b; do echo \"$b $a\"; done < small.txt > out; "
         "printf '%s\\n' x y >> out"),
    Case("while read pipe", "cat small.txt | while read -r line; do echo \"<$line>\"; done > out"),
    Case("descriptors", "exec 3> out 4< small.txt; read -r a <&4; echo \"$a\" >&3; "
         "exec 3>&-; exec 4<&-; echo x > other"),
    Case("errors to a file", "ls nowhere 2> err; cat nowhere 2>> err; sort nowhere 2>> err; nowhere 2>> err"),
    Case("xargs", "ls tree | xargs -n 1 echo > out; printf '%s\\n' tree/a tree/b | xargs cat > both"),
    Case("find", "find tree -type f -exec cat {} + > out; find . -name '*.txt' -newer data.bin -print > list"),
    Case("make", "make -s -j2 -f rules all", needs="make", pipes=False),
    Case("comm join paste", "paste text.txt text.txt > p; cut -d ' ' -f 1 p > c; comm p p > q; "
         "join small.txt small.txt > j"),
    Case("split", "split -b 100k data.bin part. && cat part.* > whole && cmp whole data.bin", calls=NAMING),
    Case("od md5sum", "od -A d -t x1 small.txt > out; od -c -j 100 -N 5000 data.bin > out2; md5sum data.bin > sum",
         ahead=("data.bin",)),
    Case("diff", "diff text.txt small.txt > out; cmp data.bin text.txt > out2"),
    Case("install truncate", "install -m 600 data.bin out; truncate -s 10 out; cat out > tail"),
    Case("perl", "perl -pe 's/line/row/' text.txt > out; perl -i -pe 's/row/line/' text.txt", needs="perl",
         renaming=[(r"^XX\w{6}$", "XX")]),
    Case("perl io", "perl -e 'open F,\"<data.bin\"; sysseek F,100,0; sysread F,$b,50; open G,\">out\"; print G $b;'",
         needs="perl"),
    Case("git", f"{GIT}; git init -q . && git add text.txt data.bin tree && "
         "git -c user.name=n -c user.email=e@x commit -q -m m && git log --stat > out", needs="git", pipes=False,
         timing=(".git/index", ".git/index.lock"),
         renaming=[(r"tmp_obj_\w+$", "tmp_objX"), (r"t\w{6}$", "tX")]),
    Case("sqlite3", "sqlite3 base 'create table t (a, b); insert into t values (1, 2)' && "
         "printf 'insert into t select a+1, b from t;\\nselect * from t;\\n' | sqlite3 base > out",
         needs="sqlite3", ahead=("base",)),
    Case("C stdio", "$PROGRAM text.txt data.bin", program="stdio_mix", ahead=("update",)),
    Case("C stdio calls", "$PROGRAM out < small.txt > stdout 2> stderr", program="stdio_calls"),
    Case("C messages", "$PROGRAM options 2> err; $PROGRAM said > out 2> err2; $PROGRAM tables; $PROGRAM translated; "
         "$PROGRAM argp --help > help; $PROGRAM argp --wrong > out2 2> err3; $PROGRAM assert 2> err4; "
         "$PROGRAM assert_error 2> err5; $PROGRAM asked < small.txt > out3 2> err6; true",
         program="messages", pipes=False, ahead=("mounts", "utf-16")),
    Case("C++ fstream", "$PROGRAM text.txt data.bin", program="fstream"),
    Case("C++ cin", "$PROGRAM cin < numbers > out; cat numbers | $PROGRAM cin > out2", program="fstream"),
    Case("posix calls", "$PROGRAM data.bin", program="posix_calls", calls="read write unlink mkdir",
         renaming=[(r"^temporary\w{6}$", "temporaryX"), (r"inside", "renamed")]),
    *(Case(f"moves {what}", f"$PROGRAM {what} data.bin > said", program="moves") for what in
      ("sockets", "passed", "pipes", "asynchronous", "by_number", "clones")),
    Case("python", f"{PYTHON} program.py text", ahead=OWN),
    Case("python sqlite", f"{PYTHON} program.py sqlite", needs="module:sqlite3", ahead=OWN),
    Case("python numpy", f"{PYTHON} program.py numpy", needs="module:numpy",
         ahead=("a.npy", "d.raw", *OWN)),
    Case("hdf5", "$PROGRAM write out.h5 > said 2>&1; $PROGRAM threads more.h5", program="hdf5"),
    Case("python h5py", f"{PYTHON} program.py h5py", needs="module:h5py", ahead=OWN),
    Case("python shutil", f"{PYTHON} program.py shutil", renaming=[(r"tmp\w{8}", "tmpX")], ahead=OWN),
    Case("python subprocess", f"{PYTHON} program.py subprocess", ahead=OWN, pipes=False),
    Case("python threads", f"{PYTHON} program.py threads", ahead=OWN),
    *(Case(f"python pool {kind}", f"{PYTHON} program.py pool {kind}", pipes=False, timing=OWN) for kind in
      ("fork", "spawn", "forkserver")),
]  # fmt: skip

PROGRAM_PY = """
import io, multiprocessing, os, shutil, sqlite3, subprocess, sys, tempfile, threading

def text(_=None):
    with open("text.txt") as lines, open("out", "w") as out:
        for line in lines:
            out.write(line.upper())
    with open("data.bin", "rb") as data, open("out.bin", "wb") as out:
        data.seek(1000)
        out.write(data.read(5000))
        out.seek(10)
        out.write(data.read())
    with open("data.bin", "rb", buffering=0) as data:
        data.readinto(bytearray(100))
    with open("out", "r+") as both:
        both.readline()
        both.seek(0, 2)
        both.write("end")
    fd = os.open("raw", os.O_RDWR | os.O_CREAT)
    os.writev(fd, [b"a" * 10, b"b" * 20])
    os.pwrite(fd, b"c" * 5, 100)
    os.preadv(fd, [bytearray(50), bytearray(50)], 0)
    os.close(fd)

def sqlite():
    base = sqlite3.connect("base")
    base.execute("create table t (a integer primary key, b)")
    base.executemany("insert into t (b) values (?)", (("x" * 50,) for _ in range(2000)))
    base.commit()
    base.execute("pragma journal_mode = wal")
    base.execute("update t set b = 'y' where a % 7 = 0")
    base.commit()
    base.close()

def numpy():
    import numpy
    table = numpy.arange(20000.0).reshape(100, 200)
    numpy.save("a.npy", table)
    numpy.savez("b.npz", x=table, y=table[:2])
    numpy.savetxt("c.txt", table[:3])
    assert numpy.load("a.npy").sum() == table.sum()
    assert numpy.load("b.npz")["y"].shape == (2, 200)
    numpy.loadtxt("c.txt")
    assert numpy.load("a.npy", mmap_mode="r")[5, 5] == table[5, 5]
    table.tofile("d.raw")
    assert numpy.fromfile("d.raw").size == table.size

def h5py_():
    import h5py, numpy
    with h5py.File("a.h5", "w") as file:
        file["plain"] = numpy.arange(10000)
        file.create_dataset("packed", data=numpy.zeros((500, 500)), chunks=(50, 50), compression="gzip")
    with h5py.File("a.h5", "r+") as file:
        assert file["packed"][3:100, 7:90].sum() == 0
        file["plain"][5:10] = 0
        file["plain"].attrs["unit"] = "m"

def shutil_():
    shutil.copyfile("data.bin", "copy")
    shutil.copytree("tree", "trees")
    shutil.make_archive("pack", "tar", "tree")
    with tempfile.NamedTemporaryFile(dir=".") as temporary:
        temporary.write(b"x" * 10)
    os.replace("copy", "copied")

def subprocess_():
    with open("out", "w") as out, open("text.txt") as given:
        subprocess.run(["sort", "-r"], stdin=given, stdout=out, close_fds=True)
    open("lines", "wb").write(subprocess.run("wc -l", shell=True, input=b"a\\nb\\n", capture_output=True).stdout)
    try:
        subprocess.run(["no-such-command"])
    except FileNotFoundError:
        pass
    subprocess.run(["cat", "small.txt"], stdout=subprocess.DEVNULL)
    open("after", "w").write("after")

def threads():
    def work(number):
        for _ in range(20):
            with open(f"thread{number}", "a") as out:
                out.write("line\\n" * 10)
            open("text.txt").read()
    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    [w.start() for w in workers]
    [w.join() for w in workers]

def work(number):
    with open("small.txt") as given, open(f"worker{number}", "w") as out:
        return out.write(given.read() * number)

def pool(kind):
    with multiprocessing.get_context(kind).Pool(2) as workers:
        workers.map(work, range(8))

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    function = globals().get(name + "_") or globals()[name]
    function(*arguments)
"""


def prepare(directory: Path) -> Path:
    """The files that every program finds."""
    (directory / "tree" / "deep").mkdir(parents=True)
    (directory / "text.txt").write_text("".join(f"{i * 7919 % 3001} line of text {i}\n" for i in range(6000)))
    (directory / "small.txt").write_text("alpha 1\nbeta 2\ngamma 3\n")
    (directory / "numbers").write_text("".join(f"{i}\n" for i in range(3000)))
    (directory / "data.bin").write_bytes(b"".join((i * i).to_bytes(8, "little") for i in range(50_000)) + b"tail")
    for name, text in {"a": "alpha\n", "b": "beta\n" * 500, "deep/c": "", "deep/d": "x" * 70_000}.items():
        (directory / "tree" / name).write_text(text)
    for path in [directory / "data.bin", *directory.glob("tree/**/*"), directory / "tree"]:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (directory / "rules").write_text(
        "all: x y\nx: text.txt\n\tsort $< > $@\ny: small.txt\n\t@cat $< > $@; wc $@ >> $@\n"
    )
    (directory / "program.py").write_text(dedent(PROGRAM_PY))
    return directory


def why_not(case: Case) -> str:
    """What a case needs and isn't there."""
    for need in case.needs.split():
        module = need.removeprefix("module:")
        if need != module:
            if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
                return f"no Python module {module}"
        elif shutil.which(need) is None:
            return f"no {need}"
    return ""


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> Iterator[list[Row]]:
    """Collects the table, which the session prints when all programs have run."""
    collected: list[Row] = []
    yield collected
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if reporter and capture:
        with capture.global_and_fixture_disabled():
            reporter.write_line("")
            reporter.section("bytes moved: strace and tailrace")
            reporter.write_line(table(collected))


def environment(program: Path | None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "GIT_"))}
    return {**kept, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PROGRAM": str(program or "")}


def look_twice(case: Case, tmp_path: Path, program: Path | None) -> tuple[Account, Account]:
    """The accounts of one run under strace and one under tailrace."""
    command = ["bash", "-c", case.script]
    options: dict[str, Any] = {"env": environment(program), "stdin": subprocess.DEVNULL, "timeout": 300}
    plain = prepare(tmp_path / "work1")
    truth = strace(command, plain, tmp_path / "logs", case.renaming, **options)
    traced, run = prepare(tmp_path / "work2"), tmp_path / "run"
    tailrace = [PYTHON, "-m", "tailrace.cli.main", "run", "-q", "-o", str(run), "--tag", "stage=truth", "--"]
    done = subprocess.run([*tailrace, *command], cwd=traced, check=False, capture_output=True, text=True, **options)
    assert "tailrace" not in done.stderr, done.stderr
    return truth, account_of(run, traced, case.renaming)


def counts(account: Account, kinds: str) -> dict[tuple[str, str], int]:
    """The calls of these classes."""
    return {key: n for key, n in sorted(account.calls.items()) if key[0] in kinds.split()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_bytes_are_the_kernels(case: Case, tmp_path: Path, rows: list[Row], request: pytest.FixtureRequest) -> None:
    reason = why_not(case)
    if reason:
        pytest.skip(reason)
    program = request.getfixturevalue("program")(case.program) if case.program else None
    if program and not program.exists():
        pytest.skip(f"what {program.name} is linked with is not installed")
    truth, seen = look_twice(case, tmp_path, program)
    skip = case.timing if case.pipes else (*case.timing, PIPES, SOCKETS)
    compared = compare(case.name, truth, seen, case.ahead, skip)
    rows += compared
    assert truth.bytes or truth.calls, "the program did nothing under strace"
    wrong = [row for row in compared if not row.agrees]
    assert not wrong, "\n" + table(wrong)
    assert counts(seen, case.calls) == counts(truth, case.calls)


def test_pipes_are_one_entry() -> None:
    from support.truth import Names

    names = Names(Path("/tmp"), [(r"x\d+", "x")])
    assert names.of("pipe:[12]") == PIPES
    assert names.of("/etc/passwd") is None
    assert names.of(os.path.realpath("/tmp") + "/a/../x17") == "x"
    assert names.of("socket:[12]") == names.of("UNIX-STREAM:[1->2]") == names.of("TCPv6:[[::1]:1->[::1]:2]") == SOCKETS
