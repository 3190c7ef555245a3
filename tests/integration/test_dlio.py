"""DLIO, unchanged: its annotations for DFTracer are regions, and the times are those of its own statistics.

Runs where $DLIO_PYTHON is a Python with dlio-benchmark 2.0, what it needs (docs/loaders.md), and tailrace.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TracedCommand
from support.run_files import Line, Trace

pytestmark = pytest.mark.skipif("DLIO_PYTHON" not in os.environ, reason="DLIO_PYTHON names no Python with DLIO")

FILES, EPOCHS, BATCH, SECONDS = 8, 2, 2, 0.03
STEPS = FILES // BATCH


def dlio(work: Path, method: str, **workflow: bool) -> list[str]:
    """The command, with the outputs in `work`."""
    given = {
        "dataset.data_folder": work / "data",
        "dataset.num_files_train": FILES,
        "dataset.record_length": 1 << 18,
        "dataset.record_length_stdev": 0,
        "reader.read_threads": 2,
        "reader.batch_size": BATCH,
        "reader.multiprocessing_context": method,
        "train.epochs": EPOCHS,
        "train.computation_time": SECONDS,
        "checkpoint.checkpoint_folder": work / "checkpoints",
        "checkpoint.checkpoint_after_epoch": 1,
        "checkpoint.epochs_between_checkpoints": 1,
        "checkpoint.model_size": 1 << 20,
        **{f"workflow.{name}": workflow.get(name, False) for name in ("generate_data", "train", "checkpoint")},
    }
    words = [f"++workload.{name}={value}" for name, value in given.items()]
    program = Path(os.environ["DLIO_PYTHON"]).parent / "dlio_benchmark"
    return [str(program), "workload=unet3d_v100", f"hydra.run.dir={work / 'out'}", *words]


def annotated() -> dict[str, str]:
    words = [sys.executable, "-m", "tailrace.dftracer"]
    folder = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    return {**os.environ, "PYTHONPATH": folder}


def named(trace: Trace, name: str) -> list[Line]:
    found = [e for e in trace.events if e["cat"] == "APP" and e["name"] == name and "open" not in e["args"]]
    return sorted(found, key=lambda e: (e["ts"], e["args"]["ns"]))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_its_annotations_are_regions_with_the_times_of_its_statistics(
    method: str, tmp_path: Path, run_traced: TracedCommand
) -> None:
    subprocess.run(dlio(tmp_path, method, generate_data=True), env=annotated(), check=True, capture_output=True)
    run_traced(*dlio(tmp_path, method, train=True, checkpoint=True), env=annotated())
    trace = Trace(run_traced.run)
    samples = EPOCHS * FILES
    assert [len(named(trace, f"NPZReader.{name}")) for name in ("open", "get_sample", "close")] == [samples] * 3
    opened = [e for e in trace.events if e["name"] == "open" and str(e["path"]).startswith(f"{tmp_path}/data/")]
    assert len(opened) == samples
    assert all(e["args"]["region"].endswith("NPZReader.open") for e in opened)
    assert [e["args"]["epoch"] for e in named(trace, "DLIOBenchmark._train")] == list(range(1, EPOCHS + 1))
    check_times(trace, json.loads((tmp_path / "out" / "0_output.json").read_text()))
    regions = tailrace.open(run_traced.run).regions
    computed = [e["dur"] * 1000 for e in named(trace, "TorchFramework.compute")]
    epochs = [sum(computed[at : at + STEPS]) for at in range(0, EPOCHS * STEPS, STEPS)]
    assert regions.epochs()["compute_ns"].tolist() == pytest.approx(epochs, abs=1000 * STEPS)
    table = regions.table().set_index("region")
    saved = sum(file.stat().st_size for file in (tmp_path / "checkpoints").iterdir())
    (saving,) = [path for path in table.index if path.endswith("save_state")]
    assert table.loc[saving, "written_bytes"] == saved
    (waits,) = [path for path in table.index if path.endswith("loop.iter")]
    assert table.loc[waits, "unoverlapped_app_ns"] == pytest.approx(table.loc[waits, "time_ns"], rel=0.05)


def check_times(trace: Trace, statistics: dict[str, Any]) -> None:
    """Each step's wait and computation are within what DLIO measured around them."""
    waits, computes = named(trace, "loop.iter"), named(trace, "TorchFramework.compute")
    assert [e["args"]["step"] for e in computes] == list(range(1, STEPS + 1)) * EPOCHS
    blocks = [statistics[str(epoch)] for epoch in range(1, EPOCHS + 1)]
    loads = [time for block in blocks for time in block["load"]["block1"]]
    processed = [time for block in blocks for time in block["proc"]["block1"]]
    for wait, compute, load, whole in zip(waits, computes, loads, processed, strict=True):
        assert wait["dur"] <= load * 1e6 + 1
        assert SECONDS * 1e6 <= compute["dur"] <= (whole - load) * 1e6 + 1
    assert sum(e["dur"] for e in waits) == pytest.approx(sum(loads) * 1e6, rel=0.1)
