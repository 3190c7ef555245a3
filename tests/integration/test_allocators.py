"""Programs with other allocators than libc's behave traced as untraced, and don't wait for the tracer for ever.

An allocator's first call is often the first that the tracer sees, and it is made under the allocator's lock.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import sanitizer
from support.harm import Harm, Program, clean_environment
from support.truth import read_run

pytestmark = pytest.mark.skipif(bool(sanitizer.CHOSEN), reason="a sanitizer's runtime has an allocator of its own")

LIBRARIES = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}
ALLOCATORS = [*LIBRARIES, "hostile"]
LANGUAGES = ["c", "c++", "rust", "go"]
FILES = {"c": 45, "c++": 24, "rust": 9, "go": 9}
"""How many files the program of a language writes itself."""


@pytest.fixture
def allocator(program: Program) -> Callable[[str], str]:
    """The library of an allocator, as LD_PRELOAD takes it; skips where it isn't installed."""

    def find(name: str) -> str:
        if name == "hostile":
            return str(program("hostile_malloc.so"))
        preload = {**os.environ, "LD_PRELOAD": LIBRARIES[name]}
        if subprocess.run(["true"], env=preload, capture_output=True, check=True).stderr:
            pytest.skip(f"no {LIBRARIES[name]} here")
        return LIBRARIES[name]

    return find


def build(command: list[str | Path], compiler: str, **variables: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def language(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The program of a language: it allocates and does I/O in threads, in children and at the end."""
    source, out = Path(__file__).parent.parent / "programs", tmp_path_factory.mktemp("languages")

    def find(name: str) -> Path:
        if name in ("c", "c++"):
            return program("mallocs" if name == "c" else "news")
        if not (out / name).exists():
            if name == "rust":
                build(["rustc", "-C", "debuginfo=0", "-o", out / name, source / "mallocs.rs"], "rustc")
            else:
                cache = {"GOCACHE": str(out / "cache"), "GOPATH": str(out / "path"), "CGO_ENABLED": "1"}
                build(["go", "build", "-o", out / name, source / "mallocs.go"], "go", **cache)
        return out / name

    return find


@pytest.mark.parametrize("name", ALLOCATORS)
@pytest.mark.parametrize("which", LANGUAGES)
def test_preloaded(
    name: str, which: str, harm: Harm, allocator: Callable[[str], str], language: Callable[[str], Path]
) -> None:
    # Go runs its goroutines on as many threads as it sees fit.
    unlike = ("malloc.log",) if (name, which) == ("hostile", "go") else ()
    done = harm("env", f"LD_PRELOAD={allocator(name)}", language(which), unlike=unlike)
    check_recorded(done.work, done.seen.written, which)
    assert "LOST" not in done.stderr and "recorded nothing" not in done.stderr


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("which", ["c", "c++"])
def test_linked(name: str, which: str, harm: Harm, allocator: Callable[[str], str], program: Program) -> None:
    allocator(name)
    linked = program(f"{'mallocs' if which == 'c' else 'news'}_{name}")
    if not linked.exists():
        pytest.skip(f"{linked.name} wasn't built")
    done = harm(linked)
    check_recorded(done.work, done.seen.written, which)
    assert "LOST" not in done.stderr and "recorded nothing" not in done.stderr


@pytest.mark.parametrize("name", ALLOCATORS)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_either_may_be_preloaded_first(
    name: str, first: str, tmp_path: Path, cli: Any, allocator: Callable[[str], str], program: Program
) -> None:
    run, work = tmp_path / "run", tmp_path / "work"
    work.mkdir()
    variables = json.loads(cli("env", "-o", run, "--format", "json").stdout)
    libraries = [variables.pop("LD_PRELOAD"), allocator(name)]
    if first == "theirs":
        libraries.reverse()
    env = {**clean_environment({}), **variables, "LD_PRELOAD": ":".join(libraries)}
    done = subprocess.run(
        [program("mallocs")], cwd=work, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "started\n0 failed\n", "")
    check_recorded(work, read_run(run).written, "c")


def check_recorded(work: Path, written: Callable[[Path], int], which: str) -> None:
    """The trace has every byte that the program's own files have."""
    own = [path for path in work.iterdir() if path.name.startswith(("thread", "child", "at_exit"))]
    assert len(own) == FILES[which]
    if which == "go":
        own = [path for path in own if path.name.startswith("thread")]
    assert {path.name: written(path) for path in own} == {path.name: path.stat().st_size for path in own}


@pytest.mark.parametrize("tags", [[], ["--tag", "stage=one"]])
def test_go_finds_the_auxiliary_vector(
    tags: list[str], tmp_path: Path, cli: Any, language: Callable[[str], Path]
) -> None:
    """The kernel puts it behind the environment, out of which the tracer takes its settings."""
    done = cli("run", "-o", tmp_path / "run", *tags, "--", language("go"), cwd=tmp_path)
    assert done.returncode == 7, done.stderr


def test_no_signal_stays_blocked(tmp_path: Path, cli: Any) -> None:
    """A program that waits for ever ends by its signal."""
    code = (
        "import signal, time; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True); "
        "open('ready', 'w').close(); time.sleep(600)"
    )
    script = f'python3 -c "{code}" & until test -e ready; do sleep 0.05; done; kill -TERM $!; wait $!'
    done = cli("run", "-o", tmp_path / "run", "--", "sh", "-c", script, cwd=tmp_path)
    assert done.stdout == "set()\n"
    assert done.returncode == 128 + signal.SIGTERM
