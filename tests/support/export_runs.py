"""Runs that every export has to cope with, and what a format writes of one: `written`."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from support.flowcase import FakeRun, Story
from tailrace.analyzer import exports

NAMES = (
    "/d/plain.txt",
    "/d/a \"quoted\" 'name'",
    "/d/two\nlines\r\t",
    "/d/<script>alert(1)</script>&amp;",
    "/d/100%25 #1 ?q=1",
    "/d/not utf-8 \ufffd\ufffd",
    "/d/\u202eb\u0001idi \U0001f600 \\x5c",
    "/d/a:3Ab",
    "/d/a:b",
    "/d/a#1",
)
"""Paths that formats escape, or that escapes of other paths look like."""


def written(form: str, run: Any) -> str:
    """The text that `run` is in a format."""
    file = io.StringIO()
    exports.FORMATS[form].write(run, file)
    return file.getvalue()


def hostile_run(partitions: int = 1) -> FakeRun:
    """A task that reads and writes every name; a second one that reads what it wrote."""
    story = Story()
    for number, name in enumerate(NAMES):
        story.create(name, stage='s"<', task="t 1\n", pid=10)
        story.write(name, size=100 + number, stage='s"<', task="t 1\n", pid=10)
    for name in NAMES:
        story.read(name, stage="s2", task="t%2", pid=11, tid=12)
    story.process(10, "/usr/bin/x y", ["x y", "", "-c", "\udcfe<b>\n"])
    return story.run(partitions)


def loop_run(rounds: int = 3) -> FakeRun:
    """Tasks that one after another read and rewrite one file, which was there before."""
    story = Story()
    for number in range(rounds):
        story.read("/d/state", stage="step", task=f"t{number}", pid=20 + number)
        story.create("/d/state", stage="step", task=f"t{number}", pid=20 + number)
        story.write("/d/state", stage="step", task=f"t{number}", pid=20 + number)
    story.read("/d/state", stage="end", task="last", pid=50)
    return story.run()


def tangled_run() -> FakeRun:
    """Two tasks side by side, each of which reads what the other writes."""
    story = Story()
    story.write("/d/a", stage="s", task="a", pid=1)
    story.write("/d/b", stage="s", task="b", pid=2)
    story.read("/d/b", stage="s", task="a", pid=1)
    story.read("/d/a", stage="s", task="b", pid=2)
    return story.run()


def failing_run() -> FakeRun:
    """a failed in its second try, b was canceled, c succeeded at its second try, d never ran."""
    story = Story()
    rows = []
    for name, status, tries, error in (
        ("a", "failed", 2, "OSError: no \x1b space"),
        ("b", "canceled", 1, "by hand"),
        ("c", "done", 2, None),
        ("d", "dep_failed", 0, "for a"),
    ):
        if status != "dep_failed":
            story.write(f"/d/{name}", stage="s", task=name, pid=ord(name))
        row = {"workflow": "w", "task": name, "stage": "s", "name": None, "parent": None}
        rows.append({**row, "status": status, "tries": tries, "error": error})
    return story.run(declared_tasks=pd.DataFrame(rows))
