"""Events of runs in a store: those that the runs have, counted once, not believed where they are old or damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from tailrace.analyzer.runstore.columns import EVENTS, TABLES
from tailrace.analyzer.runstore.compaction import compact, expire
from tailrace.analyzer.runstore.parts import create
from tailrace.cli.indexing import index
from tailrace.errors import RunError

pytest.importorskip("duckdb")
SCRIPT = """for i in 1 2 3; do cat a.txt b.txt > c$i.txt; done; rm c1.txt; dd if=a.txt of=d.txt bs=100 2> /dev/null
cat missing 2> /dev/null; true"""
RUNS = {"full": {}, "totals": {"TAILRACE_DETAIL": "totals"}}
ROWS = "select count(*) as n, count(distinct run) as runs from events"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    (folder / "a.txt").write_text("a\n" * 5000)
    (folder / "b.txt").write_text("é\n" * 50)
    for name, variables in RUNS.items():
        tags = [f"workflow={name}", "stage=crop", "try=0", "color=blue é"]
        TracedCommand(folder, folder / name)("sh", "-c", SCRIPT, tags=tags, env={**os.environ, **variables})
    TracedCommand(folder, folder / "without")("cat", "a.txt")
    done = run_cli("index", "store", "--events", *RUNS, cwd=folder)
    assert "2 runs indexed" in done.stdout, done.stderr
    assert run_cli("index", "store", "without", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def copied(work: Path, tmp_path: Path) -> Path:
    """The store with its runs in another place, so that each test may change them; the runs count as unchanged."""
    shutil.copytree(work, tmp_path / "work", symlinks=True)
    shutil.rmtree(tmp_path / "work" / "store")
    create(tmp_path / "work" / "store")
    assert indexed(tmp_path / "work", *RUNS, events=True) == "2 runs indexed"
    return tmp_path / "work"


def indexed(place: Path, *names: str, events: bool = False) -> str:
    """What `tailrace index` says."""
    return index(place / "store", [place / name for name in names], events).text()


def sql(store: Path, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tailrace.open_store(store).sql(query).to_pylist()
    return rows


def events_of(place: Path) -> Path:
    (found,) = (path for path in (place / "store" / "data").rglob("events.parquet") if "/." not in str(path))
    return found


def texts(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The rows in an order, with every value as text."""
    plain = frame.astype(object).where(frame.notna(), None)
    return sorted(tuple(str(value) for value in row) for row in plain.itertuples(index=False))


@pytest.mark.parametrize("name", RUNS)
def test_the_events_are_those_of_the_run(work: Path, name: str) -> None:
    run = tailrace.open(work / name)
    own = [column for column in TABLES[EVENTS].columns if column not in ("run", "entry", "tags")]
    wanted = run.read(own)
    assert len(wanted) > 100 and (wanted["lines"].max() > 1) == (name == "totals")
    picked = ", ".join(f'e."{column}"' for column in own)
    found = tailrace.open_store(work / "store").sql(
        f"select {picked} from events e join runs r using (owner, run) where r.path = '{work / name}'"
    )
    assert texts(found.to_pandas(integer_object_nulls=True)) == texts(wanted)
    assert sql(work / "store", f"select distinct tags from events where workflow = '{name}'") == [
        {"tags": json.dumps({"color": "blue é", "try": "0"}, ensure_ascii=False, separators=(",", ":"))}
    ]
    # By Arrow alone, and as Dask reads it.
    table = tailrace.open_store(work / "store").read(EVENTS, ["name", "workflow"]).to_pandas()
    assert (table["workflow"] == name).sum() == len(wanted)
    assert len(tailrace.open_store(work / "store").files(EVENTS)) == 2


def test_a_query_of_the_store_equals_those_of_the_runs(work: Path) -> None:
    words = ("--by", "name", "--agg", "count", "--agg", "sum:size", "--agg", "mean:dur", "--format", "json")
    found = run_cli("query", "store", *words, "--where", "workflow=totals", cwd=work)
    assert found.stderr == (
        f"tailrace: incomplete: the events of 1 run are left out ({work / 'without'}), since they were indexed without"
        " --events: `tailrace index --events STORE RUN...` copies them\n"
    )
    wanted = {row["name"]: row for row in json.loads(run_cli("query", "totals", *words, cwd=work).stdout)}
    rows = json.loads(found.stdout)
    assert {row["name"]: (row["count"], row["sum_size"]) for row in rows} == {
        name: (row["count"], row["sum_size"]) for name, row in wanted.items()
    }
    assert all(row["mean_dur"] == pytest.approx(wanted[row["name"]]["mean_dur"]) for row in rows)
    assert run_cli("query", "store", "--by", "name", "--agg", "sum:version", cwd=work).returncode == 1
    # Accesses need no events, nor does a column of runs with that name.
    assert run_cli("sql", "store", "select sum(events) from runs", cwd=work).stderr == ""
    done = run_cli("query", "store", "--by", "path", "--agg", "sum:size", cwd=work)
    assert done.stderr.startswith("tailrace: of accesses to data files: 1 run of the store ")


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    "words",
    [
        ("--by", "size:log2", "--agg", "count", "--agg", "sum:size"),
        ("--by", "dur:log2,name", "--agg", "count", "--agg", "sum:dur"),
        ("--by", "name", "--agg", "p99:dur", "--agg", "max:size", "--agg", "mean:size"),
        ("--where", "size<100", "--by", "path"),
        ("--path", "a.txt", "--by", "name,dir", "--agg", "sum:size"),
        ("--by", "tag.color", "--agg", "share:size"),
        ("--by", "time:1s", "--agg", "count"),
    ],
    ids=" ".join,
)
def test_what_a_run_answers_its_store_answers(work: Path, name: str, words: tuple[str, ...]) -> None:
    asked = (*words, "--format", "json")
    of_run = run_cli("query", name, *asked, cwd=work)
    of_store = run_cli("query", "store", *asked, "--where", f"run={work / name}", cwd=work)
    rows, wanted = json.loads(of_store.stdout), json.loads(of_run.stdout)
    assert len(rows) == len(wanted) > 0, of_store.stderr
    for row, other in zip(rows, wanted, strict=True):
        assert row == {key: pytest.approx(value) if isinstance(value, float) else value for key, value in other.items()}
    said = [line for line in of_run.stderr.splitlines() if "count as one call each" in line]
    assert all(line in of_store.stderr for line in said)


