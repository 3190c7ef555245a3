"""Test suites of other projects, untraced and under `tailrace run`: a table of what differs.

    python tests/suites/foreign.py [stress-ng redis ...] [--unit WORD ...] [--rounds 2] [--ltp DIR] [--work DIR]

Nothing is fetched but packages of Debian, source and binary (as of the machine's own sources, without writing to
them), of PyPI and of crates.io; programs that a suite uses installed are named if missing. LTP is in no registry:
`--ltp` names its installation (`make install`). What was built stays in `--work`, so that the second time takes the
tests' own time.

The suites: `suite_table.py`. How results are compared: `results.py`. A unit runs with the same words, in the same
folder, in both ways. The exit code is 1 if something differs each time.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from results import Results, Unit, environment, note_result, parsed, run_words, table
from suite_table import SUITES, Debian, Given, Installed, Packages, Suite, Wheels, Words

import tailrace

TIMEOUT_S = 600


class Missing(Exception):
    """What a suite needs isn't here."""


@dataclass(frozen=True)
class Place:
    """Where suites are got, built and run, and the directories that options name."""

    work: Path
    given: dict[str, Path | None]


def main(arguments: Sequence[str]) -> int:
    """Runs the suites, prints the table and the differences; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=" ".join(SUITES))
    parser.add_argument("--unit", nargs="+", default=[], help="only units whose names begin so")
    parser.add_argument("--rounds", type=int, default=2, help="how often a unit that differs is run")
    parser.add_argument("--ltp", type=Path, help="LTP's installation")
    parser.add_argument("--work", type=Path, help="a directory for sources, builds and output, which stay there")
    given = parser.parse_args(arguments)
    work = (given.work or Path(tempfile.mkdtemp(prefix="suites-"))).resolve()
    place = Place(work, {"--ltp": given.ltp and given.ltp.resolve()})
    try:
        return table("suite", groups(place, given.suites or list(SUITES), tuple(given.unit)), given.rounds)
    except Missing as missing:
        print(f"foreign.py: {missing}", file=sys.stderr)
        return 2
    finally:
        if given.work is None:
            shutil.rmtree(work)


def groups(place: Place, names: Sequence[str], wanted: tuple[str, ...]) -> Iterator[tuple[str, list[Unit]]]:
    """A row for each suite, got and built when its turn comes."""
    for name in names:
        suite = SUITES[name]
        if isinstance(suite.source, Given) and place.given[suite.source.option] is None:
            print(f"{name}: left out without {suite.source.option}", flush=True)
            continue
        tree, version = get(place, suite.source)
        units = [
            Unit(unit, partial(run, suite, tree, place.work / "units" / name / re.sub(r"\W+", "-", unit), unit, words))
            for unit, words in suite.units(tree)
            if not wanted or unit.startswith(wanted)
        ]
        yield f"{name} {version}", units


def get(place: Place, source: Debian | Installed | Packages | Wheels | Given) -> tuple[Path, str]:
    """A suite's tree and version."""
    if isinstance(source, Debian):
        return debian_source(place.work, source)
    if isinstance(source, Packages):
        return packages(place.work, source)
    if isinstance(source, Wheels):
        return wheels(place.work, source)
    if isinstance(source, Given):
        tree = place.given[source.option]
        assert tree is not None
        return tree, (tree / source.version).read_text().strip()
    if not shutil.which(source.version[0], path=environment()["PATH"]) and not Path(source.version[0]).exists():
        raise Missing(f"{source.version[0]} is missing: install it")
    told = subprocess.run(source.version, capture_output=True, text=True, check=True).stdout
    numbers = re.search(r"\d[\w.]*", told)
    return place.work, numbers[0] if numbers else ""


def debian_source(work: Path, source: Debian) -> tuple[Path, str]:
    """Unpacks and builds a source package. Of the release itself: mirrors may lack the sources of later updates."""
    folder = work / "src" / source.package
    built = folder / "built"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not trees(folder):
            release = platform.freedesktop_os_release()["VERSION_CODENAME"]
            settings = apt_settings(work)
            must(["apt-get", "-q", *settings, "update"], folder)
            must(["apt-get", "-q", *settings, "source", f"{source.package}/{release}"], folder)
        must(["sh", "-c", source.build], trees(folder)[0])
        built.touch()
    tree = trees(folder)[0]
    return tree, tree.name.rpartition("-")[2]


def packages(work: Path, source: Packages) -> tuple[Path, str]:
    """Unpacks binary packages and what they need that isn't installed, and builds in the folder."""
    name = source.packages[0]
    archives, folder = work / "archives" / name, work / "packages" / name
    if not (folder / "unpacked").exists():
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        settings = [*apt_settings(work), "-o", f"Dir::Cache::archives={archives}", "-o", "Debug::NoLocking=true"]
        must(["apt-get", "-q", *settings, "update"], folder)
        alone = ["--yes", "--download-only", "--no-install-recommends", "--reinstall"]
        must(["apt-get", "-q", *settings, "install", *alone, *source.packages], folder)
        for archive in sorted(archives.glob("*.deb")):
            must(["dpkg-deb", "-x", str(archive), str(folder)], folder)
        (folder / "unpacked").touch()
    own = next(archives.glob(f"{name}_*.deb")).name.split("_")[1]
    version = source.version or re.sub(r"^.*%3a|[^\d.].*", "", own)
    built = folder / f"built-{version}"
    if not built.exists():
        must(["sh", "-c", source.build], folder)
        built.touch()
    return folder, version


