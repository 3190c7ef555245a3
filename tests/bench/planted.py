"""Precision and recall of the findings about calls on the planted programs (tests/support/planted.py), a table.

    python tests/bench/planted.py

With DARSHAN_PREFIX (Darshan's library, built without MPI) and DRISHTI (the command of drishti-io) set, the number of
critical issues and warnings that Drishti reports for the Darshan log of the same program is beside them.
"""

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


def found_kinds(name: str, place: Path) -> set[str]:
    """The findings that a program gets."""
    work = place / "work"
    work.mkdir()
    words = [*TAILRACE, "run", "-q", "-o", str(place / "run"), "--", *command(name)]
    subprocess.run(words, cwd=work, check=True)
    return {one.kind for one in tailrace.open(place / "run").findings() if one.kind in KINDS}


def command(name: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", source(name)]


def drishti(name: str, place: Path) -> str:
    """Drishti's critical issues and warnings, "" where it or Darshan is absent or has no log."""
    prefix, program = os.environ.get("DARSHAN_PREFIX"), os.environ.get("DRISHTI")
    if not prefix or not program:
        return ""
    work = place / "darshan"
    work.mkdir()
    library = Path(prefix) / "lib" / "libdarshan.so"
    log = place / "log.darshan"
    environment = {"LD_PRELOAD": str(library), "DARSHAN_ENABLE_NONMPI": "1", "DARSHAN_LOGFILE": str(log)}
    subprocess.run(command(name), cwd=work, env={**os.environ, **environment}, check=False, capture_output=True)
    if not log.exists():
        return "no log"
    done = subprocess.run([program, str(log)], capture_output=True, text=True, cwd=work, check=False)
    found = {word: re.search(rf"(\d+) {word}", done.stdout) for word in ("critical", "warning")}
    counts = [f"{match[1] if match else 0} {word}" for word, match in found.items()]
    return ", ".join(counts) if done.returncode == 0 else "failed"


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
        print(f"| {name} | {' | '.join(cells)} | {beside} |", flush=True)
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    print(f"\nPrecision {precision:.2f}, recall {recall:.2f}: {right} right, {wrong} wrong, {missed} missed")


if __name__ == "__main__":
    main()
