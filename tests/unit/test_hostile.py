"""Traces whose lines keep the format and whose values are what no program can have done: every analysis ends, with a
result or with an error of ours, and no number wraps around."""

import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import tailrace
from support import trace_writer as tw
from tailrace.analyzer import exports, summary
from tailrace.analyzer.insights import run_comparison
from tailrace.analyzer.report import html, terminal
from tailrace.analyzer.store import query
from tailrace.analyzer.store.statistic import parse as parse_aggregate
from tailrace.errors import TailraceError

NUMBERS = st.sampled_from([0, -1, 1, 4096, 2**31, 2**62, 2**63 - 1, -(2**63)])
NAMES = ("/a", "/b\n\u202e", "", "relative", "pipe:[5]", "tcp:1.2.3.4:5->6.7.8.9:10", "unix:[1]->[?]", "/dev/shm/x")
KINDS = ("reg", "dir", "fifo", "sock", "anon", "none", "strange")
TAGS = st.sampled_from(["s", "t", "(untagged)", "[red]"])
ARGS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("offset", "size", "count", "ret", "errno", "flags", "prot", "calls"), NUMBERS),
        **dict.fromkeys(("fhash", "fhash2"), st.sampled_from([str(i) for i in range(len(NAMES) + 1)])),
        **dict.fromkeys(("workflow", "stage", "task", "rank", "object", "tag.z"), TAGS),
        "dir": st.sampled_from(["r", "w", "rw", "x"]),
    },
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "openat", "rename", "link", "unlink", "mmap", "wait", "fork", "H5Dread"]),
        st.sampled_from(["POSIX", "STDIO", "PROCESS", "MMAP", "SOCKET", "HDF5", "LIBC"]),
        st.sampled_from([tw.T0_US, tw.T0_US + 10, 0, 2**52]),
        st.sampled_from([0, 1.5, 1e9]),
        ARGS,
    ),
    min_size=1,
    max_size=12,
)
HEADER = st.fixed_dictionaries(
    {"read": st.just(0), "written": st.just(0), "pid": st.sampled_from([7, 8])},
    optional={
        "reaped": st.just([[8, 0, 5, 5], [9, 9, None, None], [7, 256, 2**62, 2**62]]),
        "ledger": st.just({"base": [0, 0], "own": [1, 2], "reaped": [0, 0], "done": [2**62, 1]}),
        "process": st.just({"ppid": 8, "exe": "/bin/sh", "argv": ["sh", "-e", "/a"], "cwd": "/", "uid": 0}),
        "exit": st.just({"code": 0, "rchar": 2**62, "wchar": 5}),
    },
)
LINKS = {"deps": [{"task": "s", "via": "file", "path": "/a"}], "inputs": [{"path": "/a"}], "outputs": []}
DECLARED = [
    {"type": "task", "workflow": "s", "stage": "s", "task": "t", "name": "N", "parent": "t", **LINKS},
    {"type": "task", "workflow": "s", "stage": "s", "task": "s", "parent": "t", "t_depend_ns": 2**62, **LINKS},
    {"type": "end", "workflow": "s", "task": "t", "t_end_ns": 2**62, "status": "failed"},
]


def run_of(directory: Path, blocks: list[Any]) -> Path:
    files: dict[str, bytes] = {}
    for i, (events, header) in enumerate(blocks):
        lines = [tw.host_line()]
        lines += [tw.file_line(str(n), name, ino=n % 3, kind=KINDS[n % len(KINDS)]) for n, name in enumerate(NAMES)]
        lines += [tw.event(name, at, dur, header["pid"], cat, **args) for name, cat, at, dur, args in events]
        files[f"h-{i}-1"] = tw.block(lines, header)
    return tw.make_run(directory, files, None, m="\n".join(map(json.dumps, DECLARED)))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(EVENTS, HEADER), min_size=1, max_size=3))
def test_any_value_is_analysed_without_an_error(tmp_path_factory: pytest.TempPathFactory, blocks: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    run = tailrace.open(run_of(folder / "run", blocks))
    figures = [parse_aggregate(text) for text in ("count", "mean:size", "p50:size", "nunique:path")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run.info(), run.stages, run.tasks, run.processes, run.waits
        data = summary.collect(run)
        terminal.show(data, Console(file=io.StringIO(), width=80))
        html.page_text(data)
        measured = run_comparison.measure(run)
        query.aggregate(run, ["path", "dir"], figures)
        graphs = [run.dataflow(level, files=files) for level in ("stage", "process") for files in ("none", "all")]
        graphs.append(run.dataflow("task", datasets=True))
        for form in exports.FORMATS:
            try:
                exports.export(run, form, folder / form)
            except TailraceError as error:
                assert "no task" in str(error)
    assert all(value >= 0 for value in measured.figures.values())
    assert all(edge.get("bytes", 0) >= 0 for graph in graphs for *_, edge in graph.edges(data=True))
