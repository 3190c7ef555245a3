"""Detail: what rests on the edge table is the same whether each call is a line or totals stand for them."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from support.details import FULL, SETTINGS, TOTALS, covered, plain, sealed
from tailrace.integrations import environment, rundir

SUMS = ("bytes", "calls", "loose_bytes", "mapped_bytes", "relayed_bytes")

PROGRAM = """
    import ctypes, os, random, signal, sys, threading, time

    libc = ctypes.CDLL(None)
    for name in ("fopen", "malloc"): getattr(libc, name).restype = ctypes.c_void_p
    for name in ("fread", "fwrite", "fputs", "fputc", "fgets", "fseek", "fflush", "fgetc"):
        getattr(libc, name).argtypes = [ctypes.c_void_p] * 4
    room = ctypes.create_string_buffer(1 << 16)

    def work(number):
        choose = random.Random(number)
        name = lambda: f"f{choose.randrange(3)}".encode()
        opened = []
        for step in range(250):
            what = choose.random()
            if not opened or what < 0.01:
                flags = choose.choice([os.O_RDWR, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_APPEND]) | os.O_CREAT
                opened.append(os.open(name(), flags))
            fd = choose.choice(opened)
            size, at = choose.choice([0, 1, 512, 4096, 5000]), 512 * choose.randrange(200)
            if what < 0.40:
                for _ in range(choose.randrange(9)): os.read(fd, size)
            elif what < 0.50:
                os.pread(fd, size, at)
            elif what < 0.70:
                for _ in range(choose.randrange(9)): os.write(fd, bytes(size))
            elif what < 0.78:
                os.pwrite(fd, bytes(size), at)
            elif what < 0.84:
                os.lseek(fd, at, os.SEEK_SET)
            elif what < 0.88:
                os.fstat(fd)
            elif what < 0.92 and number == 0:
                stream = libc.fopen(name(), b"a+")
                for _ in range(choose.randrange(6)):
                    libc.fread(room, 1, choose.choice([1, 100, 3000]), stream)
                    libc.fgets(room, 200, stream, None)
                    for _ in range(3): libc.fgetc(stream, None, None, None)
                libc.fseek(stream, 0, 2, None)
                for _ in range(choose.randrange(6)):
                    libc.fputs(b"words", stream, None, None)
                    libc.fputc(65, stream, None, None)
            elif what < 0.94:
                os.close(opened.pop(opened.index(fd)))
            elif what < 0.945:
                os.rename(name(), b"moved")
            elif what < 0.95:
                try: os.unlink(name())
                except OSError: pass
            elif what < 0.96:
                try: os.read(999, 1)
                except OSError: pass
            elif what < 0.98:
                try: os.copy_file_range(fd, choose.choice(opened), size, 0, 0)
                except OSError: pass
            else:
                time.sleep(choose.random() / 2000)

    for number in range(int(sys.argv[1])):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        if sys.argv[2] == "one": thread.join()
    for thread in threading.enumerate():
        if thread is not threading.current_thread(): thread.join()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def journals_of_a_killed_process(run: Path, journals: Path, *arguments: str) -> None:
    """Leaves the journals of a process that was killed after it had moved bytes of a few files in many ways."""
    work = run.parent / "work"
    work.mkdir()
    settings = {**SETTINGS, "TAILRACE_JOURNAL_DIR": str(journals)}
    variables = environment.task_environment(run, "workflow=w,stage=s,task=t", {**os.environ, **settings})
    for number in range(3):
        (work / f"f{number}").write_bytes(random.Random(number).randbytes(100_000))
    words = [sys.executable, "-I", "-S", "-c", textwrap.dedent(PROGRAM), *arguments]
    done = subprocess.run(words, cwd=work, env={**variables, **settings}, check=False, timeout=300)
    assert done.returncode == -9


