"""The adapters that are installed: ours (tailrace.managers), and those of other packages by entry points of the group
`tailrace.managers`.

    [project.entry-points."tailrace.managers"]
    mymanager = "my_package.tailrace_manager:MANAGER"

    installed() --> Entry: the manager, the package that brings its adapter, the manager's version here, a state
    importers() --> all importers of declared graphs (importing.py): of WfFormat, and of managers

Invariants: an adapter that can't be loaded, or whose version can't be asked for, has a state that says so; it never
keeps the others from being listed. The manager itself is not imported.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata

from tailrace import __version__
from tailrace.integrations import wfformat
from tailrace.integrations.importing import Importer
from tailrace.managers import ADAPTERS, Row

GROUP = "tailrace.managers"
_ASK_S = 20.0
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Manager:
    """What a package tells of the adapter that it brings.

    title: the manager's name as it writes itself; use: the one line to type; version: the manager's version here, None
    where it isn't installed (`of_distribution`, `of_program`); tested: the oldest and the newest version that the
    adapter's tests ran with; importers: of what the manager keeps on disk (importing.py).
    """

    title: str
    use: str
    version: Callable[[], str | None]
    tested: tuple[str, str]
    importers: Sequence[Importer] = ()


@dataclass(frozen=True)
class Entry:
    """An adapter that is installed. name: of the entry point; package: that has it, with its version; manager: None
    where it can't be loaded; version: "" where the manager isn't installed; state: one line."""

    name: str
    package: str
    manager: Manager | None
    version: str
    state: str


def of_distribution(name: str) -> Callable[[], str | None]:
    """The version of a Python distribution in this environment."""

    def version() -> str | None:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    return version


def of_program(*command: str) -> Callable[[], str | None]:
    """The first version in what a command prints; its first word is looked up in PATH."""

    def version() -> str | None:
        program = shutil.which(command[0])
        if program is None:
            return None
        done = subprocess.run(
            [program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_ASK_S, check=False,
        )  # fmt: skip
        found = _VERSION.search(done.stdout) or _VERSION.search(done.stderr)
        if found is None:
            raise ValueError(f"`{' '.join(command)}` tells no version (exit code {done.returncode})")
        return found[0]

    return version


def installed() -> list[Entry]:
    """All adapters, by name. Asks the managers for their versions."""
    found = [_entry(name, f"tailrace {__version__}", ours(name)) for name in ADAPTERS]
    for point, package in _points():
        manager, fault = _loaded(point, package)
        found.append(_entry(point.name, package, manager) if manager else Entry(point.name, package, None, "", fault))
    return sorted(found, key=lambda entry: entry.name)


def importers() -> list[Importer]:
    """Ours, and those of all other adapters that can be loaded."""
    found = [wfformat.IMPORTER]
    for manager in [*map(ours, ADAPTERS), *(_loaded(point, package)[0] for point, package in _points())]:
        found += manager.importers if manager else ()
    return found


def ours(name: str) -> Manager:
    """One of tailrace's own, by its row of the table."""
    row = ADAPTERS[name]
    imported = [import_module(f"tailrace.{name}.importer").IMPORTER] if row.importer else []
    return Manager(row.title, row.use, _version(row), row.tested, imported)


def _version(row: Row) -> Callable[[], str | None]:
    if row.distribution:
        return of_distribution(row.distribution)
    *others, last = (of_program(*command.split()) for command in row.ask)

    def version() -> str | None:
        for ask in others:
            with suppress(ValueError):
                return ask()
        return last()

    return version


def _points() -> Iterator[tuple[metadata.EntryPoint, str]]:
    """The entry points by name, each once, with the package that has it."""
    seen = set()
    for distribution in metadata.distributions():
        for point in distribution.entry_points.select(group=GROUP):
            seen.add((point.name, point.value, f"{distribution.metadata['Name']} {distribution.version}"))
    for name, value, package in sorted(seen):
        yield metadata.EntryPoint(name, value, GROUP), package


def _loaded(point: metadata.EntryPoint, package: str) -> tuple[Manager | None, str]:
    """The manager, or None and why not."""
    try:
        manager = point.load()
    except Exception as error:
        return None, f"its adapter can't be loaded ({_line(error)}): install {package.split()[0]} again"
    if not isinstance(manager, Manager):
        return None, f"{point.value} is no Manager of tailrace.integrations: ask the authors of {package.split()[0]}"
    return manager, ""


def _entry(name: str, package: str, manager: Manager) -> Entry:
    try:
        version = manager.version()
    except Exception as error:
        return Entry(name, package, manager, "", f"its version is not known: {_line(error)}")
    return Entry(name, package, manager, version or "", state(version, manager.tested))


def state(version: str | None, tested: tuple[str, str]) -> str:
    """What to expect of a version of a manager."""
    if version is None:
        return "not installed here"
    if _numbers(version) < _numbers(tested[0]):
        return f"older than {tested[0]}, the oldest that was tested"
    if _numbers(version) > _numbers(tested[1]):
        return f"newer than {tested[1]}, the newest that was tested"
    return "ready"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
