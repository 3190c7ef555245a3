"""How long tasks waited for a lock, beside what each says by its own clock around the call that got it.

Nothing but the call is between a program's two readings, so that no wait is longer than it says; "not much shorter" is
half.
"""

import sys
from pathlib import Path
from shlex import quote

import pytest

import tailrace
from support.commands import TAILRACE, TracedCommand

MS = 1_000_000
PROGRAM = """
import fcntl, sqlite3, sys, time
how, path, name = sys.argv[1:]
waited = 0
database = sqlite3.connect(path, timeout=60, isolation_level=None) if how == "sqlite" else None
for _ in range(5):
    file = open(path, "r+b")
    begun = time.monotonic_ns()
    if database: database.execute("begin immediate")
    else: getattr(fcntl, how)(file, fcntl.LOCK_EX)
    waited += time.monotonic_ns() - begun
    time.sleep(0.1)
    if database: database.execute("commit")
    file.close()
print(name, waited)
"""


@pytest.mark.parametrize("how", ["flock", "lockf", "sqlite"])
def test_tasks_waited_as_long_as_they_say(how: str, tmp_path: Path, run_traced: TracedCommand) -> None:
    locked, program = tmp_path / "locked", tmp_path / "take.py"
    locked.touch()
    program.write_text(PROGRAM)
    words = " ".join(quote(word) for word in (sys.executable, str(program), how, str(locked)))
    tag = " ".join(map(quote, TAILRACE))
    tasks = " ".join(f"{tag} tag --task t{n} -- {words} t{n} &" for n in range(3))
    done = run_traced("bash", "-c", f"{tasks} wait", options=("-q",))
    said = {name: int(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}
    found = tailrace.open(tmp_path / "run").insights()
    waits = {found.inputs.name(wait.task): wait for wait in found.waits.locks}
    assert len(said) == 3 and max(said.values()) > 100 * MS
    for name, ns in said.items():
        if ns > 100 * MS:
            assert waits[name].path == str(locked)
            assert ns / 2 <= waits[name].waited_ns <= ns + MS
    (told,) = [one for one in found.findings() if one.kind == "lock contention"]
    assert str(locked) in told.title and " had for " in told.title
