"""The figures of `tailrace info --summary`, by hand; its printing."""

import json
import statistics
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

import tailrace
from support import trace_writer as tw
from tailrace.analyzer import summary
from tailrace.cli import info as info_command


def test_the_figures_of_a_run_by_hand(tmp_path: Path) -> None:
    lines = [tw.file_line("f", "/data/x", ino=1), tw.file_line("p", "pipe:[5]", ino=2, kind="fifo")]
    lines += [
        tw.event("read", tw.T0_US + 100 * i, 10, fhash="f", size=size, dir="r") for i, size in enumerate((1, 2, 3, 4))
    ]
    lines += [tw.event("read", tw.T0_US + 50, 900, fhash="p", size=7, dir="r")]
    lines += [tw.event("write", tw.T0_US + 305, 10, fhash="f", size=100, dir="w", stage="s", task="t", job="j")]
    lines += [tw.event("stat", tw.T0_US + 990, 10, fhash="f")]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)}))
    found = run.io_summary()
    assert (found.hosts, found.processes, found.threads, found.jobs, found.stages, found.tasks) == (1, 1, 1, 1, 1, 1)
    assert (found.files, found.data_files) == (1, 1)
    assert (found.read_bytes, found.written_bytes, found.span_ns) == (17, 100, 1_000_000)
    assert (found.read_ns, found.write_ns, found.metadata_ns) == (40_000, 10_000, 10_000)
    assert found.io_ns == 55_000, "the write began within a read"
    waiting, reading, *rest = found.functions
    assert (waiting.name, waiting.time_ns, waiting.bytes) == ("read (pipe, socket)", 900_000, 7)
    assert (reading.name, reading.calls, reading.bytes, reading.bandwidth) == ("read", 4, 10, 10 / 40e-6)
    assert (reading.min, reading.p25, reading.median, reading.p75, reading.max) == (1, 1.75, 2.5, 3.25, 4)
    assert {(one.name, one.max, one.bandwidth) for one in rest} == {("write", 100, 1e7), ("stat", None, None)}

    shown = CliRunner().invoke(info_command.command, [str(run.path), "--summary"], catch_exceptions=False)
    assert "1 host, 1 job, 1 stage, 1 task, 1 process, 1 thread" in shown.stdout
    assert "55.0 us (5.5%)" in shown.stdout
    told = CliRunner().invoke(info_command.command, [str(run.path), "--summary", "--format", "json"])
    assert json.loads(told.stdout) == json.loads(json.dumps(found.to_json()))


def test_the_sizes_of_many_calls_are_told_within_a_hundredth(tmp_path: Path) -> None:
    """Of 3,000 different sizes, in two trace files of two threads each; of lines of totals none is told."""
    sizes = [1000 + 37 * n for n in range(3000)]
    blocks = {}
    for process in range(2):
        lines = [tw.file_line("f", "/data/x", ino=1)]
        lines += [
            {**tw.event("read", tw.T0_US + 10 * at, 1, process + 7, fhash="f", size=size, dir="r"), "tid": 7 + at % 2}
            for at, size in enumerate(sizes[process::2])
        ]
        if process:
            many = {"calls": 3, "lines": 3, "count": 9, "span": 9000, "last": 6000, "sizes": [2, 3], "durs": [10, 3]}
            pieces = [4096, [0, 9000, 3, 9, 3000, [0, 9]]]
            lines.append(tw.event("write", tw.T0_US, 3, 8, fhash="f", size=9, dir="w", **many, pieces=pieces))
        blocks[f"n-{process + 7}-1"] = tw.block(lines)
    run = tailrace.open(tw.make_run(tmp_path / "run", blocks))
    found = run.io_summary()
    assert (found.processes, found.threads) == (2, 4)
    reading, writing = found.functions
    assert (reading.calls, reading.bytes, reading.min, reading.max) == (3000, sum(sizes), sizes[0], sizes[-1])
    told = {0.25: reading.p25, 0.5: reading.median, 0.75: reading.p75}
    assert told == {share: pytest.approx(quantile, rel=0.01) for share, quantile in _quantiles(sizes).items()}
    assert (writing.calls, writing.bytes, writing.min, writing.median) == (3, 9, None, None)
    assert summary.collect(run)["functions"] == [asdict(one) for one in found.functions]


def _quantiles(sizes: list[int]) -> dict[float, float]:
    return dict(zip((0.25, 0.5, 0.75), statistics.quantiles(sizes, n=4, method="inclusive"), strict=True))


def test_an_empty_run_has_a_summary(tmp_path: Path) -> None:
    run = tailrace.open(tw.make_run(tmp_path / "run", {}))
    assert (run.io_summary().io_ns, run.io_summary().functions) == (0, [])
    shown = CliRunner().invoke(info_command.command, [str(run.path), "--summary"], catch_exceptions=False)
    assert shown.exit_code == 0
