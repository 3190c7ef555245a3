"""Who ends a run adds it to a store: a Parsl program, by itself and in a `tailrace run`. A failure is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace.cli.indexing import index

pytest.importorskip("parsl", reason="needs Parsl: pip install 'tailrace[parsl]'")

PROGRAM = """
import sys
import parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor
from tailrace.parsl import trace

@bash_app
def copy(number):
    return f"cat in.txt > out{number}.txt"

store = sys.argv[1] if len(sys.argv) > 1 else None
with parsl.load(trace(Config(executors=[ThreadPoolExecutor()]), "run", workflow="copies", store=store)):
    [copy(number).result() for number in range(3)]
sys.exit(3)
"""


def run_program(folder: Path, *words: str, prefix: tuple[str, ...] = (), **variables: str) -> str:
    """Runs it until its stderr is at its end; returns that."""
    (folder / "in.txt").write_text("some text\n")
    (folder / "program.py").write_text(PROGRAM)
    command = [*prefix, sys.executable, "program.py", *words]
    own = {**os.environ, **variables}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 3, done.stderr
    return done.stderr


@pytest.mark.parametrize("by_argument", [True, False])
def test_a_parsl_program_is_in_the_store_when_it_has_ended(tmp_path: Path, by_argument: bool) -> None:
    store = tmp_path / "store"
    said = run_program(tmp_path, "store") if by_argument else run_program(tmp_path, TAILRACE_STORE=str(store))
    assert said == ""
    opened = tailrace.open_store(store)
    (row,) = opened.read("runs").to_pylist()
    assert (row["path"], row["workflows"], row["problems"]) == (str(tmp_path / "run"), ["copies"], [])
    tasks = opened.read("tasks", ["task", "status"]).to_pylist()
    assert sorted((one["task"], one["status"]) for one in tasks) == [(str(n), "done") for n in range(3)]
    # As it ended, with nothing of the process that added it.
    assert index(store, [tmp_path / "run"]).text() == "0 runs indexed, 1 already there"
    programs = {str(one["program"]).rpartition("/")[2] for one in opened.read("processes", ["program"]).to_pylist()}
    assert programs and not [name for name in programs if name == "nice"]


def test_in_a_traced_run_its_launcher_adds_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    prefix = (*map(str, TAILRACE), "run", "-q", "-o", "run", "--")
    assert run_program(tmp_path, prefix=prefix, TAILRACE_STORE=str(store)) == ""
    assert len([path for path in (store / "data").rglob("e-*") if path.is_dir()]) == 1
    said = run_program(tmp_path, "other", prefix=prefix)
    assert "the run is not added to other by this program, which is traced already" in said
    assert not (tmp_path / "other").exists()


def test_a_store_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = run_program(tmp_path, "file").splitlines()
    assert len(said) == 1 and said[0].startswith(f"tailrace: not added to the store {tmp_path / 'file'}: ")
    assert tailrace.open(tmp_path / "run").info()["tasks"] == 3
