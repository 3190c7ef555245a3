"""`cmake --install` puts the Flux plugins where Flux looks; without Flux they are left out, and that is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.run_files import Trace
from support.truth import read_run

SOURCE = Path(__file__).resolve().parent.parent.parent


def run(*words, env=None):
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(flux_program, cpp_build, tmp_path_factory):
    """The core and the plugins as installed by CMake."""
    place = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", cpp_build, "--prefix", place)
    if not list(place.glob("lib*/**/tailrace-jobtap.so")):
        from support.flux_instance import missing

        missing("the tests' own build found no Flux by pkg-config")
    return place


def test_files_are_where_flux_looks(prefix):
    (jobtap,) = prefix.glob("lib*/**/tailrace-jobtap.so")
    (shell,) = prefix.glob("lib*/**/tailrace-shell.so")
    assert jobtap.parts[-4:-1] == ("flux", "job-manager", "plugins")
    assert shell.parts[-4:-1] == ("flux", "shell", "plugins")
    assert (prefix / "etc" / "flux" / "modprobe" / "rc1.d" / "tailrace.py").is_file()
    for page in ("tailrace-jobtap.7", "tailrace-shell.7"):
        assert (prefix / "share" / "man" / "man7" / page).is_file()


def test_the_installed_plugins_trace_seal_and_nest(prefix, start_flux, tmp_path):
    (jobtap,) = prefix.glob("lib*/**/tailrace-jobtap.so")
    (shell,) = prefix.glob("lib*/**/tailrace-shell.so")
    instance = start_flux(options=[f"-Sconf.shell_pluginpath={shell.parent}"], cwd=tmp_path)
    instance.run("jobtap", "load", jobtap)
    (tmp_path / "in").write_bytes(b"x" * 5000)
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\ncat in > outer\nflux run cp in inner\ncat in > last; kill -9 $$\n")
    shared = f"--setattr=user.trace.run={tmp_path}/run"
    job = instance.ask("batch", "-n1", "--output=none", shared, script)
    instance.wait(job, timeout=120)
    trace, seen = Trace(tmp_path / "run"), read_run(tmp_path / "run")
    assert trace.tags(trace.of(tmp_path / "outer"), "job") == {(f"/{job}",)}
    assert trace.tags(trace.of(tmp_path / "inner"), "stage", "tag.parent") == {("cp", f"/{job}")}
    assert seen.written(tmp_path / "last") == 5000


def test_the_plugins_need_no_cxx_runtime_and_the_shells_no_deflate(flux_plugins):
    def needed(file):
        lines = run("readelf", "-d", file).splitlines()
        return {line.split("[")[1].rstrip("]").split(".so")[0] for line in lines if "(NEEDED)" in line}

    (shell,) = flux_plugins.shell_folder.glob("*.so")
    assert needed(flux_plugins.jobtap) == {"libflux-core", "libjansson", "libc"}
    assert needed(shell) == {"libflux-core", "libjansson", "libc"}


def test_without_flux_the_plugins_are_omitted_with_a_message(cpp_build, tmp_path):
    path = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "flux").exists()
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLUX", "PKG_CONFIG", "CMAKE_P"))}
    environment = {**kept, "PATH": path, "PKG_CONFIG_LIBDIR": str(tmp_path)}
    output = run(
        "cmake", "-S", SOURCE, "-B", tmp_path / "build", f"-DPython_EXECUTABLE={sys.executable}", env=environment
    )
    assert "so no Flux plugins" in output
    # The rest can be built as ever.
    targets = run("cmake", "--build", tmp_path / "build", "--target", "help", env=environment)
    assert "tailrace_core" in targets
    assert "tailrace-jobtap" not in targets
