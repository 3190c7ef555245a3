"""A process that was started untraced and attaches: its calls and those of the programs that it starts are recorded,
and its account begins where it attached.
"""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import tailrace
from tailrace import _native

pytestmark = pytest.mark.skipif(not json.loads(_native.build_info())["gotcha"], reason="built without GOTCHA")

PROGRAM = """
    import os, subprocess, sys
    from tailrace.integrations import environment, rundir

    environment.attach(rundir.open_run_directory(sys.argv[1], ["attached"]))
    with open("made", "w") as file:
        file.write("x" * 1000)
    subprocess.run(["cat", "made"], stdout=subprocess.DEVNULL, check=True)
    os.system("cat made made > twice")
    os.waitpid(os.posix_spawnp("cat", ["cat", "made"], os.environ), 0)
"""


def test_programs_that_an_attached_process_starts_are_traced(tmp_path: Path) -> None:
    command = [sys.executable, "-c", dedent(PROGRAM), str(tmp_path / "run")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = tailrace.open(tmp_path / "run")
    programs = [Path(exe).name for exe in run.processes["exe"]]
    assert programs.count("cat") == 3, programs
    moved = run.events(columns=["path", "dir", "size"], path=str((tmp_path / "made").resolve())).compute()
    sums = moved.groupby("dir", observed=True)["size"].sum()
    assert sums["w"] == 1000
    assert sums["r"] == 4000
    first = run.coverage.set_index("pid").loc[run.processes["pid"].iloc[0]]
    assert first["share"] > 0.9, run.coverage.to_string()


PROBE = """
    import os, subprocess, sys
    from tailrace.integrations import environment, rundir

    environment.attach(rundir.open_run_directory(sys.argv[1], ["attached"]))
    descriptor = os.open("made", os.O_RDWR | os.O_CREAT)
    for close_fds in (False, True):
        try:
            subprocess.run(["no-such-program"], close_fds=close_fds, stdout=descriptor)
        except FileNotFoundError:
            pass
    for _ in range(2000):
        os.write(descriptor, b"x")
"""


def test_a_failed_exec_in_a_vfork_child_leaves_the_parent_as_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-c", dedent(PROBE), str(tmp_path / "run")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = tailrace.open(tmp_path / "run")
    written = run.events(columns=["name", "size"], path=str((tmp_path / "made").resolve()), name="write").compute()
    assert (len(written), written["size"].sum()) == (2000, 2000)
    assert run.files["blocks"].sum() < 10
