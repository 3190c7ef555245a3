"""What a traced program starts is traced, whatever it does to its environment; TAILRACE_PROPAGATE leaves that to it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support import sanitizer
from support.commands import run_cli
from support.harm import clean_environment
from support.run_files import Trace
from tailrace.analyzer.store import ledger

ENV, CP, SH = (shutil.which(name) or name for name in ("env", "cp", "sh"))

# Each copies `in` to `out` with the settings removed from its environment.
CLEARED = {
    "env -i": [SH, "-c", f"{ENV} -i {SH} -c '{ENV} > seen; {CP} in out'"],
    "unset": [SH, "-c", f"unset LD_PRELOAD; {ENV} > seen; {CP} in out"],
    "env -u": [SH, "-c", f"{ENV} -u LD_PRELOAD {ENV} > seen; {ENV} -u LD_PRELOAD {CP} in out"],
    "execve": [SH, "-c", f"{ENV} > seen; exec {ENV} -i {CP} in out"],
    "popped": [
        sys.executable,
        "-c",
        "import os, subprocess\nos.environ.pop('LD_PRELOAD', None)\n"
        f"subprocess.run([{ENV!r}], stdout=open('seen', 'w'))\nsubprocess.run([{CP!r}, 'in', 'out'])",
    ],
    "spawned": [
        sys.executable,
        "-c",
        f"import os\nos.posix_spawn({ENV!r}, ['env'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 1, 'seen', 65, 420)])\n"
        f"os.wait()\nos.posix_spawn({CP!r}, ['cp', 'in', 'out'], {{}})\nos.wait()",
    ],
}


@pytest.fixture
def traced(tmp_path: Path) -> Callable[..., Trace]:
    """Runs a command in a directory with the file `in`, and returns its trace."""
    (tmp_path / "in").write_text("data\n")

    def do(*command: Any, **settings: str) -> Trace:
        done = run_cli("run", "-o", tmp_path / "run", "--", *command, cwd=tmp_path, env=clean_environment(settings))
        assert done.returncode == 0, done.stderr
        return Trace(tmp_path / "run")

    return do


@pytest.mark.parametrize("how", CLEARED)
def test_programs_with_a_cleared_environment_stay_traced(
    traced: Callable[..., Trace], tmp_path: Path, how: str
) -> None:
    trace = traced(*CLEARED[how])
    assert trace.of(tmp_path / "out", {"write", "copy_file_range", "ficlone"})
    seen = sanitizer.without_own((tmp_path / "seen").read_text())
    assert "TAILRACE_" not in seen and "libtailrace" not in seen


@pytest.mark.parametrize("how", CLEARED)
def test_propagation_by_environment_leaves_tracing_to_the_program(
    traced: Callable[..., Trace], tmp_path: Path, how: str
) -> None:
    trace = traced(*CLEARED[how], TAILRACE_PROPAGATE="environment")
    assert trace.of(tmp_path / "in") == [] and trace.of(tmp_path / "out") == []
    assert (tmp_path / "out").read_text() == "data\n"
    seen = sanitizer.without_own((tmp_path / "seen").read_text())
    assert "TAILRACE_PROCESS" not in seen
    assert ("libtailrace" in seen) == (how == "execve")
    rows = tailrace.open(tmp_path / "run").coverage
    causes = {
        f"not traced: {ledger.WORDS['dropped']}",
        f"went on as a program that is not traced: {ledger.WORDS['dropped']}",
    }
    assert causes & set(rows["cause"]), rows.to_string()


def test_propagation_by_environment_traces_programs_that_keep_it(traced: Callable[..., Trace], tmp_path: Path) -> None:
    tags = (
        "import subprocess\nfrom tailrace.context import scope\n"
        "with scope(task='inner'): subprocess.run(['cp', 'in', 'out'])"
    )
    words = [SH, "-c", 'env > seen; cp in first; exec "$0" -c "$1"', sys.executable, tags]
    trace = traced(*words, TAILRACE_PROPAGATE="environment")
    seen = (tmp_path / "seen").read_text()
    assert "TAILRACE_RUN=" in seen and "libtailrace" in seen and "TAILRACE_PROCESS" not in seen
    assert trace.tags(trace.of(tmp_path / "first"), "task") == {(None,)}
    assert trace.tags(trace.of(tmp_path / "out"), "task") == {("inner",)}


@pytest.fixture
def musl(tmp_path: Path) -> Path:
    """A dynamic program of musl's, whose loader fails on our library; it prints its LD_PRELOAD and its settings."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc (Debian: musl-tools)")
    source, program = tmp_path / "musl.c", tmp_path / "musl"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\nextern char **environ;\nint main(void) {\n"
        '  for (char **e = environ; *e; e++) if (strstr(*e, "TAILRACE_") || strstr(*e, "LD_PRELOAD")) puts(*e);\n'
        '  return puts("here") < 0;\n}\n'
    )
    subprocess.run(["musl-gcc", "-o", program, source], check=True)
    return program


@pytest.mark.parametrize("propagate", ["always", "environment"])
@pytest.mark.parametrize(
    "how",
    [
        "{musl} > out",
        "exec {musl} > out",
        "env {musl} > out",
        "echo '#!{musl}' > script; chmod +x script; ./script > out",
        "awk 'BEGIN {{ system(\"{musl} > out\") }}'",
        "{python} -c \"import subprocess; subprocess.run([{musl!r}], stdout=open('out', 'w'), check=True)\"",
        "{python} -c \"import os; os.system('{musl} > out')\"",
    ],
    ids=["forked", "executed", "env", "script", "system", "subprocess", "os.system"],
)
def test_a_musl_program_starts_without_the_core(
    traced: Callable[..., Trace], musl: Path, tmp_path: Path, how: str, propagate: str
) -> None:
    traced(SH, "-c", how.format(musl=str(musl), python=sys.executable), TAILRACE_PROPAGATE=propagate)
    assert (tmp_path / "out").read_text() == "here\n"
