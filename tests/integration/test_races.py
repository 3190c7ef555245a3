"""Programs that access the same bytes, run for real: what is a race for an expert is found with its bytes, and nothing
else is."""

import shutil
import subprocess
import sys

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace.analyzer.insights import insights

TAG = f'tag() {{ name=$1; shift; {TAILRACE[0]} tag --stage s --task $name -- "$@"; }}\n'
BESIDE = "tag a {0} a & tag b {0} b & wait"


@pytest.fixture
def conflicts(run_traced, monkeypatch):
    """The conflicts of a shell script, whose function `tag` runs a command as a task: (kind, file, tasks, bytes, first
    byte) of each, and the analysis."""

    def run(script, *options):
        (run_traced.work / "flow.sh").write_text(TAG + script)
        run_traced("sh", "flow.sh", options=("-q", *options))
        found = insights(tailrace.open(run_traced.run))
        names, rows = found.inputs.tasks["task"], found.conflicts.rows.to_dict("records")
        prefix = f"{run_traced.work.resolve()}/"
        return [
            (
                row["kind"],
                row["path"].removeprefix(prefix),
                {names[row["first"]], names[row["second"]]},
                row["bytes"],
                row["start"],
            )
            for row in rows
        ], found

    return run


@pytest.fixture
def program(run_traced):
    """Writes a Python program, and gives the words that run it."""

    def write(name, text):
        (run_traced.work / name).write_text(text)
        return f"{sys.executable} {name}"

    return write


APPENDS = """
import sys, time
for number in range(100):
    with open("log", "a") as file:
        file.write(f"{sys.argv[1]} line {number}\\n")
    time.sleep(0.001)
"""


def test_two_that_append_to_a_log_lose_nothing(conflicts, program, run_traced):
    found, analysis = conflicts(BESIDE.format(program("appends.py", APPENDS)))
    assert found == []
    assert len(set((run_traced.work / "log").read_text().splitlines())) == 200, "the truth"
    kinds = [finding.kind for finding in analysis.findings()]
    assert "interleaved appends" in kinds
    assert "unchecked accesses" not in kinds


def test_appends_under_a_lock_do_not_interleave(conflicts):
    append = 'for i in 1 2 3 4 5; do flock log.lock sh -c "echo $0 >> log; echo $0 >> log"; done'
    found, analysis = conflicts(f"tag a sh -c '{append}' a & tag b sh -c '{append}' b & wait")
    assert found == []
    assert len(analysis.conflicts.appended) == 0


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_appends_of_the_c_library_lose_nothing(conflicts, run_traced):
    (run_traced.work / "c.c").write_text(
        r"""
        #include <stdio.h>
        #include <unistd.h>
        int main(int n, char **words) {
          for (int i = 0; i < 50; ++i) {
            FILE *file = fopen("log", "a");
            fprintf(file, "%s line %d\n", words[n - 1], i);
            fclose(file);
            usleep(500);
          }
        }"""
    )
    subprocess.run(["gcc", "c.c", "-o", "appends"], cwd=run_traced.work, check=True)
    found, analysis = conflicts(BESIDE.format("./appends"))
    assert found == []
    assert analysis.conflicts.unknown == 0


STRIDED = """
import os, sys
file, mine = os.open("out", os.O_WRONLY | os.O_CREAT), "ab".index(sys.argv[1])
for number in range(400):
    size = 11 if (sys.argv[1], number) == ("a", {planted}) else 10
    os.pwrite(file, b"x" * size, (2 * number + mine) * 10)
"""


@pytest.mark.parametrize("planted", [None, 250])
def test_records_between_those_of_another_task_are_its_own_but_for_a_planted_byte(conflicts, program, planted):
    """More of them than a burst has ranges."""
    found, analysis = conflicts(BESIDE.format(program("strided.py", STRIDED.format(planted=planted))))
    assert found == ([] if planted is None else [("two writers", "out", {"a", "b"}, 1, (2 * planted + 1) * 10)])
    assert (analysis.conflicts.unknown, analysis.conflicts.unchecked) == (0, 0)


@pytest.mark.parametrize("planted", [None, 250])
def test_lines_of_totals_tell_the_same_bytes(conflicts, program, planted):
    found, _ = conflicts(BESIDE.format(program("strided.py", STRIDED.format(planted=planted))), "--detail", "totals")
    assert [row[3:] for row in found] == ([] if planted is None else [(1, (2 * planted + 1) * 10)])


