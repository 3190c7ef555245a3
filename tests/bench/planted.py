"""Precision and recall of the findings about calls on the planted programs (tests/support/planted.py), a table.

    python tests/bench/planted.py

With DARSHAN_PREFIX (Darshan's library, built without MPI) and DRISHTI (the command of drishti-io) set, the issues that
Drishti names for the Darshan logs of the same program are beside them. Darshan without MPI writes a log for each
process, in a folder of the day below DARSHAN_LOGPATH. With DARSHAN_LOGFILE in its place the first process to end has
the only log, so that of a program that starts others is lost.
"""

import datetime
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tailrace
from support.commands import TAILRACE
from support.planted import KINDS, PROGRAMS, planted, source

MOST_LOGS = 8
"""Of a program of many processes, the largest."""


def found_kinds(name: str, place: Path) -> set[str]:
    """The findings that a program gets."""
    work = place / "work"
    work.mkdir()
    words = [*TAILRACE, "run", "-q", "-o", str(place / "run"), "--", *command(name)]
    subprocess.run(words, cwd=work, check=True)
    return {one.kind for one in tailrace.open(place / "run").findings() if one.kind in KINDS}


def command(name: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", source(name)]


_FILLING = re.compile(
    r"^Application (issues|is issuing|is|has)?\s*|a high number of |\([^)]*\)\s*|which represents [\d.]+% of .*"
)
_GENERAL = ("intensive", "low-performance interface", "mostly uses")
"""Words of what Drishti says of any program, or in praise."""


def drishti(name: str, place: Path) -> set[str]:
    """The issues that Drishti names for any process of a program."""
    prefix, drishti_command = os.environ.get("DARSHAN_PREFIX"), os.environ.get("DRISHTI")
    if not prefix or not drishti_command:
        return set()
    work, today = place / "darshan", datetime.date.today()
    work.mkdir()
    logs = place / "logs"
    (logs / f"{today.year}/{today.month}/{today.day}").mkdir(parents=True)
    library = Path(prefix) / "lib" / "libdarshan.so"
    # The interpreter's reads of its modules are nothing that a program was planted for.
    own = ",".join(f"^{prefix}/" for prefix in sorted({sys.prefix, sys.base_prefix}))
    (place / "darshan.conf").write_text(f"NAME_EXCLUDE {own} *\n")
    environment = {"LD_PRELOAD": str(library), "DARSHAN_ENABLE_NONMPI": "1", "DARSHAN_LOGPATH": str(logs)}
    environment["DARSHAN_CONFIG_PATH"] = str(place / "darshan.conf")
    done = subprocess.run(command(name), cwd=work, env={**os.environ, **environment}, check=False, capture_output=True)
    if done.returncode:
        return {"failed under Darshan"}
    issues: set[str] = set()
    some = sorted(logs.rglob("*.darshan"), key=lambda log: -log.stat().st_size)[:MOST_LOGS]
    for log in some:
        words = [drishti_command, "--issues", "--size", "250", str(log)]
        read = subprocess.run(words, capture_output=True, text=True, cwd=place, check=False)
        if read.returncode:
            issues.add("Drishti failed")
        found = re.findall(r"▶ (.*?)\s*│", read.stdout)
        named = (_FILLING.sub("", text) for text in found)
        issues.update(text.strip() for text in named if not any(word in text for word in _GENERAL))
    return issues or {"nothing" if some else "no log"}


def main() -> None:
    right = wrong = missed = 0
    print("| program | planted | found | Drishti |\n|---|---|---|---|")
    for name in PROGRAMS:
        wanted = planted(name)
        with tempfile.TemporaryDirectory() as place:
            found = found_kinds(name, Path(place))
            beside = drishti(name, Path(place))
        right, wrong, missed = right + len(found & wanted), wrong + len(found - wanted), missed + len(wanted - found)
        cells = (", ".join(sorted(kinds)) or "nothing" for kinds in (wanted, found))
        print(f"| {name} | {' | '.join(cells)} | {'; '.join(sorted(beside))} |", flush=True)
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    print(f"\nPrecision {precision:.2f}, recall {recall:.2f}: {right} right, {wrong} wrong, {missed} missed")


if __name__ == "__main__":
    main()
