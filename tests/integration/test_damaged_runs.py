"""A damaged file of a run is named as what it is."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand
from tailrace.analyzer.store import catalogue_tables
from tailrace.analyzer.store.layout import layout

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def text(path: Path) -> None:
    path.write_text("no trace at all\n" * 10)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def trace_of(run: Path, program: str) -> Path:
    """The only trace file of a program."""
    (row,) = [row for row in tailrace.open(run).processes.itertuples() if Path(row.argv[0]).name == program]
    return run / "trace" / f"{row.host}-{row.pid}-{row.start}.pfw.gz"


@pytest.mark.parametrize(
    ("damage", "words"), [(text, "is no trace"), (cut, "is cut off within its first block"), (empty, "is empty")]
)
@pytest.mark.parametrize("whose", ["wc", "sh"])
def test_a_damaged_trace_file_is_no_process_without_settings(
    cli: Cli, run_traced: TracedCommand, damage: Callable[[Path], None], words: str, whose: str
) -> None:
    run_traced("sh", "-c", "read line < /etc/passwd; wc /etc/passwd; true")
    path = trace_of(run_traced.run, whose)
    damage(path)
    coverage = tailrace.open(run_traced.run).coverage
    assert f"its trace file trace/{path.name} {words}" in coverage["cause"].tolist()
    shown = cli("info", run_traced.run).stdout
    assert "started without" not in shown and words in shown


@pytest.mark.parametrize("content", ['{"format": 1, "run_id', "[]", ""])
def test_a_broken_description_is_named(cli: Cli, run_traced: TracedCommand, content: str) -> None:
    run_traced("true")
    (run_traced.run / "run.json").write_text(content)
    info = json.loads(cli("info", run_traced.run, "--format", "json").stdout)
    assert {"cause": "damaged", "unit": "files", "count": 1} in info["losses"]
    assert "run.json: it is not" in " ".join(cli("info", run_traced.run).stdout.split())
    assert "run.json: it is not" in " ".join(cli("report", run_traced.run).stdout.split())
    run_traced("true", check=False)
    (run_traced.run / "run.json").write_text("{}")
    assert tailrace.open(run_traced.run).losses.empty


def test_a_broken_account_is_named(run_traced: TracedCommand) -> None:
    run_traced("true")
    (account,) = (run_traced.run / "accounts").iterdir()
    account.write_text("{")
    (row,) = tailrace.open(run_traced.run).losses.itertuples()
    assert (row.file, row.cause) == (f"accounts/{account.name}", "damaged")


def test_a_file_that_vanishes_while_the_run_is_read_is_named(run_traced: TracedCommand, tmp_path: Path) -> None:
    run_traced("sh", "-c", "wc /etc/passwd; true")
    where = layout(run_traced.run)
    traces, others = where.traces(), where.others()
    gone = trace_of(run_traced.run, "wc")
    gone.unlink()
    catalogue_tables.update(tmp_path / "catalogue.db", traces, others)
    with closing(sqlite3.connect(tmp_path / "catalogue.db")) as connection:
        found = connection.execute("SELECT file, cause, problem FROM losses").fetchall()
    assert found == [(f"trace/{gone.name}", "vanished", f"{gone}: it vanished while the run was read")]
