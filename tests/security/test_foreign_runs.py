"""Runs that somebody else made: opening one reads nothing but the run, writes nothing beside it, and believes nothing.

Two users: the one who opens (these tests' own), and `STRANGER`, in whose directory the run lies.
"""

import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import tailrace
from support import trace_writer as tw
from support.commands import TAILRACE
from support.ordinary_user import ID as STRANGER
from tailrace import _native
from tailrace.analyzer.edges import edge_cache
from tailrace.analyzer.store import catalogue
from tailrace.base import ownership

SECRET = "secret-d41d8cd98f"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, so that a test sees what is put there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tailrace"


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A run of a stranger's, in a directory of his that everybody may enter."""
    place = Path(tempfile.mkdtemp(prefix="tailrace-stranger-"))
    run = tw.small_run(place / "run")
    give(place)
    yield run
    shutil.rmtree(place)


def give(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)


def everything(run: Path) -> str:
    """All that the reader says of the run."""
    opened = tailrace.open(run)
    tables = [opened.losses, opened.processes, opened.declared_problems]
    return repr(opened.info()) + "".join(table.to_json() for table in tables)


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


# ---- where the catalogue is written ---------------------------------------------------------------------------------


@pytest.mark.root("gives files to another user")
def test_nothing_is_written_into_the_directory_of_another_user(foreign: Path, cache: Path) -> None:
    before = names(foreign)
    assert tailrace.open(foreign).info()["events"] == 1
    assert names(foreign) == before
    (kept,) = cache.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    made = kept.stat().st_ino
    assert tailrace.open(foreign).info()["events"] == 1
    assert kept.stat().st_ino == made, "the second time it is read from the cache"


