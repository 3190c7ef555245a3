"""A program in a user namespace, where its user has another number or none, is traced as any other; the launcher,
outside, seals its journals."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.harm import Harm
from tailrace import _native

WAYS = {"nobody": ["-U"], "root": ["-U", "-r"], "another": ["-U", "--map-user=1234"]}
KILLED = "cp given copied; bash -c 'cp given killed; echo x > last; kill -9 $$'; cp killed again"


@pytest.mark.parametrize("way", WAYS)
def test_journals_of_a_user_namespace_are_sealed(harm: Harm, way: str) -> None:
    command = ["unshare", *WAYS[way]]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not make a user namespace")
    # Without HOME bash asks for its user's entry, whose files libc reads by itself; the last line tells these bytes.
    done = harm("env", "-u", "HOME", *command, "bash", "-c", KILLED)
    assert " LOST" not in done.stderr and "running" not in done.stderr
    assert "nothing lost" in done.stderr or "libc's own reads" in done.stderr
    done.check_written("copied", "killed", "last", "again")
    key = Path(_native.journal_directory(str(harm.run.resolve()), "/dev/shm")).name
    assert [path for directory in Path("/dev/shm").glob(f"tailrace-*/{key}") for path in directory.iterdir()] == []
