"""Portable wheels (tools/wheels.py): what belongs into one, and where its libraries are from.

Making them takes minutes and the network. `TAILRACE_WHEELS=dist python -m pytest tests/unit/test_wheels.py` reads those
that were made.
"""

import importlib
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import tailrace

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging/wheels"
LICENCES = (ROOT / "core/licenses/README.md").read_text()
NAME = re.compile(r"tailrace-([\d.]+)-cp(3)(\d+)-\w+-manylinux_2_28_(\w+)\.whl")


def lines_of(name: str) -> list[str]:
    return [line for line in (RECIPE / name).read_text().splitlines() if not line.startswith("#")]


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("wheels")


@pytest.mark.parametrize("line", lines_of("sources.txt"))
def test_bundled_sources_are_named_with_their_hash(line: str) -> None:
    package, digest, _ = line.split()
    assert re.fullmatch(r"\w+==[\d.]+", package) and re.fullmatch("[0-9a-f]{64}", digest)
    assert f"`{package}`" in LICENCES
    assert digest in LICENCES


def test_what_a_wheel_is_built_with_has_one_version_and_the_compiler_is_named() -> None:
    tools = [*lines_of("tools.txt"), *lines_of("python.txt")]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", tool) for tool in tools), tools
    (compiler,) = (tool for tool in tools if tool.startswith("ziglang"))
    assert f"`{compiler}`" in LICENCES


def planted(folder: Path, version: str, wheels: ModuleType, without: str, extra: str) -> Path:
    """A file with the names of a wheel."""
    made = folder / f"tailrace-1-cp312-abi3-manylinux_2_{35 if without == 'glibc' else 28}_x86_64.whl"
    licences = [*(file.name for file in (ROOT / "core/licenses").iterdir()), "LICENSE"]
    names = [f"tailrace/{name}" for name in wheels.compiled_files(version, "x86_64") if name != "tailrace"]
    names += ["tailrace-1.data/scripts/tailrace", *(f"tailrace-1.dist-info/licenses/{name}" for name in licences)]
    with zipfile.ZipFile(made, "w") as archive:
        for name in [*names, *([extra] if extra else [])]:
            if Path(name).name != without:
                archive.writestr(name, "")
    return made


@pytest.mark.parametrize(
    ("without", "extra", "said"),
    [
        ("", "", None),
        ("glibc", "", "manylinux_2_28_x86_64"),
        ("libgotcha.so.2", "", "libgotcha.so.2"),
        ("isa-l.txt", "", "isa-l.txt"),
        ("_native.abi3.so", "tailrace/_native.cpython-312-x86_64-linux-gnu.so", "cpython-312"),
        ("", "tailrace.libs/libz-1.so.1", "libz-1.so.1"),
    ],
)
def test_a_wheel_that_lacks_a_file_or_has_a_foreign_one_is_refused(
    wheels: ModuleType, tmp_path: Path, without: str, extra: str, said: str | None
) -> None:
    faults = wheels.faults_of(planted(tmp_path, "3.12", wheels, without, extra), "3.12", "x86_64")
    assert faults == [] if said is None else said in " ".join(faults)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_gotcha_that_cmake_found_by_a_link_is_installed_itself(tmp_path: Path) -> None:
    (tmp_path / "libgotcha.so.2.4.4").write_text("the library")
    (tmp_path / "libgotcha.so.2").symlink_to("libgotcha.so.2.4.4")
    (tmp_path / "libgotcha.so").symlink_to("libgotcha.so.2")
    script = tmp_path / "install.cmake"
    script.write_text(
        f"include({ROOT}/core/cmake/FindGotchaLibrary.cmake)\n"
        f"file(INSTALL ${{TAILRACE_GOTCHA_LIBRARY}} DESTINATION {tmp_path}/there RENAME libgotcha.so.2)\n"
    )
    given = [f"-DTAILRACE_GOTCHA_INSTALLED={tmp_path}/libgotcha.so", "-DCMAKE_DISABLE_FIND_PACKAGE_gotcha=ON"]
    done = subprocess.run(["cmake", *given, "-P", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there/libgotcha.so.2").read_text() == "the library"


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("nm") is None, reason="no compiler")
def test_a_module_that_lacks_a_function_of_its_libraries_is_refused(wheels: ModuleType, tmp_path: Path) -> None:
    declared = "int crc32_gzip_refl(void), PyLong_FromLong(int), puts(const char *);\n"
    (tmp_path / "m.c").write_text(
        declared + 'int f(void) { return crc32_gzip_refl() + PyLong_FromLong(1) + puts(""); }'
    )
    module = tmp_path / "m.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", module, tmp_path / "m.c"], check=True)
    assert wheels.unresolved(module) == {"crc32_gzip_refl"}


@pytest.fixture
def made_wheels() -> list[Path]:
    folder = os.environ.get("TAILRACE_WHEELS")
    if folder is None:
        pytest.skip("TAILRACE_WHEELS names no folder of wheels: python tools/wheels.py makes them")
    return sorted(Path(folder).glob("tailrace-*.whl"))


def test_the_wheels_that_were_made_are_whole_and_of_this_version(wheels: ModuleType, made_wheels: list[Path]) -> None:
    assert made_wheels
    for wheel in made_wheels:
        name = NAME.fullmatch(wheel.name)
        assert name is not None and name[1] == tailrace.__version__, wheel
        assert wheels.faults_of(wheel, f"{name[2]}.{name[3]}", name[4]) == [], wheel


def test_the_libraries_of_the_wheels_need_no_newer_libc_and_show_what_ours_does(
    made_wheels: list[Path], tmp_path: Path
) -> None:
    ours = exported(tailrace.installation.PACKAGE / "lib/libtailrace.so")
    for wheel in made_wheels:
        with zipfile.ZipFile(wheel) as archive:
            compiled = [name for name in archive.namelist() if ".so" in name or "/scripts/tailrace" in name]
            archive.extractall(tmp_path / wheel.stem, compiled)
        assert exported(tmp_path / wheel.stem / "tailrace/lib/libtailrace.so") == ours, wheel
        for name in compiled:
            needs = subprocess.run(
                ["readelf", "--version-info", tmp_path / wheel.stem / name], capture_output=True, text=True, check=True
            )
            versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", needs.stdout)}
            if name.endswith("/libtailrace-entry.so"):
                assert not versions, (wheel, "it must load beside any libc")
            else:
                assert versions and max(versions) <= (2, 28), (wheel, name)


def exported(library: Path) -> set[str]:
    """The functions and variables that a library shows to others."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}
