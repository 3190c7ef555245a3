"""docs/compatibility.md: what a program that was compiled against the C API keeps."""

import re
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand
from tailrace import installation

SOURCE = Path(__file__).parents[1] / "programs" / "promised_api.c"
HEADERS = ("tailrace.h", "plugin.h")
INTERNAL = {
    "tailrace_command_line",
    "tailrace_count_own",
    "tailrace_pass_on",
    "tailrace_scope_begin",
    "tailrace_scope_end",
}
"""What the Python module and the plugins of this version call, and no header declares."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls the library by the types that it has promised."""
    built = tmp_path_factory.mktemp("client") / "client"
    library, include = installation.PACKAGE / "lib", installation.PACKAGE / "include"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    link = [f"-L{library}", "-ltailrace", "-ltailrace-plugin", f"-Wl,-rpath,{library}"]
    command = ["cc", *strict, f"-isystem{include}", str(SOURCE), "-o", str(built), *link]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


def declared() -> set[str]:
    """The functions of the headers."""
    found: set[str] = set()
    for name in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (installation.PACKAGE / "include" / "tailrace" / name).read_text(), flags=re.S)
        found |= set(re.findall(r"\b(tailrace_\w+)\(", text))
    return found


def exported(library: str) -> set[str]:
    path = str(installation.PACKAGE / "lib" / library)
    listed = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    return {name for name in re.findall(r" T (\S+)", listed) if name.startswith("tailrace_")}


def test_each_function_of_the_headers_is_promised_and_exported() -> None:
    promised = set(re.findall(r"\b(tailrace_\w+)\(", SOURCE.read_text().split("/* The layouts")[0]))
    assert declared() == promised
    assert exported("libtailrace.so") | exported("libtailrace-plugin.so") == promised | INTERNAL | {
        "tailrace_region_functions_v1"
    }


def test_an_untraced_program_is_told_so(client: Path) -> None:
    done = subprocess.run([client], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "active 0",
        "run none",
        "detail none",
        "unknown setting none",
        "context none",
        "bad tags 0",
        "fault at 13: named",
        "valid 0",
        "region none",
        f"version {tailrace.__version__}",
        "build {",
    ]


def test_a_traced_program_is_traced(client: Path, run_traced: TracedCommand) -> None:
    done = run_traced(client)
    assert done.stdout.splitlines() == [
        "active 1",
        "run named",
        "detail known",
        "unknown setting none",
        "context entered",
        "bad tags 0",
        "fault at 13: named",
        "valid 0",
        "region recorded",
        f"version {tailrace.__version__}",
        "build {",
    ]
