"""Programs annotated for DFTracer keep their annotations: one changed include or import, and every worker is traced."""

import json
import os
import subprocess
import sys
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand
from support.run_files import Line, Trace

FILES, EPOCHS, WORKERS = 8, 2, 2


def own(trace: Trace) -> list[Line]:
    return [event for event in trace.events if event["cat"] == "APP" and "open" not in event["args"]]


def test_the_macros_of_c_and_cpp(tmp_path: Path, program: Callable[[str], Path], run_traced: TracedCommand) -> None:
    (tmp_path / "file").write_text("text")
    run_traced(program("annotated"), tmp_path / "file")
    trace = Trace(run_traced.run)
    found = [(e["args"].get("region"), e["args"]["category"], e["args"].get("keys")) for e in own(trace)]
    assert Counter(found) == Counter(
        {
            (None, "metadata", "value=test"): 1,
            ("outer", "CPP_APP", None): 1,
            ("outer/touch", "CPP_APP", "size=4"): 1,
            ("outer/by_hand", "CPP_APP", "name=value"): 1,
            ("outer/by_hand/touch", "CPP_APP", "size=4"): 1,
            ("in_c", "C_APP", "model_name=u%20net%2C%203d"): 2,
            ("in_c/part", "C_APP", None): 2,
        }
    )
    assert [e["args"]["step"] for e in own(trace) if e["name"] == "in_c"] == [0, 1]
    assert [e["args"]["epoch"] for e in own(trace) if e["name"] == "outer"] == [2]
    opened = Counter(e["args"].get("region") for e in trace.of(tmp_path / "file", {"open"}))
    assert opened == {"outer/touch": 1, "outer/by_hand/touch": 1, "in_c/part": 2}


LOADER = """
    import multiprocessing, sys
    import numpy
    from dftracer.python import ai, dft_fn, dftracer

    logger = dftracer.initialize_log(logfile=None, data_dir=None, process_id=-1)
    reader = dft_fn("reader")
    FOLDER, METHOD, FILES, EPOCHS, WORKERS = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

    class Dataset:
        @reader.log_init
        def __init__(self, folder):
            self.folder = folder

        @reader.log
        def fetch(self, image_idx, step=0):
            return float(numpy.load(f"{self.folder}/{image_idx}.npy").sum())

    @ai.compute.forward
    def forward(value):
        return value

    def fetch(number):
        return Dataset(FOLDER).fetch(number)

    if __name__ == "__main__":
        with multiprocessing.get_context(METHOD).Pool(WORKERS) as pool:
            for epoch in range(EPOCHS):
                with dft_fn("training", "epoch", epoch=epoch) as block:
                    for value in ai.dataloader.fetch.iter(pool.imap(fetch, range(FILES))):
                        forward(value)
                    block.update(args={"loss": 0.5})
            pool.close()
            pool.join()
        logger.finalize()
"""
"""The case of the paper's Table I: workers read, the process that was started computes."""


def write_loader(folder: Path) -> Path:
    numpy = pytest.importorskip("numpy")
    (folder / "data").mkdir()
    for number in range(FILES):
        numpy.save(folder / "data" / f"{number}.npy", numpy.ones(1000))
    (folder / "theirs.py").write_text(textwrap.dedent(LOADER))
    program = folder / "ours.py"
    program.write_text(textwrap.dedent(LOADER).replace("from dftracer.python import", "from tailrace.dftracer import"))
    return program


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_loader_with_one_changed_import(method: str, tmp_path: Path, run_traced: TracedCommand) -> None:
    program = write_loader(tmp_path)
    run_traced(sys.executable, program, tmp_path / "data", method, FILES, EPOCHS, WORKERS)
    trace = Trace(run_traced.run)
    names = Counter(e["name"] for e in own(trace))
    each = FILES * EPOCHS
    # A wait for each item, and for the end of each epoch.
    assert names == {
        "Dataset.__init__": each, "Dataset.fetch": each, "epoch": EPOCHS, "forward": each,
        "fetch.iter": each + EPOCHS, "fetch.block": each,
    }  # fmt: skip
    opened = [e for number in range(FILES) for e in trace.of(tmp_path / "data" / f"{number}.npy", {"open", "openat"})]
    assert len(opened) == each
    assert {e["args"]["region"] for e in opened} == {"Dataset.fetch"}
    assert len({e["pid"] for e in opened}) <= WORKERS
    fetched = Counter(e["args"]["keys"] for e in own(trace) if e["name"] == "Dataset.fetch")
    assert fetched == {f"image_idx={number}": EPOCHS for number in range(FILES)}
    epochs = [(e["args"]["epoch"], e["args"]["keys"]) for e in own(trace) if e["name"] == "epoch"]
    assert epochs == [(epoch, "loss=0.5") for epoch in range(EPOCHS)]
    table = tailrace.open(run_traced.run).regions.epochs()
    assert table["epoch"].tolist() == list(range(EPOCHS))
    assert table["unoverlapped_app_ns"].notna().all()


