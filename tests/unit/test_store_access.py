"""Whose data is whose in a shared store: who may read a run may read its rows, and nobody speaks for another user."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from pathlib import Path

import pytest

from support.store_parts import DAY, EXPECTED, make_store, put, seen
from tailrace.analyzer.runstore import parts
from tailrace.analyzer.runstore.parts import Access
from tailrace.analyzer.runstore.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((0o700, 0o700, 0o600), 0o700),
        ((0o755, 0o750, 0o640), 0o750),
        ((0o755, 0o755, 0o644), 0o755),
        ((0o755, 0o755, 0o600), 0o700),
        ((0o755, 0o705, 0o604), 0o705),
        ((0o700, 0o755, 0o644), 0o700),
        ((0o711, 0o755, 0o644), 0o755),
    ],
    ids=lambda value: "-".join(f"{one:o}" for one in value) if isinstance(value, tuple) else None,
)
def test_who_may_read_a_run_may_read_its_rows(modes: tuple[int, int, int], expected: int) -> None:
    """modes: of the directory above, of the run's directories, of its files."""
    above = Path("/tmp") / f"tailrace-store-{secrets.token_hex(4)}"  # its parents let all pass
    run = above / "run"
    (run / "trace").mkdir(parents=True)
    try:
        for path in (run / "run.json", run / "trace" / "a.pfw.gz"):
            path.touch()
            path.chmod(modes[2])
        for path in (run / "trace", run):
            path.chmod(modes[1])
        above.chmod(modes[0])
        access = parts.access_of(run, shared=True)
        assert access.mode == expected
        assert access.gid == (run.stat().st_gid if expected & 0o050 == 0o050 else -1)
        assert parts.access_of(run, shared=False) == Access(os.geteuid())
    finally:
        shutil.rmtree(above)


@pytest.mark.parametrize("closed", ["declared", "accounts/a.json", "hosts", "manifest/node.jsonl"])
def test_rights_are_those_of_all_that_a_run_is_read_from(closed: str) -> None:
    above = Path("/tmp") / f"tailrace-store-{secrets.token_hex(4)}"  # its parents let all pass
    run = above / "run"
    (run / "trace").mkdir(parents=True)
    try:
        for name in ("run.json", "declared/a.jsonl", "accounts/a.json", "hosts/a.json", "manifest/node.jsonl"):
            (run / name).parent.mkdir(exist_ok=True)
            (run / name).touch()
        for path in (above, *above.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        assert parts.access_of(run, shared=True).mode == 0o755
        (run / closed).chmod(0o700 if (run / closed).is_dir() else 0o600)
        assert parts.access_of(run, shared=True).mode == 0o700
    finally:
        shutil.rmtree(above)


def test_parts_have_the_mode_of_their_runs(tmp_path: Path) -> None:
    parts.create(tmp_path / "store", shared=True)
    for access, mode in ((Access(os.geteuid()), 0o600), (Access(os.geteuid(), 0o755, os.getegid()), 0o644)):
        entry = put(tmp_path / "store", mode, access=access)
        place = parts.place_of(tmp_path / "store", access, DAY) / entry.name
        assert stat.S_IMODE((place / "runs.parquet").stat().st_mode) == mode
        assert stat.S_IMODE(place.stat().st_mode) == access.mode
        assert stat.S_IMODE(place.parent.parent.stat().st_mode) == access.mode
    assert stat.S_IMODE((tmp_path / "store" / "data").stat().st_mode) == 0o1777


def test_a_directory_that_others_may_write_to_is_not_believed(store: Path) -> None:
    (folder,) = (store / "data").iterdir()
    folder.chmod(0o777)
    assert not seen(store)
    assert any("others may write" in text for text in Store(store).problems)


def test_nobody_speaks_for_another_user(store: Path) -> None:
    """A folder with another user's name is left out, and one in the place of a link, too."""
    stranger = store / "data" / "u4242-700"
    (own,) = (store / "data").iterdir()
    shutil.copytree(own, stranger)
    (store / "data" / "u4243-700").symlink_to(own)
    if os.geteuid() != 0:
        assert seen(store) == EXPECTED
        assert any("u4242" in text for text in Store(store).problems)
    assert any("u4243-700: it is not a directory" in text for text in Store(store).problems)
