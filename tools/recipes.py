#!/usr/bin/env python3
"""Fills the recipes of packaging/ in for one source distribution: its version, its SHA-256, the day.

    python tools/recipes.py dist/tailrace-0.1.0.tar.gz OUTPUT

A recipe is a file NAME.in, in which @version@, @sha256@ and @day@ (as Debian's changelogs have it) are replaced; other
files are copied. A release has them in one archive: a recipe that names a source which can't be checked is none.

OUTPUT/spack/repo is a repository of Spack, OUTPUT/debian goes into the unpacked source; docs/start.md has the rest.
"""

from __future__ import annotations

import argparse
import email.utils
import hashlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = {
    "spack/package.py.in": "spack/repo/spack_repo/tailrace/packages/tailrace/package.py",
    "spack/repo.yaml": "spack/repo/spack_repo/tailrace/repo.yaml",
    "easybuild/tailrace.eb.in": "easybuild/tailrace-@version@-gfbf-2025b.eb",
}
"""Where a recipe goes whose name or place its tool prescribes."""
KINDS = ("apptainer", "conda", "debian", "easybuild", "spack")
PLACEHOLDER = re.compile(r"@(version|sha256|day)@")


def values(sdist: Path) -> dict[str, str]:
    """What the placeholders stand for."""
    found = re.fullmatch(r"tailrace-([\d.]+)\.tar\.gz", sdist.name)
    if found is None:
        raise ValueError(f"{sdist} is not a source distribution: its name is not tailrace-VERSION.tar.gz")
    time = int(os.environ.get("SOURCE_DATE_EPOCH", sdist.stat().st_mtime))
    return {
        "version": found[1],
        "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "day": email.utils.formatdate(time),
    }


def filled(text: str, known: dict[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: known[found[1]], text)


def write(sdist: Path, output: Path) -> None:
    """All recipes for `sdist`, below `output`."""
    known = values(sdist)
    for kind in KINDS:
        for source in sorted(path for path in (ROOT / "packaging" / kind).rglob("*") if path.is_file()):
            name = str(source.relative_to(ROOT / "packaging"))
            place = output / filled(PLACES.get(name, name.removesuffix(".in")), known)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text()
            place.write_text(filled(text, known) if source.suffix == ".in" else text)
            place.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("output", type=Path)
    chosen = parser.parse_args()
    try:
        write(chosen.sdist, chosen.output)
    except (OSError, ValueError) as error:
        sys.exit(f"recipes.py: {error}")


if __name__ == "__main__":
    main()
