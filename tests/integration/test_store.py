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
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tailrace
from support import ordinary_user
from support.clock_step import put_at
from support.commands import TAILRACE, TracedCommand, run_cli
from tailrace.analyzer.runstore import overview
from tailrace.analyzer.runstore.columns import TABLES
from tailrace.errors import QueryError

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
    for number, (day, (workflow, script)) in enumerate(DAYS.items()):
        put_at(trace(folder, day, workflow, script), f"2026-11-{number + 16}T10:00:00")
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
        assert rows or name in ("tasks", "events", "findings")
        assert all(set(row) == {*table.columns, "owner", "day"} for row in rows)
    user = json.loads((work / "day1" / "run.json").read_text())["user"]
    runs = sql(work / "store", "select * from runs order by t0_ns")
    assert [(row["workflows"], row["user"], row["failed"], row["lost"]) for row in runs] == [
        ([name], user, False, 0) for name, _ in DAYS.values()
    ]
    assert [row["day"] for row in runs] == ["2026-11-16", "2026-11-17", "2026-11-18"]
    days = [datetime.fromtimestamp(row["t0_ns"] / 1e9, timezone.utc).date().isoformat() for row in runs]
    assert days == [row["day"] for row in runs] and not any(row["problems"] for row in runs)
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
    # Of the last run that used them; cat and sort write where a descriptor stands that the shell opened.
    last = "select path, arg_max(size_bytes, last_ns) as size from files where class = 'data' group by path"
    sizes = {Path(row["path"]).name: row["size"] for row in sql(work / "store", last)}
    there = {path.name: path.stat().st_size for path in work.iterdir() if path.name in sizes and path.name != "raw.csv"}
    assert {name: sizes[name] for name in there} == there and "figure.svg" in there
    # What the programs are known to move: cut reads 8 bytes and writes 4, grep 12+2 and 8.
    assert (moved[str(work / "day1"), "r"], moved[str(work / "day1"), "w"]) == (12 + 2 + 8, 8 + 4)


def test_questions_of_many_parts_end(work: Path, tmp_path: Path) -> None:
    """A thread that opens a part takes Python's lock, for which a scan that began under it would wait forever."""
    copies = []
    for number in range(12):
        copies.append(tmp_path / str(number))
        shutil.copytree(work / "day1", copies[-1])
        about = json.loads((work / "day1" / "run.json").read_text())
        (copies[-1] / "run.json").write_text(json.dumps({**about, "run_id": f"{number:032x}"}))
    assert run_cli("index", tmp_path / "store", *copies).returncode == 0
    program = """
import sys, tailrace
names = ["runs", "processes", "files", "versions", "edges"] * 4
for _ in range(20):
    tables = tailrace.open_store(sys.argv[1]).answers([f"select count(distinct run) from {name}" for name in names])
    assert {table.column(0)[0].as_py() for table in tables} == {12}
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "store"], check=True, timeout=300)


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
    assert len(list((tmp_path / "store" / "data").rglob("*.parquet"))) <= 3 * len(TABLES)
    assert "0 runs indexed, 3 already there" in run_cli("index", "store", *DAYS, cwd=tmp_path).stdout
    assert "nothing to merge; store" in run_cli("index", "store", "--compact", cwd=tmp_path).stdout
    assert "day1/run.json is a file" in run_cli("index", "day1/run.json", "day2", cwd=tmp_path).stderr


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


def test_a_module_where_the_run_works_is_not_imported_at_its_end(tmp_path: Path) -> None:
    """Who may write to a shared directory would have his code run by whoever traces there."""
    for name in ("click", "pyarrow", "tailrace"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w')\n")
    own = {**os.environ, "TAILRACE_STORE": "-store"}
    done = TracedCommand(tmp_path, tmp_path / "run")("true", env=own)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "taken").exists()
    assert sql(tmp_path / "-store", "select count(*) as n from runs") == [{"n": 1}]


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
    place = Path(tempfile.mkdtemp(prefix="tailrace-store-", dir="/var/tmp"))
    try:
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


# --- across runs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def changed(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with another store: on day 4 one row is added to raw.csv; on day 5 clean.csv is made anew beside its
    place and renamed, on day 6 the model from it."""
    store = tmp_path_factory.mktemp("later") / "store"
    run_cli("index", store, *(work / day for day in DAYS))
    put_at(trace(work, "day4", "add", "echo d,9 >> raw.csv"), "2026-11-19T10:00:00")
    run_cli("index", store, work / "day4")
    shutil.copytree(store, store.parent / "store4")
    script = "cut -d, -f2 raw.csv > clean.new; mv clean.new clean.csv"
    put_at(trace(work, "day5", "clean", script), "2026-11-20T10:00:00")
    run_cli("index", store, work / "day5")
    shutil.copytree(store, store.parent / "store5")
    put_at(trace(work, "day6", "fit", DAYS["day2"][1]), "2026-11-21T10:00:00")
    run_cli("index", store, work / "day6")
    run_cli("index", store, "--compact")
    return store.parent


