"""A damaged file of a run is named as what it is."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import tailrace
from support import reader
from support.commands import TracedCommand
from support.node_files import without_sealer
from tailrace import _native
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
    host = re.sub("[^A-Za-z0-9._]", "_", row.host)
    return run / "trace" / f"{host}-{row.pid}-{row.start}.pfw.gz"


@pytest.fixture
def files_of_their_own(run_traced: TracedCommand) -> Iterator[None]:
    """Each process writes a file of its own."""
    with without_sealer(run_traced.run):
        yield


@pytest.mark.usefixtures("files_of_their_own")
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (text, "is no trace"),
        (cut, "is cut off within its first block"),
        (empty, "is empty"),
        (Path.unlink, "is gone"),
    ],
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
    assert path.name in tailrace.open(run_traced.run).problems[0]


@pytest.mark.parametrize("content", ['{"format": 1, "run_id', "[]", ""])
def test_a_broken_description_is_named(cli: Cli, run_traced: TracedCommand, content: str) -> None:
    run_traced("true")
    (run_traced.run / "run.json").write_text(content)
    info = json.loads(cli("info", run_traced.run, "--format", "json").stdout)
    assert {"cause": "damaged", "unit": "files", "count": 1} in info["losses"]
    assert "run.json: it is not" in " ".join(cli("info", run_traced.run).stdout.split())
    assert "run.json: it is not" in " ".join(cli("report", run_traced.run).stdout.split())
    run_traced("true", check=False)
    (run_traced.run / "run.json").write_text('{"format": 1}')
    assert tailrace.open(run_traced.run).losses.empty


def test_a_broken_account_is_named(run_traced: TracedCommand) -> None:
    run_traced("true")
    (account,) = (run_traced.run / "accounts").iterdir()
    account.write_text("{")
    (row,) = tailrace.open(run_traced.run).losses.itertuples()
    assert (row.file, row.cause) == (f"accounts/{account.name}", "damaged")


@pytest.mark.usefixtures("files_of_their_own")
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


@pytest.mark.usefixtures("files_of_their_own")
def test_commands_say_what_of_a_run_is_missing(cli: Cli, run_traced: TracedCommand, tmp_path: Path) -> None:
    """On stderr, with what is left on stdout; with --strict they fail. Damaged bytes are met while the events are read,
    a torn block before."""
    run_traced("sh", "-c", "seq 9 > a; cat a > b; true", tags=["stage=s"])
    path = trace_of(run_traced.run, "cat")
    whole = path.read_bytes()
    commands = {"query": ["--by", "name"], "graph": [], "export": ["--to", "json"]}
    changed = whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]
    for damaged, words in ((whole[:-5], "bytes cut off"), (changed, "events damaged")):
        path.write_bytes(damaged)
        for name, options in commands.items():
            done = cli(name, run_traced.run, *options)
            assert done.returncode == 0 and done.stdout, done.stderr
            assert "tailrace: incomplete: " in done.stderr and words in done.stderr and path.name in done.stderr
            done = cli(name, run_traced.run, *options, "--strict")
            assert done.returncode == 1 and path.name in done.stderr and not done.stdout
            (run_traced.run / "tailrace.db").unlink()
    path.write_bytes(whole)
    assert cli("graph", run_traced.run, "--strict").stderr == ""


@pytest.mark.usefixtures("files_of_their_own")
def test_a_flipped_bit_in_a_header_is_seen(run_traced: TracedCommand, tmp_path: Path) -> None:
    """No bit of it moves events to another stage or time: the block is damaged, or the bit says nothing."""
    run_traced("cat", "/etc/passwd", tags=["stage=s", "task=t"])
    path = trace_of(run_traced.run, "cat")
    whole = path.read_bytes()
    ((_, length, header),) = _native.scan_blocks(path)[0]
    copy = tmp_path / "copy.pfw.gz"
    for at in range(16 + len(header)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        copy.write_bytes(damaged)
        found, torn, cause, problem = _native.scan_blocks(copy)
        assert (found, torn, cause) == reader.scan_blocks(str(copy))[:3], at
        if at < 16:
            assert [row[1:] for row in found] in ([], [(length, header)]), at
        elif found:  # the checksum's own key, after which an old reader's block has any other
            ((_, _, text),) = found
            assert len(header) - 18 <= at - 16 < len(header) - 10
            assert text[:-18] == header[:-18]
        else:
            assert torn == len(whole) and (problem or at - 16 >= len(header) - 18), at


def test_a_file_of_another_run_is_not_counted_and_named(cli: Cli, run_traced: TracedCommand, tmp_path: Path) -> None:
    run_traced("sh", "-c", "seq 100 > numbers; wc numbers")
    other = TracedCommand(tmp_path, tmp_path / "other")
    other("sh", "-c", "seq 1000 > more; sort more")
    asked = ["query", run_traced.run, "--by", "path,name", "--agg", "count", "--format", "json"]
    before, described = cli(*asked).stdout, (run_traced.run / "run.json").read_bytes()
    copied = run_traced.run / "trace" / "elsewhere.0.pfw.gz"
    copied.write_bytes(b"".join(path.read_bytes() for path in sorted((other.run / "trace").glob("*.pfw.gz"))))
    blocks = len(reader.scan_blocks(str(copied))[0])
    words = f"{blocks} blocks of another run, which are not counted (trace/{copied.name})"

    def is_said() -> bool:
        return words in cli(*asked).stderr

    assert (cli(*asked).stdout, is_said()) == (before, True)
    assert "other_run" in cli("info", run_traced.run).stdout
    assert len(tailrace.open(run_traced.run).processes) == 3

    run_traced("true")  # a restart, which has an id of its own
    assert is_said()
    assert len(tailrace.open(run_traced.run).processes) == 4

    # With the other description these are the blocks that don't belong here.
    (run_traced.run / "run.json").write_bytes((other.run / "run.json").read_bytes())
    assert set(tailrace.open(run_traced.run).processes["exe"].dropna()) == set(
        tailrace.open(other.run).processes["exe"]
    )
    # Without one, nothing tells.
    (run_traced.run / "run.json").unlink()
    assert "of another run" not in cli(*asked).stderr
    (run_traced.run / "run.json").write_bytes(described)
    assert is_said()
