"""The markers of the tests: what `-m fast` leaves out has a reason that still exists."""

import re
from collections import Counter
from pathlib import Path

import pytest

from support import selection

TESTS = Path(__file__).resolve().parents[1]
SOURCES = [path.read_text() for path in TESTS.rglob("*.py")]


@pytest.mark.parametrize("name", selection.FIXTURES)
def test_a_fixture_with_a_marker_exists(name: str) -> None:
    pattern = re.compile(rf"@pytest\.fixture.*\ndef {name}\(")
    assert any(pattern.search(text) for text in SOURCES)


@pytest.mark.parametrize("name", sorted({*selection.MODULES, *selection.FAST_INTEGRATION}))
def test_a_module_with_a_marker_exists(name: str) -> None:
    assert (TESTS / "integration" / f"{name}.py").is_file()


def test_names_of_modules_are_unique() -> None:
    """pytest imports a module of tests by its name alone: a second one of that name is not collected."""
    names = Counter(path.stem for path in TESTS.rglob("test_*.py"))
    assert not [name for name, times in names.items() if times > 1]


def test_every_test_is_fast_or_has_a_reason(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        marked = {mark.name: mark.args for mark in item.iter_markers()}
        others = {"slow", "flux", "browser", "root"} & marked.keys()
        assert ("fast" in marked) != bool(others), item.nodeid
        assert all(marked[name] and isinstance(marked[name][0], str) for name in others), f"{item.nodeid}: no reason"
