"""A compacted run has all lines of the run, whatever happens while it is compacted (docs/trace-format.md)."""

import fcntl
import gzip
import json
import os
import resource
import shutil
import signal
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from support import reader
from support import trace_writer as tw
from tailrace.analyzer.store import compaction, offsets
from tailrace.analyzer.store.compaction import compact
from tailrace.errors import RunError

VERSION_1 = Path(__file__).parents[1] / "data" / "version_1" / "trace" / "vm-401-18ea5f013d324e95.pfw.gz"
OWN = f"{tw.HOST.replace('-', '_')}-7-187a"


def block(number: int, seg: int = 0, first: int = 0, **header: Any) -> bytes:
    """A block of version 2 with 50 reads that follow on, from the offset `first` on, and three elsewhere."""
    lines = [tw.file_line("f1", "/data"), tw.file_line("f2", "/other")]
    at = first
    for index in range(50):
        ts = tw.T0_US + 1000 * number + index
        lines.append(tw.lean(tw.event(ts_us=ts, fhash="f1", offset=at, size=10 + index % 3, stage="s")))
        at += 10 + index % 3
    for offset in (100, 104, 7):
        ts = tw.T0_US + 1000 * number + 100
        lines.append(tw.lean(tw.event("write", ts_us=ts, fhash="f2", offset=offset, size=4, stage="s")))
    moved = {"read": sum(10 + index % 3 for index in range(50)), "written": 12}
    return tw.block(lines, {"v": 2, "seg": seg, "epoch": 1, "slots": 100 * number + 100, **moved, **header})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two processes of a node: blocks of two segments in its file and in one of a process; a trace of version 1."""
    files = {
        "node_1.0": block(0, block=0) + block(1, 1, block=0) + block(2, first=550, block=1),
        OWN: block(3, first=1100, block=2, lost={"torn": 2}) + block(4, 1, block=1, lost={"torn": 1}),
    }
    made = tw.make_run(tmp_path / "run", files)
    shutil.copy(VERSION_1, made / "trace")
    (made / "manifest").mkdir()
    promise(made, "node_1.0.pfw.gz", 3)
    promise(made, f"{OWN}.pfw.gz", None)
    return made


@pytest.mark.parametrize(
    ("modes", "wanted"),
    [((0o644, 0o644, 0o644), 0o644), ((0o640, 0o644, 0o660), 0o640), ((0o600, 0o644, 0o644), 0o600)],
)
def test_who_could_read_a_run_can_read_the_compacted_one_and_nobody_else(
    run: Path, modes: tuple[int, ...], wanted: int
) -> None:
    for path, mode in zip(sorted((run / "trace").iterdir()), modes, strict=True):
        path.chmod(mode)
    (run / "trace").chmod(0o2755)
    before = os.umask(0o077)
    try:
        compact(run, level=1)
    finally:
        os.umask(before)
    assert (run / "trace").stat().st_mode & 0o7777 == 0o2755
    assert {path.stat().st_mode & 0o7777 for path in (run / "trace").iterdir()} == {wanted}


def promise(run: Path, name: str, blocks: int | None) -> None:
    text = json.dumps({"file": name, **({} if blocks is None else {"blocks": blocks})}, separators=(",", ":"))[:-1]
    with (run / "manifest" / "node_1.jsonl").open("a") as file:
        file.write(f'{text},"crc":"{zlib.crc32(text.encode()):08x}"}}\n')


def rows(run: Path) -> Any:
    found = tailrace.open(run)
    table = found.events().compute()
    table = table.sort_values(["host", "pid", "ts", "offset"]).reset_index(drop=True)
    losses = sorted((row.cause, row.count) for row in found.losses.itertuples())
    return table.astype(str).to_dict(), found.info()["events"], losses


def files_of(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "trace").iterdir()}


def test_blocks_of_a_segment_become_one_with_the_same_lines(run: Path) -> None:
    before, lines = rows(run), sorted(line for data in files_of(run).values() for line in events(data))
    account = compact(run)
    assert (account.files, account.new_files, account.kept) == (3, 2, [])
    assert rows(run) == before
    # Version 1 of the trace is another host's.
    names = sorted(files_of(run))
    assert names == ["node_1.0.pfw.gz", "vm.0.pfw.gz"]
    found, torn, *_ = reader.scan_blocks(str(run / "trace" / names[0]))
    assert not torn and len(found) == 2  # of two segments
    texts = [reader.inflate(str(run / "trace" / names[0]), place[:2])[1] for place in found]
    assert all(text.count(b'"follows":1') > 90 for text in texts)
    assert all(text.count(b'{"name":"FH"') == 2 for text in texts)
    restored = [line for data in files_of(run).values() for line in events(data)]
    assert sorted(restored) == lines
    compact(run)
    assert rows(run) == before and sorted(files_of(run)) == names


def events(data: bytes) -> list[bytes]:
    text = b"".join(offsets.with_offsets(gzip.decompress(member)) for member in members(data))
    return [line for line in text.splitlines() if b'"ph":"X"' in line]


def members(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        header = reader._frame(data, at)
        length = header and reader._member_bytes(data, at, header)
        assert length
        yield data[at : at + length]
        at += length


def test_offsets_stay_where_they_are_asked_for(run: Path) -> None:
    before = rows(run)
    compact(run, level=1, keep_offsets=True)
    assert rows(run) == before
    assert not any(b"follows" in gzip.decompress(data) for data in files_of(run).values())


def test_what_is_missing_stays_missing_and_a_new_file_is_missed_when_it_is_gone(run: Path) -> None:
    """A gap in a segment, the last block of a file, a file; then one of the new files."""
    (run / "trace" / "node_1-8-187b.pfw.gz").write_bytes(block(5, 0, pid=8, start="187b", block=3))
    (run / "trace" / "node_1.1.pfw.gz").write_bytes(block(6, 2, block=0))
    promise(run, "node_1.1.pfw.gz", 2)
    promise(run, "node_1.2.pfw.gz", 1)
    before = rows(run)
    assert [loss for loss in before[2] if loss[0] == "missing"] == [("missing", 1), ("missing", 3)]
    account = compact(run)
    assert rows(run) == before
    assert account.kept == ["trace/node_1.1.pfw.gz: it lacks 1 block"]
    (run / "trace" / "node_1.0.pfw.gz").unlink()
    problems = "\n".join(tailrace.open(run).problems)
    assert "node_1.0.pfw.gz, which manifest/node_1.jsonl has with 3 blocks, is gone" in problems


def test_damaged_foreign_and_doubled_blocks_stay_byte_for_byte_and_are_named(run: Path) -> None:
    damaged, doubled = bytearray(block(5, 3)), block(6, 4)
    damaged[-20] ^= 64
    trace = run / "trace"
    with (trace / "node_1.0.pfw.gz").open("ab") as file:
        file.write(damaged + doubled)
    torn, foreign, others = block(7, 5)[:-9], gzip.compress(b"something else"), block(8, 6)
    (trace / "node_1-8-187b.pfw.gz").write_bytes(block(9, 7) + doubled + torn)
    (trace / "node_1.1.pfw.gz").write_bytes(foreign)
    (trace / "u1.node_1-9-187b.pfw.gz").write_bytes(others)
    before = rows(run)
    account = compact(run)
    assert rows(run) == before
    kept = files_of(run)
    assert kept["node_1-8-187b.pfw.gz"] == block(9, 7) + doubled + torn
    assert (kept["node_1.1.pfw.gz"], kept["u1.node_1-9-187b.pfw.gz"]) == (foreign, others)
    assert bytes(damaged) in kept["node_1.0.pfw.gz"] and doubled in kept["node_1.0.pfw.gz"]
    said = "\n".join(account.kept)
    assert len(account.kept) == 4, said
    for what in (
        "node_1-8-187b.pfw.gz: ",
        "node_1.1.pfw.gz: ",
        "u1.node_1-9-187b.pfw.gz: ",
        "node_1.0.pfw.gz: block at",
    ):
        assert what in said


def kill_at(call: int) -> None:
    """Kills this process at one of its next calls that touch files."""
    left = [call]

    def count(event: str, _: object) -> None:
        if event.split(".")[0] in ("open", "os", "ctypes", "shutil", "fcntl"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def test_killed_at_any_moment_it_leaves_one_whole_run(run: Path) -> None:
    before, names = rows(run), set(files_of(run))
    killed, states = 0, set()
    for call in range(2, 300, 7):
        child = os.fork()
        if child == 0:
            try:
                kill_at(call)
                compact(run, level=1)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
        states.add(frozenset(files_of(run)) == names)
        assert rows(run) == before, call
    assert status == 0 and killed > 8
    assert states == {True, False}, "one death before the change, one after it"
    assert {path.name for path in run.iterdir()} <= {"trace", "declared", "manifest", "run.json", "tailrace.db"}


def test_a_full_disk_is_an_error_and_nothing_changes(run: Path) -> None:
    before, names = rows(run), files_of(run)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(RunError, match=r"not compacted, its trace files are as before: .*File too large"):
            compact(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files_of(run) == names and not (run / compaction.NEW).exists()
    assert rows(run) == before


def test_without_an_exchange_of_directories_each_file_is_replaced_by_its_own(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Such file systems (NFS, Lustre) are on no machine of the tests.
    monkeypatch.setattr(compaction, "_can_exchange", lambda new: False)
    before, sizes = rows(run), {name: len(data) for name, data in files_of(run).items()}
    account = compact(run)
    assert not account.merged and rows(run) == before
    after = {name: len(data) for name, data in files_of(run).items()}
    assert after.keys() == sizes.keys() and all(after[name] < sizes[name] for name in sizes)


def test_a_launcher_that_notes_a_restart_does_not_keep_a_run_from_being_compacted(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It locks the run directory for a moment; who holds the lock for longer is another compaction."""
    descriptor = os.open(run, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(RunError, match="is being compacted already"):
        compact(run)
    # However late the other thread has its turn.
    monkeypatch.setattr(compaction, "_ATTEMPTS", 6000)
    over = threading.Timer(0.2, os.close, (descriptor,))
    over.start()
    assert compact(run).new_files
    over.join()


def test_what_a_sealer_may_still_write_to_is_refused_by_name(run: Path) -> None:
    with (run / "trace" / "node_1.0.pfw.gz").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match=r"node_1\.0\.pfw\.gz is being written"):
            compact(run)


