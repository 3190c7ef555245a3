"""Tasks that share one memory (vfork, clone with CLONE_VM) at the same time: each one's bytes are its own file's."""

from collections.abc import Callable
from pathlib import Path

import tailrace
from support.commands import TracedCommand

ROUNDS = 30
"""As many as a task that can make no room in the journal finds in it."""


def test_what_tasks_of_one_memory_write_at_once_is_told_apart(program: Callable[[str], Path], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    done = TracedCommand(work, tmp_path / "run")(program("memory_sharers"), ROUNDS)
    assert done.stdout.split()[-1] == "done"
    opened = tailrace.open(tmp_path / "run")
    files = opened.query("path", ["sum:size", "sum:calls"], cat="POSIX", dir="w")
    files = files[files["path"].str.startswith(f"{work}/", na=False)]
    found = {Path(path).name: (int(size), int(count)) for path, size, count in files.to_numpy()}
    wanted = {path.name: (path.stat().st_size, 1) for path in work.iterdir()}
    assert len(wanted) == 5 * ROUNDS - 1
    assert (opened.coverage["share"] == 1).all()
    assert {name: (found.get(name), size) for name, size in wanted.items() if found.get(name) != size} == {}