def trees(folder: Path) -> list[Path]:
    """The unpacked package in a folder, if it's there."""
    return [path for path in folder.iterdir() if path.is_dir()]


def apt_settings(work: Path) -> list[str]:
    """Options of apt-get by which it knows the sources of the machine's own packages, with lists of its own."""
    apt = work / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "parts").mkdir(exist_ok=True)
    for own in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if own.suffix in (".list", ".sources") and own.exists():
            text = re.sub(r"^Types: deb$", "Types: deb deb-src", own.read_text(), flags=re.MULTILINE)
            text = re.sub(r"^deb (.*)$", r"deb \1\ndeb-src \1", text, flags=re.MULTILINE)
            (apt / "parts" / own.name).write_text(text)
    chosen = {"Etc::SourceList": "/dev/null", "Etc::SourceParts": apt / "parts", "State::Lists": apt / "lists"}
    return [word for name, value in chosen.items() for word in ("-o", f"Dir::{name}={value}")]


def wheels(work: Path, source: Wheels) -> tuple[Path, str]:
    """Installs wheels into a folder, for the interpreter that runs this, and unpacks the first one's sources there."""
    first = re.split(r"\W", source.requirements[0])[0]
    folder = work / "wheels" / first
    if not (folder / "built").exists():
        pip = [sys.executable, "-m", "pip", "-q"]
        must([*pip, "install", "--only-binary", ":all:", "--target", str(folder), *source.requirements], work)
        if source.sources:
            sources = folder / "sources"
            sources.mkdir(exist_ok=True)
            exactly = f"{first}=={wheel_version(folder, first)}"
            must([*pip, "download", "--no-deps", "--no-binary", first, "-d", str(sources), exactly], work)
            archive = next(sources.glob("*.tar.gz"))
            must(["tar", "-xf", str(archive), "-C", str(sources), "--strip-components=1"], work)
        (folder / "built").touch()
    return folder, wheel_version(folder, first)


def wheel_version(folder: Path, name: str) -> str:
    """The version of a distribution that is installed in a folder."""
    return next(folder.glob(f"{name}-*.dist-info")).stem.partition("-")[2]


def must(words: Sequence[str], where: Path) -> None:
    """Runs a command that gets or builds a suite, its output in a file of that folder."""
    log = where / "suite.log"
    with log.open("a") as output:
        done = subprocess.run(words, cwd=where, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    if done.returncode:
        raise Missing(f"`{' '.join(words)}` failed with exit code {done.returncode}: see {log}")


def run(suite: Suite, tree: Path, folder: Path, name: str, words: Words, traced: bool) -> Results:
    """Runs a unit in its empty folder, or the tree's. Its output stays beside the folder, the trace does not."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)  # A unit that was killed may have left a mount there.
    trace = folder.with_name(f"{folder.name}.run")
    shutil.rmtree(trace, ignore_errors=True)
    whole = [word.replace("{tree}", str(tree)).replace("{folder}", str(folder)) for word in words]
    xml = folder.with_name(f"{folder.name}.xml")
    xml.unlink(missing_ok=True)
    if suite.junit:
        whole += ["--junit-xml", str(xml)]
    if traced:
        command = Path(sys.executable).with_name("tailrace")
        whole = [str(command), "run", "-q", "-o", str(trace), "--", *whole]
    where = folder if suite.where is None else tree / suite.where
    output = folder.with_name(f"{folder.name}.{'traced' if traced else 'plain'}.output")
    end = run_words(whole, where, {**environment(), "TMPDIR": str(folder)}, output, TIMEOUT_S)
    text = output.read_text(errors="replace")
    tests = junit(xml) if suite.junit else parsed(suite.result, text) if suite.result else {}
    if not tests:
        skipped = suite.skipped and suite.skipped.search(text)
        tests = {name: "not ok" if end != "exit code 0" else "skipped" if skipped else "ok"}
    if not traced:
        return Results(tests, end)
    if not (trace / "run.json").exists():
        return Results(tests, end, 0, frozenset({"no run"}))
    opened = tailrace.open(trace)
    lost = frozenset(str(row[1]) for row in opened.loss_rows())
    processes = int(opened.info()["processes"])
    shutil.rmtree(trace)
    return Results(tests, end, processes, lost)


def junit(path: Path) -> dict[str, str]:
    """The tests in a report in JUnit's form; none if it was not written."""
    tests: dict[str, str] = {}
    if path.exists():
        for case in ElementTree.parse(path).iter("testcase"):
            kinds = {child.tag for child in case}
            result = "not ok" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "ok"
            note_result(tests, f"{case.get('classname', '')} {case.get('name')}", result)
    return tests


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
