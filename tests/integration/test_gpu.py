"""GPU activity by CUPTI (TAILRACE_CUPTI), on machines without a GPU: it builds, it does nothing, and what a libcupti
delivers becomes events. A GPU's own activity was never recorded here."""

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tailrace
from support.run_files import Line, Trace
from tailrace.tags import decode

SOURCE = Path(__file__).parents[2]
LAYERS = "hdf5,mpiio,cupti"

DRIVER = """
    import ctypes, os, sys
    variable, told = os.environ.get("CUDA_INJECTION64_PATH"), "no variable"
    if variable:
        library = ctypes.CDLL(variable)
        told = library.InitializeInjection()
        library.tailrace_context_enter(b"stage=other")
    with open("/proc/self/maps") as maps:
        loaded = any("libcupti.so" in line for line in maps)
    child = os.fork()
    if child:
        told = f"{told}, child {os.waitpid(child, 0)[1]}"
        with open("told", "w") as file:
            file.write(f"{told} {loaded}")
    sys.exit(0)
"""
"""Does what NVIDIA's driver does in cuInit; parent and child end with their exit handlers."""


@dataclass(frozen=True)
class Build:
    """The core and the launcher with GPU activity."""

    place: Path
    cuda: Path

    @property
    def own_cupti(self) -> Path:
        """The directory of NVIDIA's libcupti."""
        for below in ("cuda_cupti/lib", "extras/CUPTI/lib64", "cu13/lib"):
            if list((self.cuda / below).glob("libcupti.so.*")):
                return self.cuda / below
        pytest.skip(f"no libcupti in {self.cuda}")

    def run(self, work: Path, name: str, *command: object, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Runs the command traced in `work`, into the run `name`."""
        launcher = self.place / "prefix" / "bin" / "tailrace"
        words = [launcher, "run", "-q", "-o", work / name, "--tag", "stage=train", "--", *command]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "CUDA_"))}
        return subprocess.run(
            [str(word) for word in words],
            cwd=work, env={**kept, **environment}, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip


def cuda_directory() -> Path:
    """Where CUDA's headers are: TAILRACE_CUDA_DIR, or NVIDIA's wheels."""
    given = os.environ.get("TAILRACE_CUDA_DIR")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        wheels = ("cuda_cupti/include/cupti.h", "cuda_runtime/include/cuda.h", "cuda_nvcc/include/crt/host_defines.h")
        if all((Path(place) / header).exists() for header in wheels):
            return Path(place)
    pytest.skip("no headers of CUPTI (TAILRACE_CUDA_DIR; pip install nvidia-cuda-{cupti,runtime,nvcc}-cu12)")


@pytest.fixture(scope="module")
def gpu_build() -> Build:
    """Brought up to date: build/gpu, or TAILRACE_GPU_BUILD."""
    cuda = cuda_directory()
    missing = [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} to build with")
    place = Path(os.environ.get("TAILRACE_GPU_BUILD", SOURCE / "build" / "gpu"))
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = ["-DTAILRACE_CUPTI=ON", f"-DTAILRACE_CUDA_DIR={cuda}", "-DTAILRACE_TESTS=ON"]
    options += ["-DTAILRACE_FLUX=OFF", "-DTAILRACE_SLURM=OFF", "-DTAILRACE_GOTCHA_DOWNLOAD=OFF"]
    targets = ["tailrace", "tailrace_plugin", "tailrace_command", "tailrace_static", "program_cupti", "unit"]
    for words in (
        ["cmake", "-S", SOURCE, "-B", place, *options, *generator],
        ["cmake", "--build", place, "--parallel", "2", "--target", *targets],
        ["cmake", "--install", place, "--prefix", place / "prefix"],
    ):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return Build(place, cuda)


def what_happened(run: Path) -> list[tuple[object, ...]]:
    """The events, without what differs from run to run."""
    kept = ("size", "offset", "ret", "errno", "stage")
    files = {file: name.partition(":[")[0] for file, name in Trace(run).paths.items()}
    return [
        (e["name"], e["cat"], files.get(e["args"].get("fhash")), *(e["args"].get(key) for key in kept))
        for e in Trace(run).events
    ]


def program(work: Path) -> Path:
    """A file with DRIVER."""
    path = work / "driver.py"
    path.write_text("\n".join(line[4:] for line in DRIVER.splitlines()))
    return path


def gpu_events(run: Path) -> list[Line]:
    return [event for event in Trace(run).events if event["cat"] == "GPU"]


def test_records_become_what_events_say(gpu_build: Build) -> None:
    unit = gpu_build.place / "tests" / "tailrace_unit"
    if not unit.exists():
        pytest.skip("no GoogleTest to build the C++ tests with")
    done = subprocess.run([unit, "--gtest_filter=GpuActivity.*"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ] 7 tests" in done.stdout


def test_libcupti_is_not_linked(gpu_build: Build) -> None:
    library = gpu_build.place / "core" / "libtailrace.so"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "libcupti" not in needed and "libcuda" not in needed


def test_without_a_gpu_the_events_are_the_same(gpu_build: Build, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 100_000)
    runs = []
    for name, layers in (("without", "all"), ("with", LAYERS)):
        done = gpu_build.run(tmp_path, name, "cat", "data", TAILRACE_LAYERS=layers)
        assert (done.returncode, done.stderr, len(done.stdout)) == (0, "", 100_000)
        runs.append(what_happened(tmp_path / name))
    assert runs[0] == runs[1]
    assert ("read", "POSIX", str(tmp_path / "data")) in {event[:3] for event in runs[0]}


@pytest.mark.parametrize("layers", ["all", "none", "hdf5"])
def test_it_is_only_chosen_by_name(gpu_build: Build, tmp_path: Path, layers: str) -> None:
    done = gpu_build.run(tmp_path, "run", sys.executable, program(tmp_path), TAILRACE_LAYERS=layers)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "told").read_text() == "no variable, child 0 False"


def test_another_tool_keeps_its_variable(gpu_build: Build, tmp_path: Path) -> None:
    code = "import os; print(os.environ['CUDA_INJECTION64_PATH'])"
    done = gpu_build.run(
        tmp_path, "run", sys.executable, "-c", code, TAILRACE_LAYERS=LAYERS, CUDA_INJECTION64_PATH="/tool.so"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "/tool.so\n", "")


@pytest.mark.parametrize("with_library", [False, True], ids=["no libcupti", "NVIDIA's libcupti"])
def test_without_a_driver_the_program_is_unharmed(gpu_build: Build, tmp_path: Path, with_library: bool) -> None:
    libraries = {"LD_LIBRARY_PATH": str(gpu_build.own_cupti)} if with_library else {}
    done = gpu_build.run(tmp_path, "run", sys.executable, program(tmp_path), TAILRACE_LAYERS=LAYERS, **libraries)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "told").read_text() == f"1, child 0 {with_library}"
    assert gpu_events(tmp_path / "run") == []
    assert tailrace.open(tmp_path / "run").losses.empty


@pytest.fixture
def delivered(gpu_build: Build, tmp_path: Path) -> Path:
    """The run of a program whose libcupti is programs/cupti_stand_in.c."""
    libraries = str(gpu_build.place / "tests" / "cupti")
    done = gpu_build.run(
        tmp_path, "run", sys.executable, program(tmp_path), TAILRACE_LAYERS=LAYERS, LD_LIBRARY_PATH=libraries
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return tmp_path / "run"


def test_what_cupti_delivers_is_recorded(delivered: Path) -> None:
    events = gpu_events(delivered)
    said = [(e["name"], e["args"].get("object"), e["args"].get("count"), e["args"]["stage"]) for e in events]
    assert said == [
        ("kernel", "mesh::step", None, "train"), ("memcpy", "host to device", 4096, "train"),
        ("memset", None, 64, "train"),
    ]  # fmt: skip
    assert decode(events[0]["args"]["keys"]) == {"device": "0", "stream": "7"}
    # Once, by the process that used CUPTI; its forked child ran its exit handlers, too, and did not call it.
    assert (delivered.parent / "told").read_text() == "1, child 0 True"
    trace = Trace(delivered)
    parent = next(e["pid"] for e in trace.events if e["name"] == "fork")
    assert {e["pid"] for e in events} == {parent}


def test_times_are_the_traces_own(delivered: Path) -> None:
    """From the call of the driver, before the fork, to the exit handlers, after the file."""

    def begin(event: Line) -> int:
        return int(event["ts"]) * 1000 + int(event["args"]["ns"])

    trace = Trace(delivered)
    fork = next(e for e in trace.events if e["name"] == "fork")
    told = trace.of(delivered.parent / "told", {"close"})[0]
    exit_ = next(e for e in trace.events if e["name"] == "exit" and e["pid"] == fork["pid"])
    events = gpu_events(delivered)
    assert events
    for event in events:
        end = begin(event) + round(event["dur"] * 1000)
        assert begin(event) < begin(fork) < begin(told) < end <= begin(exit_)


def test_records_that_cupti_lost_are_counted(delivered: Path) -> None:
    """One without an end, and two that were dropped."""
    losses = tailrace.open(delivered).losses
    assert losses[["cause", "unit", "count"]].values.tolist() == [["dropped", "events", 3]]
