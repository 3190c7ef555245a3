"""The files of a store: every entry counts once, wherever indexers and compactions are killed or meet each other."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tailrace
from support import trace_writer as tw
from support.store_parts import DAY, EXPECTED, make_store, put, seen
from tailrace.analyzer.runstore import compaction, opening, overview, parts
from tailrace.analyzer.runstore.columns import arrow_schema
from tailrace.analyzer.runstore.entries import current
from tailrace.analyzer.runstore.parts import Access, Entry
from tailrace.analyzer.runstore.store import Store, open_store
from tailrace.errors import QueryError, RunError, UsageError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def at_step(step: int, act: Callable[[], None], work: Callable[[], object]) -> bool:
    """Runs `work` in this process and calls `act` before its step-th change of a name; False when it has fewer."""
    count = 0
    rename, rmtree = Path.rename, shutil.rmtree

    def counting() -> None:
        nonlocal count
        count += 1
        if count == step:
            act()

    def renaming(path: Path, target: Path) -> Path:
        counting()
        return rename(path, target)

    def removing(path: Path, ignore_errors: bool = False) -> None:
        counting()
        rmtree(path, ignore_errors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", renaming)
        patch.setattr(shutil, "rmtree", removing)
        work()
    return count >= step


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Runs `work` in a process that is killed before its step-th change of a name; False when it ended before."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            at_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL), work)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_compaction_that_is_killed_anywhere_loses_and_doubles_nothing(store: Path, tmp_path: Path) -> None:
    assert seen(store) == EXPECTED
    step = 1
    while True:
        copy = tmp_path / f"copy{step}"
        shutil.copytree(store, copy)
        if not killed_at(step, lambda copy=copy: compaction.compact(copy)):
            break
        assert seen(copy) == EXPECTED, step
        killed_at(2, lambda copy=copy: compaction.compact(copy))
        put(copy, 9)
        assert seen(copy) == EXPECTED + Counter({(9, 1): 1}), step
        compaction.compact(copy)
        assert seen(copy) == EXPECTED + Counter({(9, 1): 1}), step
        assert len(current(parts.listing(copy).parts).names) == 1
        step += 1
    assert step > 8  # one part published, five removed


def test_compactions_and_indexers_that_meet_lose_and_double_nothing(store: Path, tmp_path: Path) -> None:
    step, more = 1, EXPECTED + Counter({(9, 1): 1})
    while True:
        copy = tmp_path / f"copy{step}"
        shutil.copytree(store, copy)

        def meanwhile(copy: Path = copy) -> None:
            assert seen(copy) == EXPECTED
            put(copy, 9)
            killed_at(3, lambda: compaction.compact(copy))
            assert seen(copy) == more
            compaction.compact(copy)
            assert seen(copy) == more

        if not at_step(step, meanwhile, lambda copy=copy: compaction.compact(copy)):
            break
        assert seen(copy) == more, step
        compaction.compact(copy)
        assert seen(copy) == more, step
        step += 1
    assert step > 8


def test_a_listing_while_parts_are_merged_misses_none(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that was published behind the reader replaces one before him."""
    listed = parts._listed
    calls = []

    def slow(path: Path) -> parts.Listing:
        found = listed(path)
        calls.append(len(found.parts))
        if len(calls) == 1:  # the reader has passed the place of the new part, and not that of the old ones
            compaction.compact(store)
            return parts.Listing(found.parts[:2])
        return found

    monkeypatch.setattr(parts, "_listed", slow)
    assert seen(store) == EXPECTED
    assert len(calls) > 2


def test_a_reader_looks_again_when_its_parts_were_merged(store: Path) -> None:
    opened = Store(store)
    assert len(opened.current.names) == 5
    compaction.compact(store)
    assert opened.sql("select count(*) as n, sum(events) as e from runs").to_pylist() == [{"n": 4, "e": 5}]


