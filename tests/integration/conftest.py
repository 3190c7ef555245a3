"""Fixtures of the integration tests: programs run traced, traces read without our code, Flux instances, tables."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support import sanitizer
from support.commands import TracedCommand, run_cli
from support.distribution import make_sdist
from support.flux_instance import FluxInstance, FluxPlugins, require_flux, require_plugins, start_traced
from support.harm import Harm
from support.run_files import Line, Trace, read_declared
from support.slurm_cluster import SlurmCluster
from tailrace import _native


@pytest.fixture
def cli() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`tailrace` with these arguments (support.commands.run_cli)."""
    return run_cli


@pytest.fixture
def run_traced(tmp_path: Path) -> TracedCommand:
    """Runs a command traced, in tmp_path, into the run tmp_path/run."""
    return TracedCommand(tmp_path, tmp_path / "run")


@pytest.fixture
def read_trace() -> type[Trace]:
    """A run's events, without tailrace's code."""
    return Trace


@pytest.fixture
def declared() -> Callable[..., list[Line]]:
    """The declared lines of a run."""
    return read_declared


@pytest.fixture
def harm(tmp_path: Path) -> Iterator[Harm]:
    """The runner of do-no-harm tests; journals that couldn't be sealed are removed in the end."""
    runner = Harm(tmp_path)
    yield runner
    shutil.rmtree(_native.journal_directory(str(runner.run.resolve()), "/dev/shm"), ignore_errors=True)


@pytest.fixture(scope="session")
def flux_program() -> Path:
    """The `flux` program; skips without Flux, or fails with TAILRACE_REQUIRE_FLUX=1."""
    return require_flux()


@pytest.fixture
def start_flux(flux_program: Path) -> Iterator[Callable[..., FluxInstance]]:
    """Starts an instance of a test's own, with FluxInstance's arguments; ended with the test."""
    with ExitStack() as stack:

        def start(**options: Any) -> FluxInstance:
            instance = FluxInstance(flux_program, **options)
            stack.callback(instance.stop)
            return instance

        yield start


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """A cluster of two nodes with our plugin and its default policy. pytest's own folders are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="tailrace-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    started = None
    try:
        started = SlurmCluster(folder)
        yield started
    finally:
        if started is not None:
            started.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def flux(flux_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FluxInstance]:
    """One instance of one broker for all tests, without our plugins. What a test loads it removes again."""
    instance = FluxInstance(flux_program, cwd=tmp_path_factory.mktemp("flux"))
    yield instance
    instance.stop()


@pytest.fixture(scope="session")
def flux_plugins(request: pytest.FixtureRequest) -> FluxPlugins:
    """The Flux plugins of the installed package; skips or fails where they weren't built."""
    return require_plugins(sanitizer.package(request.getfixturevalue("cpp_build")) if sanitizer.CHOSEN else None)


@pytest.fixture
def start_traced_flux(flux_program: Path, flux_plugins: FluxPlugins) -> Iterator[Callable[..., FluxInstance]]:
    """Starts an instance of a test's own with both plugins loaded, with start_traced's arguments."""
    with ExitStack() as stack:

        def start(*conf: str, **arguments: Any) -> FluxInstance:
            instance = start_traced(flux_program, flux_plugins, *conf, **arguments)
            stack.callback(instance.stop)
            return instance

        yield start


@pytest.fixture(scope="session")
def traced_flux(
    flux_program: Path, flux_plugins: FluxPlugins, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FluxInstance]:
    """One instance for all tests, with both plugins loaded, that traces the jobs that request it."""
    instance = start_traced(flux_program, flux_plugins, cwd=tmp_path_factory.mktemp("traced-flux"))
    yield instance
    instance.stop()


@pytest.fixture
def second_copy(flux_plugins: FluxPlugins, tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose own installation, of another build, is loaded after the instance's."""
    package = tmp_path / "second" / "tailrace"
    shutil.copytree(flux_plugins.root, package / "flux", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(flux_plugins.library.parent, package / "lib")
    plugin = package / "flux" / "lib" / "shell" / "tailrace-shell.so"
    subprocess.run(["objcopy", "--strip-debug", "--add-section", f".other={__file__}", str(plugin)], check=True)
    assert plugin.read_bytes() != (flux_plugins.shell_folder / plugin.name).read_bytes()
    return {"FLUX_SHELL_RC_PATH": str(package / "flux" / "etc" / "shell")}


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of the tree (support/distribution.py)."""
    return make_sdist(tmp_path_factory.mktemp("sdist"))
