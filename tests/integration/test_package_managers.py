"""The recipes of packaging/ in the hands of their package managers: Debian's builds one and runs what came out of it,
those of conda, EasyBuild and Apptainer read theirs.

`TAILRACE_SPACK=.../bin/spack` has that Spack check the package, and solve for what it wants.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support.distribution import CLEAN, NAME, ROOT, step


@pytest.fixture(scope="module")
def recipes(sdist: Path) -> Path:
    step(sys.executable, ROOT / "tools/recipes.py", sdist, sdist.parent / "recipes")
    return sdist.parent / "recipes"


def program(name: str) -> str:
    """A program of this environment, or of PATH."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return found or pytest.skip(f"no {name}")


@pytest.fixture(scope="module")
def packages(sdist: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which Debian's packages were built."""
    for name in ("dpkg-buildpackage", "dh", "cmake", "ninja"):
        program(name)
    folder = tmp_path_factory.mktemp("debian")
    shutil.unpack_archive(sdist, folder)
    shutil.copytree(recipes / "debian", folder / NAME / "debian")
    # Tools of virtual environments aren't Debian's: -d.
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    build = ("dpkg-buildpackage", "-us", "-uc", "-b", "-d")
    step(*build, cwd=folder / NAME, env={**CLEAN, "PATH": f"{path}:{Path(program('cmake')).parent}"})
    return folder


def test_debians_packages_record_what_their_own_test_runs(packages: Path, tmp_path: Path) -> None:
    (package,) = packages.glob("tailrace_*.deb")
    step("dpkg-deb", "--extract", package, tmp_path / "root")
    (tmp_path / "work").mkdir()
    path = f"{tmp_path}/root/usr/bin:/usr/bin:/bin"
    step(packages / NAME / "debian/tests/record", env={"PATH": path, "AUTOPKGTEST_TMP": str(tmp_path / "work")})


def test_debians_packages_have_their_files_and_no_python(packages: Path) -> None:
    listed = {package.name.split("_")[0]: step("dpkg-deb", "--contents", package) for package in packages.glob("*.deb")}
    assert "./usr/bin/tailrace\n" in listed["tailrace"]
    assert "libtailrace.so\n" in listed["tailrace"] and "libtailrace.so\n" not in listed["libtailrace-dev"]
    assert "./usr/include/tailrace/tailrace.h\n" in listed["libtailrace-dev"]
    assert "python" not in listed["tailrace"]


def test_lintian_finds_no_fault(packages: Path) -> None:
    lintian = program("lintian")
    (changes,) = packages.glob("*.changes")
    # Who uploads it is the maintainer, with an address and a number of the request.
    theirs = "bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs"
    step(lintian, "--allow-root", "--fail-on", "error,warning", "--suppress-tags", theirs, changes)


def test_conda_renders_its_recipe(sdist: Path, recipes: Path) -> None:
    rattler = pytest.importorskip("rattler_build")
    shutil.copy(sdist, recipes / "conda")
    variants = {"python": ["3.12.* *_cpython"], "c_compiler": ["gcc"], "cxx_compiler": ["gxx"], "c_stdlib": ["sysroot"]}
    recipe = rattler.Stage0Recipe.from_file(recipes / "conda/recipe.yaml")
    (rendered,) = recipe.render(rattler.VariantConfig(variants))
    found = rendered.recipe.to_dict() if not callable(rendered.recipe) else rendered.recipe().to_dict()
    assert found["package"] == {"name": "tailrace", "version": tailrace.__version__}
    assert "gxx_linux-64" in found["requirements"]["build"]
    assert [list(test) for test in found["tests"]] == [["python"], ["script"]]


def test_easybuild_finds_every_dependency_and_no_fault(recipes: Path, tmp_path: Path) -> None:
    eb = program("eb")
    lmod = Path(os.environ.get("LMOD_CMD", "/usr/share/lmod/lmod/libexec/lmod"))
    if not lmod.exists():
        pytest.skip("no Lmod, which EasyBuild starts with")
    (config,) = (recipes / "easybuild").glob("*.eb")
    env = {**CLEAN, "HOME": str(tmp_path), "LMOD_CMD": str(lmod), "PATH": f"{Path(eb).parent}:/usr/bin:/bin"}
    env["COLUMNS"] = "1000"
    allowed = [eb, "--allow-use-as-root-and-accept-consequences"]
    said = step(*allowed, "--dry-run", "--robot", "--terse", config, env=env)
    assert config.name in said
    pytest.importorskip("pycodestyle")
    assert "PASSed" in step(*allowed, "--check-contrib", config, env=env)


def test_apptainers_definition_has_its_parts(recipes: Path) -> None:
    parsers = pytest.importorskip("spython.main.parse.parsers")
    found = parsers.SingularityParser(str(recipes / "apptainer/tailrace.def")).parse()["spython-base"]
    assert found.fromHeader == "docker.io/library/python:3.12-slim"
    assert any("tailrace run -o run" in line for line in found.install), "of %test, which it adds to what is installed"
    assert any(f"=={tailrace.__version__}" in line for line in found.install)


@pytest.fixture
def spack(recipes: Path, tmp_path: Path) -> Callable[..., str]:
    command = os.environ.get("TAILRACE_SPACK") or pytest.skip("TAILRACE_SPACK names no Spack")
    env = {**CLEAN, "HOME": str(tmp_path), "SPACK_DISABLE_LOCAL_CONFIG": "1"}
    (tmp_path / "scope").mkdir()
    repository = recipes / "spack/repo/spack_repo/tailrace"
    (tmp_path / "scope/repos.yaml").write_text(f"repos:\n  tailrace: {repository}\n")
    return lambda *words: step(command, "-C", tmp_path / "scope", *words, env=env)


def test_spack_audits_the_package_and_solves_for_it(spack: Callable[..., str]) -> None:
    spack("audit", "packages", "tailrace")
    assert "build_system=cmake" in spack("spec", "tailrace build_system=cmake ~gotcha")
    wanted = spack("spec", "tailrace+flux+slurm")
    for name in ("flux-core@", "slurm@", "gotcha@", "isa-l@", "py-pyarrow@"):
        assert f"^{name}" in wanted, name
