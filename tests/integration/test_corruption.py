"""A damaged run answers what is right, says what is missing, or refuses by name: never a wrong answer, no traceback.

A thousand rounds: `python -m support.corruption --rounds 1000 RUN` in tests/.
"""

from pathlib import Path

from support import corruption
from support.commands import TracedCommand

PROGRAM = """
import os
file = os.open("d.txt", os.O_RDWR | os.O_CREAT)
for number in range(5000):
    os.write(file, b"x" * (number % 7))
"""
ROUNDS = 42


def test_no_damage_gives_a_wrong_answer_without_a_word(run_traced: TracedCommand, tmp_path: Path) -> None:
    run_traced("sh", "-c", "seq 300 > a.txt; cat a.txt | sort -r > b.txt; wc -l b.txt > c.txt", tags=["stage=a"])
    run_traced("python3", "-c", PROGRAM, tags=["stage=b"])
    place = tmp_path / "copies"
    place.mkdir()
    found = corruption.rounds(run_traced.run, ROUNDS, 1000, place)
    bad = [row for row in found if row[1] in corruption.FAULTS]
    assert not bad, f"{corruption.table(found)}\n{bad}"
    assert {row[1] for row in found} >= {"right", "said"} and {row[0] for row in found} == {
        kind.__name__ for kind in corruption.KINDS
    }