def names(nodes: list[Any]) -> list[tuple[str, str, str]]:
    """(file or program, why it ends, run) of each node."""
    return [
        (Path(node.name if node.kind == "file" else node.program).name, node.end, Path(node.run).name) for node in nodes
    ]


def test_a_result_is_followed_back_through_all_runs(work: Path) -> None:
    history = tailrace.open_store(work / "store").file(str(work / "figure.svg"))
    assert history.file.up is not None
    up = [row for row in names(history.file.up) if row[0] not in ("dash", "sh", "tmp.csv@1")]
    chain = [
        "figure.svg@2",
        "cat",
        "model.txt@2",
        "sort",
        "clean.csv@2",
        "cut",
        "tmp.csv@2",
        "grep",
        "skip.txt@0",
        "raw.csv@0",
    ]
    wanted = [row for row in up if not (row[0].endswith("@1"))]
    assert {row[0] for row in wanted} == {*chain, "style.txt@0"}
    order = [row[0] for row in wanted]
    assert [order.index(name) for name in chain[:8]] == sorted(order.index(name) for name in chain[:8])
    of_run = {row[0]: row[2] for row in wanted if row[2]}
    assert of_run == {"cat": "day3", "sort": "day2", "cut": "day1", "grep": "day1"}
    assert {row[0] for row in wanted if row[1] == "nobody traced made it"} == {"skip.txt@0", "raw.csv@0", "style.txt@0"}
    assert history.stale == []


def test_who_used_an_input_since(work: Path) -> None:
    store = tailrace.open_store(work / "store")
    history = store.file("raw.csv")
    (file,) = history.file.files
    (access,) = [access for version in file.versions for access in version.readers]
    assert (Path(access.program).name, Path(access.run).name, access.bytes) == ("grep", "day1", 12)
    assert access.command == ["grep", "-v", "-f", "skip.txt", "raw.csv"]
    assert history.file.down is not None
    assert ("figure.svg@2", "not read", "") in names(history.file.down)
    # A name that it had before it was renamed, and a pattern.
    assert store.file("part.txt").file.files[0].path == str(work / "model.txt")
    assert {Path(file.path).name for file in store.file("*/*.svg").file.files} == {"figure.svg"}
    with pytest.raises(QueryError, match="nope"):
        store.file("nope")


@pytest.mark.parametrize(
    ("store", "asked", "expected"),
    [
        # raw.csv changed: everything from it is stale.
        ("store4", "raw.csv", {"clean.csv": ["raw.csv"], "model.txt": ["raw.csv"], "figure.svg": ["raw.csv"]}),
        ("store4", "style.txt", {"figure.svg": ["raw.csv"]}),
        # clean.csv is another file now, made from what raw.csv is now.
        ("store5", "figure.svg", {"model.txt": ["clean.csv"], "figure.svg": ["clean.csv"]}),
        ("store5", "notes.txt", {}),
        # The model is new, too.
        ("store", "figure.svg", {"figure.svg": ["model.txt"]}),
        ("store", "model.txt", {"figure.svg": ["model.txt"]}),
        ("store", "clean.csv", {"figure.svg": ["model.txt"]}),
    ],
)
def test_what_is_stale_is_named_with_its_cause(
    changed: Path, store: str, asked: str, expected: dict[str, list[str]]
) -> None:
    history = tailrace.open_store(changed / store).file(asked)
    found = {Path(one.path).name: [Path(cause.path).name for cause in one.causes] for one in history.stale}
    assert found == expected


