"""docs/python.md: its examples run, its first lines do, and help() shows what there is."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import TAILRACE

pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'tailrace[notebook]'")

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the run that the page makes."""
    folder = tmp_path_factory.mktemp("python")
    match = re.search(r"^    (tailrace run (?:.*\n)+?)\n", PAGE.read_text(), re.MULTILINE)
    assert match is not None
    program = match[1].replace("tailrace run", f"{shlex.join(TAILRACE)} run", 1)
    subprocess.run(["sh", "-c", program], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_examples_give_what_the_page_says(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 15
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert (place / "sizes.png").read_bytes().startswith(b"\x89PNG")


def test_the_first_lines_work(place: Path) -> None:
    lines = [line.strip() for line in PAGE.read_text().split("\n\n")[1:3] for line in line.splitlines()]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and len(lines) == 5, done.stderr


def test_help_shows_the_public_names(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tailrace; help(tailrace)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PAGER": "cat", "MANPAGER": "cat", "TERM": "dumb"},
    )
    for words in (
        "open(directory:",
        "class Run(",
        " |  query(self,",
        " |  findings(self)",
        "open_store(",
        "class Store(",
    ):
        assert words in done.stdout, words
    assert "_LAZY" not in done.stdout
