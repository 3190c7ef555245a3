"""Files that are made from the code: written, or with `--check` compared."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]


def write_or_check(wanted: Mapping[Path, str], present: Iterable[Path] = ()) -> int:
    """Writes the files and removes those of `present` that are not wanted; returns the tool's exit code.

    With `--check` as the tool's argument it only names what is out of date, and returns 1 if anything is.
    """
    stale = {path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text}
    extra = set(present) - set(wanted)
    if sys.argv[1:] == ["--check"]:
        for path in sorted(stale | extra):
            where = path.resolve().relative_to(SOURCE)
            print(f"{where} is out of date: run python tools/{Path(sys.argv[0]).name}", file=sys.stderr)
        return int(bool(stale or extra))
    for path in extra:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0
