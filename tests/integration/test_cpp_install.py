"""`cmake --install` without Python: projects find the core in the prefix, its programs run, its launcher traces."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import sanitizer
from support.truth import read_run

CMAKELISTS = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
find_package(tailrace 0.1 REQUIRED)
add_executable(consumer consumer.cc)
target_link_libraries(consumer PRIVATE tailrace::tailrace)
add_executable(consumer_c consumer.c)
target_link_libraries(consumer_c PRIVATE tailrace::tailrace)
"""

CONSUMER = r"""
#include <tailrace/tailrace.h>

#include <fstream>
#include <iostream>

static void put(const char *name) { std::ofstream(name) << name; }

int main() {
  char message[256];
  bool bad = tailrace_tag_error("Bad=1", message, sizeof message) != 0;
  std::cout << tailrace_active() << ' ' << bad << ' ' << message << '\n';
  put("before");
  tailrace_context outer = tailrace_context_current();
  tailrace_context inner = tailrace_context_enter("stage=inner,task=7");
  put("inside");
  tailrace_context_switch(outer);
  put("after");
  tailrace_context_switch(inner);
  tailrace_context_finish(inner);
  put("finished");
  tailrace_flush();
  return tailrace_version()[0] == 0 || tailrace_build_info()[0] != '{';
}
"""

CONSUMER_C = r"""
#include <stdio.h>
#include <tailrace/tailrace.h>

int main(void) {
  printf("%d %u\n", tailrace_active(), tailrace_context_enter("stage=s"));
  return 0;
}
"""


def environment(**extra: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "LD_PRELOAD"))}
    return {**kept, **extra}


