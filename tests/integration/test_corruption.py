"""A damaged run answers what is right, says what is missing, or refuses by name: never a wrong answer, no traceback.

A thousand rounds: `python -m support.corruption --rounds 1000` in tests/.
"""

from pathlib import Path

import pytest

from support import corruption


def test_no_damage_gives_a_wrong_answer_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "copies"
    place.mkdir()
    found = corruption.rounds(corruption.make_runs(tmp_path), range(1000, 1000 + len(corruption.KINDS)), place)
    bad = [row for row in found if row[1] in corruption.FAULTS]
    assert not bad, f"{corruption.table(found)}\n{bad}"
    assert {row[1] for row in found} >= {"right", "said"} and {row[0] for row in found} == {
        kind.__name__ for kind in corruption.KINDS
    }
