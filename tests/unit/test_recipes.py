"""The recipes of packaging/ (tools/recipes.py): what they want is what pyproject.toml wants, and all are filled in.

tests/integration/test_package_managers.py gives them to their package managers.
"""

import hashlib
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = {re.split(r"[\[>]", text)[0]: text.split(">=")[1] for text in PROJECT["project"]["dependencies"]}
"""Package -> the least version."""
BUILD = {text.split(">=")[0]: text.split(">=")[1] for text in PROJECT["build-system"]["requires"] if ">=" in text}


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("recipes")


@pytest.fixture
def filled(recipes: ModuleType, tmp_path: Path) -> Path:
    """The recipes for something that has the name of a source distribution."""
    sdist = tmp_path / "tailrace-1.2.3.tar.gz"
    sdist.write_bytes(b"sources")
    recipes.write(sdist, tmp_path / "recipes")
    return tmp_path / "recipes"


def test_each_recipe_has_the_version_and_hash_of_the_source(filled: Path) -> None:
    digest = hashlib.sha256(b"sources").hexdigest()
    for name in (
        "spack/repo/spack_repo/tailrace/packages/tailrace/package.py",
        "easybuild/tailrace-1.2.3-gfbf-2025b.eb",
        "conda/recipe.yaml",
    ):
        text = (filled / name).read_text()
        assert "1.2.3" in text and digest in text, name
    assert (filled / "debian/changelog").read_text().startswith("tailrace (1.2.3-1) ")
    assert "tailrace[parsl,store]==1.2.3" in (filled / "apptainer/tailrace.def").read_text()


def test_nothing_is_left_to_fill_in(recipes: ModuleType, filled: Path) -> None:
    files = [path for path in filled.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if recipes.PLACEHOLDER.search(path.read_text()) or path.suffix == ".in"] == []


def test_what_is_run_by_a_package_manager_is_executable(filled: Path) -> None:
    for name in ("rules", "tests/record"):
        assert (filled / "debian" / name).stat().st_mode & 0o111, name


def test_a_file_of_another_name_is_refused(recipes: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tailrace-VERSION\.tar\.gz"):
        recipes.values(tmp_path / "main.zip")


def test_spacks_package_wants_what_the_project_wants() -> None:
    text = (ROOT / "packaging/spack/package.py.in").read_text()
    wants = dict(re.findall(r'depends_on\("py-([\w-]+)@([\d.]+):', text))
    assert wants == {**RUN, **BUILD}
    assert f"python@{PROJECT['project']['requires-python'].removeprefix('>=')}:" in text


def test_condas_recipe_wants_what_the_project_wants() -> None:
    text = (ROOT / "packaging/conda/recipe.yaml.in").read_text()
    wants = dict(re.findall(r"^ +- ([\w-]+) >=([\d.]+)$", text, re.MULTILINE))
    least = wants.pop("cmake")
    assert PROJECT["tool"]["scikit-build"]["cmake"]["version"] == f">={least}"
    wants["dask"] = wants.pop("dask-core")
    assert wants == {**RUN, **BUILD}
    assert f'python, "<{PROJECT["project"]["requires-python"].removeprefix(">=")}"' in text


def test_easybuilds_recipe_has_a_module_of_what_the_project_wants() -> None:
    text = (ROOT / "packaging/easybuild/tailrace.eb.in").read_text()
    modules = {name.lower() for name in re.findall(r"^    \('([\w-]+)', '", text, re.MULTILINE)}
    # The bundle of PyPI has click, jinja2 and rich; that of SciPy numpy and pandas; Arrow's has pyarrow.
    bundled = {"click", "jinja2", "rich", "numpy", "pandas", "pyarrow"}
    assert {name.lower() for name in {**RUN, **BUILD}} - bundled <= modules
    assert {"python-bundle-pypi", "scipy-bundle", "arrow"} <= modules


def test_recipes_download_nothing_in_a_build() -> None:
    for name in ("spack/package.py.in", "easybuild/tailrace.eb.in", "conda/recipe.yaml.in", "debian/rules"):
        text = (ROOT / "packaging" / name).read_text()
        assert re.search(r'TAILRACE_GOTCHA_DOWNLOAD(": "|=)OFF', text), name