HOLDS = {
    "flock": "import fcntl; fcntl.flock(lock, fcntl.LOCK_EX); {}; fcntl.flock(lock, fcntl.LOCK_UN)",
    "flock by close": "import fcntl; fcntl.flock(lock, fcntl.LOCK_EX); {}; os.close(lock)",
    "fcntl": "import fcntl; fcntl.lockf(lock, fcntl.LOCK_EX); {}; fcntl.lockf(lock, fcntl.LOCK_UN)",
    "fcntl by close of another descriptor": "import fcntl; fcntl.lockf(lock, fcntl.LOCK_EX, 5, 7); {};"
    " os.close(os.open('lock', os.O_RDONLY))",
    "lockf": "os.lockf(lock, os.F_LOCK, 0); {}; os.lockf(lock, os.F_ULOCK, 0)",
    "exit": "import fcntl; fcntl.lockf(lock, fcntl.LOCK_EX); {}; os._exit(0)",
    "O_EXCL": "take(lambda: os.close(os.open('l', os.O_CREAT | os.O_EXCL))); {}; os.unlink('l')",
    "mkdir": "take(lambda: os.mkdir('l')); {}; os.rmdir('l')",
    "link": "take(lambda: os.link('lock', 'l')); {}; os.unlink('l')",
    "rename": "take(lambda: os.rename('token', mine), FileNotFoundError); {}; os.rename(mine, 'token')",
}
LOCKED = """
import os, sys, time
def take(make, error=FileExistsError):
    while True:
        try:
            return make()
        except error:
            time.sleep(0.001)
def work():
    data = os.open("data", os.O_RDWR)
    value = os.pread(data, 8, 0)
    time.sleep(0.02)
    os.pwrite(data, b"%8d" % (int(value) + 1), 0)
mine = "token." + sys.argv[1]
lock = os.open("lock", os.O_RDWR)
"""


def prepare(work):
    (work / "data").write_bytes(b"%8d" % 0)
    (work / "lock").touch()
    (work / "token").touch()


@pytest.mark.parametrize("lock", HOLDS)
def test_what_lies_under_one_lock_is_kept_apart(conflicts, program, run_traced, lock):
    prepare(run_traced.work)
    found, analysis = conflicts(BESIDE.format(program("locked.py", LOCKED + HOLDS[lock].format("work()"))))
    assert int((run_traced.work / "data").read_text()) == 2, "the truth"
    assert found == []
    assert analysis.conflicts.unknown == 0


@pytest.mark.parametrize("lock", [name for name in HOLDS if name != "exit"])
@pytest.mark.parametrize("order", ["first", "after"])
def test_what_lies_outside_of_the_lock_is_not(conflicts, program, run_traced, lock, order):
    """The first task works under the lock, the other one, later, before it takes it or when it has released it."""
    prepare(run_traced.work)
    held = HOLDS[lock]
    outside = f"work(); {held.format('pass')}" if order == "first" else f"{held.format('pass')}; work()"
    text = f"{LOCKED}if sys.argv[1] == 'a':\n    {held.format('work()')}\nelse:\n    time.sleep(0.1); {outside}\n"
    found, _ = conflicts(BESIDE.format(program("locked.py", text)))
    assert {row[0] for row in found} >= {"two writers"}
    assert {row[1:3] for row in map(tuple, ((r[0], r[1], frozenset(r[2])) for r in found))} == {
        ("data", frozenset({"a", "b"}))
    }


def test_two_readers_locks_keep_no_writers_apart(conflicts, program, run_traced):
    prepare(run_traced.work)
    shared = "import fcntl; fcntl.flock(lock, fcntl.LOCK_SH); work(); fcntl.flock(lock, fcntl.LOCK_UN)"
    found, _ = conflicts(BESIDE.format(program("locked.py", LOCKED + shared)))
    assert "two writers" in {row[0] for row in found}


WORK = "n=$(cat data); sleep 0.02; echo $((n + 1)) > data"


@pytest.mark.parametrize(
    "script",
    [
        f"(flock 9; {WORK}) 9>> lock",
        f"exec 9>> lock; flock 9; {WORK}; exec 9>&-",
        f"flock lock sh -c '{WORK}'",
        f"until mkdir held 2> none; do sleep 0.002; done; {WORK}; rmdir held",
        f"until ln -s $$ held 2> none; do sleep 0.002; done; {WORK}; rm held",
        f"set -C; until true > held; do sleep 0.002; done 2> none; set +C; {WORK}; rm held",
    ],
)
def test_a_lock_of_a_shell_covers_what_its_commands_do(conflicts, run_traced, script):
    (run_traced.work / "data").write_text("0\n")
    for name in "ab":
        (run_traced.work / f"{name}.sh").write_text(script.replace("none", "/dev/null"))
    found, _ = conflicts("tag a sh a.sh & tag b sh b.sh & wait")
    assert (run_traced.work / "data").read_text() == "2\n", "the truth"
    assert found == []


def test_tasks_under_one_holder_are_not_kept_apart_from_each_other(conflicts, program, run_traced):
    prepare(run_traced.work)
    work = program("work.py", LOCKED + "work()")
    (run_traced.work / "both.sh").write_text(TAG + BESIDE.format(work))
    found, _ = conflicts("flock lock sh both.sh")
    assert "two writers" in {row[0] for row in found}


MADE_ANEW = """
exec 9> held; flock 9
{}
exec 9>&-
"""


