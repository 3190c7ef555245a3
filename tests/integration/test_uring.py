"""io_uring by liburing: every result with its bytes, and what is not seen is said to be so."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from support.truth import Seen, read_run
from tailrace.analyzer.store import ledger

PAGE, N = 4096, 16
Traced = Callable[[str], Seen]


@pytest.fixture
def traced(program: Callable[[str], Path], tmp_path: Path) -> Traced:
    """Runs the test program untraced and traced, where both must say the same."""
    if not program("uring").exists():
        pytest.skip("no liburing to link with (Debian: liburing-dev)")

    def do(way: str) -> Seen:
        command = [program("uring"), way]
        options = {"cwd": tmp_path, "capture_output": True, "check": False, "timeout": 120}
        bare = subprocess.run(command, **options)
        if bare.returncode == (1 if way == "raw" else 77):
            pytest.skip("this kernel makes no io_uring (io_uring_setup: ENOSYS or EPERM)")
        assert bare.returncode == 0
        words = [*TAILRACE, "run", "-o", str(tmp_path / "run"), "--"]
        done = subprocess.run([*words, *command], **options)
        assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
        return read_run(tmp_path / "run")

    return do


@pytest.mark.parametrize("way", ["taken", "inline"])
def test_every_result_has_its_bytes_by_any_way_of_taking_it(traced: Traced, tmp_path: Path, way: str) -> None:
    seen = traced(way)
    results = seen.named("io_uring_cqe")
    assert seen.written(tmp_path / "data") == N * PAGE and seen.read(tmp_path / "data") == N * PAGE - 100
    offsets = sorted((event["args"]["dir"], event["args"]["offset"]) for event in results)
    assert offsets == [*(("r", i * PAGE + 100) for i in range(N)), *(("w", i * PAGE) for i in range(N))]
    assert all(event["args"]["count"] == PAGE for event in results)
    assert [event["args"]["ret"] for event in seen.named("io_uring_submit")] == [N, 4, 4, 4, 4]
    (row,) = tailrace.open(tmp_path / "run").coverage.to_dict("records")
    assert (row["share"], row["cause"]) == (1.0, "")


def test_a_registered_file_keeps_its_identity(traced: Traced, tmp_path: Path) -> None:
    seen = traced("listed")
    assert (seen.written(tmp_path / "data"), seen.written(tmp_path / "other")) == (1000, 2000)


def test_vectors_positions_copies_closes_and_what_has_no_result(traced: Traced, tmp_path: Path) -> None:
    seen = traced("mixed")
    data, out, after = (tmp_path / name for name in ("data", "out", "next"))
    assert (seen.written(data), seen.read(data), seen.written(out)) == (30 + 50 + 70, 40, 40)
    results = [event["args"] for event in seen.named("io_uring_cqe")]
    assert [args["errno"] for args in results if "errno" in args] == [9]
    ours = [event["args"] for event in seen.named("io_uring_cqe") if seen.path(event) == str(data.resolve())]
    assert [(args["dir"], args.get("offset")) for args in ours] == [("w", 0), ("w", 50), ("r", 20)]
    assert "count" not in ours[0]
    written = [event["args"]["size"] for event in seen.named("write") if seen.path(event) == str(after.resolve())]
    assert written == [33]
    (unknown,) = [event["args"] for event in seen.named("io_uring_cqe") if seen.path(event) == str(after.resolve())]
    assert (unknown["offset"], unknown["count"]) == (33, 44) and not {"size", "ret"} & unknown.keys()


def test_a_ring_without_liburing_is_reported(traced: Traced, tmp_path: Path) -> None:
    traced("raw")
    (row,) = tailrace.open(tmp_path / "run").coverage.to_dict("records")
    assert row["cause_key"] == "ring"
    assert ledger.WORDS["ring"] in run_cli("info", tmp_path / "run").stdout