FILES = st.sampled_from(["f1", "f2", "f3"])
SIZES = st.integers(0, 5)
ACCESSES = st.lists(
    st.one_of(
        st.builds(lambda f, o, s: tw.event(fhash=f, offset=o, size=s), FILES, st.integers(-3, 9), SIZES),
        st.builds(lambda f, s: tw.event("fgets", fhash=f, size=s), FILES, SIZES),
        st.builds(lambda f, o: tw.event("pread", fhash=f, fhash2="f2", offset=o, count=None, size=2), FILES, SIZES),
        st.builds(lambda f: tw.file_line(f, f"/{f}"), FILES),
    ),
    max_size=30,
)


@given(ACCESSES)
def test_offsets_left_out_are_put_back_as_readers_do(accesses: list[tw.Line]) -> None:
    """By this module, the native reader and the oracle of the tests."""
    from tempfile import TemporaryDirectory

    from support.reader import read_blocks
    from tailrace import _native

    lines = [tw.file_line("f1", "/f1"), tw.file_line("f2", "/f2"), tw.file_line("f3", "/f3"), *accesses]
    text = b"".join(tw.dump(line) + b"\n" for line in lines)
    lean = offsets.without_offsets(text)
    assert offsets.with_offsets(lean) == text
    wanted = [line["args"].get("offset") for line in lines if line["ph"] == "X"]
    header = {"v": 2, "events": len(wanted), "t0": 0, "t1": 0, "contexts": [""], "read": 0, "written": 0}
    with TemporaryDirectory() as place:
        path = Path(place) / "a"
        path.write_bytes(tw.block(lean.splitlines(), header))
        import pyarrow as pa

        batch = pa.record_batch(_native.read_blocks(str(path), [(0, path.stat().st_size)], ["offset"]))
        assert batch["offset"].to_pylist() == wanted
        assert read_blocks(str(path), [(0, path.stat().st_size)], ["offset"])["offset"].to_pylist() == wanted
