"""Runs workflows with a known cause and shows what tailrace concludes from each.

    expected.tsv + cases/NAME.sh --trace, findings--> a row a case; precision, recall

    python tests/diagnosis/run.py [-k TEXT] [--keep DIR]

A case is a script that makes a workflow in an empty folder and traces it into ./run (common.sh). What counts is what a
report shows at first: findings that are not small and no note. *Found*: an expected kind is among these, *first*: it
leads. *False*: a kind that is neither expected nor true, too. A healthy case expects nothing. Precision is the share of
the findings shown that are not false, recall that of the planted cases whose cause is shown.

Times depend on the machine; what is true of each case does not. Rules are not tuned to cases: where one is missed, the
assumption behind its rule is wrong, and the case stays.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tailrace

ROOM = Path(__file__).parent
HEALTHY = "healthy"
QUIET = ("note", "quality")
"""What a report says beside its findings (`finding.RANK`)."""
LIMIT_S = 240


@dataclass(frozen=True)
class Case:
    """A row of expected.tsv: expected is empty for a healthy one."""

    name: str
    expected: frozenset[str]
    also: frozenset[str]
    needs: tuple[str, ...]

    def missing(self) -> str:
        """What it needs that is not there; "": nothing."""
        absent = [name for name in self.needs if not shutil.which(name) and importlib.util.find_spec(name) is None]
        return ", ".join(absent)


@dataclass(frozen=True)
class Outcome:
    """The kinds of the findings that a report shows at first, in its order."""

    case: Case
    shown: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether the cause is shown, or a healthy one is quiet."""
        return bool(self.case.expected & set(self.shown)) if self.case.expected else not self.shown

    @property
    def false(self) -> tuple[str, ...]:
        """The kinds that are not true."""
        return tuple(kind for kind in self.shown if kind not in self.case.expected | self.case.also)


def cases() -> list[Case]:
    """The table."""
    found = []
    for line in (ROOM / "expected.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, expected, also, needs = [*line.split("\t"), "", ""][:4]
            kinds = frozenset() if expected == HEALTHY else _names(expected)
            found.append(Case(name, kinds, _names(also), tuple(sorted(_names(needs)))))
    return found


def _names(words: str) -> frozenset[str]:
    # The name of a kind may have a comma, with a space.
    return frozenset(filter(None, re.split(r",(?! )", words)))


def diagnose(case: Case, folder: Path) -> Outcome:
    """Runs a case in an empty folder.

    Raises:
        RuntimeError: it left no run, with what it printed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLUX_", "TAILRACE_", "SLURM_"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", "/usr/bin:/bin")))
    with (folder / "output").open("w+") as output:
        command = ["bash", str(ROOM / "cases" / f"{case.name}.sh")]
        how: dict[str, Any] = {"cwd": folder, "env": {**kept, "PATH": path}, "stdout": output, "stderr": output}
        subprocess.run(command, timeout=LIMIT_S, check=False, **how)
    if not (folder / "run").is_dir():
        raise RuntimeError(f"{case.name} left no run:\n{(folder / 'output').read_text()}")
    findings = tailrace.open(folder / "run").findings()
    return Outcome(case, tuple(one.kind for one in findings if not one.small and one.about not in QUIET))


def _outcomes(chosen: Sequence[Case], room: Path) -> Iterator[Outcome]:
    for case in chosen:
        if absent := case.missing():
            print(f"{case.name:28} skipped: no {absent}", flush=True)
            continue
        folder = room / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            one = diagnose(case, folder)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{case.name:28} failed: {error}", flush=True)
            continue
        first, *others = one.shown or ("-",)
        false = f"  FALSE: {', '.join(one.false)}" if one.false else ""
        mark = "" if one.found or not case.expected else "  MISSED"
        expected = ", ".join(sorted(case.expected)) or HEALTHY
        print(f"{case.name:28} {expected:24} {first:24} {', '.join(others)}{mark}{false}", flush=True)
        yield one


def totals(outcomes: Sequence[Outcome]) -> str:
    """The sums of a table."""
    planted = [one for one in outcomes if one.case.expected]
    healthy = [one for one in outcomes if not one.case.expected]
    shown = sum(len(one.shown) for one in outcomes)
    false = sum(len(one.false) for one in outcomes)
    found = sum(one.found for one in planted)
    first = sum(bool(one.shown) and one.shown[0] in one.case.expected for one in planted)
    quiet = sum(one.found for one in healthy)
    precision, recall = (shown - false) / max(shown, 1), found / max(len(planted), 1)
    return (
        f"precision {precision:.2f} ({false} of {shown} findings false), recall {recall:.2f} ({found} of {len(planted)}"
        f" causes shown, {first} first), {quiet} of {len(healthy)} healthy ones quiet"
    )


def main() -> None:
    """Runs the cases and prints the table."""
    parser = argparse.ArgumentParser(description="Run workflows with a known cause; see the head of this file.")
    parser.add_argument("-k", default="", metavar="TEXT", help="only cases with this text in their name")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the runs there")
    given = parser.parse_args()
    chosen = [case for case in cases() if given.k in case.name]
    with tempfile.TemporaryDirectory() as folder:
        print(totals(list(_outcomes(chosen, given.keep or Path(folder)))))


if __name__ == "__main__":
    main()
