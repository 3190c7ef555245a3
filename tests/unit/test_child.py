"""Work in a process of its own: what it tells comes back whatever this process has open."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tailrace.base import child


@pytest.fixture
def many_open() -> Iterator[int]:
    """So many descriptors are open that the next one has a number above FD_SETSIZE (1024)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"at most {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < 1030:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_result_is_read_by_a_process_with_many_open_files(many_open: int) -> None:
    ended = child.run(lambda: ["told", 1], 600, 600)
    assert (ended.result(), ended.status) == (["told", 1], 0)
    assert child.run(lambda: 1 // 0, None, 600).status == 1 << 8


def test_work_within_its_limits_tells_its_result() -> None:
    assert child.bounded(lambda: {"a": [1, None]}, child.Limits()) == {"a": [1, None]}
    assert child.bounded(lambda: None, child.Limits()) is None


@pytest.mark.parametrize(
    ("work", "limits", "said"),
    [
        (lambda: len(bytearray(300 << 20)), child.Limits(memory_bytes=100 << 20), "more than 100 MiB of memory"),
        (lambda: time.sleep(3600), child.Limits(seconds=0.1), "more than 0.1 s"),
        (lambda: "x" * 1000, child.Limits(result_bytes=100), "to tell"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), child.Limits(), "ended the process that read it"),
        (lambda: os.kill(os.getpid(), signal.SIGSTOP), child.Limits(seconds=0.1), "more than 0.1 s"),
    ],
    ids=["memory", "time", "result", "killed", "stopped"],
)
def test_work_over_its_limits_is_ended_and_says_so(work: Callable[[], object], limits: child.Limits, said: str) -> None:
    with pytest.raises(child.OverLimitError, match=said):
        child.bounded(work, limits)