def test_events_count_once_and_stay_through_compaction_and_new_indexes(copied: Path) -> None:
    store = copied / "store"
    before = sql(store, ROWS)
    assert before[0]["runs"] == 2
    assert indexed(copied, *RUNS, events=True) == "0 runs indexed, 2 already there"
    TracedCommand(copied, copied / "full")("cat", "a.txt")
    # Without --events: they were there, so they are there again.
    assert indexed(copied, *RUNS) == "1 run indexed, 1 already there"
    after = sql(store, ROWS)
    assert after[0]["runs"] == 2 and after[0]["n"] > before[0]["n"]
    assert tailrace.open_store(store).problems == []
    for _ in range(2):
        compact(store)
        assert sql(store, ROWS) == after
    sizes = {path: path.stat().st_size for path in store.rglob("events.parquet")}
    assert len(sizes) == 1
    assert indexed(copied, *RUNS, events=True) == "0 runs indexed, 2 already there"
    assert expire(store, None, 0)[0] == 2
    assert not list(store.rglob("events*"))


def test_events_of_a_run_that_has_changed_are_left_out_and_named(copied: Path) -> None:
    store = copied / "store"
    (before,) = sql(store, "select count(*) as n from events where workflow = 'totals'")
    TracedCommand(copied, copied / "full")("cat", "a.txt")
    opened = tailrace.open_store(store)
    assert opened.sql("select count(*) as n, min(workflow) as w from events").to_pylist() == [{**before, "w": "totals"}]
    assert opened.problems == [
        f"the events of 1 run are left out ({copied / 'full'}), since they have changed since they were indexed"
    ]
    with pytest.raises(RunError, match="no longer count"):
        compact(store)
        tailrace.open_store(store).files(EVENTS)
    assert indexed(copied, "full") == "1 run indexed"
    opened = tailrace.open_store(store)
    assert opened.sql(ROWS).to_pylist()[0]["runs"] == 2 and opened.problems == []


def test_damaged_events_are_left_out_and_named_whatever_is_wrong(copied: Path) -> None:
    """Any bit of the file, its end, the file, its sum: the other tables answer, and the next index mends it."""
    store = copied / "store"
    compact(store)
    whole = sql(store, ROWS)
    file = events_of(copied)
    good, chance = file.read_bytes(), random.Random(7)
    for attempt in range(24):
        bad = bytearray(good)
        at = chance.randrange(len(bad))
        bad[at] ^= 1 << chance.randrange(8)
        file.write_bytes(bad if attempt % 3 else bad[:at])
        opened = tailrace.open_store(store)
        assert opened.sql(ROWS).to_pylist() == [{"n": 0, "runs": 0}], at
        assert opened.read(EVENTS).num_rows == 0
        assert [text for text in opened.problems if "the file is not as it was written" in text]
        assert len(sql(store, "select * from runs")) == 2
    file.write_bytes(good)
    assert sql(store, ROWS) == whole
    for gone in ("events.crc", "events.parquet"):
        file.with_name(gone).unlink()
        opened = tailrace.open_store(store)
        assert opened.sql(ROWS).to_pylist()[0]["n"] == 0
        assert "is missing" in opened.problems[0]
        assert indexed(copied, *RUNS) == "2 runs indexed"
        compact(store)
        assert sql(store, ROWS) == whole
        file = events_of(copied)


def test_no_statement_writes_to_the_files_that_are_read(copied: Path) -> None:
    store, opened = copied / "store", tailrace.open_store(copied / "store")
    before = {path: path.read_bytes() for path in store.rglob("events*")}
    for number in range(3, 16):
        for query in ("copy (select 1 as events) to '{}'", "explain analyze copy (select 1 as events) to '{}'"):
            with pytest.raises(RunError):
                opened.sql(query.format(f"/proc/self/fd/{number}"))
    with pytest.raises(RunError):
        opened.sql("select name from events union all select name from read_parquet('/proc/self/cwd/x.parquet')")
    assert {path: path.read_bytes() for path in store.rglob("events*")} == before


def test_an_anonymous_copy_has_the_events_without_names(work: Path, tmp_path: Path) -> None:
    done = run_cli("index", "store", "--anonymous", tmp_path / "copy", cwd=work)
    assert "3 runs without names" in done.stdout, done.stderr
    query = "select name, cat, count(*) as n, sum(size) as size, count(distinct path) as p from events group by all"
    order = " order by name, cat"
    assert sql(tmp_path / "copy", query + order) == sql(work / "store", query + order)
    rows = tailrace.open_store(tmp_path / "copy").read(EVENTS).to_pylist()
    text = json.dumps(rows)
    assert not [word for word in ("a.txt", "blue", "crop", "totals", str(work), os.uname().nodename) if word in text]
    assert tailrace.open_store(tmp_path / "copy").problems == []
