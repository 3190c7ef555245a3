"""A release (tools/release.py): what it is refused for, what is in its archives and its bill of materials.

tests/integration/test_dry_release.py makes one without wheels. `TAILRACE_RELEASE=dist/tailrace-0.1.0 python -m pytest
tests/unit/test_release.py` reads one that was made.
"""

import datetime
import hashlib
import importlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

import tailrace

ROOT = Path(__file__).parents[2]
TIME = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
CHANGELOG = """# Changes

## Unreleased

## 1.2.0 (2026-02-03)

### Commands

- `tailrace new` is new.

## 1.1.0 (2026-01-02)

- First.
"""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("release")


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("cyclonedx")
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("sbom")


@pytest.fixture
def clone(tmp_path: Path, release: ModuleType) -> Path:
    """A clone with one commit."""
    root = tmp_path / "clone"
    (root / "core/python/tailrace").mkdir(parents=True)
    (root / "core/python/tailrace/__init__.py").write_text('"""Words."""\n\n__version__ = "1.2.0"\n')
    release.git(tmp_path, "init", "-q", "clone")
    commit(release, root, "first")
    return root


def commit(release: ModuleType, root: Path, words: str) -> None:
    release.git(root, "add", "-A")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    release.git(root, *who, "commit", "-q", "--allow-empty", "-m", words)


def test_the_version_is_the_one_that_python_has(release: ModuleType) -> None:
    assert release.version_of(ROOT) == tailrace.__version__


def test_a_changelog_section_ends_at_the_next_version(release: ModuleType) -> None:
    assert release.section(CHANGELOG, "1.2.0") == "### Commands\n\n- `tailrace new` is new."
    assert release.section(CHANGELOG, "1.1.0") == "- First."
    assert release.section(CHANGELOG, "Unreleased") == ""
    assert release.section(CHANGELOG, "1.0.0") is None
    assert release.changelog_faults(CHANGELOG, "1.2.0") == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("## 1.2.0 (2026-02-03)", "## 1.2.0", "no section with the heading `## 1.2.0 (YEAR-MONTH-DAY)`"),
        ("### Commands\n\n- `tailrace new` is new.\n", "", "nothing below it"),
        ("## Unreleased\n", "## Unreleased\n\n- More.\n", "changes below `## Unreleased`"),
    ],
)
def test_a_changelog_without_the_versions_section_is_refused(
    release: ModuleType, before: str, after: str, said: str
) -> None:
    (fault,) = release.changelog_faults(CHANGELOG.replace(before, after), "1.2.0")
    assert said in fault


def test_a_clean_clone_is_taken_with_and_without_its_tag(release: ModuleType, clone: Path) -> None:
    assert release.version_of(clone) == "1.2.0"
    assert release.tree_faults(clone, "1.2.0") == []
    release.git(clone, "tag", "v1.2.0")
    assert release.tree_faults(clone, "1.2.0") == []


def test_an_uncommitted_file_and_a_tag_of_another_commit_are_refused(release: ModuleType, clone: Path) -> None:
    release.git(clone, "tag", "v1.2.0")
    commit(release, clone, "second")
    (clone / "new.txt").write_text("")
    changed, tagged = release.tree_faults(clone, "1.2.0")
    assert "new.txt" in changed
    assert "another commit" in tagged


def test_an_archive_depends_on_its_files_alone(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "in/below").mkdir(parents=True)
    (tmp_path / "in/below/b").write_text("b")
    (tmp_path / "in/a").write_text("a")
    release.pack(tmp_path / "in", tmp_path / "one.tar.gz", 1_700_000_000)
    first = (tmp_path / "one.tar.gz").read_bytes()
    (tmp_path / "in/a").chmod(0o600)
    os.utime(tmp_path / "in/a", (1, 1))
    release.pack(tmp_path / "in", tmp_path / "one.tar.gz", 1_700_000_000)
    assert (tmp_path / "one.tar.gz").read_bytes() == first
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert archive.getnames() == ["one/a", "one/below", "one/below/b"]


def test_the_sums_are_those_that_sha256sum_takes(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug/x").write_text("x")
    (tmp_path / "y").write_text("y")
    release.write_sums(tmp_path)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "debug/x: OK\ny: OK\n"
    (tmp_path / "y").write_text("z")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_a_folder_with_files_is_refused(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    with pytest.raises(SystemExit, match="not empty"):
        release.fresh(tmp_path, replace=False)
    assert list(release.fresh(tmp_path, replace=True).iterdir()) == []


def test_the_bill_of_materials_names_each_bundled_library_with_its_exact_source(sbom: ModuleType) -> None:
    text = sbom.document("1.2.0", "c" * 40, TIME)
    assert text == sbom.document("1.2.0", "c" * 40, TIME)
    found = json.loads(text)
    assert found["metadata"]["component"]["version"] == "1.2.0"
    parts = {part["name"]: part for part in found["components"]}
    for name in ("GOTCHA", "ISA-L", "nanobind", "robin-map", "libc++"):
        (source,) = (link for link in parts[name]["externalReferences"] if link["type"] == "source-distribution")
        assert re.fullmatch(r"pkg:pypi/[\w-]+@[\d.]+", source["url"])
        assert re.fullmatch("[0-9a-f]{64}", source["hashes"][0]["content"])
    assert parts["pyarrow"]["properties"] == [{"name": "tailrace:requirement", "value": "pyarrow>=15"}]
    (needed,) = (row["dependsOn"] for row in found["dependencies"] if row["ref"] == "tailrace")
    assert set(needed) == {part["bom-ref"] for part in found["components"]}


def test_the_bundled_libraries_are_those_that_the_wheels_are_built_from(sbom: ModuleType) -> None:
    recipe = ROOT / "packaging/wheels"
    pins = "\n".join((recipe / name).read_text() for name in ("sources.txt", "tools.txt", "python.txt"))
    sources = dict(re.findall(r"^(\S+==\S+)  ([0-9a-f]{64})", pins, re.MULTILINE))
    licences = (ROOT / "core/licenses/README.md").read_text()
    for library in sbom.bundled():
        assert re.search(rf"^{re.escape(library.carrier)}\b", pins, re.MULTILINE), library.carrier
        assert sources.get(library.carrier, library.sha256) == library.sha256, library.name
        assert library.name in licences, library.name
    assert set(sources) <= {library.carrier for library in sbom.bundled()}


@pytest.fixture
def made() -> Path:
    folder = os.environ.get("TAILRACE_RELEASE")
    if folder is None:
        pytest.skip("TAILRACE_RELEASE names no release: python tools/release.py makes one")
    return Path(folder)


def test_the_release_that_was_made_is_whole(made: Path) -> None:
    version = tailrace.__version__
    listed = dict(line.split("  ")[::-1] for line in (made / "SHA256SUMS").read_text().splitlines())
    assert {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in listed} == listed
    kinds = (".tar.gz", "-recipes.tar.gz", "-man.tar.gz", "-docs.tar.gz", ".cdx.json", "-notes.md")
    assert {f"tailrace-{version}{kind}" for kind in kinds} <= set(listed)
    wheels = {name for name in listed if name.endswith(".whl")}
    assert len(wheels) == 6, wheels
    debug = {name for name in listed if name.startswith("debug/")}
    assert len(debug) == len(wheels), debug
