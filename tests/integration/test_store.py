"""A store of three real workflows of three days that share files: indexed, asked, and followed across runs.

day 1  clean  raw.csv, skip.txt -> tmp.csv (removed) -> clean.csv
day 2  fit    clean.csv -> part.txt -> model.txt (renamed); notes.txt
day 3  plot   model.txt, style.txt -> figure.svg
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support import ordinary_user
from support.commands import TAILRACE, TracedCommand, run_cli
from tailrace.analyzer.runstore.columns import TABLES

DAYS = {
    "day1": ("clean", "grep -v -f skip.txt raw.csv > tmp.csv; cut -d, -f2 tmp.csv > clean.csv; rm tmp.csv"),
    "day2": ("fit", "sort -n clean.csv > part.txt; mv part.txt model.txt; echo done > notes.txt"),
    "day3": ("plot", "cat model.txt style.txt > figure.svg"),
}


def trace(folder: Path, day: str, workflow: str, script: str) -> Path:
    TracedCommand(folder, folder / day)("sh", "-c", script, tags=[f"workflow={workflow}"])
    return folder / day


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("days")
    (folder / "raw.csv").write_text("a,3\nb,1\nc,2\n")
    (folder / "skip.txt").write_text("b\n")
    (folder / "style.txt").write_text("thick\n")
    for day, (workflow, script) in DAYS.items():
        trace(folder, day, workflow, script)
    assert run_cli("index", "store", *DAYS, "no-run", cwd=folder).returncode == 0
    return folder


def sql(store: Path, query: str) -> list[dict[str, Any]]:
    done = run_cli("sql", store, query, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_every_table_answers_with_the_documented_columns(work: Path) -> None:
    done = run_cli("index", "store", *DAYS, "no-run", cwd=work)
    assert "0 runs indexed, 3 already there, 1 left out" in done.stdout
    assert "no-run is left out: there is no such directory" in done.stderr
    for name, table in TABLES.items():
        rows = sql(work / "store", f"select * from {name}")
        assert rows or name == "tasks"
        assert all(set(row) == {*table.columns, "owner", "day"} for row in rows)
    user = json.loads((work / "day1" / "run.json").read_text())["user"]
    runs = sql(work / "store", "select * from runs order by t0_ns")
    assert [(row["workflows"], row["user"], row["failed"], row["lost"]) for row in runs] == [
        ([name], user, False, 0) for name, _ in DAYS.values()
    ]
    assert [row["path"] for row in runs] == [str(work / day) for day in DAYS]


def test_sums_are_those_of_the_runs(work: Path) -> None:
    of = {row["path"]: row for row in sql(work / "store", "select * from runs")}
    edges = "select path, direction, sum(bytes) as n from edges join runs using (owner, run) group by all"
    moved = {(row["path"], row["direction"]): row["n"] for row in sql(work / "store", edges)}
    for day in DAYS:
        info = tailrace.open(work / day).info()
        row = of[str(work / day)]
        for name in ("events", "read_bytes", "written_bytes", "processes", "t0_ns", "t1_ns"):
            assert row[name] == info[name], name
    # What the programs are known to move: cut reads 8 bytes and writes 4, grep 12+2 and 8.
    assert (moved[str(work / "day1"), "r"], moved[str(work / "day1"), "w"]) == (12 + 2 + 8, 8 + 4)


def test_a_changed_run_counts_once_as_it_is_now(work: Path, tmp_path: Path) -> None:
    for day in DAYS:
        shutil.copytree(work / day, tmp_path / day)
    run_cli("index", "store", *DAYS, cwd=tmp_path)
    before = sql(tmp_path / "store", "select count(*) as n, sum(processes) as p from runs")[0]
    trace(tmp_path, "day2", "fit", "true")
    assert "1 run indexed, 2 already there" in run_cli("index", "store", *DAYS, cwd=tmp_path).stdout
    after = sql(tmp_path / "store", "select count(*) as n, sum(processes) as p from runs")[0]
    assert (after["n"], after["p"]) == (3, before["p"] + 1)
    assert "4 parts" not in run_cli("index", "store", "--compact", cwd=tmp_path).stdout
    assert sql(tmp_path / "store", "select count(*) as n, sum(processes) as p from runs")[0] == after
    assert len(list((tmp_path / "store" / "data").rglob("*.parquet"))) <= len(TABLES)
    assert "0 runs indexed, 3 already there" in run_cli("index", "store", *DAYS, cwd=tmp_path).stdout


def test_watching_indexes_each_finished_run_once(work: Path, tmp_path: Path) -> None:
    for day in ("day1", "day2"):
        shutil.copytree(work / day, tmp_path / "tree" / "deep" / day)
    words = ("index", "store", "--watch", "tree", "--once")
    assert run_cli(*words, "--quiet-for", 3600, cwd=tmp_path).stdout == ""
    assert "2 runs indexed" in run_cli(*words, "--quiet-for", 0, cwd=tmp_path).stdout
    assert sql(tmp_path / "store", "select count(*) as n from runs") == [{"n": 2}]


def test_who_ends_a_run_adds_it_and_a_failure_changes_nothing(tmp_path: Path) -> None:
    own = {**os.environ, "TAILRACE_STORE": str(tmp_path / "store")}
    traced = TracedCommand(tmp_path, tmp_path / "run")
    done = traced("sh", "-c", "echo x > x.txt; exit 3", env=own, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    assert sql(tmp_path / "store", "select outcome, failed from runs") == [
        {"outcome": "The command ended with exit code 3.", "failed": True}
    ]
    (tmp_path / "file").write_text("")
    done = traced("true", env={**own, "TAILRACE_STORE": str(tmp_path / "file")})
    assert done.stderr.startswith(f"tailrace: not added to the store {tmp_path / 'file'}: ")


def test_a_hostile_run_is_indexed_without_harm(work: Path, tmp_path: Path) -> None:
    """Names with control characters, numbers beyond 64 bits, texts without end, a run id that is a path."""
    run = tmp_path / "run"
    shutil.copytree(work / "day1", run)
    meta = json.loads((run / "run.json").read_text())
    meta |= {
        "run_id": "../../../../tmp/evil",
        "user": "\x1b[31mroot\u202e" + "x" * 100_000,
        "command": ["=cmd()", 7, None, *["y" * 5000] * 100],
        "created": "9999-99-99",
        "batch": {"job": 2**70, "account": ["a"], "queue": {"q": 1}},
        "restarts": [{"mounts": [{"point": 3}, 7], "batch": 3}],
        "tags": "not canonical",
        "versions": 3,
    }
    (run / "run.json").write_text(json.dumps(meta))
    done = run_cli("index", "store", "run", cwd=tmp_path)
    assert "1 run indexed" in done.stdout, done.stderr
    (row,) = sql(tmp_path / "store", "select * from runs")
    assert len(row["run"]) == 32 and len(row["user"].encode()) <= 4096
    assert sum(len(word) for word in row["command"]) <= 4096
    shown = run_cli("sql", "store", "select user, command from runs", cwd=tmp_path).stdout
    assert "\x1b" not in shown and "\u202e" not in shown
    assert not Path("/tmp/evil").exists()


@ordinary_user.MARKER
def test_a_reader_of_a_shared_store_sees_what_he_could_read_of_the_runs(work: Path) -> None:
    """Two users' runs in one store, one of them open to all; a third user sees that one, root both."""
    place = Path(f"/var/tmp/tailrace-store-{os.getpid()}")
    try:
        place.mkdir(mode=0o755)
        place.chmod(0o755)
        for user, day, mode in ((61001, "day1", "go-rwx"), (61002, "day2", "go=rX")):
            shutil.copytree(work / day, place / day, ignore=shutil.ignore_patterns("tailrace.db"))
            subprocess.run(["chown", "-R", f"{user}:{user}", place / day], check=True)
            subprocess.run(["chmod", "-R", mode, place / day], check=True)
        words = [*ordinary_user.reach(place), *TAILRACE, "index", "--shared", "store", "day1", "day2"]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        assert "2 runs indexed" in done.stdout, done.stderr
        for name in ("u61001-700", "u61002-755-g61002"):
            assert (place / "store" / "data" / name).is_dir()
        query = "import tailrace; s = tailrace.open_store('store'); r = s.read('runs').to_pylist()"
        query += "; print(sorted(row['owner'] for row in r), s.problems)"
        for user, expected in ((61003, "[61002] ['runs are left out"), (61001, "[61001, 61002] []"), (0, "[61001, 61")):
            words = [*ordinary_user.reach(place), *ordinary_user.become(user), sys.executable, "-c", query]
            seen = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
            assert seen.stdout.startswith(expected), (user, seen)
    finally:
        shutil.rmtree(place, ignore_errors=True)
