"""A set-user-ID program that is linked with the core traces nothing: who starts it would choose where it writes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import TAILRACE
from support.ordinary_user import ID as CALLER
from support.ordinary_user import become
from tailrace.installation import PACKAGE

pytestmark = [pytest.mark.root("makes a program of another owner"), pytest.mark.slow("builds a program")]

PROGRAM = r"""
#include <stdio.h>
#include <tailrace/tailrace.h>
#include <unistd.h>

int main(void) {
  FILE *null = fopen("/dev/null", "w");
  int active = tailrace_active(), attached = tailrace_attach();
  fclose(null);
  printf("%d %d %d %s\n", (int)geteuid(), active, attached, tailrace_attach_error());
  return 0;
}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody may enter."""
    directory = Path(tempfile.mkdtemp(prefix="tailrace-privileged-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def program(place: Path) -> Path:
    """The program, root's, with a copy of the core beside it."""
    library = Path(shutil.copytree(PACKAGE / "lib", place / "lib"))
    (place / "program.c").write_text(PROGRAM)
    # DT_RPATH, since a privileged program's loader ignores $ORIGIN, by which the core finds its own libraries.
    linking = ["-L", str(library), "-ltailrace", f"-Wl,--disable-new-dtags,-rpath,{library}"]
    words = ["gcc", "-o", "program", "program.c", "-I", str(PACKAGE / "include"), *linking]
    subprocess.run(words, cwd=place, check=True)
    return place / "program"


def start(program: Path, run: Path, journals: Path) -> str:
    """What the program says when an ordinary user starts it with settings of the core."""
    settings = [f"TAILRACE_RUN={run}", f"TAILRACE_JOURNAL_DIR={journals}"]
    words = [*become(CALLER), "env", *settings, str(program)]
    return subprocess.run(words, cwd="/", capture_output=True, text=True, check=True).stdout


def test_a_set_user_id_program_writes_nothing_where_its_caller_says(program: Path, place: Path) -> None:
    run, journals = place / "run", place / "journals"
    for directory in (run, run / "trace", journals):
        directory.mkdir()
        directory.chmod(0o777)
    # Without the bit the program is traced.
    assert start(program, run, journals).startswith(f"{CALLER} 1 ")
    subprocess.run([*TAILRACE, "seal", str(run)], capture_output=True, check=False)
    for path in (*run.rglob("*.gz"), *journals.glob("*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    program.chmod(0o4755)
    said = start(program, run, journals)
    assert said.startswith("0 0 -1 "), said
    assert "privileges" in said
    assert [path for path in place.rglob("*") if path.name.endswith((".gz", ".tj"))] == []
    assert os.listdir(journals) == []
