"""A run has one report: whatever the order of its trace files, the number of partitions, and Python's hash seed."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import tailrace
from support import call_stories, finding_cases
from support.beside import beside
from support.story_run import on_disk
from tailrace.analyzer import exports
from tailrace.analyzer.store import partitions
from tailrace.analyzer.util.table_columns import TABLES
from tailrace.analyzer.util.working_directory import working_directory
from tailrace.cli.main import group

STORIES = (
    finding_cases.failed_tasks,
    finding_cases.failed_command,
    finding_cases.read_during_write,
    finding_cases.two_writers,
    finding_cases.undeclared_dependency,
    finding_cases.critical_path,
    finding_cases.limited_concurrency,
    finding_cases.streaming_candidate,
    finding_cases.files,
    finding_cases.file_copies,
    finding_cases.hosts,
    finding_cases.straggler,
    finding_cases.conflicts_of_ranks,
    finding_cases.unordered_handovers,
    call_stories.rank_imbalance,
    call_stories.repeated_writes,
)
ASKED = (
    "info run",
    "info run --summary",
    "report run",
    "report run --format json",
    *(f"access run --by {by} --format json" for by in ("stage", "program", "task", "rank", "host", "file")),
    *(f"task run {name} --format json" for name in ("a1.0x1", "use.2x0", "a3.11x2", "b.5x1")),
    *(f"stage run {name} --format json" for name in "amu"),
    "rank run 0",
    "host run n1",
    "file run '*/f' --up --down",
    "file run /d2x1/f --up --down --format json",
    "whatif run --workers 2",
    "whatif run --tier '*=10x'",
    "whatif run --together m,u",
    "whatif run --drop 'declared edges without data'",
    *(
        f"graph run --level {level} --format {form}"
        for level in ("stage", "task", "process")
        for form in ("dot", "json")
    ),
    "graph run --level task --stage m --format json",
    "graph run --level process --stage a --format graphml",
    "query run --by path --agg sum:size --sort sum_size --limit 5",
    "query run --columns task,name,path,dur --sort dur --limit 7",
    "query run --columns ts,name,pid --sort -ts --limit 50 --where dir=w",
    "compare run run --all --format json",
    *(f"export run --to {form}" for form in exports.NAMES if form != "perfetto"),
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each story three times, with equal times and sizes; a process is a trace file."""
    place = tmp_path_factory.mktemp("ties") / "original"
    on_disk(beside(STORIES), place)
    return place


@pytest.fixture(scope="module")
def wanted(original: Path) -> dict[str, str]:
    return answers(laid_out(original, sorted))


def laid_out(original: Path, named: Callable[[list[str]], list[str]]) -> Path:
    """The run at one place, its trace files with other names: what the function makes of the list of their names."""
    place = original.parent / "run"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(original, place, ignore=shutil.ignore_patterns("tailrace.db*", "trace"))
    (place / "trace").mkdir()
    names = sorted(file.name for file in (original / "trace").iterdir())
    for name, other in zip(names, named(names), strict=True):
        shutil.copy(original / "trace" / name, place / "trace" / other)
    return place


def answers(run: Path) -> dict[str, str]:
    """All that is asked of a run."""
    found: dict[str, str] = {}
    with working_directory(run.parent):
        for command in ASKED:
            done = CliRunner().invoke(group, shlex.split(command), env={"COLUMNS": "100", "TAILRACE_STORE": ""})
            assert done.exit_code == 0, (command, done.output, done.exception)
            found[command] = done.stdout
        opened = tailrace.open("run")
        found["edges"] = opened.edges().bursts.to_csv()
        found["frame"] = opened.query(columns="task,name,path,dur", sort="dur", limit=7).to_csv()
        for name, table in TABLES.items():
            source = table.source.split(",")[0]
            if source == f"run.{name}" and name != "files":
                found[name] = getattr(opened, name).to_csv()
    return found


def assert_same(found: dict[str, str], wanted: dict[str, str]) -> None:
    differing = [asked for asked, text in wanted.items() if found[asked] != text]
    assert not differing, [(asked, found[asked][:2000], wanted[asked][:2000]) for asked in differing[:1]]


def shuffled(names: list[str]) -> list[str]:
    return random.Random(3).sample(names, len(names))


def test_no_answer_depends_on_the_order_of_the_trace_files(original: Path, wanted: dict[str, str]) -> None:
    assert_same(answers(laid_out(original, shuffled)), wanted)


def test_no_answer_depends_on_the_number_of_partitions(
    original: Path, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = laid_out(original, shuffled)
    opened = tailrace.open(place)
    assert len(opened.parts()) == 1
    monkeypatch.setattr(partitions, "PARTITION_RAW_BYTES", sum(block[3] for block in opened.blocks()) // 7)
    assert len(tailrace.open(place).parts()) >= 7
    assert_same(answers(place), wanted)


def test_no_answer_depends_on_the_hash_seed(original: Path, wanted: dict[str, str]) -> None:
    place = laid_out(original, sorted)
    words = [sys.executable, "-c", f"import {__name__} as m; m.put({str(place)!r})"]
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, check=True, capture_output=True)
    assert_same(json.loads(done.stdout), wanted)


def put(run: str) -> None:
    json.dump(answers(Path(run)), sys.stdout)