def lines(run: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((run / "trace").iterdir()):
        with gzip.open(path, "rt") as file:
            yield from map(json.loads, file)


@pytest.fixture(scope="module", params=["one", "all"])
def details(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One set of journals, sealed to full detail and to totals: of threads one after another, or all at once."""
    place = tmp_path_factory.mktemp("detail")
    run = rundir.open_run_directory(place / "run", ["program"], "")
    journals, kept = place / "journals", place / "kept"
    journals.mkdir()
    journals_of_a_killed_process(run, journals, "3", request.param)
    shutil.copytree(journals, kept)
    return sealed(run, journals, kept, FULL), sealed(run, journals, kept, TOTALS)


def test_the_edge_table_is_the_same(details: tuple[Path, Path], request: pytest.FixtureRequest) -> None:
    full, totals = (tailrace.open(path).edges() for path in details)
    for name in ("who", "files", "aliases", "facts", "process_events", "counts"):
        pd.testing.assert_frame_equal(plain(full, name), plain(totals, name))
    ours, theirs = plain(full, "bursts"), plain(totals, "bursts")
    if "all" in request.node.name:
        # Past a cap (16 bursts of a key) the order of joining pauses shows, as with partitions of full detail.
        of = {**dict.fromkeys(SUMS, "sum"), "first_ns": "min", "last_ns": "max"}
        keys = ["who", "file", "dir"]
        pd.testing.assert_frame_equal(ours.groupby(keys).agg(of), theirs.groupby(keys).agg(of))
        return
    pd.testing.assert_frame_equal(ours, theirs)
    for name in ("extents", "times", "busy"):
        assert covered(full, getattr(full, name), name) == covered(totals, getattr(totals, name), name)


def test_sums_are_the_same(details: tuple[Path, Path]) -> None:
    full, totals = map(tailrace.open, details)
    for name in ("files", "processes", "tasks", "stages", "coverage"):
        ours, theirs = (
            getattr(run, name).drop(columns=["size_bytes", "mtime_ns"], errors="ignore") for run in (full, totals)
        )
        pd.testing.assert_frame_equal(ours, theirs)
    assert {**full.info(), "path": ""}["events"] == totals.info()["events"]
    assert full.info()["totals_since_ns"] is None and totals.info()["totals"] > 10


def test_lines_of_totals_are_sums_that_a_naive_reader_gets_right(details: tuple[Path, Path]) -> None:
    found = []
    for run in details:
        moved: dict[tuple[str, str], list[int]] = {}
        for line in lines(run):
            if line["ph"] == "X" and "size" in line["args"]:
                sums = moved.setdefault((line["name"], line["args"].get("fhash", "")), [0, 0, 0])
                args = line["args"]
                for place, value in enumerate((args["size"], args.get("calls", 1), round(line["dur"] * 1000))):
                    sums[place] += value
        found.append(moved)
    assert found[0] == found[1]
    full, totals = (sum(1 for _ in lines(run)) for run in details)
    assert totals < full / 2


def test_a_query_counts_calls_and_warns_where_it_needs_each(details: tuple[Path, Path]) -> None:
    words = ("--by", "name", "--agg", "count", "--agg", "mean:size", "--agg", "sum:dur", "--format", "csv")
    full, totals = (run_cli("query", run, *words) for run in details)
    assert full.stdout == totals.stdout and not totals.stderr
    by_task = ("--by", "task", "--format", "csv")
    full, totals = (run_cli("query", run, *by_task) for run in details)
    assert full.stdout == totals.stdout
    full, totals = (run_cli("query", run, "--agg", "p95:dur") for run in details)
    assert not full.stderr
    assert totals.stderr.count("lines of totals") == 1
    rows = [run_cli("info", run).stdout.splitlines() for run in details]
    assert [any(line.split()[:1] == ["detail"] for line in one) for one in rows] == [False, True]


def test_bad_words_are_refused(tmp_path: Path) -> None:
    done = run_cli("run", "--detail", "sampled", "-o", tmp_path / "run", "--", "true")
    assert done.returncode == 2 and "give full, totals, auto or auto:BYTES" in done.stderr


def test_auto_is_full_until_its_budget_is_used_up(run_traced: TracedCommand) -> None:
    loop = "import os\nfd = os.open('/etc/passwd', os.O_RDONLY)\nfor _ in range(20000): os.pread(fd, 9, 0)"
    run_traced(sys.executable, "-c", loop, options=("-q", "--detail", "auto:20K"))
    found = [line["args"].get("lines", 1) for line in lines(run_traced.run) if line["name"] == "pread"]
    assert sum(found) == 20000 and found.count(1) > 1000 and max(found) > 1000
    info = tailrace.open(run_traced.run).info()
    # Where the sealer lags, the process has sealed, and used up the budget with, what came after the first calls.
    assert info["totals_since_ns"] >= info["t0_ns"]
    assert "Detail: totals" in run_cli("report", run_traced.run).stdout


def test_auto_has_one_budget_for_all_processes_of_a_run(run_traced: TracedCommand) -> None:
    """Each of them alone would not have used it up."""
    loop = "import os; fd = os.open('/etc/passwd', os.O_RDONLY); [os.pread(fd, 9, n * 7 % 99) for n in range(300)]"
    step = f'{sys.executable} -I -S -c "{loop}"'
    run_traced(
        "sh", "-c", f"i=0; while [ $i -lt 100 ]; do {step}; i=$((i+1)); done", options=("-q", "--detail", "auto:60K")
    )
    of_process: dict[int, list[int]] = {}
    for line in lines(run_traced.run):
        if line["name"] == "pread":
            of_process.setdefault(line["pid"], []).append(line["args"].get("lines", 1))
    assert len(of_process) == 100 and all(sum(found) == 300 for found in of_process.values())
    counts = [len(found) for found in of_process.values()]
    assert counts.count(300) >= 2 and counts.count(1) >= 50
    assert "Detail: totals from" in run_cli("report", run_traced.run).stdout


STAGES = {
    "make": "import random; f = open('data', 'w', buffering=512); r = random.Random(1)\n"
    "for _ in range(3000): f.write(f'{r.random()}\\n')",
    "again": "import os; fd = os.open('data', os.O_RDONLY)\nfor _ in range(40):\n"
    "    os.lseek(fd, 0, 0)\n    while os.read(fd, 700): pass",
    "patch": "import os; fd = os.open('data', os.O_RDWR)\nfor at in range(0, 50000, 1000): os.pwrite(fd, b'9', at)",
    "sort": "import subprocess; subprocess.run(['sort', '-o', 'sorted', 'data'], check=True)",
    "count": "print(sum(map(len, open('sorted', buffering=300))), file=open('sum', 'w'))",
}
"""Programs of a pipeline, in this order, each a stage with one task."""


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tailrace.Run]:
    """The run of the pipeline by detail."""
    found = {}
    for detail in ("full", "totals"):
        place = tmp_path_factory.mktemp(detail)
        traced = TracedCommand(place, place / "run")
        for stage, program in STAGES.items():
            tags = ("workflow=w", f"stage={stage}", f"task={stage}")
            traced(sys.executable, "-I", "-S", "-c", program, tags=tags, options=("-q", "--detail", detail))
        found[detail] = tailrace.open(place / "run")
    return found


def seen(run: tailrace.Run) -> set[tuple[Any, ...]]:
    """The dataflow graph without what belongs to one run: times, identities."""
    graph = run.dataflow("task")
    names = {node: Path(str(data.get("path") or data["label"])).name for node, data in graph.nodes(data=True)}
    named = {node: re.sub(r":\[.*", "", name) for node, name in names.items()}
    facts = ("kind", "bytes", "unique_bytes", "calls", "files", "own", "raced", "exact", "extents")
    return {
        (named[a], graph.nodes[a].get("version"), named[b], *(str(data.get(fact)) for fact in facts))
        for a, b, data in graph.edges(data=True)
    }


def test_graphs_and_findings_are_the_same(pipelines: dict[str, tailrace.Run]) -> None:
    full, totals = pipelines["full"], pipelines["totals"]
    assert seen(full) == seen(totals)
    assert len(seen(full)) >= 8
    # Those that cost time depend on how fast the run was.
    kinds = [{(one.kind, one.count) for one in run.findings() if not one.cost_ns} for run in (full, totals)]
    assert kinds[0] == kinds[1] and kinds[0]
    counts = [run.tasks[["task", "events", "read_bytes", "written_bytes"]] for run in (full, totals)]
    pd.testing.assert_frame_equal(*counts)
    assert totals.info()["totals"] > 0
    assert totals.info()["coverage"] == full.info()["coverage"]
