"""What is installed: every package and every data file of the repository's table of packages."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest

import tailrace
from tailrace import installation

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "pyproject.toml").read_text().split("[tool.scikit-build.wheel.packages]\n")[1].split("\n\n")[0]
PACKAGES = dict(re.findall(r'^"([\w/]+)" = "([\w/-]+)"$', TABLE, re.MULTILINE))


def modules() -> list[str]:
    """The modules of the table, by their folders."""
    found = []
    for package, folder in PACKAGES.items():
        for file in (ROOT / folder).rglob("*.py"):
            path = Path(package) / file.relative_to(ROOT / folder).with_suffix("")
            found.append(".".join(path.parts[:-1] if path.name == "__init__" else path.parts))
    return sorted(found)


@pytest.mark.parametrize("name", modules())
def test_a_module_is_installed(name: str) -> None:
    if name.startswith("tailrace.parsl"):
        pytest.importorskip("parsl")
    assert importlib.util.find_spec(name) is not None


def test_every_package_of_the_repository_is_in_the_table() -> None:
    packages = {file.parent.relative_to(ROOT) for file in ROOT.glob("*/**/__init__.py")}
    folders = [Path(folder) for folder in PACKAGES.values()]
    apart = {"build", "tests", "tools", "docs", "workflows"}
    unlisted = [
        package
        for package in packages
        if not (package.parts[0] in apart or package.parts[0].startswith("."))
        and not any(folder in (package, *package.parents) for folder in folders)
    ]
    assert not unlisted


@pytest.mark.parametrize("folder", sorted(PACKAGES))
def test_data_files_are_installed(folder: str) -> None:
    source = ROOT / PACKAGES[folder]
    spec = importlib.util.find_spec(folder.replace("/", "."))
    assert spec is not None and spec.origin is not None
    place = Path(spec.origin).parent
    data = [file for file in source.rglob("*") if file.suffix in {".css", ".j2", ".js", ".json", ".pyi", ".typed"}]
    assert [file for file in data if not (place / file.relative_to(source)).is_file()] == []


def test_the_compiled_files_are_installed() -> None:
    for name in ("lib/libtailrace.so", "include/tailrace/tailrace.h"):
        assert (installation.PACKAGE / name).is_file()
    assert tailrace.__version__ == importlib.metadata.version("tailrace")
