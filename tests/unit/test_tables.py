"""Tables on a terminal: nothing vanishes, no name breaks inside a word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.analyzer.util import terminal
from tailrace.cli.lines import render


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("worker_dies", 20, ["worker_dies"]),
        ("worker_dies", 8, ["worker_", "dies"]),
        ("/home/ada/data/part_17.nc", 16, ["/home/ada/data/", "part_17.nc"]),
        ("2 failed, 1 killed", 12, ["2 failed, 1", "killed"]),
        ("0123456789abcdef", 10, ["0123456789", "abcdef"]),
        ("", 10, [""]),
    ],
)
def test_a_name_breaks_behind_a_mark(text: str, width: int, lines: list[str]) -> None:
    assert list(terminal.broken(text, width)) == lines


@given(st.text("ab/_-. c", max_size=60), st.integers(1, 40))
def test_no_character_is_lost_and_no_line_is_too_long(text: str, width: int) -> None:
    lines = list(terminal.broken(text, width))
    assert all(len(line) <= width for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)


def test_the_widest_columns_give_way_first_and_numbers_never() -> None:
    path = "/home/ada/project/data/sample.fastq"
    assert terminal.fitted(["n", "path"], [["123456", path]], [True, False], 40) == [6, 27]
    assert terminal.fitted(["n", "path"], [["123456", path]], [True, False], 100) == [6, len(path)]
    assert terminal.fitted(["n"] * 9, [["123456"] * 9], [True] * 9, 40) is None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_on_a_terminal_keeps_its_words(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    row = ["ensemble", "worker_dies", 3, "/home/ada/project/data/sample.fastq", None]
    render(["workflow", "stage", "tasks", "path", "errno"], [row, [None, "x", 1, float("nan"), 2]])
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    for word in ("ensemble", "worker", "dies", "sample.fastq", "workflow", "tasks", "errno"):
        assert word in text, word
    assert "worker_dies" in text or re.search(r"worker_ ", text)


def test_too_many_columns_for_the_terminal_become_lists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    render(["ts", "path"] + ["ns"] * 3, [[1795339958129710414, "/a/b", *[10**12] * 3]], title="Events")
    assert capsys.readouterr().out.split() == [
        "Events",
        *("ts", "1795339958129710414", "path", "/a/b"),
        *("ns", "1000000000000") * 3,
    ]


def test_a_narrow_terminal_does_without_spare_columns_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, rows = ["name", "least", "most", "speed"], [["read (pipe, socket)", "12.0 KiB", "14.0 KiB", "1.00 GiB/s"]]

    def printed(width: int) -> str:
        for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": str(width)}.items():
            monkeypatch.setenv(name, value)
        render(names, rows, title="Functions", spare=["least", "most"])
        text: str = capsys.readouterr().out
        assert all(len(line) <= width for line in text.splitlines())
        return " ".join(text.split())

    assert "least most speed" in printed(80) and "left out" not in printed(80)
    assert printed(46).startswith("Functions (left out in 46 columns: least) name most speed")
    assert printed(36).startswith("Functions (left out in 36 columns: least, most) name speed")


def test_large_numbers_have_no_exponent() -> None:
    assert [terminal.shown(number) for number in (13922712.4, 999999.4, 0.25, 3.0)] == [
        "13922712",
        "999999",
        "0.25",
        "3",
    ]
