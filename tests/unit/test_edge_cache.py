"""The edge table in the catalogue: the same as built anew, whatever came since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support import trace_writer as tw
from tailrace.analyzer.edges import edge_cache, edge_table, event_fold


def lines(pid: int, first: int, count: int, task: str) -> list[tw.Line]:
    """Reads of `count` blocks of a file of its own, and one of a shared file."""
    own, shared = f"{pid:016x}", f"{0xABC:016x}"
    out: list[tw.Line] = [tw.host_line(), tw.file_line(own, f"/own{pid}", pid + 10), tw.file_line(shared, "/shared", 5)]
    for i in range(first, first + count):
        moved: dict[str, Any] = {"offset": i * 10, "count": 10, "size": 10, "ret": 10, "task": task, "stage": task[0]}
        out.append(tw.event("write", tw.T0_US + 1000 * i, 1.0, pid, fhash=own, dir="w", **moved))
        out.append(tw.event("read", tw.T0_US + 1000 * i + 5, 1.0, pid, fhash=shared, dir="r", **moved))
    return out


def block(pid: int, first: int, count: int, task: str = "t1") -> bytes:
    return tw.block(lines(pid, first, count, task), {"pid": pid})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tw.make_run(tmp_path / "run", {"node_1-7-187a": block(7, 0, 4), "node_1-8-187a": block(8, 0, 3, "u2")})


def shown(table: edge_table.EdgeTable) -> pd.DataFrame:
    frame = edge_table.frame(table)
    return frame.sort_values(["host", "pid", "path", "direction"], ignore_index=True)


def anew(path: Path) -> pd.DataFrame:
    return shown(event_fold.build(tailrace.open(path)))


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each building reads from here on."""
    seen: list[int] = []
    real = edge_cache.loader.parts

    def counting(*args: Any) -> Any:
        if args[4] is not None:  # not a building without the cache
            seen.append(len(args[4]))
        return real(*args)

    monkeypatch.setattr(edge_cache.loader, "parts", counting)
    return seen


def test_it_is_built_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads(monkeypatch)
    tables = [shown(tailrace.open(run).edges()) for _ in range(3)]
    assert seen == [2]
    for table in tables:
        pd.testing.assert_frame_equal(table, anew(run), check_dtype=False)


def test_only_new_blocks_are_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tailrace.open(run).edges()
    seen = reads(monkeypatch)
    with (run / "trace" / "node_1-7-187a.pfw.gz").open("ab") as file:
        file.write(block(7, 4, 5))
    (run / "trace" / "node_1-9-187a.pfw.gz").write_bytes(block(9, 0, 2, "v3"))
    table = shown(tailrace.open(run).edges())
    assert seen == [2]
    pd.testing.assert_frame_equal(table, anew(run), check_dtype=False)
    assert table.loc[table["pid"] == 7, "bytes"].tolist() == [90, 90]
    shown(tailrace.open(run).edges())
    assert seen == [2], "and that was kept, too"


def test_a_replaced_file_is_read_anew(run: Path) -> None:
    tailrace.open(run).edges()
    (run / "trace" / "node_1-7-187a.pfw.gz").unlink()
    (run / "trace" / "node_1-8-187a.pfw.gz").write_bytes(block(8, 50, 1, "u2"))
    table = shown(tailrace.open(run).edges())
    pd.testing.assert_frame_equal(table, anew(run), check_dtype=False)
    assert set(table["pid"]) == {8} and table["bytes"].tolist() == [10, 10]


def test_another_version_is_built_anew(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tailrace.open(run).edges()
    seen = reads(monkeypatch)
    monkeypatch.setattr(edge_cache, "VERSION", edge_cache.VERSION + 1)
    tailrace.open(run).edges()
    assert seen == [2]


def test_without_write_permission_it_is_built_each_time(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.analyzer.store.catalogue._publish", lambda *_: False)
    seen = reads(monkeypatch)
    for _ in range(2):
        pd.testing.assert_frame_equal(shown(tailrace.open(run).edges()), anew(run), check_dtype=False)
    assert seen == [2, 2]


def test_the_model_takes_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads(monkeypatch)
    for _ in range(2):
        graph = tailrace.open(run).dataflow("task")
        assert {d["path"] for _, d in graph.nodes(data=True) if d["kind"] == "file"} == {"/own7", "/own8", "/shared"}
    assert seen == [2]


def test_a_run_without_events(tmp_path: Path) -> None:
    path = tw.make_run(tmp_path / "run", {})
    for _ in range(2):
        assert len(tailrace.open(path).edges().bursts) == 0