def test_a_part_of_garbage_is_named_and_left_out(store: Path) -> None:
    for number, name in ((20, "runs.parquet"), (21, "edges.parquet")):
        entry = put(store, number)
        place = parts.place_of(store, Access(os.geteuid()), DAY) / entry.name
        (place / name).write_bytes(b"PAR1 no such thing PAR1")
    opened = Store(store)
    assert opened.sql("select count(*) as n from runs").to_pylist()[0]["n"] in (4, 5)
    assert opened.sql("select count(*) as n from edges").to_pylist() == [{"n": 0}]
    assert seen(store) - Counter({(21, 1): 1}) == EXPECTED
    assert sum("left out" in text for text in opened.problems) == 2
    with pytest.raises(Exception, match="edges|runs"):
        compaction.compact(store)


def test_a_history_leaves_a_part_of_garbage_out(store: Path) -> None:
    entry = put(store, 20)
    place = parts.place_of(store, Access(os.geteuid()), DAY) / entry.name
    (place / "files.parquet").write_bytes(b"PAR1 no such thing PAR1")
    opened = Store(store)
    with pytest.raises(QueryError, match="no run used a data file called 'x'"):
        opened.file("x")
    assert [entry.name in text for text in opened.problems] == [True]


@pytest.mark.parametrize("mounts", [None, []], ids=["undescribed", "described"])
def test_what_another_host_may_have_written_is_not_said_to_come_from_nowhere(
    tmp_path: Path, mounts: list[object] | None
) -> None:
    parts.create(tmp_path / "store")
    opened = Store(tmp_path / "store")
    for host, way, call in (("a", "w", "write"), ("b", "r", "read")):
        value = f"{1 if host == 'a' else 2}"
        lines = [tw.host_line(host, value), tw.file_line("1", "/shared/x", ino=1)]
        at = tw.T0_US + 1000 * int(value)
        args = {"fhash": "1", "hhash": value, "dir": way, "size": 4, "offset": 0}
        lines.append(tw.event(call, at, pid=7, **args))
        data = tw.block(lines, {"host": host, "start": value})
        meta = {"run_id": host * 32, "host": host, "mounts": mounts}
        opened.add(tailrace.open(tw.make_run(tmp_path / host, {f"{host}-7-{value}": data}, meta)))
    opened.refresh()
    history = opened.file("/shared/x")
    read = next(file for file in history.file.files if not file.written_bytes)
    assert [version.undecided for version in read.versions] == [mounts is None]
    ends = {node.end for node in history.file.up if node.end} if history.file.up else set()
    assert ("nobody traced made it, or another host did" in ends) == (mounts is None), ends


@pytest.mark.parametrize(
    "query", ["selec 1", "select nothing from runs", "select * from nowhere", "select cast('x' as int) from runs"]
)
def test_a_fault_of_a_query_reads_no_part(store: Path, query: str) -> None:
    """Damaged parts are looked for by reading them all; this one is found by no answer."""
    pytest.importorskip("duckdb")
    entry = put(store, 20)
    damaged = parts.place_of(store, Access(os.geteuid()), DAY) / entry.name / "edges.parquet"
    damaged.write_bytes(b"PAR1 no such thing PAR1")
    opened = Store(store)
    with pytest.raises(QueryError, match="Error"):
        opened.sql(query)
    assert not opened.problems
    assert opened.sql("select * from edges").num_rows == 0
    assert len(opened.problems) == 1


