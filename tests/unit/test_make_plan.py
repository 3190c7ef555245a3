"""What make's database says of its targets (as `make -pn` of GNU make 4.3 prints it), and what counts of a plan."""

from pathlib import Path

import pytest

from tailrace.make import plan
from tailrace.make.begin import takes_for_old

DATABASE = """make: Nothing to be done
# Files
a recipe printed this: all
# Variables

# Files

# Not a target:
.c.o:
#  Builtin rule
#  recipe to execute (built-in):
\t$(COMPILE.c) $<

# makefile (from 'Makefile', line 2)
a b: VALUE := x: y
a b: c:d e f | later
#  Phony target (prerequisite of .PHONY).
#  Implicit rule search has not been done.
#  recipe to execute (from 'Makefile', line 3):
\techo
\t

group:: e f
#  Also makes: other a b group
#  Implicit rule search has not been done.

group:: c:d
#  Implicit rule search has not been done.
#  recipe to execute (from 'Makefile', line 9):
\techo: # Files

# Not a target:
e f:
#  Last modified 2026-11-29 08:05:14.324499527

nothing: c:d
#  Implicit rule search has not been done.
#  recipe to execute (from 'Makefile', line 12):
\t

c:d:
#  Implicit rule search has not been done.

# files hash-table stats:
# Load=1/2
"""


def test_targets_are_as_make_prints_them() -> None:
    assert plan.parsed(DATABASE) == [
        plan.Target("a b", ["c:d", "e f"], ["later"], phony=True, recipe=True),
        plan.Target("group", ["e f", "c:d"], also=["other", "a b"], recipe=True),
        plan.Target("e f"),
        plan.Target("nothing", ["c:d"]),
        plan.Target("c:d"),
    ]
    assert plan.parsed("") == plan.parsed("# Files") == plan.parsed("\n# Files\n\nx") == []


def test_a_make_that_cannot_be_asked_has_no_plan(tmp_path: Path) -> None:
    script = tmp_path / "make"
    script.write_text("#!/bin/sh\necho '# no database'; exit 2\n")
    script.chmod(0o755)
    assert plan.targets([]) == plan.targets([str(tmp_path / "missing")]) == plan.targets([str(script), "-C", "x"]) == []


@pytest.mark.parametrize("words", ["-o a", "-ko a", "-koa", "--old-file=a", "--assume-old a", "-f x -j4 --old a"])
def test_the_options_by_which_make_takes_a_file_for_old_are_known(words: str) -> None:
    assert takes_for_old(["make", *words.split()])


@pytest.mark.parametrize(
    "words", ["", "-f foo.mk -j 4 all", "-ffoo.mk", "-Otarget", "--output-sync a=-o", "-Cout -kj4"]
)
def test_other_options_are_none(words: str) -> None:
    assert not takes_for_old(["make", *words.split()])
