"""TAILRACE_UNTRACED: excluded programs start as in an untraced run, by whichever name they are called."""

import os
import shutil
from pathlib import Path

import pytest

import tailrace
from support import sanitizer
from support.commands import run_cli
from support.run_files import Trace


@pytest.mark.parametrize("called", ["path", "link", "PATH", "exec", "system"])
def test_an_excluded_program_is_untraced_with_all_it_starts(tmp_path: Path, called: str) -> None:
    left_out = tmp_path / "left-out"
    shutil.copy(shutil.which("env") or "/usr/bin/env", left_out)
    (tmp_path / "a-link").symlink_to(left_out)
    command = {
        "path": f"{left_out} sh -c 'env > seen; cat in > inner'",
        "link": "./a-link sh -c 'env > seen; cat in > inner'",
        "PATH": f"PATH={tmp_path}:$PATH; left-out sh -c 'env > seen; cat in > inner'",
        "exec": f"(exec {left_out} sh -c 'env > seen; cat in > inner')",
        "system": f"""awk 'BEGIN {{ system("exec {left_out} sh -c \\"env > seen; cat in > inner\\"") }}'""",
    }[called]
    (tmp_path / "in").write_text("data\n")
    environment = {**os.environ, "TAILRACE_UNTRACED": f"/nowhere/at/all:{left_out}"}
    done = run_cli(
        "run", "-o", tmp_path / "run", "--", "sh", "-c", f"{command}; cat in > outer", cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    trace = Trace(tmp_path / "run")
    assert trace.of(tmp_path / "outer")
    assert not trace.of(tmp_path / "inner")
    assert (tmp_path / "inner").read_text() == "data\n"
    seen = sanitizer.without_own((tmp_path / "seen").read_text())
    assert "TAILRACE_RUN" not in seen and "libtailrace" not in seen
    coverage = tailrace.open(tmp_path / "run").info()["coverage"]
    assert coverage["left_out"] == 1 and coverage["untraced"] == 0
    assert "excluded by TAILRACE_UNTRACED" in run_cli("info", tmp_path / "run").stdout


def test_excluded_programs_get_the_variables_that_they_lack(tmp_path):
    environment = {
        **os.environ,
        "TAILRACE_UNTRACED": shutil.which("env"),
        "TAILRACE_UNTRACED_VARIABLES": "GIVEN=a b=c\nMINE=theirs\nLAST=",
    }
    script = "MINE=mine env > excluded; LD_PRELOAD=libnone.so:liball.so env > preloading 2>&1"
    done = run_cli("run", "-o", tmp_path / "run", "--", "sh", "-c", script, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    excluded = (tmp_path / "excluded").read_text().splitlines()
    assert {"GIVEN=a b=c", "MINE=mine", "LAST="} <= set(excluded)
    assert sum(line.startswith("MINE=") for line in excluded) == 1
    assert {"GIVEN=a b=c", "LD_PRELOAD=libnone.so:liball.so"} <= set((tmp_path / "preloading").read_text().splitlines())
    assert not [line for line in excluded if "TAILRACE_UNTRACED" in line]
    run_cli("run", "-o", tmp_path / "other", "--", "sh", "-c", "printenv GIVEN > seen", cwd=tmp_path, env=environment)
    assert (tmp_path / "seen").read_text() == ""


def test_variables_that_are_no_assignments_are_refused(tmp_path):
    environment = {**os.environ, "TAILRACE_UNTRACED_VARIABLES": "GIVEN=a\nno assignment"}
    done = run_cli("run", "-o", tmp_path / "run", "--", "true", env=environment)
    assert done.returncode == 2 and "give NAME=VALUE, one a line" in done.stderr
    assert not (tmp_path / "run").exists()
