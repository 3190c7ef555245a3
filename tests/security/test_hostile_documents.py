"""run.json, accounts, declared files and catalogues with any content: an answer or one line, never a traceback."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tailrace
from support import trace_writer as tw
from tailrace.analyzer import summary
from tailrace.analyzer.store import catalogue
from tailrace.errors import TailraceError

pytestmark = pytest.mark.slow("computes a whole report for each of a hundred runs")

NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**64), 10**30, 1.5, -0.0, 1e308])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "../../etc/passwd", "\x00\x1b[31m", "\udcff", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["host", "dev", "a", "task"]), inner),
    max_leaves=6,
)
IN_HEADERS = NUMBERS | st.none() | st.text("a/\x00\x1b", max_size=3) | st.lists(NUMBERS, max_size=2)
RUN_KEYS = ("format", "run_id", "created", "command", "cwd", "tags", "user", "uid", "host", "kernel", "boot_id", "cpu")
RUN_KEYS += ("clock_error_ns", "versions", "mounts", "restarts", "journal_dir")
MOUNT_KEYS = ("dev", "source", "root", "point", "fstype")
ACCOUNT_KEYS = ("host", "pid", "status", "rchar", "wchar", "ns", "untraced", "program", "cause", "count")
TASK: dict[str, Any] = {
    "type": "task",
    "workflow": "w",
    "stage": "s",
    "task": "1",
    "deps": [],
    "inputs": [],
    "outputs": [],
}
KINDS: list[dict[str, Any]] = [
    {"type": "workflow", "workflow": "w", "manager": "m"},
    TASK,
    {**TASK, "task": "2", "deps": [{"task": "1", "via": "data"}], "inputs": [{"path": "/data/in"}]},
    {**TASK, "type": "plan", "also": ["2", "3"], "deps": [{"task": "3"}], "inputs": [{"path": "/a", "maker": "2"}]},
    {"type": "try", "workflow": "w", "task": "1", "try": 0, "t_launch_ns": 1},
    {"type": "end", "workflow": "w", "task": "1", "t_end_ns": 2, "status": "done"},
]
MORE = (
    "t_submit_ns",
    "t_start_ns",
    "tries",
    "error",
    "cores",
    "nodes",
    "ranks",
    "holds",
    "parent",
    "annotations",
    "name",
)


def documents(keys: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return VALUES | st.dictionaries(st.sampled_from(keys), VALUES)


def changed(line: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from((*line, *MORE)), VALUES, max_size=4).map(lambda more: {**line, **more})


def run_of(place: Path) -> Path:
    read = tw.event(ts_us=tw.T0_US + 10, stage="s", task="1", dir="r", size=5, fhash="f1", ret=5)
    start = tw.event("start", cat="PROCESS", ppid=1, exe="/bin/a", cwd="/w", argv=["a"], uid=1000, stage="s", task="1")
    trace = tw.block([start, tw.file_line("f1", "/data/in"), read])
    return tw.make_run(place, {"n-7-1": trace})


def answers(run: Path) -> None:
    """What info, report and query compute; an error is one line that names the run."""
    try:
        opened = tailrace.open(run)
        opened.info()
        json.dumps(summary.collect(opened), default=str)
        assert len(opened.events().compute()) >= 1
        assert len(opened.tasks) >= 0
    except TailraceError as error:
        assert "\n" not in str(error)


FEW = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@FEW
@given(document=documents(RUN_KEYS), mounts=st.lists(documents(MOUNT_KEYS), max_size=2))
@example(document={"clock_error_ns": 10**30, "uid": 2**64, "restarts": [{"clock_error_ns": -(2**64)}]}, mounts=[])
def test_any_run_json_is_taken(tmp_path_factory: pytest.TempPathFactory, document: Any, mounts: list[Any]) -> None:
    run = run_of(tmp_path_factory.mktemp("run") / "run")
    if isinstance(document, dict) and mounts:
        document = {**document, "mounts": mounts}
    (run / "run.json").write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    answers(run)


@FEW
@given(document=documents(ACCOUNT_KEYS))
@example(document={"host": "node-1", "pid": 2**64, "status": 10**30, "rchar": 2**64, "wchar": 1, "ns": 10**30})
@example(document={"host": "node-1", "pid": 7, "status": 0, "rchar": 10**30, "wchar": -1, "ns": 1})
def test_any_account_is_taken(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    run = run_of(tmp_path_factory.mktemp("run") / "run")
    (run / "accounts").mkdir(exist_ok=True)
    (run / "accounts" / "a.json").write_text(json.dumps(document))
    answers(run)


ACCOUNT = {"host": "node-1", "pid": 7, "status": 0, "rchar": 1, "wchar": 1, "ns": 1}


@pytest.mark.parametrize("key", ["pid", "status", "ns", "rchar", "wchar"])
@pytest.mark.parametrize("value", [2**64, -(10**30)])
def test_a_number_that_no_account_has_is_damage(tmp_path: Path, key: str, value: int) -> None:
    run = run_of(tmp_path / "run")
    (run / "accounts").mkdir(exist_ok=True)
    (run / "accounts" / "a.json").write_text(json.dumps([ACCOUNT, {**ACCOUNT, key: value}]))
    (row,) = tailrace.open(run).losses.itertuples()
    assert (row.file, row.cause) == ("accounts/a.json", "damaged")
    assert row.problem.endswith("the host, pid, status, time or bytes of an account are missing or impossible")


def test_texts_of_an_account_are_any(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    (run / "accounts").mkdir(exist_ok=True)
    texts = {"host": "\udcff", "untraced": "\ud800", "program": "\udfff\x00\x1b"}
    (run / "accounts" / "a.json").write_text(json.dumps({**ACCOUNT, **texts}))
    assert tailrace.open(run).losses.empty
    answers(run)


@FEW
@given(lines=st.lists(st.one_of([changed(line) for line in KINDS]), min_size=1, max_size=4))
@example(lines=[TASK, {**KINDS[5], "t_end_ns": 10**30, "tries": 2**64}, {**KINDS[4], "t_launch_ns": -(2**64)}])
@example(lines=[{**TASK, "deps": [{"task": "1"}], "parent": "1"}, {**KINDS[2], "parent": "1"}])
def test_any_declaration_is_taken(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    run = run_of(tmp_path_factory.mktemp("run") / "run")
    (run / "declared" / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers(run)


@FEW
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    table=st.sampled_from(["", "counts", "extents", "times"]),
)
@example(flips=[(0.5, 255)], table="counts")
@example(flips=[(0.01, 255)], table="times")
def test_any_catalogue_is_taken(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[float, int]], table: str
) -> None:
    """Its file, or a stored table of it, with other bytes."""
    run = run_of(tmp_path_factory.mktemp("run") / "run")
    tailrace.open(run).edges()
    place = run / catalogue.FILE_NAME
    if table:
        with closing(sqlite3.connect(place)) as connection:
            (data,) = connection.execute("SELECT data FROM edge_tables WHERE name = ?", (table,)).fetchone()
            rows = (flipped(data, flips), table)
            connection.execute("UPDATE edge_tables SET data = ? WHERE name = ?", rows)
            connection.commit()
    else:
        place.write_bytes(flipped(place.read_bytes(), flips))
    answers(run)


def flipped(data: bytes, flips: list[tuple[float, int]]) -> bytes:
    changed = bytearray(data)
    for where, value in flips:
        changed[int(where * len(changed))] = value
    return bytes(changed)


@FEW
@given(
    header=st.dictionaries(st.sampled_from(["pid", "start", "host", "events", "t0", "t1", "read", "lost"]), IN_HEADERS)
)
@example(header={"events": 2**64})
@example(header={"t0": -(2**64), "t1": 10**30, "read": 10**30, "lost": {"torn": 10**30}})
def test_any_block_header_is_taken(tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any]) -> None:
    run = run_of(tmp_path_factory.mktemp("run") / "run")
    (run / "trace" / "n-8-1.pfw.gz").write_bytes(tw.block([tw.event()], header))
    answers(run)
