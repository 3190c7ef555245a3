"""The coverage ledger of children that start, end and are waited for in every way, by what they say that they moved.

Invariant: a seed names the case; what fails is run again by `accounts SEED COUNT`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import tailrace
from support import ordinary_user
from support.commands import TracedCommand

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel keeps no I/O account")

CHILDREN = 120


@pytest.fixture
def work(program: Callable[[str], Path], tmp_path: Path) -> Path:
    """A directory with the program and its data, where any user may write."""
    directory = tmp_path / "work"
    directory.mkdir()
    shutil.copy(program("accounts"), directory / "accounts").chmod(0o755)
    (directory / "data").write_bytes(bytes(range(256)) * 1000)
    directory.chmod(0o777)
    return directory


def check(run: Path, stdout: str, work: Path, is_waited_for: bool = True) -> None:
    """The run has all that the children say, no process twice, and none that was not there."""
    written, read, started = map(int, stdout.split()[-3:])
    assert started == CHILDREN and written > 1_000_000 and read > 1_000_000
    opened = tailrace.open(run)
    coverage = opened.coverage
    shown = "\n" + coverage[coverage["cause"] != ""].drop(columns=["host", "start"]).to_string()
    assert coverage["traced"].all(), shown
    # setpriv's own, where it made the process an ordinary user's.
    rows = coverage[coverage["cause_key"] != "another"]
    if is_waited_for:
        assert (rows["cause"] == "").all(), shown
        assert (rows["kernel_read"] == rows["captured_read"]).all(), shown
        assert (rows["kernel_written"] == rows["captured_written"]).all(), shown
    else:
        # The kernel adds the account of nobody's child to none. What has no account is between daemon()'s forks.
        known = rows[rows["share"].notna()]
        assert (known["share"] == 1.0).all() and (known["cause"] == "").all(), shown
        assert rows.loc[rows["share"].isna(), ["captured_read", "captured_written"]].eq(0).all(axis=None), shown
    files = opened.query("path,dir", "sum:size", cat="POSIX")
    files = files[files["path"].str.startswith(f"{work}/", na=False)]
    sizes = {Path(str(file)).name: file.stat().st_size for file in work.glob("out.*")}
    assert of(files, "w") == {name: size for name, size in sizes.items() if size}
    assert sum(sizes.values()) == written and of(files, "r") == {"data": read}


def of(files: pd.DataFrame, way: str) -> dict[str, int]:
    """Bytes by name."""
    rows = files[files["dir"] == way]
    return {Path(path).name: int(size) for path, size in zip(rows["path"], rows["sum_size"], strict=True) if size}


@pytest.mark.parametrize("seed", range(6))
def test_the_account_of_children_of_every_kind_is_exact(work: Path, tmp_path: Path, seed: int) -> None:
    done = TracedCommand(work, tmp_path / "run")("./accounts", seed, CHILDREN)
    check(tmp_path / "run", done.stdout, work)


@pytest.mark.parametrize("seed", [6, 7])
def test_the_account_of_children_that_nobody_waits_for_is_exact(work: Path, tmp_path: Path, seed: int) -> None:
    done = TracedCommand(work, tmp_path / "run")("./accounts", seed, CHILDREN, "ignored")
    check(tmp_path / "run", done.stdout, work, is_waited_for=False)


@ordinary_user.MARKER
@pytest.mark.parametrize("seed", [8, 9])
def test_the_account_is_exact_without_the_right_to_read_zombies(work: Path, tmp_path: Path, seed: int) -> None:
    prefix = ordinary_user.reach(tmp_path)
    done = TracedCommand(work, tmp_path / "run")(*ordinary_user.become(), "./accounts", seed, CHILDREN, prefix=prefix)
    check(tmp_path / "run", done.stdout, work)
