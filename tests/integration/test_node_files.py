"""A trace file may hold the blocks of many processes, and a process have blocks in several: no answer depends on it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support.commands import TAILRACE
from support.node_files import gather, without_sealer
from tailrace.analyzer import exports, summary
from tailrace.analyzer.run import Run
from tailrace.analyzer.store.conditions import Glob
from tailrace.analyzer.util.table_columns import TABLES
from tailrace.integrations import launcher

CONTAINER = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c", 'hostname node.2 && exec "$@"', "sh"]
SEGMENTS = """
import os, threading
def work(name):
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    for number in range(1000):
        os.write(file, b"x" * (number % 7))
        os.pread(file, 5, number)
        os.lseek(file, 0, os.SEEK_END)
    for number in range(2000):
        os.fstat(file)
threads = [threading.Thread(target=work, args=(f"thread-{n}",)) for n in range(2)]
for thread in threads:
    thread.start()
    thread.join()
os.kill(os.getpid(), 9)
"""
STEPS = {
    "make": "seq 3000 > a.txt; (cat a.txt; cat missing) | sort -r | tee b.txt | wc -l > c.txt",
    "forks": "for i in 1 2 3; do (cat b.txt >> d.txt; sh -c 'cat d.txt >/dev/null; kill -9 $$') & done; wait; true",
    "exec": "exec sh -c 'mv d.txt e.txt; exec cat e.txt a.txt >/dev/null'",
    "killed": f"{sys.executable} -c '{SEGMENTS}'; true",
    "script": f'{sys.executable} -c \'import json, subprocess; subprocess.run(["cat", "e.txt"])\' > f.txt',
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipes, forks, chains of execve, threads with several blocks, killed processes; on two hosts where containers
    are permitted."""
    work = tmp_path_factory.mktemp("node-files")
    with without_sealer(work / "run"):
        run_steps(work)
    return work / "run"


def run_steps(work: Path) -> None:
    for stage, script in STEPS.items():
        words = [*TAILRACE, "run", "-q", "-o", "run", "--tag", f"stage={stage}", "--", "sh", "-c", script]
        subprocess.run(words, cwd=work, check=True, timeout=120)
    probe = subprocess.run([*CONTAINER, "true"], check=False, capture_output=True)
    if probe.returncode == 0:
        script = "sort a.txt > g.txt; tail -n 1 g.txt > h.txt"
        words = [*TAILRACE, "run", "-q", "-o", "run", "--tag", "stage=far", "--", "sh", "-c", script]
        subprocess.run([*CONTAINER, *words], cwd=work, check=True, timeout=120)


def answers(path: Path) -> dict[str, Any]:
    """Everything that a run can be asked, but for the files themselves."""
    found = tailrace.open(path)
    names = [name for name, table in TABLES.items() if table.source.split(",")[0] == f"run.{name}" and name != "files"]
    tables = {name: getattr(found, name) for name in names}
    assert len(names) > 12
    info = {key: value for key, value in found.info().items() if key != "trace_files"}
    return {
        "tables": tables,
        "info": info,
        "report": summary.collect(found),
        "graphs": {level: graph_of(found, level) for level in ("stage", "task", "process")},
        "queries": dict(queries(found)),
        "lossy": found.lossy_processes,
        "managers": found.manager_processes,
        "summary": (summary_of(path).describe(), summary_of(path).lost),
    }


def summary_of(path: Path) -> launcher.Summary:
    made = launcher.Summary()
    launcher.add_blocks(made, path, {})
    return made


def graph_of(found: Run, level: str) -> Any:
    graph = found.dataflow(level)
    return [*map(repr, graph.nodes(data=True))], [*map(repr, graph.edges(data=True))]


def queries(found: Run) -> Iterator[tuple[str, pd.DataFrame]]:
    pid = int(found.processes["pid"].iloc[-1])
    start = str(found.processes["start"].iloc[0])
    for where in ({}, {"pid": pid}, {"start": start}, {"stage": "forks"}, {"path": Glob("*.txt")}, {"name": "read"}):
        table = found.events(**where).compute()
        texts = table.astype({name: str for name in table.columns})
        yield repr(where), texts.sort_values(list(texts.columns)).reset_index(drop=True)