def test_the_command_prints_the_history(changed: Path, work: Path) -> None:
    done = run_cli("file", "--store", changed / "store4", work / "figure.svg")
    text = "".join(done.stdout.split())  # a long path is broken behind any slash
    assert f"STALE:{work}/figure.svg@2" in text
    assert "bydash" in text or "bysh" in text
    assert f"{work}/day4" in text and "echod,9>>raw.csv" in text
    assert "(nobodytracedmadeit)" in text
    document = json.loads(
        run_cli("file", "--store", changed / "store4", work / "figure.svg", "--format", "json").stdout
    )
    assert [Path(one["path"]).name for one in document["stale"]] == ["clean.csv", "model.txt", "figure.svg"]
    assert run_cli("file", "--store", changed / "store", "a", "b").returncode == 2
    assert run_cli("file", "only-a-name").returncode == 2


# --- reports ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reported(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the three runs as one user's with a hostile name, and of one that failed."""
    folder = tmp_path_factory.mktemp("reported")
    evil = "<script>alert(1)</script>\x1b[31m\u202e"
    for day in DAYS:
        shutil.copytree(work / day, folder / day)
        description = folder / day / "run.json"
        meta = json.loads(description.read_text()) | {"user": evil, "batch": {"job": "77", "account": "astro"}}
        description.write_text(json.dumps(meta))
    TracedCommand(folder, folder / "bad")("sh", "-c", "exit 3", check=False)
    run_cli("index", "store", *DAYS, "bad", cwd=folder)
    return folder


def test_the_report_sums_the_runs(work: Path, reported: Path) -> None:
    infos = [tailrace.open(work / day).info() for day in DAYS]
    data = overview.collect(tailrace.open_store(reported / "store"))
    numbers = data["numbers"]
    assert (numbers["runs"], numbers["failed"], numbers["users"]) == (4, 1, 2)
    tables = {
        section["key"]: [dict(zip(section["columns"], row, strict=True)) for row in section["rows"]]
        for section in data["sections"]
    }
    (astro,) = [row for row in tables["by_project"] if row["project"] == "astro"]
    assert astro["runs"] == 3
    assert astro["read_bytes"] == sum(info["read_bytes"] for info in infos)
    assert [row["path"] for row in tables["failed"]] == [str(reported / "bad")]
    assert tables["failed"][0]["outcome"] == "The command ended with exit code 3."
    assert sum(row["runs"] for row in tables["by_day"]) == 4
    for name in ("read_bytes", "written_bytes"):
        assert sum(row[name] for row in tables["by_file_system"]) == numbers[name], name
    assert numbers["written_bytes"] == sum(info["written_bytes"] for info in infos)
    assert tables["stages"] and tables["findings"]
    narrow = overview.collect(tailrace.open_store(reported / "store"), "2026-11-17", "2026-11-17")
    assert narrow["numbers"]["runs"] == 1


def test_names_do_nothing_on_the_page_and_the_terminal(reported: Path) -> None:
    done = run_cli("report", "store", "--html", "page.html", cwd=reported)
    assert done.returncode == 0, done.stderr
    page = (reported / "page.html").read_text()
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e" in page
    assert "http" not in page.replace("http-equiv", "")
    text = run_cli("report", "store", cwd=reported).stdout
    assert "alert(1)" in text and "\x1b" not in text and "\u202e" not in text
    assert "By file system" in text and "What failed" in text


def test_before_and_after_a_day_are_compared(reported: Path) -> None:
    done = run_cli(
        "compare", "store", "--before", "2026-11-16", "--after", "2026-11-18", "--format", "json", cwd=reported
    )
    rows = {(row["application"], row["figure"]): row for row in json.loads(done.stdout)["rows"]}
    infos = [tailrace.open(reported / day).info() for day in ("day1", "day3", "bad")]
    row = rows[None, "read_bytes"]
    assert (row["runs_before"], row["runs_after"], row["before"]) == (1, 2, infos[0]["read_bytes"])
    assert row["after"] == (infos[1]["read_bytes"] + infos[2]["read_bytes"]) / 2
    assert rows[None, "failed_share"]["after"] == 0.5
    for words, said in (
        (("store", "--before", "2026-11-18", "--after", "2026-11-16"), "both have runs of 2026-11-16"),
        (("store", "--before", "yesterday", "--after", "2026-11-16"), "--before 'yesterday': give a day as 2026-11-22"),
        (("store", "--before", "2026-11-18"), "go together"),
        (("store",), "store is a store: compare its runs by --before DAY --after DAY"),
        (("day1", "store"), "store is a store: compare its runs by --before DAY --after DAY"),
    ):
        done = run_cli("compare", *words, cwd=reported)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert run_cli("report", "day1", "--after", "2026-11-16", cwd=reported).returncode == 2