@pytest.fixture(scope="module")
def consumer(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build directory of a project that uses the installed core."""
    place = tmp_path_factory.mktemp("consumer")
    for name, text in {"CMakeLists.txt": CMAKELISTS, "consumer.cc": CONSUMER, "consumer.c": CONSUMER_C}.items():
        (place / name).write_text(text)
    steps = [
        ["cmake", "--install", cpp_build, "--prefix", place / "prefix"],
        ["cmake", "-S", place, "-B", place / "build", f"-DCMAKE_PREFIX_PATH={place / 'prefix'}"],
        ["cmake", "--build", place / "build"],
    ]
    for step in steps:
        words = [str(word) for word in step]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return place / "build"


@pytest.mark.parametrize("name", ["consumer", "consumer_c"])
def test_untraced_the_api_does_nothing_and_reports_it(consumer: Path, tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [str(consumer / name)], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("0 ")


def test_a_linked_program_with_a_run_traces_itself(consumer: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "trace").mkdir(parents=True)
    settings = environment(TAILRACE_RUN=str(run.resolve()), TAILRACE_TAGS="workflow=w,stage=outer")
    done = subprocess.run(
        [str(consumer / "consumer")], cwd=tmp_path, env=settings, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith('1 1 tag "Bad"')
    seen = read_run(run)
    # libstdc++ writes by writev or write; the name is the file.
    tags = {
        Path(path).name: (event["args"].get("stage"), event["args"].get("task"))
        for event in seen.named("write", "writev")
        if (path := seen.path(event)) and path.startswith(str(tmp_path.resolve()))
    }
    assert tags == {
        "before": ("outer", None),
        "inside": ("inner", "7"),
        "after": ("outer", None),
        "finished": ("outer", None),
    }


@pytest.mark.skipif(sanitizer.CHOSEN != "", reason="a core with a sanitizer is built without the launcher")
def test_the_installed_launcher_traces_without_python(consumer: Path, tmp_path: Path) -> None:
    prefix = consumer.parent / "prefix"
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    script = "echo hello > out; cat out"
    command = [prefix / "bin/tailrace", "run", "-o", "run", "--tag", "stage=copy", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "hello\n", done.stderr
    seen = read_run(tmp_path / "run")
    read, written = (
        [event["args"] for event in seen.named(name) if (seen.path(event) or "").endswith("/out")]
        for name in ("read", "write")
    )
    assert [args["stage"] for args in written] == ["copy"]
    assert sum(args["ret"] for args in read) == 6
    refused = subprocess.run([prefix / "bin/tailrace", "report"], env=bare, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "pip install tailrace" in refused.stderr


@pytest.mark.skipif(sanitizer.CHOSEN != "", reason="a core with a sanitizer is built without the launcher")
def test_a_command_whose_launcher_cannot_be_loaded_says_why(consumer: Path, tmp_path: Path) -> None:
    prefix = shutil.copytree(consumer.parent / "prefix", tmp_path / "prefix", symlinks=True)
    (plugin,) = prefix.glob("lib*/**/libtailrace-plugin.so")
    plugin.write_bytes(b"cut off")
    command = [prefix / "bin/tailrace", "run", "true"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"tailrace: its launcher can't be loaded: {plugin}" in done.stderr


@pytest.mark.skipif(sanitizer.CHOSEN != "", reason="a core with a sanitizer is built without the launcher")
def test_the_command_has_neither_a_launcher_nor_a_c_plus_plus_library(consumer: Path) -> None:
    command = consumer.parent / "prefix/bin/tailrace"
    listed = subprocess.run(["nm", "--demangle", command], check=True, capture_output=True, text=True).stdout
    assert "main" in listed
    assert not [line for line in listed.splitlines() if "tailrace::launcher::run" in line or "operator new" in line]


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
def test_pkg_config_and_the_man_pages_are_installed(consumer: Path, tmp_path: Path) -> None:
    prefix = consumer.parent / "prefix"
    (found,) = prefix.glob("lib*/**/pkgconfig/tailrace.pc")
    asked = ["pkg-config", "--cflags", "--libs", "tailrace"]
    flags = subprocess.run(
        asked, env=environment(PKG_CONFIG_PATH=str(found.parent)), capture_output=True, text=True, check=True
    ).stdout.split()
    library = found.parent.parent
    built = ["cc", consumer.parent / "consumer.c", "-o", tmp_path / "c", *flags, f"-Wl,-rpath,{library}"]
    subprocess.run(built, check=True)
    assert subprocess.run([tmp_path / "c"], capture_output=True, text=True, check=True).stdout.startswith("0 ")
    pages = {page.name for page in prefix.glob("share/man/man1/*")}
    assert pages == {"tailrace.1", "tailrace-run.1", "tailrace-tag.1"}


MODULES = {
    "Environment Modules": ("tcl", "tailrace/0.1", ["modulecmd", "bash"]),
    "Lmod": ("lua", "tailrace/0.1.lua", [os.environ.get("LMOD_CMD", "lmod"), "bash"]),
    "Lmod, of the other's": ("tcl", "tailrace/0.1", [os.environ.get("LMOD_CMD", "lmod"), "bash"]),
}
"""Who loads a modulefile -> its kind, its name in a tree of modules, and the command whose output a shell evaluates."""


@pytest.mark.parametrize("who", MODULES)
def test_a_module_gives_the_launcher_and_is_unloaded_again(who: str, consumer: Path, tmp_path: Path) -> None:
    kind, name, command = MODULES[who]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} ({who})")
    prefix = consumer.parent / "prefix"
    (tmp_path / "modules" / name).parent.mkdir(parents=True)
    shutil.copy(prefix / f"share/tailrace/modules/tailrace.{kind}", tmp_path / "modules" / name)
    module = f'module() {{ eval "$({" ".join(command)} "$@")"; }}'
    script = f"""
        {module}
        module use {tmp_path / "modules"}
        module load tailrace
        command -v tailrace; echo "$SRUN_EXPORT_ENV $CMAKE_PREFIX_PATH"
        ls "${{MANPATH%%:*}}/man1/tailrace-run.1" "$PKG_CONFIG_PATH/tailrace.pc"
        tailrace run -q -o {tmp_path / "run"} true && echo traced
        module unload tailrace
        command -v tailrace; echo [$SRUN_EXPORT_ENV$CMAKE_PREFIX_PATH$PKG_CONFIG_PATH]
    """
    bare = {"PATH": f"{Path(shutil.which(command[0]) or '').parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=bare, capture_output=True, text=True, check=False)
    (package,) = prefix.glob("lib*/**/pkgconfig/tailrace.pc")
    assert done.stdout.splitlines() == [
        f"{prefix}/bin/tailrace",
        f"ALL {prefix}",
        str(package),
        f"{prefix}/share/man/man1/tailrace-run.1",
        "traced",
        "[]",
    ], done.stderr
