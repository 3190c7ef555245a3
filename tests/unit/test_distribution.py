"""What is installed: every package and every data file of the repository's table of packages."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace import installation
from tailrace.integrations import managers
from tailrace.managers import ADAPTERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "pyproject.toml").read_text().split("[tool.scikit-build.wheel.packages]\n")[1].split("\n\n")[0]
MANAGERS = ("cwltool", "distributed", "flux", "luigi", "parsl", "snakemake")
PACKAGES = dict(re.findall(r'^"([\w/]+)" = "([\w/-]+)"$', TABLE, re.MULTILINE))


def inside(folder: Path) -> set[Path]:
    """The folders in `folder` that are packages of their own."""
    return {ROOT / other for other in PACKAGES.values() if folder in (ROOT / other).parents}


def files(folder: Path, *suffixes: str) -> list[Path]:
    """A package's files, by their endings."""
    others = inside(folder)
    return [file for file in folder.rglob("*") if file.suffix in suffixes and others.isdisjoint(file.parents)]


def modules() -> list[str]:
    """The modules of the table, by their folders."""
    found = []
    for package, folder in PACKAGES.items():
        for file in files(ROOT / folder, ".py"):
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


def test_a_package_in_the_folder_of_another_one_is_installed_once() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    excluded = tuple(settings["wheel"]["exclude"])
    for folder in (ROOT / name for name in PACKAGES.values()):
        assert all(f"/{other.relative_to(folder)}/".startswith(excluded) for other in inside(folder))


def test_every_adapter_is_checked_like_the_others() -> None:
    """What pyproject.toml lists by name: the contract of imports, and what coverage measures."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    contracts = settings["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one.get("containers") == ["tailrace"])
    assert layers[1].split(" : ") == list(ADAPTERS)
    measured = {package.replace("/", ".") for package in PACKAGES if package.startswith("tailrace")}
    assert set(settings["coverage"]["run"]["source_pkgs"]) == measured


def test_every_adapter_is_listed_by_tailrace_managers() -> None:
    parts = {"analyzer", "cli", "integrations"}
    adapters = {package.partition("/")[2] for package in PACKAGES if package.startswith("tailrace/")} - parts
    assert set(ADAPTERS) == adapters
    for name in adapters:
        manager = managers.ours(name)
        assert managers.state(manager.tested[1], manager.tested) == "ready", "the oldest is behind the newest"


@pytest.mark.parametrize("name", [name for name, row in ADAPTERS.items() if row.loads])
def test_the_file_that_a_manager_loads_is_installed(name: str) -> None:
    spec = importlib.util.find_spec(f"tailrace.{name}")
    assert spec is not None and spec.origin is not None
    assert (Path(spec.origin).parent / ADAPTERS[name].loads).is_file()


def test_no_adapter_hides_its_manager() -> None:
    """In an editable installation the folder around a module at the top is in sys.path, with all that is in it."""
    for name in (name for name in PACKAGES if not name.startswith("tailrace")):
        beside = {path.parent.name for path in (ROOT / PACKAGES[name]).parent.glob("*/__init__.py")}
        assert beside <= set(PACKAGES)


@pytest.mark.parametrize("package", sorted(name for name in PACKAGES if name.startswith("tailrace")))
def test_a_package_loads_without_its_manager(package: str) -> None:
    """It is looked at where its manager is not installed: `tailrace managers`, the table of this installation. A module
    beside the package, which only its manager looks for, may need it."""
    name = package.replace("/", ".")
    code = "import sys; sys.modules.update(dict.fromkeys(sys.argv[2:])); __import__(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, name, *MANAGERS], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", sorted(PACKAGES))
def test_data_files_are_installed(folder: str) -> None:
    source = ROOT / PACKAGES[folder]
    spec = importlib.util.find_spec(folder.replace("/", "."))
    assert spec is not None and spec.origin is not None
    place = Path(spec.origin).parent
    data = files(source, ".css", ".j2", ".js", ".json", ".pyi", ".typed")
    assert [file for file in data if not (place / file.relative_to(source)).is_file()] == []


def test_the_compiled_files_are_installed() -> None:
    for name in (
        "lib/libtailrace.so",
        "lib/libtailrace-plugin.so",
        "include/tailrace/tailrace.h",
        "include/tailrace/plugin.h",
    ):
        assert (installation.PACKAGE / name).is_file()
    assert tailrace.__version__ == importlib.metadata.version("tailrace")
