"""`Run.query` and `Run.explain` answer what `tailrace query` prints."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from support.diagnosis_stories import processes
from support.flowcase import MS, Story
from support.story_run import on_disk
from tailrace.analyzer.run import Run
from tailrace.analyzer.store.conditions import Between
from tailrace.cli.query import command
from tailrace.errors import QueryError, UsageError


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    s = Story()
    for i in range(6):
        s.write(f"/mid/{i}", 0, 1000 << i, dur=(i + 1) * MS, stage="make", task=f"m{i}", pid=10 + i)
        s.read(f"/mid/{i}", 0, 500 << i, dur=MS, stage="use", task=f"u{i}", pid=20 + i)
    return on_disk(s.run(), tmp_path_factory.mktemp("asking") / "run")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--by", "stage,dir"], {"by": "stage,dir"}),
        (["--by", "stage", "--agg", "sum:size", "--agg", "p95:dur"], {"by": "stage", "aggs": "sum:size,p95:dur"}),
        (
            ["--by", "stage", "--agg", "share:size", "--agg", "rate:size"],
            {"by": "stage", "aggs": ["share:size", "rate:size"]},
        ),
        (["--by", "time:2ms", "--agg", "sum:size"], {"by": "time:2ms", "aggs": "sum:size"}),
        (
            ["--by", "size:log2", "--where", "size>=2KiB", "--where", "dir=w"],
            {"by": "size:log2", "where": ["size>=2KiB", "dir=w"]},
        ),
        (
            ["--by", "path", "--stage", "use", "--sort", "count", "--limit", "2"],
            {"by": "path", "stage": "use", "sort": "count", "limit": 2},
        ),
        (
            ["--by", "path", "--where", "path=/mid/*", "--where", "path!=/mid/3"],
            {"by": "path", "where": ["path=/mid/*", "path!=/mid/3"]},
        ),
        (["--by", "task", "--since", "0.003", "--until", "0.006"], {"by": "task", "since": 0.003, "until": 0.006}),
        (["--columns", "name,size", "--sort", "-size"], {"columns": "name,size", "sort": "-size"}),
        (["--agg", "ratio:size/count"], {"aggs": "ratio:size/count"}),
    ],
)
def test_a_query_is_what_the_command_prints(run: Run, words: list[str], asked: dict[str, object]) -> None:
    done = CliRunner().invoke(command, [str(run.path), *words, "--format", "csv"], catch_exceptions=False)
    printed = pd.read_csv(io.StringIO(done.stdout), dtype=object, keep_default_na=False)
    found = pd.read_csv(io.StringIO(run.query(**asked).to_csv(index=False)), dtype=object, keep_default_na=False)
    assert len(printed) and printed.to_numpy().tolist() == found.to_numpy().tolist()


def test_values_and_conditions_on_one_column_must_both_hold(run: Run) -> None:
    both = run.query("path", where="size<4KiB", size=Between(2000), dir="w")
    assert both["path"].tolist() == ["/mid/1", "/mid/2"]
    assert run.query("task", where=["task=m1", "task=m2"], task="m2")["task"].tolist() == ["m2"]


def test_explain_is_what_the_command_prints(run: Run) -> None:
    for words, asked in (
        ([], {}),
        (["--where", "size<4KiB", "--stage", "use"], {"where": "size<4KiB", "stage": "use"}),
    ):
        printed = CliRunner().invoke(command, [str(run.path), *words, "--explain"], catch_exceptions=False).stdout
        reading = run.explain(**asked)
        assert printed.splitlines()[0] == reading.sentence()
        assert reading.headers == (not words) and sum(row[0] for row in reading.files.values()) == reading.blocks


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"by": "stages"}, "did you mean 'stage'"),
        ({"stage": "mkke"}, "did you mean 'make'"),
        ({"where": "path=/mid/77"}, "no event is on a file called"),
        ({"aggs": "sun:size"}, "did you mean 'sum"),
        ({"where": "size"}, "is no condition"),
        ({"where": "size<4parsecs"}, "KiB"),
        ({"by": "stage", "columns": "name"}, "one or the other"),
        ({"since": float("inf")}, "since is inf"),
        ({"sort": "sum"}, "to sort by"),
    ],
)
def test_an_error_names_what_was_meant(run: Run, asked: dict[str, object], words: str) -> None:
    with pytest.raises((QueryError, UsageError), match=words):
        run.query(**asked)


def test_no_matching_event_is_an_empty_answer(run: Run, tmp_path: Path) -> None:
    assert run.query("stage", where="size>1GiB").empty
    assert run.query(columns="name", where="size>1GiB").columns.tolist() == ["name"]


def test_a_stage_of_untagged_processes_is_asked_for_by_the_name_that_reports_show(tmp_path: Path) -> None:
    story = Story()
    for pid in (1, 2, 3):
        story.write(f"/{pid}", 0, 10, pid=pid)
    table = processes((1, 99, "/bin/sim"), (2, 99, "/bin/sim"), (3, 99, "/bin/plot"))
    path = str(on_disk(story.run(processes=table), tmp_path / "run").path)

    def pids(*words: str) -> list[int]:
        done = CliRunner().invoke(command, [path, *words, "--by", "pid", "--format", "csv"], catch_exceptions=False)
        return sorted(pd.read_csv(io.StringIO(done.stdout))["pid"].tolist())

    assert (pids("--stage", "(sim)"), pids("--stage", "(plot)")) == ([1, 2], [3])
    assert pids("--stage", "(sim)", "--pid", "2") == [2]
    with pytest.raises(QueryError, match=r"there is no stage '\(other\)'"):
        pids("--stage", "(other)")
