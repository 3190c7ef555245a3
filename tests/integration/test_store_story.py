"""The story of docs/store.md: its commands are run, on days of their own, and the answer is compared with the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from support.clock_step import put_at
from support.commands import TAILRACE, run_cli

PAGE = Path(__file__).parents[2] / "docs" / "store.md"
BEGIN = "### An example: three workflows on three days"


def plain(text: str, folder: Path) -> str:
    """The text without blanks, since lines are broken, and without what differs from run to run: the place, host and
    pids, seconds, the shell's name."""
    text = "".join(text.split()).replace(str(folder), "/data").replace("dash", "sh")
    text = re.sub(r"(\d{4}-\d\d-\d\d)10:00:0\d(\.\d+)?UTC", r"\1", text)
    return re.sub(rf"(node1|{re.escape(os.uname().nodename)}):\d+", "NODE:PID", text)


def test_the_story_of_the_page_is_what_happens(tmp_path: Path) -> None:
    story = PAGE.read_text().split(BEGIN)[1].split("\n## ")[0]
    shown = [line.removeprefix("    ") for line in story.splitlines() if line.startswith("    ")]
    commands = [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    assert [shlex.split(command)[1] for command in commands] == ["run"] * 4 + ["index", "file"]
    (tmp_path / "raw.csv").write_text("a,3\nb,1\nc,2\n")
    (tmp_path / "skip.txt").write_text("b\n")
    (tmp_path / "style.txt").write_text("thick\n")
    for number, command in enumerate(commands[:4]):
        words = shlex.split(command)
        subprocess.run([*TAILRACE, *words[1:]], cwd=tmp_path, check=True, capture_output=True, timeout=120)
        put_at(tmp_path / words[3], f"2026-11-{16 + number}T10:00:00")
    run_cli(*shlex.split(commands[4])[1:], cwd=tmp_path)
    done = run_cli(*shlex.split(commands[5])[1:], cwd=tmp_path)
    answer, at = plain(done.stdout, tmp_path), 0
    printed = "\n".join(shown[shown.index("$ " + commands[5]) + 1 :])
    pieces = [plain(piece, Path("/data")) for piece in printed.split("\n...")]
    assert sum(map(bool, pieces)) == 2
    for piece in pieces:
        assert piece.removeprefix("...") in answer[at:], done.stdout
        at = answer.index(piece.removeprefix("..."), at)
    again = [*commands[:3], "tailrace index STORE day1 day2 day3"]
    for command in again:
        words = shlex.split(command)
        subprocess.run([*TAILRACE, *words[1:]], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert "STALE" not in run_cli(*shlex.split(commands[5])[1:], cwd=tmp_path).stdout
