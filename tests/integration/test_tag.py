"""`tailrace tag`: tags for what a command does, by the native command and by Python's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import TAILRACE, run_cli
from support.harm import clean_environment
from support.run_files import Trace

PYTHON = [sys.executable, "-c", "import sys; from tailrace.cli.main import main; sys.exit(main())"]
HOWS = {"native": TAILRACE, "Python": PYTHON}
PRINT = ["sh", "-c", 'printf %s "$TAILRACE_TAGS"']

hows = pytest.mark.parametrize("how", HOWS)


def tagged(how: str, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, **variables}
    return subprocess.run([*HOWS[how], "tag", *words], check=False, capture_output=True, text=True, env=env)


@hows
def test_tags_are_added_to_those_that_are_there(how: str) -> None:
    words = ["--stage", "a b", "--task=x%=,\u00e9", "-t", "stage=other", "--tag", "note=1", "--try", "2", "--", *PRINT]
    done = tagged(how, *words, TAILRACE_TAGS="workflow=w,stage=s%41,note=0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "workflow=w,stage=a%20b,task=x%25%3D%2C%C3%A9,note=1,try=2"


@hows
def test_the_command_has_its_own_end_and_its_options_are_its_own(how: str) -> None:
    assert tagged(how, "--stage", "s", "sh", "-c", "exit 7").returncode == 7
    assert tagged(how, "--stage", "s", "sh", "-c", "kill -9 $$").returncode == -9
    assert tagged(how, "--stage", "s", "printf", "%s|", "--task", "-t", "--").stdout == "--task|-t|--|"
    missing = tagged(how, "--stage", "s", "no-such-command-here")
    assert (missing.returncode, missing.stderr) == (127, "tailrace: no-such-command-here: command not found\n")
    folder = tagged(how, "--stage", "s", "/usr")
    assert (folder.returncode, folder.stderr) == (126, "tailrace: /usr: Permission denied\n")


@hows
def test_what_is_typed_wrong_is_refused_and_what_is_inherited_is_not(how: str) -> None:
    refused = tagged(how, "-t", "Stage=x", "true")
    assert refused.returncode == 2 and "[a-z][a-z0-9_.-]*" in refused.stderr
    assert tagged(how, "--stage", "", "true").returncode == 2
    done = tagged(how, "--stage", "s", *PRINT, TAILRACE_TAGS="nonsense")
    assert (done.returncode, done.stdout) == (0, "stage=s")
    assert "TAILRACE_TAGS is left out" in done.stderr and "no '='" in done.stderr


@pytest.fixture
def traced(tmp_path: Path) -> Callable[..., Trace]:
    def do(*command: object, **settings: str) -> Trace:
        words = ("run", "-o", tmp_path / "run", "--tag", "workflow=w", "--", *command)
        done = run_cli(*words, cwd=tmp_path, env=clean_environment(settings))
        assert done.returncode == 0, done.stderr
        return Trace(tmp_path / "run")

    return do


@pytest.mark.parametrize("propagate", ["always", "environment"])
def test_recipes_of_make_are_tasks(traced: Callable[..., Trace], tmp_path: Path, propagate: str) -> None:
    (tmp_path / "Makefile").write_text("all: one two\none two:\n\tprintf $@ > $@\n")
    shell = "tag --stage make --task $@ -- /bin/sh -c"
    trace = traced("make", f"SHELL={TAILRACE[0]}", f".SHELLFLAGS={shell}", TAILRACE_PROPAGATE=propagate)
    for name in ("one", "two"):
        written = trace.of(tmp_path / name, {"write"})
        assert trace.tags(written, "workflow", "stage", "task") == {("w", "make", name)}


def test_nothing_is_traced_where_nothing_else_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *TAILRACE,
            "tag",
            "--stage",
            "s",
            "--",
            sys.executable,
            "-c",
            "import json, os; print(json.dumps(dict(os.environ)))",
        ],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env=clean_environment({}),
    )
    new = json.loads(done.stdout).keys() - clean_environment({}).keys()
    assert new <= {"TAILRACE_TAGS", "LC_CTYPE"} and not list(tmp_path.iterdir())