def test_an_anonymous_copy_has_no_name_of_the_runs(reported: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = run_cli("index", "store", "--anonymous", tmp_path / name, cwd=reported)
        assert "4 runs without names" in done.stdout, done.stderr
    original, one, two = (
        tailrace.open_store(place) for place in (reported / "store", tmp_path / "one", tmp_path / "two")
    )
    words: set[str] = set()
    for table, columns in TABLES.items():
        rows = original.read(table).to_pylist()
        kept = one.read(table).to_pylist()
        assert len(rows) == len(kept)
        for name, column in columns.columns.items():
            if column.kind in ("int", "float", "flag") and not column.secret:
                assert sorted(map(str, (row[name] for row in rows))) == sorted(map(str, (row[name] for row in kept)))
            if column.secret or name in ("run", "entry"):
                for row in rows:
                    value = row[name]
                    words |= {str(text) for text in (value if isinstance(value, list) else [value]) if text}
    words |= {part for word in words for part in word.split("/") if len(part) > 3}
    values = [value for table in TABLES for row in one.read(table).to_pylist() for value in row.values()]
    text = json.dumps([value for value in values if isinstance(value, str | list)])
    assert {word for word in words if len(word) > 3 and not word.isdigit() and word in text} == set()
    # Equal things stay equal, in every copy with this key.
    assert one.read("files", ["path"]).to_pylist() == two.read("files", ["path"]).to_pylist()
    query = (
        "select count(distinct f.path) as a, count(distinct e.file) as b from files f join edges e using (run, file)"
    )
    assert one.sql(query).equals(original.sql(query))
    assert (reported / "store" / "export.key").stat().st_mode & 0o777 == 0o600
    assert run_cli("index", "store", "--anonymous", tmp_path / "one", cwd=reported).returncode == 2


def test_query_sums_the_accesses_of_all_runs(reported: Path) -> None:
    def ask(*words: str) -> list[dict[str, Any]]:
        done = run_cli("query", "store", *words, "--format", "json", cwd=reported)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows

    sums = ask("--by", "workflow,dir", "--agg", "sum:size", "--where", "calls>0", "--sort", "sum_size")
    assert {(row["workflow"], row["dir"]): row["sum_size"] for row in sums} == {
        ("clean", "r"): 22,
        ("clean", "w"): 12,
        ("fit", "r"): 4,
        ("fit", "w"): 9,
        ("plot", "r"): 10,
        ("plot", "w"): 10,
    }
    assert ask("--path", "clean.csv", "--by", "application", "--agg", "nunique:run") == [
        {"application": "sh", "nunique_run": 2}
    ]
    only_pictures = ("--where", "path=*.svg", "--where", "dir=w", "--where", "size>0")
    assert ask(*only_pictures, "--columns", "path,size")[0]["size"] == 10
    assert ask(*only_pictures, "--agg", "sum:accesses", "--agg", "max:version") == [
        {"sum_accesses": 1, "max_version": 2}
    ]
    assert ask("--where", "project=' OR 1=1 --", "--columns", "path") == []
    for words in (["--by", "path; drop"], ["--agg", "sum:path"], ["--where", "pid=x"], ["--agg", "evil:size"]):
        assert run_cli("query", "store", *words, cwd=reported).returncode == 1
    assert run_cli("query", "store", "--explain", cwd=reported).returncode == 2
    done = run_cli("query", "store", "--by", "dir", "--agg", "max:size", cwd=reported)
    assert "of accesses to data files: " in done.stderr and "tailrace index --events" in done.stderr
    by_time = ask("--by", "time:1s", "--agg", "sum:size", "--agg", "rate:size")
    assert sum(row["sum_size"] for row in by_time) == sum(row["sum_size"] for row in sums) > 0
    assert ask("--since", "1000000", "--agg", "count") == [{"count": 0}]


def test_a_history_goes_on_where_a_run_does_not_name_its_files(work: Path, tmp_path: Path) -> None:
    """As another user's rows may be: an access of a file of which nothing else is said."""
    shutil.copytree(work / "store", tmp_path / "store")
    (place,) = (tmp_path / "store" / "data").glob("*/day=2026-11-17/*/files.parquet")
    pq.write_table(pq.read_table(place, filters=[("path", "=", str(work / "model.txt"))], partitioning=None), place)
    history = tailrace.open_store(tmp_path / "store").file("model.txt")
    assert history.file.up is not None
    assert ("sort", "", "day2") in names(history.file.up)
    assert ("grep", "", "day1") in names(history.file.up)
