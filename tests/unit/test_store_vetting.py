"""Another user's part in a shared store that expands to very much: it is left out by name, and the questions of others
are answered."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.ordinary_user import ID as STRANGER
from support.store_parts import DAY, EXPECTED, make_store, put, seen
from tailrace.analyzer.runstore import parts, vetting
from tailrace.analyzer.runstore.columns import MOST_TEXT, MOST_WORDS, arrow_schema
from tailrace.analyzer.runstore.parts import Access, Entry
from tailrace.analyzer.runstore.store import Store

pytestmark = [
    pytest.mark.root("gives files to another user"),
    pytest.mark.slow("starts a process for each part that it looks at"),
]
THEIRS = Access(STRANGER, 0o705)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vetting._known.clear()
    yield make_store(tmp_path / "store")
    vetting._known.clear()


def theirs(store: Path, number: int = 40, **values: object) -> Path:
    """A stranger's entry, with these values in its row of runs; returns its table of runs."""
    entry = put(store, number)
    made = parts.place_of(store, Access(os.geteuid()), DAY) / entry.name
    place = store / "data" / THEIRS.name / f"day={DAY}"
    place.mkdir(parents=True, exist_ok=True)
    made.rename(place / entry.name)
    table = place / entry.name / "runs.parquet"
    if values:
        rows = pq.read_table(table).to_pylist()
        write(table, pa.Table.from_pylist([{**rows[0], **values}], schema=arrow_schema("runs")))
    give(store)
    return table


def write(path: Path, table: pa.Table) -> None:
    path.unlink(missing_ok=True)
    pq.write_table(table, path, compression="zstd")


def give(store: Path) -> None:
    folder = store / "data" / THEIRS.name
    for path in (folder, *folder.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
        path.chmod(0o755 if path.is_dir() else 0o644)


def problem(store: Path) -> str:
    opened = Store(store)
    opened.read("runs", ["run"])
    return " ".join(opened.problems)


def test_an_honest_part_of_another_user_is_read(store: Path) -> None:
    theirs(store, path="x" * MOST_TEXT, problems=["p"] * MOST_WORDS)
    assert seen(store) == EXPECTED + type(EXPECTED)({(40, 1): 1})
    assert problem(store) == ""


def many_rows(table: Path) -> None:
    row = pq.read_table(table)
    write(table, row.take(pa.array([0] * 20_000)))


def many_edges(table: Path) -> None:
    entry = Entry.of(table.parent.name)
    assert entry is not None
    row = {"run": entry.run, "entry": entry.name, "path": "x" * 100, "program": "y" * 100}
    rows = pa.Table.from_pylist([row], schema=arrow_schema("edges")).take(pa.array([0] * 100_000))
    write(table.with_name("edges.parquet"), pa.concat_tables([rows] * 5))


def wide(table: Path) -> None:
    row = pq.read_table(table)
    at = row.schema.get_field_index("path")
    write(table, row.set_column(at, row.schema.field(at), pa.array(["A" * 600_000_000])))


def sparse(table: Path) -> None:
    data = table.read_bytes()
    with table.open("r+b") as file:
        file.seek(1 << 40)
        file.write(data)


BOMBS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a text of 600 MB": (wide, "runs", "MiB of memory"),
    "rows of one run": (many_rows, "runs", "it has 20,000 rows of one run"),
    "rows that repeat themselves": (many_edges, "edges", "it expands to more than"),
    "a file of zeros": (sparse, "runs", "are stored"),
    "garbage": (lambda table: shutil.copy("/bin/sh", table), "runs", "runs.parquet: "),
    "nothing": (lambda table: table.write_bytes(b""), "runs", "runs.parquet: "),
}


@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_a_part_that_expands_to_very_much_is_left_out_and_named(store: Path, kind: str) -> None:
    make, table, why = BOMBS[kind]
    place = theirs(store)
    make(place)
    give(store)
    theirs(store, number=41)
    assert place.with_name(f"{table}.parquet").stat().st_blocks < 4096
    opened = Store(store)
    assert opened.sql(f"select count(*) as n from {table}").to_pylist() == [{"n": 5 if table == "runs" else 0}]
    (said,) = opened.problems
    assert place.parent.name in said
    assert why in said
    assert seen(store)[40, 1] == (0 if table == "runs" else 1)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"path": "x" * (MOST_TEXT + 1)}, "path has a text of 4,097 bytes"),
        ({"problems": ["x" * (MOST_TEXT + 1)]}, "problems has a text of 4,097 bytes"),
        ({"problems": ["x"] * (MOST_WORDS + 1)}, "problems has lists of more than 64 texts"),
    ],
)
def test_a_text_that_is_longer_than_any_is_not_believed(store: Path, values: dict[str, object], why: str) -> None:
    theirs(store, **values)
    assert why in problem(store)
    assert seen(store) == EXPECTED


def children() -> set[int]:
    """The processes that this one has made and not waited for: other tests' may be among them."""
    return {int(pid) for pids in Path("/proc/self/task").glob("*/children") for pid in pids.read_text().split()}


def test_a_process_that_dies_or_stops_refuses_the_file_that_it_was_at_alone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [theirs(store, number) for number in range(40, 44)]
    asked = [(part, "runs") for part in parts.listing(store).parts if part.access.uid == STRANGER]
    order = {table.parent: number for number, table in enumerate(tables)}
    asked.sort(key=lambda pair: order[pair[0].path])
    before = children()

    def size(part: parts.Part, table: str) -> int:
        """Acts when a file is asked for: it is the process's turn then."""
        number = order[part.path]
        if number in (1, 2):
            (child,) = children() - before
            os.kill(child, signal.SIGKILL if number == 1 else signal.SIGSTOP)
        return 0

    monkeypatch.setattr(vetting, "_size", size)
    monkeypatch.setattr(vetting, "_START_S", 20.0)  # one that stops while it starts is waited for so long
    monkeypatch.setattr(vetting, "_FILE_S", 1.0)
    found = {order[part.path]: why for part, why in vetting.refused(store, asked).items()}
    assert sorted(found) == [1, 2]
    assert "ends the process" in found[1]
    assert "takes more than" in found[2]


def test_what_was_found_sound_is_looked_at_once_and_again_when_it_changed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = theirs(store)
    assert seen(store)[40, 1] == 1
    starts: list[int] = []
    look = vetting._looked_at
    monkeypatch.setattr(vetting, "_looked_at", lambda asked: starts.append(len(asked)) or look(asked))
    assert seen(store)[40, 1] == 1
    vetting._known.clear()
    assert seen(store)[40, 1] == 1, "from the user's cache"
    assert starts == []
    many_rows(table)
    give(store)
    assert seen(store)[40, 1] == 0
    assert starts == [1]


def test_files_with_random_flips_are_answered_without(store: Path) -> None:
    table = theirs(store)
    sound, chance = table.read_bytes(), random.Random(7)
    for _ in range(6):
        data = bytearray(sound)
        for _ in range(chance.choice([1, 5, 30])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        table.unlink()
        table.write_bytes(data)
        give(store)
        found = seen(store)
        assert found - type(found)({(40, 1): 1}) == EXPECTED
