"""What the core and the dynamic linker ask of each other: no function that systems of glibc 2.28 lack, and no data."""

import re
import subprocess
from pathlib import Path

from tailrace import _native
from tailrace.installation import PACKAGE

OLDEST = (2, 28)
# Asked for only where the headers are of a C library that has them.
BY_HEADERS = {"__x86_get_cpuid_feature_leaf"}
# Functions that glibc 2.28 links statically, from libc_nonshared.a, and 2.33 has in libc.so.
STATIC_BEFORE = {"stat", "lstat", "fstat", "fstatat", "stat64", "lstat64", "fstat64", "fstatat64", "mknod", "mknodat"}


def dynamic_symbols(library: Path, *options: str) -> list[list[str]]:
    listed = subprocess.run(["nm", "-D", *options, str(library)], capture_output=True, text=True, check=True)
    return [line.split() for line in listed.stdout.splitlines()]


def oldest_versions() -> dict[str, tuple[int, ...]]:
    """The first glibc with each symbol, by this machine's C library and dynamic linker."""
    maps = Path("/proc/self/maps").read_text()
    found: dict[str, tuple[int, ...]] = {}
    for library in set(re.findall(r"/\S*/(?:libc|libm|ld-linux[\w-]*)\.so\.\d+$", maps, re.MULTILINE)):
        for words in dynamic_symbols(Path(library), "--defined-only"):
            if match := re.fullmatch(r"(\w+)@@?GLIBC_([\d.]+)", words[-1]):
                version = tuple(map(int, match[2].split(".")))
                found[match[1]] = min(version, found.get(match[1], version))
    return found


def test_the_core_asks_for_newer_functions_at_run_time() -> None:
    """A function that is new since glibc 2.28 would keep the library out of every process of an older system."""
    known = oldest_versions()
    needed = dynamic_symbols(PACKAGE / "lib" / "libtailrace.so", "--undefined-only")
    names = {words[-1].partition("@")[0] for words in needed if words[0] == "U"}
    assert "pthread_setspecific" in names or "memcpy" in names, "nothing was read"
    newer = {name: known[name] for name in names if known.get(name, OLDEST) > OLDEST}
    assert set(newer) - STATIC_BEFORE - BY_HEADERS == set(), newer


def test_the_core_exports_its_hooks_and_its_api_and_no_data() -> None:
    """-Bsymbolic is safe for functions alone: of an exported variable a program may have a copy of its own."""
    exported = dynamic_symbols(PACKAGE / "lib" / "libtailrace.so", "--defined-only")
    assert {kind for _, kind, _ in exported} == {"T"}
    others = {symbol for _, _, symbol in exported} - {symbol for symbol, _, _ in _native.hooks()}
    # Names that libraries of annotations look for in a tool's, and what instrumented functions call.
    interfaces = {"InitializeInjectionNvtx2", "__itt_api_init", "__cyg_profile_func_enter", "__cyg_profile_func_exit"}
    assert {name for name in others if not name.startswith("tailrace_")} <= {"__asan_default_options", *interfaces}
    assert "tailrace_context_enter" in others
