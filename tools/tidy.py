#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over C++ files, as pre-commit gives them.

    python tools/tidy.py core/src/session/session.cc ...

The compile commands are those of a build directory that is there, else of one that is only configured. What it does not
compile (the Flux plugins without Flux) is left out.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILDS = [ROOT / "build" / name for name in ("editable", "tests", "tidy")]


def find_build() -> Path:
    """The newest build directory with compile commands; configures one where there is none."""
    found = [build for build in BUILDS if (build / "compile_commands.json").is_file()]
    if found:
        return max(found, key=lambda build: (build / "compile_commands.json").stat().st_mtime)
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", BUILDS[-1], "-DTAILRACE_TESTS=ON"], check=True, stdout=subprocess.DEVNULL
    )
    return BUILDS[-1]


def main() -> int:
    """Checks the files of the arguments; clang-tidy's exit code."""
    build = find_build()
    commands = json.loads((build / "compile_commands.json").read_text())
    compiled = {Path(entry["directory"], entry["file"]).resolve() for entry in commands}
    files = [file for name in sys.argv[1:] if (file := Path(name).resolve()) in compiled]
    if not files:
        return 0
    # The commands are GCC's. The tables of functions take more steps than clang's compiler does by itself.
    extra = [f"--extra-arg={flag}" for flag in ("-Wno-unknown-warning-option", "-fconstexpr-steps=100000000")]
    command = ["clang-tidy", "--quiet", "-p", build, *extra, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode and not done.stdout:
        print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
