"""The kernel's asynchronous requests: every result with its bytes, however it is requested."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import TracedCommand
from support.truth import read_run

PAGE = 4096


@pytest.mark.parametrize("way", ["linked", "number"])
def test_results_have_their_bytes_and_bad_requests_their_error(
    program: Callable[[str], Path], run_traced: TracedCommand, tmp_path: Path, way: str
) -> None:
    if not program("libaio").exists():
        pytest.skip("no libaio to link with (Debian: libaio-dev)")
    bare = subprocess.run([program("libaio"), way], cwd=tmp_path, capture_output=True, text=True, check=False)
    if bare.returncode:
        pytest.skip("this kernel has no io_submit")
    assert run_traced(program("libaio"), way).stdout == bare.stdout
    seen = read_run(run_traced.run)
    data = tmp_path / "data"
    assert seen.written(data) == 16 * PAGE + 30
    assert seen.read(data) == 16 * PAGE - 100
    results = seen.named("io_getevents")
    assert {event["args"]["offset"] for event in results} == {*range(0, 16 * PAGE, PAGE), *range(100, 16 * PAGE, PAGE)}
    assert len(results) == 33 and len(seen.named("io_submit")) == 6
    assert len([event for event in seen.named("io_submit") if event["args"].get("errno")]) == 3