def test_a_part_is_checked_piece_by_piece(store: Path) -> None:
    """A table of another user may be as large as he likes."""
    entry = Entry(f"{20:032x}", 1, secrets.token_hex(8))
    access = Access(os.geteuid())
    with parts.publishing(parts.place_of(store, access, DAY), entry.name, access) as scratch:
        parts.write(scratch, {"edges": pa.table({"bytes": range(1_000_000)})})
    measured = f"""import pathlib, pyarrow as pa
from tailrace.analyzer.runstore import compaction, parts
(part,) = [part for part in parts.listing(pathlib.Path({str(store)!r})).parts if part.name == {entry.name!r}]
compaction.check(part, "edges")
checked = pa.default_memory_pool().max_memory()
assert compaction.read(part, "edges").num_rows == 1_000_000
print(0 < 4 * checked < pa.default_memory_pool().max_memory())"""
    done = subprocess.run([sys.executable, "-c", measured], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done


def test_runs_without_an_application_are_a_group_of_their_own(store: Path) -> None:
    """They are not taken for all runs."""
    pytest.importorskip("duckdb")
    access = Access(os.geteuid())
    for number, day, application, read in ((50, DAY, "sort", 100), (51, DAY, "sort", 300), (52, "2026-11-21", None, 7)):
        entry = Entry(f"{number:032x}", 1, secrets.token_hex(8))
        row = {"run": entry.run, "entry": entry.name, "application": application, "read_bytes": read}
        with parts.publishing(parts.place_of(store, access, day), entry.name, access) as scratch:
            parts.write(scratch, {"runs": pa.Table.from_pylist([row], schema=arrow_schema("runs"))})
    put(store, 60, day="2026-11-21")
    found = overview.compare(Store(store), DAY, "2026-11-21")
    rows = {row["application"]: row for row in found if row["figure"] == "read_bytes"}
    assert len(found) == len(rows) * len(overview.FIGURES)
    assert {name: (row["runs_before"], row["runs_after"]) for name, row in rows.items()} == {
        None: (6, 2),
        "(none)": (4, 2),
    }
    assert (rows[None]["before"], rows[None]["after"]) == (200, 7)


def test_a_size_is_that_of_ones_own_runs(store: Path) -> None:
    """The large file of another user removes nothing of mine. Root can have it; of others, the kernel says so."""
    size = sum(path.stat().st_size for path in store.rglob("*.parquet"))
    stranger = Access(4242)
    place = store / "data" / stranger.name / "day=2026-12-01" / f"e-{9:032x}-{1:016x}-{0:016x}"
    place.mkdir(mode=0o755, parents=True)
    with (place / "runs.parquet").open("wb") as file:
        file.truncate(1 << 40)
    for path in (place / "runs.parquet", place, place.parent, place.parent.parent):
        os.chown(path, *((stranger.uid, -1) if os.geteuid() == 0 else (-1, -1)))
    assert compaction.expire(store, None, size) == (0, 0)
    assert seen(store) == EXPECTED


def test_days_and_sizes_expire_from_the_oldest(store: Path) -> None:
    put(store, 40, day="2026-01-02")
    put(store, 41, day="2026-02-02")
    assert compaction.expire(store, "2026-02-01", None)[0] == 1
    assert seen(store) == EXPECTED + Counter({(41, 1): 1})
    size = sum(path.stat().st_size for path in store.rglob("day=2026-11-20/*/*.parquet"))
    assert compaction.expire(store, None, size)[0] == 1
    assert seen(store) == EXPECTED
    assert compaction.expire(store, None, 0)[0] == 4
    assert not seen(store)


def test_what_is_no_file_of_its_user_is_named_and_read_by_nobody(store: Path) -> None:
    """A FIFO would hold up every reader for ever, and a link lead him elsewhere."""
    places = []
    for number in range(30, 34):
        entry = put(store, number)
        places.append(parts.place_of(store, Access(os.geteuid()), DAY) / entry.name)
    fifo, link, alone, folder = places
    merged = folder.with_name("m-0000000000000001-00000000")
    merged.mkdir(mode=0o700)
    for place in (fifo, merged):
        (place / "runs.parquet").unlink(missing_ok=True)
        os.mkfifo(place / "runs.parquet", 0o600)
    (link / "runs.parquet").rename(store.parent / "elsewhere.parquet")
    (link / "runs.parquet").symlink_to(store.parent / "elsewhere.parquet")
    (alone / "edges.parquet").mkdir()
    folder.rename(store.parent / "elsewhere")
    folder.symlink_to(store.parent / "elsewhere")
    reading = f"""import tailrace
store = tailrace.open_store({str(store)!r})
print(store.sql("select count(*) as n from runs").to_pylist(), store.read("runs", ["run"]).num_rows)
print(*store.problems, sep="\\n")"""
    done = subprocess.run([sys.executable, "-c", reading], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("[{'n': 4}] 4\n"), done
    for place, why in (
        (fifo, " is left out: runs.parquet: it is not a regular file"),
        (merged, " is left out: runs.parquet: it is not a regular file"),
        (link, " is left out: runs.parquet: it is not a regular file"),
        (alone, " is left out: edges.parquet: it is not a regular file"),
        (folder, ": it is not a directory"),
    ):
        assert f"{place.name}{why}\n" in done.stdout
    compaction.compact(store)
    assert seen(store) == EXPECTED


def test_what_takes_the_place_of_a_listed_file_is_not_waited_for(store: Path) -> None:
    opened = Store(store)
    assert opened.read("runs", ["run"]).num_rows == 4
    (place,) = [part.table("runs") for part in opened.current.names if part.name.startswith(f"e-{0:032x}")]
    place.unlink()
    os.mkfifo(place, 0o600)
    reader = threading.Thread(target=lambda: opened.read("runs", ["run"]), daemon=True)
    reader.start()
    reader.join(30)
    stuck = reader.is_alive()
    if stuck:
        os.close(os.open(place, os.O_WRONLY))  # lets it go
    assert not stuck
    assert seen(store) == EXPECTED - Counter({(0, 1): 1})


@pytest.mark.parametrize("call", ["get_file_info", "delete_file", "create_dir", "open_output_stream"])
def test_what_the_files_of_a_store_do_not_do_is_an_error_of_the_system(store: Path, call: str) -> None:
    part = next(iter(parts.listing(store).parts))
    files, path = opening.files_of(os.geteuid()), str(part.table("runs"))
    assert files.open_input_file(path).read(4) == b"PAR1"
    with pytest.raises(OSError, match="read by their names alone"):
        getattr(files, call)(path)
    assert part.table("runs").is_file()


def test_a_merged_part_that_nobody_merged_is_left_out(store: Path) -> None:
    """Without its table of runs, or with one that is none."""
    day = parts.place_of(store, Access(os.geteuid()), DAY)
    empty, wrong = day / "m-0000000000000001-00000000", day / "m-0000000000000002-00000000"
    for place, columns in ((empty, None), (wrong, {"entry": [7]})):
        with parts.publishing(day, place.name, Access(os.geteuid())) as scratch:
            if columns:
                parts.write(scratch, {"runs": pa.table(columns)})
    assert seen(store) == EXPECTED
    assert [name in text for name, text in zip((empty.name, wrong.name), Store(store).problems, strict=True)]
    assert Store(store).sql("select count(*) as n from runs").to_pylist() == [{"n": 4}]
    compaction.compact(store)
    assert seen(store) == EXPECTED


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "copy (select 1) to 'x.csv'",
        "attach 'x.db'",
        "load httpfs",
        "set enable_external_access = true",
        "select * from glob('/etc/*')",
        "export database 'x'",
    ],
)
def test_sql_sees_the_tables_and_nothing_else(store: Path, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(store.parent)
    secret = pa.table({"a": [1]})
    with pytest.raises(RunError):
        Store(store).sql(query)
    with pytest.raises(RunError, match="secret"):
        Store(store).sql("select * from secret")
    assert secret.num_rows == 1
    assert [path.name for path in store.parent.iterdir()] == ["store"]


def test_the_page_has_the_tables_of_the_code() -> None:
    words = [sys.executable, Path(__file__).parents[2] / "tools/store_docs.py", "--check"]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stderr == ""


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a store"):
        open_store(tmp_path)
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="neither empty nor a store"):
        open_store(tmp_path, create=True)
    (tmp_path / "store.json").write_text('{"format": 99}')
    with pytest.raises(RunError, match="another format"):
        open_store(tmp_path)


def test_making_a_shared_store_opens_no_directory_that_was_there(tmp_path: Path) -> None:
    """Who may write to the empty directory could put a link in it."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data").symlink_to(private)
    (tmp_path / "link").symlink_to(private)
    for place in ("store", "link"):
        with pytest.raises(UsageError, match="not a directory"):
            parts.create(tmp_path / place, shared=True)
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not any(private.iterdir())
    if os.geteuid() == 0:
        (tmp_path / "other").mkdir()
        os.chown(tmp_path / "other", 4242, -1)
        with pytest.raises(UsageError, match="belongs to user 4242"):
            parts.create(tmp_path / "other", shared=True)


def test_a_private_store_is_not_shared_later(store: Path) -> None:
    with pytest.raises(UsageError, match="exists and is not shared"):
        parts.create(store, shared=True)
    parts.create(store)