@pytest.mark.parametrize("both", [False, True])
def test_a_lock_that_is_removed_and_made_anew_is_one_unless_both_are_held_at_a_time(conflicts, run_traced, both):
    once = "rm held; sleep 0.9; echo $0 > out" if both else "echo $0 > out; rm held"
    for name, words in (("a", once), ("b", "echo $0 > out; rm held")):
        (run_traced.work / f"{name}.sh").write_text(MADE_ANEW.format(words))
    found, _ = conflicts("tag a sh a.sh & (sleep 0.4; tag b sh b.sh) & wait")
    assert [row[:3] for row in found] == ([("two writers", "out", {"a", "b"})] if both else [])


LOOKS = """
import fcntl, os, sys, time
def under_lock(*what):
    with open("lock", "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        for name, flags in what:
            file = os.open(name, flags)
            os.pread(file, 100, 0) if flags == os.O_RDONLY else os.pwrite(file, b"x" * 100, 0)
            os.close(file)
if sys.argv[1] == "a":
    time.sleep(0.3)
    under_lock(("base-log", os.O_WRONLY), ("base", os.O_WRONLY))
else:
    with open("base", "rb") as base:
        base.read(100)
    time.sleep(0.6)
    under_lock((sys.argv[2], os.O_RDONLY))
"""


@pytest.mark.parametrize(("again", "is_race"), [("base", False), ("base-log", False), ("other", True)])
def test_who_looks_before_they_lock_looks_again_at_the_file_or_its_log(conflicts, program, run_traced, again, is_race):
    for name in ("base", "base-log", "other", "lock"):
        (run_traced.work / name).write_bytes(b"y" * 200)
    words = program("looks.py", LOOKS)
    found, _ = conflicts(f"tag a {words} a & tag b {words} b {again} & wait")
    assert found == ([("read before write", "base", {"a", "b"}, 100, 0)] if is_race else [])


INSERTS = """
import sqlite3, sys
base = sqlite3.connect("base", timeout=60, isolation_level=None)
base.execute("pragma wal_autocheckpoint = 5")
for number in range(25):
    base.execute("begin immediate")
    base.execute("insert into t values (?, ?)", (sys.argv[1] * 300, number))
    base.execute("commit")
    base.execute("select count(*) from t").fetchall()
"""


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_correct_transactions_of_sqlite_are_no_race(conflicts, program, run_traced, journal):
    sqlite3 = pytest.importorskip("sqlite3")
    with sqlite3.connect(run_traced.work / "base") as base:
        base.execute(f"pragma journal_mode = {journal}")
        base.execute("create table t (a, b)")
    words = program("inserts.py", INSERTS)
    found, analysis = conflicts(f"tag a {words} a & tag b {words} b & tag c {words} c & wait")
    assert base.execute("select count(*) from t").fetchone() == (75,), "the truth"
    assert found == []
    assert analysis.conflicts.unknown == 0


WRITES = "sh -c 'echo $0 > out'"


def test_a_script_orders_the_tasks_that_it_waits_for_and_no_others(conflicts):
    late = "sh -c 'sleep 0.3; echo $0 > out'"
    found, _ = conflicts(f"tag a {WRITES} a; tag b {WRITES} b; tag c {late} c & tag d {WRITES} d; wait")
    assert {frozenset(row[2]) for row in found} == {frozenset("cd")}


def test_tasks_of_one_process_are_in_the_order_of_the_program(conflicts, program):
    text = """
from tailrace.context import scope
for name in ("a", "b"):
    with scope(stage="s", task=name):
        with open("out", "w") as file:
            file.write(name * 100)
"""
    found, _ = conflicts(program("steps.py", text))
    assert found == []


TURNS = """
import os, sys
mine = sys.argv[1]
ends = {"a": ("to-a", "to-b"), "b": ("to-b", "to-a")}[mine]
take, give = os.open(ends[0], os.O_RDWR), os.open(ends[1], os.O_RDWR)
out = os.open("out", os.O_RDWR | os.O_CREAT)
for turn in range(10):
    if mine == "b" or turn:
        os.read(take, 1)
    os.pwrite(out, mine.encode() * 10, 0)
    if mine == "a" or turn < 9:
        os.write(give, b".")
os.pwrite(out, b"x", {last})
"""


@pytest.mark.parametrize("last", [10, 5])
def test_each_message_through_a_pipe_orders_what_comes_after_it(conflicts, program, run_traced, last):
    """Two write the same bytes in turns, and what they write in the end nothing orders."""
    words = program("turns.py", TURNS.replace("{last}", "{'a': 0, 'b': 5}[mine] + " + str(last)))
    found, _ = conflicts(f"mkfifo to-a to-b; exec 3<> to-a 4<> to-b; {BESIDE.format(words)}")
    assert {row[3:] for row in found} <= ({(1, 5)} if last == 5 else set())
    if last == 5:
        assert found
