"""Work in a process of its own: what it tells comes back whatever this process has open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from tailrace.analyzer.util import child


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
