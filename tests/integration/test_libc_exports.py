"""Every function that libc exports is hooked, or stands in libc_exports.py with the reason why it isn't."""

import shutil
import subprocess

import pytest

from support.libc_exports import ALL, CLOSERS, CLOSES, DESCRIPTORS, FILES, STREAMS, exclusion
from tailrace import _native

HOOKED = {
    symbol
    for symbol, _, category in _native.hooks()
    if category not in ("HDF5", "MPIIO") and not symbol.removeprefix("__").startswith("io_")
}
"""Without libaio's and liburing's, and the libraries' that are not interposed."""


def libc_path() -> str:
    """The C library that this Python runs on."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        for line in maps:
            if "/libc.so.6" in line or "/libc-2." in line:
                return line.split()[-1]
    pytest.skip("no GNU C library")


@pytest.fixture(scope="module")
def exports() -> set[str]:
    """The names of libc's public functions; those of version GLIBC_PRIVATE are for its own libraries."""
    if shutil.which("nm") is None:
        pytest.skip("no nm (binutils) to list what libc exports")
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", libc_path()]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"nm: {listed.stderr}")
    found = set()
    for line in listed.stdout.splitlines():
        _, kind, symbol = line.split()
        name, _, version = symbol.partition("@")
        if kind in "TWi" and not version.endswith("GLIBC_PRIVATE"):
            found.add(name)
    assert len(found) > 2000
    return found


def test_every_export_is_hooked_or_excluded_with_a_reason(exports: set[str]) -> None:
    unknown = sorted(name for name in exports - HOOKED if exclusion(name, ALL) is None)
    assert not unknown, (
        f"libc exports {', '.join(unknown)}. What makes, takes or closes a descriptor or a stream gets a row in "
        "core/src/format/hooks.def and a hook; what doesn't, a line in libc_exports.py with the reason."
    )


def test_closing_functions_are_hooked_or_irrelevant(exports: set[str]) -> None:
    unknown = sorted(name for name in exports - HOOKED if CLOSES.match(name) and exclusion(name, CLOSERS) is None)
    assert not unknown, (
        f"libc exports {', '.join(unknown)}, by the name a function that closes. Without a hook its descriptor's next "
        "file would be credited to the last one; a line in CLOSERS of libc_exports.py is the reason why it can't."
    )


def test_no_hooked_function_is_excluded(exports: set[str]) -> None:
    both = sorted(
        name
        for name in exports & HOOKED
        for reason, names in [*CLOSERS, *DESCRIPTORS, *STREAMS, *FILES]
        if name in names.split()
    )
    assert not both


def test_there_is_a_function_behind_every_hook(exports: set[str]) -> None:
    # Old libraries keep some elsewhere (libpthread, librt), and new ones drop some.
    assert len(HOOKED - exports) < 30, sorted(HOOKED - exports)
