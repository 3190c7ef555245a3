"""A release without wheels is made whole, and its source distribution builds and traces.

The whole one takes long: CONTRIBUTING.md says how it is made, tests/unit/test_release.py how it is looked at.
"""

import importlib.util
import sys
import tarfile
from pathlib import Path

import pytest

import tailrace
from support.distribution import CLEAN, ROOT, step
from support.truth import read_run

NEEDED = ("build", "cyclonedx", "mkdocs", "mkdocstrings", "material", "click_man")


def test_a_dry_run_makes_all_but_the_wheels(tmp_path: Path) -> None:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"no {', '.join(missing)}: pip install '.[docs,release]'")
    said = step(sys.executable, ROOT / "tools/release.py", "--dry-run", "--output", tmp_path)
    version = tailrace.__version__
    assert f"tailrace {version} is in {tmp_path}" in said
    step("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    kinds = (".tar.gz", "-recipes.tar.gz", "-man.tar.gz", "-docs.tar.gz", ".cdx.json", "-notes.md")
    assert names == {f"tailrace-{version}{kind}" for kind in kinds} | {"SHA256SUMS"}
    with tarfile.open(tmp_path / f"tailrace-{version}-man.tar.gz") as pages:
        assert f"tailrace-{version}-man/man1/tailrace-run.1" in pages.getnames()
    with tarfile.open(tmp_path / f"tailrace-{version}-docs.tar.gz") as site:
        assert f"tailrace-{version}-docs/tracing.html" in site.getnames()


def test_the_source_distribution_has_every_file_of_the_clone(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    with tarfile.open(sdist) as archive:
        names = {entry.name.partition("/")[2] for entry in archive if not entry.isdir()}
    kept = {name for name in step("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / name).exists()}
    assert kept <= names


def test_the_source_distribution_builds_in_a_fresh_environment_and_traces(sdist: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    step(sys.executable, "-m", "venv", environment)
    # Optimized it takes twice as long, where no compiler's cache has the same files from the wheel of the clone.
    quick = [] if "CCACHE_DIR" in CLEAN else ["--config-settings", "cmake.build-type=Debug"]
    here = {**CLEAN, "TMPDIR": str(tmp_path), "CCACHE_BASEDIR": str(tmp_path)}
    step(environment / "bin/pip", "install", "--no-deps", *quick, sdist, cwd=tmp_path, env=here)
    command = environment / "bin/tailrace"
    said = step(command, "run", "-o", "run", "--", "sh", "-c", "echo words > out; cat out", cwd=tmp_path)
    assert said == "words\n"
    seen = read_run(tmp_path / "run")
    written = [event for event in seen.named("write") if (seen.path(event) or "").endswith("/out")]
    assert sum(event["args"]["ret"] for event in written) == len("words\n")
    shown = step(environment / "bin/python", "-c", "import tailrace; print(tailrace.__version__)", cwd=tmp_path)
    assert shown.strip() == tailrace.__version__
