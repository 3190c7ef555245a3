"""PyTorch's DataLoader traced: workers that read while the trainer computes, by each start method.

The calls on the data files are as many as strace sees, each in its region; the times are those of the program's own
log.
Runs where torch can be imported: by this Python, or by it with Debian's packages (python3-torch).
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TracedCommand
from support.run_files import Trace

PROGRAM = Path(__file__).parent.parent / "support" / "torch_loader.py"
FILES, EPOCHS, WORKERS = 12, 2, 2
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
CALLS = {"openat": "open", "newfstatat": "fstat"}
"""The kernel's name -> that of libc's function that the program calls."""


@cache
def with_torch() -> dict[str, str] | None:
    """The environment in which this Python imports torch and numpy that fit each other, or None."""
    for path in ("", DEBIAN_PACKAGES):
        env = {**os.environ, **({"PYTHONPATH": path} if path else {})}
        code = "import torch, numpy; torch.from_numpy(numpy.ones(1)); import tailrace.dftracer"
        if subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False).returncode == 0:
            return env
    return None


@pytest.fixture
def env() -> dict[str, str]:
    found = with_torch()
    if found is None:
        pytest.skip("no torch for this Python, by pip or by Debian's python3-torch")
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    numpy = pytest.importorskip("numpy")
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(FILES):
        numpy.savez(folder / f"{number}.npz", x=numpy.full((64, 512), number))
    return folder


def by_strace(command: list[str], env: dict[str, str], data: Path, logs: Path) -> Counter[tuple[str, str]]:
    """The calls of `command` on the data files, by the kernel: (file, call) -> how often."""
    if shutil.which("strace") is None:
        pytest.skip("strace, the truth, is not installed")
    logs.mkdir()
    calls = "trace=openat,read,lseek,close,newfstatat,pread64,mmap,fcntl,dup"
    words = ["strace", "-ff", "-qq", "-yy", "-e", calls, "-o", str(logs / "log"), *command]
    subprocess.run(words, env=env, check=True, capture_output=True)
    found: Counter[tuple[str, str]] = Counter()
    for log in logs.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            _, there, rest = line.partition(f"<{data}/")
            if there:
                name = line.partition("(")[0]
                found[rest.partition(">")[0], CALLS.get(name, name)] += 1
    return found


def arguments(interface: str, data: Path, method: str, persistent: bool, log: Path) -> list[str]:
    words = (sys.executable, PROGRAM, interface, data, method, FILES, EPOCHS, WORKERS, int(persistent), log)
    return [str(word) for word in words]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_call_of_the_workers_is_captured(
    method: str, env: dict[str, str], data: Path, tmp_path: Path, run_traced: TracedCommand
) -> None:
    truth = by_strace(arguments("none", data, method, False, tmp_path / "log"), env, data, tmp_path / "strace")
    assert {truth[f"{number}.npz", "open"] for number in range(FILES)} == {EPOCHS}
    run_traced(*arguments("tailrace.dftracer", data, method, False, tmp_path / "log"), env=env)
    workers = json.loads((tmp_path / "log").read_text())["pids"]
    assert len({pid for epoch in workers for pid in epoch}) == WORKERS * EPOCHS
    check_calls(Trace(run_traced.run), data, truth, workers)


def check_calls(trace: Trace, data: Path, truth: Counter[tuple[str, str]], workers: list[list[int]]) -> None:
    """The calls on the data files, their processes and their regions."""
    on_data = [e for e in trace.events if str(e["path"]).startswith(f"{data}/")]
    assert Counter((Path(e["path"]).name, e["name"]) for e in on_data) == truth
    assert {e["pid"] for e in on_data} == {pid for epoch in workers for pid in epoch}
    assert all(e["args"]["region"].endswith("fetch") for e in on_data)


def united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals, in order."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def without(spans: list[tuple[int, int]], hidden: list[tuple[int, int]]) -> int:
    """The length of `spans` outside `hidden`, both united."""
    covered = sum(max(0, min(e, end) - max(b, begin)) for b, e in spans for begin, end in hidden)
    return sum(end - begin for begin, end in spans) - covered


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_unoverlapped_times_of_persistent_workers_are_those_of_the_programs_log(
    method: str, env: dict[str, str], data: Path, tmp_path: Path, run_traced: TracedCommand
) -> None:
    """The log has a time on either side of each begin and end, so it says between what the trace must be."""
    run_traced(*arguments("tailrace.dftracer", data, method, True, tmp_path / "log"), env=env)
    account = json.loads((tmp_path / "log").read_text())
    assert len({pid for epoch in account["pids"] for pid in epoch}) == WORKERS

    def inside(of: str) -> list[tuple[int, int]]:
        return united((begin, end) for _, begin, end, _ in account[of])

    def around(of: str) -> list[tuple[int, int]]:
        return united((begin, end) for begin, _, _, end in account[of])

    regions = tailrace.open(run_traced.run).regions
    table = regions.table()
    (fetch,) = table[table["region"].str.endswith("fetch")].to_dict("records")
    (forward,) = table[table["region"].str.endswith("forward")].to_dict("records")
    batches = EPOCHS * FILES // 2
    assert (fetch["count"], forward["count"]) == (EPOCHS * FILES, batches)
    assert without(inside("loads"), []) <= fetch["app_ns"] <= without(around("loads"), [])
    assert without(inside("computes"), []) <= forward["time_ns"] <= without(around("computes"), [])
    lowest = without(inside("loads"), around("computes"))
    highest = without(around("loads"), inside("computes"))
    assert lowest <= fetch["unoverlapped_app_ns"] <= highest
    # The calls are in the fetches, between the log's times.
    assert 0 < fetch["io_ns"] <= without(around("loads"), [])
    assert 0 <= fetch["unoverlapped_ns"] <= min(highest, fetch["io_ns"])
    check_steps(regions, account)


def check_steps(regions: Any, account: dict[str, Any]) -> None:
    """The trainer's epochs and steps, each with its computation."""
    steps = regions.steps().dropna(subset=["epoch", "step"])
    each = FILES // 2
    assert steps[["epoch", "step"]].to_numpy().tolist() == [[e, s] for e in range(EPOCHS) for s in range(each)]
    for taken, (before, begin, end, after) in zip(steps["compute_ns"], account["computes"], strict=True):
        assert end - begin <= taken <= after - before
    # What workers of the first epoch do later is no part of it.
    for epoch, taken in zip(range(EPOCHS), regions.epochs()["compute_ns"], strict=True):
        own = account["computes"][epoch * each : (epoch + 1) * each]
        assert sum(end - begin for _, begin, end, _ in own) <= taken <= sum(end - begin for begin, _, _, end in own)
