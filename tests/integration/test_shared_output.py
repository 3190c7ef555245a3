"""Processes that write to one open file, as a log that is their standard output, and to a file that each opened."""

from pathlib import Path

import pytest

from support.commands import TracedCommand
from tailrace import open as open_run
from tailrace.analyzer.insights import insights

LINES = 2000
# In the middle each waits until the other one is there, too: one may be done before the other has begun.
MEET = "{ : > half.$1; until [ -e half.a ] && [ -e half.b ]; do sleep 0.01; done; }"
WRITER = f"i=0; while [ $i -lt {LINES} ]; do echo $1 $i; i=$((i+1)); [ $i != {LINES // 2} ] || {MEET}; done"
TASKS = """
{outer}
for name in a b; do
    TAILRACE_STAGE=s TAILRACE_TASK=$name sh -c "$1" sh $name {inner} &
done
wait
"""


def conflicts_of(run_traced: TracedCommand, outer: str, inner: str) -> set[str]:
    """The kinds of conflicts at the file of two tasks that wrote to it at the same time."""
    run_traced("sh", "-c", TASKS.format(outer=outer, inner=inner), "sh", WRITER)
    rows = insights(open_run(run_traced.run)).conflicts.rows
    return {row.kind for row in rows.itertuples() if Path(row.path).name == "out"}


@pytest.mark.parametrize("opened", ["exec > out", "exec >> out"])
def test_lines_to_one_open_file_are_no_race(run_traced: TracedCommand, tmp_path: Path, opened: str) -> None:
    assert conflicts_of(run_traced, opened, "") == set()
    assert len((tmp_path / "out").read_text().splitlines()) == 2 * LINES, "each line has its own bytes"


def test_lines_to_a_file_that_each_opened_are_one(run_traced: TracedCommand, tmp_path: Path) -> None:
    assert conflicts_of(run_traced, "", "> out") == {"two writers"}
    assert len((tmp_path / "out").read_text().splitlines()) < 2 * LINES
