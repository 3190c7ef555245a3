"""The order of the rooms of core/src: a room includes itself and lower rooms only, so no cycle between rooms exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "core/src"
ROOMS = ("base", "format", "linker", "session", "spawn", "layers", "hooks", "api.cc")
"""From the lowest to the highest; docs/architecture.md says what each is for."""
USERS = {
    "core/native": ("core/launcher",),
    "core/launcher": ("core/native",),
    "flux-plugin": (),
    "slurm-plugin": ("core/launcher",),
    "core/container": (),
}
"""Folders that use the lowest rooms only, and which of each other."""
SUFFIXES = (".cc", ".h", ".def")
PUBLIC = "tailrace/tailrace.h"
REGIONS = "tailrace/region.h"  # needs no library

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def includes(path: Path) -> list[str]:
    """The headers that a file includes with quotes, as they are written."""
    return INCLUDE.findall(path.read_text())


def room(path: str) -> str:
    """The room of a path relative to core/src."""
    return path.split("/", 1)[0]


def from_rooms() -> Iterator[tuple[str, str]]:
    """(file, included header) of all files in core/src, relative to it."""
    for path in sources(SOURCE):
        for header in includes(path):
            if header != PUBLIC:
                yield str(path.relative_to(SOURCE)), header


def test_the_rooms_are_the_folders() -> None:
    assert {path.name for path in SOURCE.iterdir()} == set(ROOMS)


def test_every_include_names_its_room() -> None:
    assert not [(file, header) for file, header in from_rooms() if not (SOURCE / header).is_file()]


def test_a_room_includes_lower_rooms_only() -> None:
    order = {name: place for place, name in enumerate(ROOMS)}
    upward = [(file, header) for file, header in from_rooms() if order[room(header)] > order[room(file)]]
    assert not upward, "; ".join(f"{file} includes {header}" for file, header in upward)


def test_the_public_header_is_included_by_the_highest_room_alone() -> None:
    assert [path.name for path in sources(SOURCE) if PUBLIC in includes(path)] == ["api.cc"]


@pytest.mark.parametrize("folder", sorted(USERS))
def test_users_of_the_core_include_its_lowest_rooms_only(folder: str) -> None:
    files = sources(ROOT / folder)
    assert files
    own = {path.name for place in (folder, *USERS[folder]) for path in sources(ROOT / place)}
    others = {header for path in files for header in includes(path)} - own
    others -= {REGIONS}
    assert {room(header) for header in others} <= {"base", "format"}
    assert all((SOURCE / header).is_file() for header in others)
