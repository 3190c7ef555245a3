"""Dask's keys as names for people."""

from typing import Any

import pytest

pytest.importorskip("dask", reason="needs Dask: pip install 'tailrace[cluster]'")
from tailrace.dask.keys import readable


@pytest.mark.parametrize(
    ("key", "life", "name"),
    [
        ("busy-08fcf792cc0b8945c129127eef651943", 1, "busy-08fcf792"),
        ("busy-08fcf792cc0b8945c129127eef651943", 2, "busy-08fcf792~2"),
        ("load-all-6dd1c2c5-2f1a-4b7e-9d6e-0a1b2c3d4e5f", 1, "load-all-6dd1c2c5"),
        (("sum-08fcf792cc0b8945c129127eef651943", 3, 0), 1, "sum 3, 0"),
        ("mine", 1, None),
        ("run-2026112808", 1, None),
        ("deadbeef-08fcf792cc0b8945c129127eef651943-x", 1, None),
    ],
)
def test_a_key_that_ends_in_a_token_has_a_short_name(key: Any, life: int, name: str | None) -> None:
    assert readable(key, "sum", life) == name