def assert_same(found: Any, wanted: Any, where: str = "") -> None:
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted, obj=where)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key, value in wanted.items():
            assert_same(found[key], value, f"{where}/{key}")
    else:
        assert found == wanted, where


def timeline(path: Path, place: Path) -> list[str]:
    """The lines of a timeline, which come in the order of the files."""
    exports.export(tailrace.open(path), "perfetto", place)
    lines = json.loads(place.read_text())["traceEvents"]
    return sorted(repr(sorted(line.items())) for line in lines)


@pytest.fixture(scope="module")
def wanted(run: Path) -> dict[str, Any]:
    return answers(run)


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The run without its catalogue, in the place of the first one, whose path the answers have."""
    aside = tmp_path / "aside"
    run.rename(aside)
    shutil.copytree(aside, run, ignore=shutil.ignore_patterns("tailrace.db*"))
    yield run
    shutil.rmtree(run)
    aside.rename(run)


def test_no_answer_depends_on_which_file_has_a_block(copy: Path, wanted: dict[str, Any], tmp_path: Path) -> None:
    """Nodes' files of a few hundred kilobytes; some processes have every second block, some all, in their own file."""
    drawn = timeline(copy, tmp_path / "timeline")
    files = len(list((copy / "trace").iterdir()))
    gather(copy, 300_000, lambda name, number: int(name.split("-")[1]) % 3 < number % 2 + 1)
    names = [path.name for path in (copy / "trace").iterdir()]
    assert len([name for name in names if "-" not in name]) >= 2 and len(names) < files
    assert_same(answers(copy), wanted)
    assert timeline(copy, tmp_path / "timeline") == drawn


def test_a_nodes_file_is_read_while_it_grows(copy: Path, wanted: dict[str, Any]) -> None:
    """In pieces that end within blocks: the last answer is that of a first reading."""
    gather(copy, 1 << 30)
    whole = {file: file.read_bytes() for file in (copy / "trace").iterdir()}
    for file in whole:
        file.unlink()
    for part in (0.3, 0.7, 1.0):
        for file, data in whole.items():
            with file.open("ab") as end:
                end.write(data[end.tell() : int(len(data) * part)])
        tailrace.open(copy).edges()
    assert len(whole) <= 2
    assert_same(answers(copy), wanted)


def test_no_answer_changes_when_a_run_is_compacted(
    copy: Path, wanted: dict[str, Any], tmp_path: Path, cli: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    drawn = timeline(copy, tmp_path / "timeline")
    files = {path.name: path.stat().st_size for path in (copy / "trace").iterdir()}
    said = cli("compact", copy, "--level", 9)
    assert said.returncode == 0 and said.stderr == "", said
    compacted = {path.name: path.stat().st_size for path in (copy / "trace").iterdir()}
    assert not [name for name in compacted if "-" in name] and len(compacted) <= 2
    assert sum(compacted.values()) < 0.9 * sum(files.values())
    assert f"{len(files)} files with " in said.stdout and f" to {len(compacted)} file" in said.stdout
    found = answers(copy)
    sizes = ("compressed_bytes", "raw_bytes", "blocks")
    assert all(found["info"].pop(key) < wanted["info"][key] for key in sizes)
    assert_same(found, {**wanted, "info": {key: wanted["info"][key] for key in wanted["info"] if key not in sizes}})
    assert timeline(copy, tmp_path / "timeline") == drawn


def test_a_run_that_still_runs_is_not_compacted(
    tmp_path: Path, cli: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    words = [*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--", "sh", "-c", "cat /dev/null; echo on; read line"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "on\n"
        said = cli("compact", tmp_path / "run")
        assert said.returncode == 1
        assert "still running" in said.stderr and "is not compacted, since not all of it is sealed" in said.stderr
        running.communicate("\n")
    assert cli("compact", tmp_path / "run").returncode == 0
