"""The fuzz targets (tests/fuzz) run for a few seconds each from their seeds: no crash, no violated invariant.

They are long tests: pytest -m long tests/unit/test_fuzz.py, and longer with TAILRACE_FUZZ_SECONDS=600.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
TARGETS = [
    "block_walk",
    "edges",
    "journal",
    "line_deflate",
    "parse",
    "pieces",
    "redaction",
    "settings",
    "tags",
    "trace_file",
]
SECONDS = int(os.environ.get("TAILRACE_FUZZ_SECONDS", "3"))
SEED = [] if "TAILRACE_FUZZ_SECONDS" in os.environ else ["-seed=1"]
"""The short run goes the same way each time; a long one looks for what is new."""


def find_clang() -> str:
    """A clang++ whose fuzzer library is there: Debian has it in a package of its own."""
    for name in ("clang++", *(f"clang++-{version}" for version in range(21, 12, -1))):
        path = shutil.which(name)
        if path is None:
            continue
        options = ["-fsanitize=fuzzer,address,undefined", "-x", "c++", "-", "-o", "/dev/null"]
        source = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }'
        if subprocess.run([path, *options], input=source, text=True, check=False, capture_output=True).returncode == 0:
            return path
    pytest.skip("no clang++ with libFuzzer (Debian: clang, libclang-rt-14-dev)")


@pytest.fixture(scope="module")
def fuzzers() -> Path:
    """The directory of the fuzz targets, brought up to date."""
    compiler = find_clang()
    if shutil.which("cmake") is None:
        pytest.skip("no cmake to build with")
    build = Path(os.environ.get("TAILRACE_FUZZ_BUILD", SOURCE / "build" / "fuzz"))
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(SOURCE), "-B", str(build), "-DTAILRACE_FUZZ=ON", f"-DCMAKE_CXX_COMPILER={compiler}"]
    for step in ([*configure, *generator], ["cmake", "--build", str(build), "--target", "fuzzers", "--parallel", "2"]):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return build / "tests" / "fuzz"


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of seeds for each target, made by the installed core."""
    folder = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, str(SOURCE / "tests" / "fuzz" / "make_seeds.py"), str(folder)], check=True)
    assert sorted(path.name for path in folder.iterdir()) == TARGETS
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_target(fuzzers: Path, seeds: Path, tmp_path: Path, target: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    limits = [f"-max_total_time={SECONDS}", *SEED, "-timeout=120", "-rss_limit_mb=3072", "-print_final_stats=1"]
    # libFuzzer takes its peak memory from getrusage(2), which a program inherits from the process that it was forked
    # from: a shell in between keeps pytest's out of it.
    shell = ["sh", "-c", '"$@"; exit $?', "sh"]
    command = [*shell, str(fuzzers / f"fuzz_{target}"), *limits, str(corpus), str(seeds / target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    crashes = [file.name for file in tmp_path.iterdir() if file != corpus]
    assert done.returncode == 0, f"{crashes}\n{done.stderr[-4000:]}"