UNCHANGED = """
    import sys
    from dftracer.logger import DFTRACER_ENABLE, dft_fn, dftracer
    from dftracer.python import ai

    log = dft_fn(cat="data_loader")

    class Loader:
        @log.log
        def batches(self, count):
            for number in range(count):
                log.update(step=number, args={"size": 10 * number})
                open(sys.argv[1]).close()
                try:
                    yield number
                except ValueError:
                    open(sys.argv[1]).close()
                    yield "after the error"

    assert DFTRACER_ENABLE and ai
    tracer = dftracer.initialize_log(None, None, -1)
    batches = Loader().batches(2)
    taken = []
    for number in batches:
        taken.append(number)
        open(sys.argv[1]).close()
        if number == 1:
            taken.append(batches.throw(ValueError()))
    assert taken == [0, 1, "after the error"], taken
    tracer.finalize()
"""


def test_an_unchanged_program_finds_the_interface_by_a_path(tmp_path: Path, run_traced: TracedCommand) -> None:
    """And a generator is an event for each step: what its consumer does in between is not the loader's."""
    words = [sys.executable, "-m", "tailrace.dftracer"]
    folder = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(UNCHANGED))
    (tmp_path / "file").write_text("text")
    run_traced(sys.executable, program, tmp_path / "file", env={**os.environ, "PYTHONPATH": folder})
    trace = Trace(run_traced.run)
    steps = [(e["args"].get("step"), e["args"].get("keys")) for e in own(trace)]
    # The last two: after the exception, and to the end.
    assert steps == [(0, "size=0"), (1, "size=10"), (None, None), (None, None)]
    assert {e["name"] for e in own(trace)} == {"Loader.batches"}
    opened = [e["args"].get("region") for e in trace.of(tmp_path / "file", {"open"})]
    assert opened == ["Loader.batches", None, "Loader.batches", None, "Loader.batches"]


def captured_by_dftracer(mode: str, method: str, folder: Path) -> list[int]:
    """What DFTracer has of the same program with its own import: fetches, opens of data files, the exit code."""
    python = os.environ["DFTRACER_PYTHON"]
    package = subprocess.run(
        [python, "-c", "import dftracer; print(dftracer.__path__[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    traces = folder / f"dftracer-{mode}-{method}"
    traces.mkdir()
    env = {
        **os.environ,
        "DFTRACER_ENABLE": "1",
        "DFTRACER_INIT": mode,
        "DFTRACER_INC_METADATA": "1",
        "DFTRACER_LOG_FILE": str(traces / "trace"),
        "DFTRACER_DATA_DIR": "all",
        **({"LD_PRELOAD": f"{package}/lib64/libdftracer_preload.so"} if mode == "PRELOAD" else {}),
    }
    words = [python, folder / "theirs.py", folder / "data", method, FILES, EPOCHS, WORKERS]
    # It writes a log of its own where it is started.
    done = subprocess.run(list(map(str, words)), env=env, cwd=folder, check=False, capture_output=True, timeout=60)
    lines: list[Line] = []
    for trace in traces.iterdir():
        data = trace.read_bytes()
        text = zlib.decompressobj(31).decompress(data) if data[:2] == b"\x1f\x8b" else data
        for line in text.decode(errors="replace").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(line))
    names = {e["args"]["value"] for e in lines if e["name"] == "FH" and str(e["args"]["name"]).endswith(".npy")}
    opens = [e for e in lines if e["name"].startswith("open") and e.get("args", {}).get("fhash") in names]
    return [sum(e["name"] == "Dataset.fetch" for e in lines), len(opens), done.returncode]


@pytest.mark.skipif("DFTRACER_PYTHON" not in os.environ, reason="DFTRACER_PYTHON names no Python with DFTracer")
def test_events_captured_beside_dftracer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The paper's Table I: of each start method, how much of the truth either tracer has. Ours is all of it."""
    write_loader(tmp_path)
    rows = {}
    for method in ("fork", "spawn", "forkserver"):
        run = TracedCommand(tmp_path, tmp_path / f"run-{method}")
        run(sys.executable, tmp_path / "ours.py", tmp_path / "data", method, FILES, EPOCHS, WORKERS)
        trace = Trace(run.run)
        fetches = sum(e["name"] == "Dataset.fetch" for e in own(trace))
        files = [tmp_path / "data" / f"{number}.npy" for number in range(FILES)]
        opens = sum(len(trace.of(file, {"open", "openat"})) for file in files)
        assert (fetches, opens) == (FILES * EPOCHS, FILES * EPOCHS)
        theirs = {mode: captured_by_dftracer(mode, method, tmp_path) for mode in ("PRELOAD", "FUNCTION")}
        rows[method] = {"tailrace": [fetches, opens, 0], **theirs}
    with capsys.disabled():
        print(f"\nof {FILES * EPOCHS} fetches and opens, and the exit code: {json.dumps(rows)}")
