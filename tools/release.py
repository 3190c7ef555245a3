#!/usr/bin/env python3
"""Makes a release: everything that is published of a version, in one folder.

    python tools/release.py                  into dist/tailrace-VERSION
    python tools/release.py --dry-run        all but the wheels, into build/release; says what would refuse a release

The folder has the portable wheels and their debug information (tools/wheels.py, which says what it needs), the source
distribution, recipes of package managers for it (tools/recipes.py), man pages, the documentation's site, the bill of
materials (tools/sbom.py), the section of CHANGELOG.md, and SHA256SUMS over all of them.
Needs `pip install -e '.[docs,release]'`.

The version is in core/python/tailrace/__init__.py alone. A release is refused where CHANGELOG.md has no section of that
version with its date, where something is uncommitted, or where the version has a tag at another commit. What is made
here of text has the time of the commit in it: a second run gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(__file__).resolve().parent
HEADING = re.compile(
    r"^## (?P<version>\d+\.\d+\.\d+) \((?P<date>\d{4}-\d{2}-\d{2})\)$|^## (?P<other>.*)$", re.MULTILINE
)
MODULES = ("build", "cyclonedx", "mkdocs", "click_man")
"""What a release needs beside tailrace itself."""


def fail(words: str) -> NoReturn:
    sys.exit(f"release.py: {words}")


def run(*command: str | Path) -> None:
    """A step, whose output is shown; its failure ends the release."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(words)} ended with {done.returncode}")


def git(root: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", root, *command], check=True, capture_output=True, text=True).stdout.strip()


def version_of(root: Path) -> str:
    """The version, from its one place."""
    text = (root / "core/python/tailrace/__init__.py").read_text()
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError('core/python/tailrace/__init__.py has no line __version__ = "MAJOR.MINOR.PATCH"')
    return found[1]


def section(changelog: str, name: str) -> str | None:
    """What CHANGELOG.md says below the heading of a version, or of `Unreleased`; None where it has no such heading."""
    headings = list(HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if name == heading["version"] or name == heading["other"] == "Unreleased":
            end = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
            return changelog[heading.end() : end].strip()
    return None


def changelog_faults(changelog: str, version: str) -> list[str]:
    """What CHANGELOG.md lacks for a release."""
    faults = []
    if not section(changelog, version):
        faults.append(
            f"CHANGELOG.md has no section with the heading `## {version} (YEAR-MONTH-DAY)`, or nothing below it"
        )
    if section(changelog, "Unreleased"):
        faults.append(
            f"CHANGELOG.md has changes below `## Unreleased`: move them below `## {version} (YEAR-MONTH-DAY)`"
        )
    return faults


def tree_faults(root: Path, version: str) -> list[str]:
    """What is wrong with the clone for a release."""
    faults = []
    if changed := git(root, "status", "--porcelain").splitlines():
        shown = ", ".join(line.split(maxsplit=1)[1] for line in changed[:5])
        faults.append(f"{len(changed)} files are changed or new, and not committed: {shown}: commit or remove them")
    if git(root, "tag", "--list", f"v{version}"):
        tagged, here = git(root, "rev-parse", f"v{version}^{{commit}}"), git(root, "rev-parse", "HEAD")
        if tagged != here:
            faults.append(
                f"v{version} is the tag of another commit, {tagged[:12]}: raise __version__ in "
                "core/python/tailrace/__init__.py"
            )
    return faults


def pack(folder: Path, archive: Path, at: int) -> None:
    """A .tar.gz of a folder, whose bytes depend on the files alone: sorted, without owners, with one time."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = at
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    top = archive.name.removesuffix(".tar.gz")
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=at) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, f"{top}/{path.relative_to(folder)}", recursive=False, filter=plain)


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all files in the folder, as sha256sum --check reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def make_texts(folder: Path, version: str) -> None:
    """Man pages, the site, the bill of materials and the notes."""
    sbom = importlib.import_module("sbom")
    commit, time = sbom.commit_and_time()
    at = int(time.timestamp())
    run(sys.executable, TOOLS / "command_files.py", "--check")
    pack(ROOT / "cli/share/man", folder / f"tailrace-{version}-man.tar.gz", at)
    with tempfile.TemporaryDirectory() as site:
        run(sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", site)
        pack(Path(site), folder / f"tailrace-{version}-docs.tar.gz", at)
    (folder / f"tailrace-{version}.cdx.json").write_text(sbom.document(version, commit, time))
    changelog = (ROOT / "CHANGELOG.md").read_text()
    notes = section(changelog, version) or section(changelog, "Unreleased") or ""
    (folder / f"tailrace-{version}-notes.md").write_text(f"# tailrace {version}\n\n{notes}\n")


def make(folder: Path, version: str, wheels: Sequence[str] | None) -> None:
    """Everything, into the folder; `wheels` are options of wheels.py, or None for no wheels."""
    make_texts(folder, version)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder)
    if not (folder / f"tailrace-{version}.tar.gz").exists():
        fail(f"the build made no tailrace-{version}.tar.gz in {folder}: it takes the version from another place")
    with tempfile.TemporaryDirectory() as recipes:
        run(sys.executable, TOOLS / "recipes.py", folder / f"tailrace-{version}.tar.gz", recipes)
        pack(Path(recipes), folder / f"tailrace-{version}-recipes.tar.gz", int(git(ROOT, "log", "-1", "--format=%ct")))
    if wheels is not None:
        run(sys.executable, TOOLS / "wheels.py", "--output", folder, *wheels)
    write_sums(folder)


def fresh(folder: Path, *, replace: bool) -> Path:
    """The folder, empty. One with files in it is replaced, or refused."""
    if folder.exists() and any(folder.iterdir()):
        if not replace:
            fail(f"{folder} is not empty: remove it, or name another by --output")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="make no wheels, and refuse nothing")
    parser.add_argument("--output", type=Path, help="the folder, which must be empty")
    parser.add_argument(
        "wheels", nargs="*", metavar="OPTION", help="after --: options of wheels.py, to try it with fewer"
    )
    chosen = parser.parse_args()
    for module in MODULES:
        if importlib.util.find_spec(module) is None:
            fail(f"no module {module}: pip install -e '.[docs,release]'")
    version = version_of(ROOT)
    faults = changelog_faults((ROOT / "CHANGELOG.md").read_text(), version) + tree_faults(ROOT, version)
    if faults and not chosen.dry_run:
        fail("\n  ".join([f"{version} can't be released:", *faults]))
    if chosen.dry_run and chosen.output is None:
        folder = fresh(ROOT / "build" / "release", replace=True)
    else:
        folder = fresh(chosen.output or ROOT / "dist" / f"tailrace-{version}", replace=False)
    make(folder, version, None if chosen.dry_run else chosen.wheels)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{path.stat().st_size:>11,} bytes  {path.relative_to(folder)}")
    print(f"tailrace {version} is in {folder}")
    for fault in faults:
        print(f"a release would be refused: {fault}")


if __name__ == "__main__":
    main()