@pytest.mark.root("gives files to another user")
def test_a_link_in_the_place_of_the_catalogue_is_not_followed(foreign: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    victim.chmod(0o600)
    (foreign / catalogue.FILE_NAME).symlink_to(victim)
    assert tailrace.open(foreign).info()["events"] == 1
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == (SECRET, 0o600)


def test_a_catalogue_that_another_user_may_write_is_not_used(tmp_path: Path, cache: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    assert tailrace.open(run).info()["events"] == 1
    with closing(sqlite3.connect(run / catalogue.FILE_NAME)) as forged:
        forged.execute("UPDATE blocks SET calls = 99")
        forged.commit()
    (run / catalogue.FILE_NAME).chmod(0o666)
    assert tailrace.open(run).info()["events"] == 1
    run.chmod(0o777)
    assert tailrace.open(run).info()["events"] == 1
    assert len(list(cache.iterdir())) == 1, "not in a directory where others may replace it"


def test_catalogues_that_nobody_uses_leave_the_cache(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True, mode=0o700)
    old, other = cache / "old.db", cache / "notes.txt"
    for path in (old, other):
        path.write_text("")
        os.utime(path, (1, 1))
    run = tw.small_run(tmp_path / "run")
    run.chmod(0o777)
    tailrace.open(run)
    assert not old.exists()
    assert other.exists()


# ---- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bait", ["trace/b.pfw.gz", "trace/b.pfw", "trace", "run.json", "accounts/a.json", "declared/a.jsonl", "declared"]
)
def test_a_link_in_a_run_is_refused_and_named(tmp_path: Path, bait: str) -> None:
    run = tw.small_run(tmp_path / "run")
    secret = tmp_path / "private"
    if "." in bait:
        secret.write_text(f'{{"command": ["{SECRET}"], "type": "{SECRET}", "host": "{SECRET}"}}\n')
    else:
        secret.mkdir()
        (secret / "b.pfw.gz").write_bytes(tw.block([tw.event(stage=SECRET)]))
        (secret / "b.jsonl").write_text(SECRET)
    place = run / bait
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(secret)
    said = everything(run)
    assert SECRET not in said
    assert "it is a symbolic link" in said
    assert SECRET.encode() not in (run / catalogue.FILE_NAME).read_bytes()


@pytest.mark.root("gives files to another user")
def test_a_file_of_another_user_is_refused_and_named(tmp_path: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    (run / "trace" / "b.pfw.gz").write_bytes(tw.block([tw.event(stage=SECRET)]))
    os.chown(run / "trace" / "b.pfw.gz", STRANGER, STRANGER)
    said = everything(run)
    assert SECRET not in said
    assert f"it belongs to user {STRANGER}" in said.replace("\\/", "/")
    assert tailrace.open(run).info()["events"] == 1


@pytest.mark.root("gives a run to another user, and links root's files into it")
@pytest.mark.parametrize("name", ["trace/b.pfw.gz", "run.json", "accounts/a.json", "declared/a.jsonl"])
def test_a_hard_link_to_a_file_of_root_is_refused_and_named(tmp_path: Path, foreign: Path, name: str) -> None:
    """A user can make one where the kernel has fs.protected_hardlinks = 0."""
    secret = foreign.parent / "private"
    content = f'{{"command": ["{SECRET}"], "type": "{SECRET}", "host": "{SECRET}"}}\n'.encode()
    secret.write_bytes(tw.block([tw.event(stage=SECRET)]) if name.endswith("gz") else content)
    place = foreign / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.hardlink_to(secret)
    said = everything(foreign)
    assert SECRET not in said
    assert "it is a hard link to a file of user 0" in said


def test_a_hard_link_in_journals_is_not_written(tmp_path: Path) -> None:
    """Neither one in the own directory, to a file of any form, nor one in a trace folder."""
    run = tw.small_run(tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_bytes(SECRET.encode() * 1000)
    journals = Path(_native.journal_directory(str(run.resolve()), str(tmp_path)))
    journals.mkdir(mode=0o700, parents=True)
    (journals / "n-9-9.0.tj").hardlink_to(victim)
    (run / "trace" / "n-9-9.pfw.gz").hardlink_to(victim)
    _native.seal_journals(str(run), str(tmp_path))
    assert victim.read_bytes() == SECRET.encode() * 1000


@pytest.mark.parametrize("name", ["trace/b.pfw.gz", "run.json", "accounts/a.json", "declared/a.jsonl"])
def test_a_fifo_or_a_device_does_not_block_a_reader(tmp_path: Path, name: str) -> None:
    run = tw.small_run(tmp_path / "run")
    place = run / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert "it is not a regular file" in everything(run)
    with pytest.raises(OSError, match="not a regular file"):
        ownership.read_regular(Path("/dev/zero"), 1 << 20)


def test_a_run_of_devices_is_no_endless_file(tmp_path: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    (run / "run.json").unlink()
    with (run / "run.json").open("w") as file:
        file.truncate(1 << 40)
    assert tailrace.open(run).info()["events"] == 1


# ---- what is believed -----------------------------------------------------------------------------------------------


def received(run: Path, place: Path) -> Path:
    """A copy of the run by way of an archive, with all times as they were."""
    place.mkdir()
    archive = place / "run.tar"
    subprocess.run(["tar", "-cf", archive, "-C", run.parent, run.name], check=True)
    subprocess.run(["tar", "-xf", archive, "-C", place], check=True)
    return place / run.name


def test_a_catalogue_that_came_with_a_run_is_not_believed(tmp_path: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    tailrace.open(run)
    with closing(sqlite3.connect(run / catalogue.FILE_NAME)) as forged:
        forged.execute("UPDATE blocks SET calls = 99")
        forged.execute("UPDATE processes SET exe = ?", (SECRET,))
        forged.commit()
    catalogue._seal(run / catalogue.FILE_NAME)
    assert tailrace.open(run).info()["events"] == 99, "one's own is used as it is"
    copy = received(run, tmp_path / "received")
    assert tailrace.open(copy).info()["events"] == 1
    assert SECRET not in everything(copy)


@pytest.mark.parametrize(
    "forgery",
    [
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON blocks BEGIN DELETE FROM losses; END",
        "DROP TABLE sources; CREATE VIEW sources AS WITH RECURSIVE n(path, size, mtime_ns, inode) AS "
        "(SELECT '', 0, 0, 0 UNION ALL SELECT path, size + 1, 0, 0 FROM n) SELECT * FROM n",
        "ALTER TABLE blocks ADD COLUMN more",
        "DROP INDEX blocks_time",
    ],
    ids=["view", "trigger", "endless", "column", "index"],
)
def test_a_catalogue_with_other_tables_is_made_anew(tmp_path: Path, forgery: str) -> None:
    run = tw.small_run(tmp_path / "run")
    tailrace.open(run)
    with closing(sqlite3.connect(run / catalogue.FILE_NAME)) as forged:
        forged.execute("UPDATE blocks SET calls = 99")
        forged.commit()
        forged.executescript(forgery)
    assert tailrace.open(run).info()["events"] == 1


def test_wild_offsets_in_a_stored_edge_table_are_found(tmp_path: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    counts = tailrace.open(run).edges().counts
    with closing(sqlite3.connect(run / catalogue.FILE_NAME)) as forged:
        stored = dict(forged.execute("SELECT name, data FROM edge_tables"))
        assert "counts" in stored
        changed = {name: wild(data) for name, data in stored.items() if name != "version"}
        changed["version"] = edge_cache._stamp(changed)
        for name, data in changed.items():
            forged.execute("UPDATE edge_tables SET data = ? WHERE name = ?", (data, name))
        forged.commit()
    pd.testing.assert_frame_equal(tailrace.open(run).edges().counts, counts)


def wild(data: bytes) -> bytes:
    """The stream's table with a text column whose offsets lead out of its values, which are followed when
    they are read."""
    table = pa.ipc.open_stream(data).read_all()
    rows, values = max(2, len(table)), pa.py_buffer(b"abc")
    # The first and the last are right, so that only a look at each finds out.
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, *[1 << 30] * (rows - 1), 3)))
    column = pa.StringArray.from_buffers(rows, offsets, values)
    columns = {name: column for name in table.column_names} or {"x": column}
    sink = pa.BufferOutputStream()
    forged = pa.table(columns)
    with pa.ipc.new_stream(sink, forged.schema) as writer:
        writer.write_table(forged)
    return bytes(sink.getvalue().to_pybytes())


# ---- for one's eyes alone -------------------------------------------------------------------------------------------


def test_files_of_a_run_are_readable_for_their_user_alone(tmp_path: Path) -> None:
    run = tmp_path / "existing"
    run.mkdir()
    run.chmod(0o755)
    words = [*TAILRACE, "run", "-o", str(run), "--", "sh", "-c", "cat /dev/null; /bin/echo --token=secret > out"]
    for command in (words, [*TAILRACE, "info", str(run)]):
        subprocess.run(command, cwd=tmp_path, umask=0, check=True, capture_output=True)
    assert (run / catalogue.FILE_NAME).exists()
    assert (run / "run.json").exists()
    assert list((run / "accounts").iterdir())
    for path in run.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_missing_directories_above_a_run_are_private(tmp_path: Path) -> None:
    run = tmp_path / "tailrace-runs" / "one"
    subprocess.run([*TAILRACE, "run", "-o", str(run), "--", "true"], check=True, capture_output=True, umask=0)
    assert stat.S_IMODE(run.parent.stat().st_mode) == 0o700


@pytest.mark.root("gives files to another user")
def test_a_run_directory_of_another_user_is_refused(foreign: Path) -> None:
    words = [*TAILRACE, "run", "-o", str(foreign), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"belongs to user {STRANGER}" in done.stderr


def test_a_run_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "open"
    run.mkdir()
    run.chmod(0o777)
    done = subprocess.run([*TAILRACE, "run", "-o", str(run), "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"other users may write to {run}" in done.stderr


@pytest.mark.parametrize("mode", [0o1777, 0o770])
def test_a_run_directory_where_others_may_add_files_is_refused(tmp_path: Path, mode: int) -> None:
    run = tmp_path / "open"
    run.mkdir()
    os.chown(run, -1, STRANGER) if os.geteuid() == 0 else None
    run.chmod(mode)
    done = subprocess.run([*TAILRACE, "run", "-o", str(run), "--", "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, f"other users may write to {run}" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["trace", "declared", "accounts"])
def test_a_linked_folder_of_a_run_is_not_written_to(tmp_path: Path, name: str) -> None:
    run = tw.small_run(tmp_path / "run")
    shutil.rmtree(run / name, ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    (run / name).symlink_to(tmp_path / "elsewhere")
    done = subprocess.run([*TAILRACE, "run", "-o", str(run), "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("place", ["/dev/zero", "fifo"])
def test_a_run_json_that_never_ends_does_not_stop_the_next_run(tmp_path: Path, place: str) -> None:
    run = tw.small_run(tmp_path / "run")
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json") if place == "fifo" else (run / "run.json").symlink_to(place)
    words = [*TAILRACE, "run", "-o", str(run), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "run.json" in done.stderr or "can't use" in done.stderr) == (2, True), done.stderr


def test_a_cache_whose_parents_others_may_replace_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "home"))
    run = tw.small_run(tmp_path / "run")
    run.chmod(0o777)
    assert tailrace.open(run).info()["events"] == 1
    assert ownership.private_cache() is None
    assert [path for path in shared.rglob("*") if path.is_file()] == []


# ---- what is printed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["info"], ["report"], ["run", "--"], ["seal"]])
def test_no_name_acts_on_the_terminal(tmp_path: Path, command: list[str]) -> None:
    name = f"{tmp_path}/a\x1b]0;OWNED\x07\x1b[2Jb"
    done = subprocess.run([*TAILRACE, *command, name], capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\\x1b]0;OWNED" in done.stderr.replace(b"\n", b"")


def test_a_run_directory_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    words = [*TAILRACE, "run", "-o", os.fsencode(tmp_path) + b"/\xff", "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "is not UTF-8" in done.stderr) == (2, True), done.stderr
