"""A release without wheels is made whole, and its source distribution builds and traces.

The whole one takes long: CONTRIBUTING.md says how it is made, tests/unit/test_release.py how it is looked at.
"""

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import tailrace
from support.truth import read_run

ROOT = Path(__file__).parents[2]
NEEDED = ("build", "cyclonedx", "mkdocs", "mkdocstrings", "material", "click_man")


def step(*command: str | Path, **options: object) -> str:
    """Runs a command; what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(words)}\n{(done.stdout + done.stderr)[-4000:]}"
    return str(done.stdout)


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
        assert f"tailrace-{version}-docs/user-guide.html" in site.getnames()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("sdist")
    step(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    return folder / f"tailrace-{tailrace.__version__}.tar.gz"


def test_the_source_distribution_has_every_file_of_the_clone(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    with tarfile.open(sdist) as archive:
        names = {entry.name.partition("/")[2] for entry in archive if not entry.isdir()}
    kept = {name for name in step("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / name).exists()}
    assert kept <= names


def test_the_source_distribution_builds_in_a_fresh_environment_and_traces(sdist: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "PYTHON", "LD_"))}
    step(sys.executable, "-m", "venv", environment, env=clean)
    # Optimized it takes twice as long.
    quick = ["--config-settings", "cmake.build-type=Debug"]
    step(environment / "bin/pip", "install", "--no-deps", *quick, sdist, env=clean, cwd=tmp_path)
    command = environment / "bin/tailrace"
    said = step(command, "run", "-o", "run", "--", "sh", "-c", "echo words > out; cat out", env=clean, cwd=tmp_path)
    assert said == "words\n"
    seen = read_run(tmp_path / "run")
    written = [event for event in seen.named("write") if (seen.path(event) or "").endswith("/out")]
    assert sum(event["args"]["ret"] for event in written) == len("words\n")
    shown = step(
        environment / "bin/python", "-c", "import tailrace; print(tailrace.__version__)", env=clean, cwd=tmp_path
    )
    assert shown.strip() == tailrace.__version__
