"""The catalogue: what it takes from headers and declared files, when it looks again, and where it is kept."""

import json
import os
import sqlite3
import stat
import zlib
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support import trace_writer as tw
from tailrace import _native
from tailrace.analyzer.store import catalogue, headers
from tailrace.errors import NotARunError


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Node-local files go to a directory of the test's own, so that it can see what is left there."""
    local = tmp_path_factory.mktemp("local")
    monkeypatch.setattr("tempfile.tempdir", str(local))
    return local


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(file name, start) of every scan of headers that happens from here on, but for a look at the first one."""
    seen: list[tuple[str, int]] = []
    scan = _native.scan_blocks

    class Spy:
        @staticmethod
        def scan_blocks(path: Path, start: int, most: int) -> Any:
            if most != 1:
                seen.append((Path(path).name, start))
            return scan(path, start, most)

    monkeypatch.setattr(headers, "_native", Spy)
    return seen


def start_event(**args: Any) -> tw.Line:
    return tw.event("start", cat="PROCESS", ppid=1, exe="/bin/a", cwd="/w", argv=["a", "-b c"], uid=1000, **args)


def two_stage_run(tmp_path: Path) -> Path:
    first = tw.block([start_event(stage="s1"), tw.event(ts_us=tw.T0_US + 10, stage="s1", dir="r", size=5)])
    second = tw.block([tw.event("write", ts_us=tw.T0_US + 99, dir="w", size=7, stage="s2", **{"tag.try": "0"})])
    return tw.make_run(tmp_path / "run", {"n-7-1": first + second})


# ---- contents ----


def test_info_comes_from_headers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tailrace.open(two_stage_run(tmp_path))
    monkeypatch.setattr(_native, "read_files", None)  # calling it fails
    info = run.info()
    assert info["events"] == 3 and info["blocks"] == 2 and info["processes"] == 1 and info["trace_files"] == 1
    assert (info["read_bytes"], info["written_bytes"]) == (5, 7)
    assert (info["t0_ns"], info["t1_ns"]) == (tw.T0_US * 1000, (tw.T0_US + 99) * 1000 + 1250)
    assert info["stages"] == 2 and info["hosts"] == [tw.HOST] and info["command"] == ["make"] and info["losses"] == []
    size = (run.path / "trace" / "n-7-1.pfw.gz").stat().st_size
    assert info["compressed_bytes"] == size and json.dumps(info)


def test_processes(tmp_path: Path) -> None:
    end = tw.event("exit", cat="PROCESS", ts_us=tw.T0_US + 50, code=3, rchar=10)
    first = tw.block([start_event()]) + tw.block([tw.event(dir="r", size=2)])
    again = tw.block([tw.event("start", cat="PROCESS", ppid=1, exe="/bin/b", cwd="/", argv=["b"], uid=1000), end])
    other = tw.block([tw.event(pid=8)], {"start": "187b", "pid": 8})
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n-7-1": first + again, "n-8-1": other}))
    table = run.processes.set_index("pid")
    row = table.loc[7]
    assert (row.exe, row.argv, row.cwd, row.ppid, row.uid, row.exit) == ("/bin/b", ["b"], "/", 1, 1000, 3)
    assert row.account["rchar"] == 10 and (row.events, row.read_bytes) == (4, 2)
    assert (row.t0_ns, row.t1_ns) == (tw.T0_US * 1000, (tw.T0_US + 50) * 1000 + 1250)
    assert table.loc[8].exe is None and table.loc[8].argv is None


def test_contexts_are_decoded(tmp_path: Path) -> None:
    tags = {"workflow": "w", "stage": "a,b=c %", "task": "t/1", "job": "j", "rank": "3", "tag.x.y": "é", "tag.try": "0"}
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n": tw.block([tw.event(**tags), tw.event()])}))
    rows = run._catalogue.rows("SELECT workflow, stage, task, job, rank, free FROM contexts ORDER BY id")
    assert rows[0][:5] == ("w", "a,b=c %", "t/1", "j", "3") and json.loads(rows[0][5]) == {"x.y": "é", "try": "0"}
    assert rows[1] == (None, None, None, None, None, "{}")
    assert run.columns[-2:] == ["tag.try", "tag.x.y"]


def test_losses_by_cause(tmp_path: Path) -> None:
    lossy = tw.block([tw.event()], {"lost": {"no_journal": 3, "unnamed": 1}}) + tw.block(
        [tw.event()], {"lost": {"unnamed": 4}}
    )
    torn = tw.block([tw.event()]) + tw.block([tw.event()])[:50]
    newer = tw.block([tw.event()], {"v": 9})
    files = {"a": lossy, "b": torn, "c": newer, "d": b"not a trace", "e": tw.block([tw.event()], {"pid": "7"})}
    run = tailrace.open(tw.make_run(tmp_path / "run", files))
    losses = {(row.file[6:7], row.cause, row.unit): row.count for row in run.losses.itertuples()}
    assert losses == {
        ("a", "no_journal", "events"): 3,
        ("a", "unnamed", "events"): 5,
        ("b", "torn", "bytes"): 50,
        ("c", "version", "bytes"): len(newer),
        ("d", "foreign", "files"): 1,
        ("e", "damaged", "blocks"): 1,
    }
    problems = dict(zip(run.losses["cause"], run.losses["problem"], strict=True))
    assert "version 9" in problems["version"] and "pid" in problems["damaged"] and "d.pfw.gz" in problems["foreign"]
    assert len(run.events(columns=["name"]).compute()) == 3


@pytest.mark.parametrize(
    "damage",
    [
        {"contexts": None},
        {"contexts": [1]},
        {"contexts": []},
        {"t0": -1},
        {"t1": 2**64},
        {"read": "1"},
        {"host": 5},
        {"start": None},
    ],
)
def test_a_damaged_header_is_a_loss(tmp_path: Path, damage: dict[str, Any]) -> None:
    data = tw.block([tw.event()], damage) + tw.block([tw.event(size=1)])
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n": data}))
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [["damaged", "blocks", 1]]
    assert len(run.events().compute()) == 1


def test_hostile_names_are_stored(tmp_path: Path) -> None:
    header = {
        "contexts": ["stage=%ED%A0%80%00'\"--"],
        "process": {"exe": "\ud800'; DROP TABLE blocks", "argv": [1, None]},
    }
    text = tw.block([tw.event()]).replace(b"", b"")
    body = json.dumps({**json.loads(_native.scan_blocks(_write(tmp_path, text))[0][0][2]), **header}).encode()
    plain = tw.frame(body, *_body(text))
    run = tailrace.open(tw.make_run(tmp_path / "run", {"n": plain}))
    assert run.processes["exe"][0] == "\ufffd'; DROP TABLE blocks" and run.processes["argv"][0] == ["1", "None"]
    assert run.stages["stage"][0] == "\ufffd\ufffd\ufffd\0'\"--"


def _write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x.pfw.gz"
    path.write_bytes(data)
    return path


def _body(data: bytes) -> tuple[bytes, int, int]:
    extra = int.from_bytes(data[10:12], "little")
    return data[12 + extra : -8], int.from_bytes(data[-8:-4], "little"), int.from_bytes(data[-4:], "little")


# ---- declared ----

DECLARED = [
    {"type": "workflow", "workflow": "w", "manager": "parsl", "version": "1", "t_ns": 1, "config": {"a": 1}},
    {"type": "task", "workflow": "w", "stage": "s", "task": "1", "kind": "python", "name": "f", "executor": "e"}
    | {"t_submit_ns": 10, "deps": [], "inputs": [{"path": "/in", "url": "file:///in"}], "outputs": []},
    {
        "type": "task",
        "workflow": "w",
        "stage": "s",
        "task": "2",
        "t_submit_ns": 20,
        "inputs": [],
        "outputs": [{"path": "/out"}],
    }
    | {"deps": [{"task": "1", "via": "file", "path": "/x"}]},
    {"type": "try", "workflow": "w", "task": "1", "try": 0, "t_launch_ns": 11},
    {"type": "try", "workflow": "w", "task": "1", "try": 1, "t_launch_ns": 15},
    {"type": "end", "workflow": "w", "task": "1", "t_end_ns": 30, "status": "failed", "tries": 2, "error": "no"},
    {"type": "later", "anything": 1},
]


def test_a_task_line_states_its_launch_and_a_wait_line_several_tasks(tmp_path: Path) -> None:
    task = {"type": "task", "workflow": "w", "stage": "s", "deps": [], "inputs": [], "outputs": []}
    lines = [
        task | {"task": "1", "t_launch_ns": 11},
        task | {"task": "2", "t_launch_ns": 12, "try": 1},
        task | {"task": "3"},
        {"type": "wait", "workflow": "w", "task": "2", "awaited": ["1"]},
        {"type": "wait", "workflow": "w", "task": "3", "awaited": [], "after": "2", "also": ["4", "5"]},
        {"type": "wait", "workflow": "w", "task": "6", "awaited": [], "after": "2", "also": [7]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    run = tailrace.open(tw.make_run(tmp_path / "run", {}, parsl=text))
    assert run.declared_tries[["task", "try", "t_launch_ns"]].values.tolist() == [["1", 0, 11], ["2", 1, 12]]
    assert run.declared_tasks["t_launch_ns"].fillna(0).tolist() == [11, 12, 0]
    waits = run.declared_waits.fillna("").sort_values(["task"])
    assert waits[["task", "awaited", "after"]].values.tolist() == [
        ["2", "1", ""],
        ["3", "", "2"],
        ["4", "", "2"],
        ["5", "", "2"],
    ]
    assert run.declared_problems["problem"].tolist() == ["an entry of awaited or also is not a task"]


def test_declared_dag(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in DECLARED)
    run = tailrace.open(tw.make_run(tmp_path / "run", {}, parsl=text))
    first, second = run.declared_tasks.to_dict("records")
    assert (first["task"], first["stage"], first["name"], first["t_submit_ns"], first["t_launch_ns"]) == (
        "1",
        "s",
        "f",
        10,
        11,
    )
    assert (first["t_end_ns"], first["status"], first["tries"], first["error"]) == (30, "failed", 2, "no")
    assert second["task"] == "2" and second["status"] is None
    assert run.declared_deps.values.tolist() == [["w", "2", "1", "file", "/x"]]
    assert run.declared_files.values.tolist() == [["w", "1", "r", "/in", "file:///in"], ["w", "2", "w", "/out", None]]
    assert run.declared_problems.empty
    tasks = run.tasks.set_index("task")
    assert tasks.loc["1", "stage"] == "s" and tasks["events"].isna().all()


def test_what_was_planned_counts_for_what_runs(tmp_path: Path) -> None:
    def planned(task: str, *deps: str, inputs: Any = (), **keys: Any) -> dict[str, Any]:
        links = [{"task": dep, "via": "rule"} for dep in deps]
        return {
            "type": "plan",
            "workflow": "w",
            "task": task,
            "deps": links,
            "inputs": list(inputs),
            "outputs": [],
        } | keys

    runs = {"type": "task", "workflow": "w", "stage": "s", "deps": [], "inputs": [], "outputs": []}
    lines = [
        planned("a", outputs=[{"path": "/a"}]),
        planned("b", "a", also=["b.idx"], outputs=[{"path": "/b"}, {"path": "/b.idx"}]),
        planned("stage", "b", "stage", "loop", "unknown"),
        planned("loop", "stage"),
        planned(
            "c", "stage", "a", "c", inputs=[{"path": "/b", "maker": "b"}, {"path": "/x", "maker": "z"}, {"path": "/y"}]
        ),
        planned("z", inputs=[{"path": "/z"}]),
        planned("bad", deps=[{}]),
        *(runs | {"task": task} for task in ("c", "b.idx", "a")),
        planned("c", "b.idx"),
    ]
    run = tailrace.open(tw.make_run(tmp_path / "run", {}, make="".join(json.dumps(line) + "\n" for line in lines)))
    assert run.declared_tasks["task"].tolist() == ["a", "b.idx", "c"]
    assert run.declared_deps[["task", "dep", "via"]].values.tolist() == [
        ["b.idx", "a", "rule"],
        ["c", "a", "rule"],
        ["c", "b.idx", "rule"],
    ]
    assert run.declared_files[["task", "direction", "path"]].values.tolist() == [
        ["a", "w", "/a"],
        ["b.idx", "w", "/b"],
        ["b.idx", "w", "/b.idx"],
        ["c", "r", "/b"],
        ["c", "r", "/y"],
    ]
    assert run.declared_problems["problem"].tolist() == ["a dependency has no task"]


def test_declared_lines_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    bad = ["no json", "[]", '{"no": "type"}', '{"type": "end", "workflow": "w", "task": "1"}', '{"type":"task"', ""]
    bad += [json.dumps({**DECLARED[1], "deps": [{}]})]
    run = tailrace.open(tw.make_run(tmp_path / "run", {}, flux="\n".join([*bad, json.dumps(DECLARED[2])])))
    assert run.declared_problems["line"].tolist() == [1, 2, 3, 4, 5, 7]
    assert set(run.declared_problems["file"]) == {"declared/flux.jsonl"}
    assert "t_end_ns" in run.declared_problems["problem"][3]
    assert "2" in set(run.declared_tasks["task"])


# ---- staleness ----


def test_a_second_open_scans_nothing(tmp_path: Path, scanned: list[tuple[str, int]]) -> None:
    directory = two_stage_run(tmp_path)
    first = tailrace.open(directory).info()
    assert scanned == [("n-7-1.pfw.gz", 0)]
    inode = (directory / "tailrace.db").stat().st_ino
    assert tailrace.open(directory).info() == first
    assert len(scanned) == 1 and (directory / "tailrace.db").stat().st_ino == inode


def test_only_new_bytes_of_a_grown_file_are_scanned(tmp_path: Path, scanned: list[tuple[str, int]]) -> None:
    directory = two_stage_run(tmp_path)
    path = directory / "trace" / "n-7-1.pfw.gz"
    run = tailrace.open(directory)
    whole = path.stat().st_size
    new = tw.block([tw.event(stage="s3")], {"lost": {"unnamed": 2}})
    with path.open("ab") as file:
        file.write(new[:30])
    torn = run.refresh()
    assert torn.info()["events"] == 3 and torn.losses["count"].tolist() == [30]
    with path.open("ab") as file:
        file.write(new[30:])
    grown = torn.refresh()
    assert scanned == [(path.name, 0), (path.name, whole), (path.name, whole)]
    assert grown.info()["events"] == 4 and grown.info()["stages"] == 3
    assert grown.losses[["cause", "count"]].values.tolist() == [["unnamed", 2]]
    assert run.info()["events"] == 3  # what was opened stays as it was


def test_a_torn_middle_stays_counted_while_the_file_grows(tmp_path: Path) -> None:
    good = tw.block([tw.event()])
    directory = tw.make_run(tmp_path / "run", {"n": good + good[:40] + good})
    assert tailrace.open(directory).losses["count"].tolist() == [40]
    with (directory / "trace" / "n.pfw.gz").open("ab") as file:
        file.write(good + good[:7])
    run = tailrace.open(directory)
    assert run.losses["count"].tolist() == [47] and run.info()["events"] == 3


def test_new_removed_and_replaced_files(tmp_path: Path, scanned: list[tuple[str, int]]) -> None:
    directory = tw.make_run(
        tmp_path / "run", {"a": tw.block([tw.event(stage="a")]), "b": tw.block([tw.event(stage="b")])}
    )
    tailrace.open(directory)
    trace = directory / "trace"
    (trace / "a.pfw.gz").unlink()
    (trace / "new").write_bytes(tw.block([tw.event(stage="b2")] * 2))
    (trace / "new").replace(trace / "b.pfw.gz")
    (trace / "c.pfw.gz").write_bytes(tw.block([tw.event(stage="c")]))
    run = tailrace.open(directory)
    assert sorted(run.stages["stage"]) == ["b2", "c"] and run.info()["events"] == 3
    assert scanned[2:] == [("b.pfw.gz", 0), ("c.pfw.gz", 0)]
    assert run.info()["contexts"] == 2 and run.info()["trace_files"] == 2


def test_a_change_of_declared_files_or_run_json_is_seen(tmp_path: Path, scanned: list[tuple[str, int]]) -> None:
    directory = two_stage_run(tmp_path)
    tailrace.open(directory)
    (directory / "declared" / "p.jsonl").write_text(json.dumps(DECLARED[1]) + "\n")
    described = {**tailrace.open(directory).meta, "user": "u"}
    (directory / "run.json").write_text(json.dumps(described))
    run = tailrace.open(directory)
    assert len(run.declared_tasks) == 1 and run.meta == described and len(scanned) == 1
    (directory / "declared" / "p.jsonl").unlink()
    assert tailrace.open(directory).declared_tasks.empty


@pytest.mark.parametrize("damage", [b"", b"not a database, but long enough to be looked at as one" * 100])
def test_a_damaged_catalogue_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    directory = two_stage_run(tmp_path)
    tailrace.open(directory)
    (directory / "tailrace.db").write_bytes(damage)
    assert tailrace.open(directory).info()["events"] == 3


def test_a_catalogue_of_another_version_is_made_anew(tmp_path: Path, scanned: list[tuple[str, int]]) -> None:
    directory = two_stage_run(tmp_path)
    tailrace.open(directory)
    with sqlite3.connect(directory / "tailrace.db") as db:
        db.execute("PRAGMA user_version = 999")
        db.execute("DROP TABLE blocks")
    assert tailrace.open(directory).info()["events"] == 3 and len(scanned) == 2


# ---- where it is kept ----


def test_it_is_published_whole_and_leaves_nothing(tmp_path: Path, own_temporary_directory: Path) -> None:
    directory = two_stage_run(tmp_path)
    directory.chmod(0o750)
    run = tailrace.open(directory)
    assert sorted(p.name for p in directory.iterdir()) == ["declared", "run.json", "tailrace.db", "trace"]
    assert stat.S_IMODE((directory / "tailrace.db").stat().st_mode) == 0o600
    assert list(own_temporary_directory.iterdir()) == []
    (directory / "tailrace.db").unlink()  # it may be deleted at any time
    assert run.info()["events"] == 3


def test_a_declared_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    directory = tw.make_run(tmp_path / "run", {})
    (directory / "declared" / "flux.jsonl").mkdir()
    (row,) = tailrace.open(directory).declared_problems.to_dict("records")
    problem = "the file can't be read: it is not a regular file"
    assert row == {"file": "declared/flux.jsonl", "line": 0, "problem": problem}


def test_a_run_that_cannot_be_written_still_opens(
    tmp_path: Path, own_temporary_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = two_stage_run(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(catalogue.Path, "replace", refuse)
    run = tailrace.open(directory)
    assert run.info()["events"] == 3 and len(run.events().compute()) == 3
    assert not list(directory.glob("*tailrace.db*")) and not list(own_temporary_directory.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_directory_without_write_permission(tmp_path: Path) -> None:
    directory = two_stage_run(tmp_path)
    directory.chmod(0o500)
    assert tailrace.open(directory).info()["events"] == 3


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match="no such directory"):
        tailrace.open(tmp_path / "none")
    with pytest.raises(NotARunError, match=r"run\.json"):
        tailrace.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARunError, match="is a file"):
        tailrace.open(tmp_path / "file")


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")  # being written
    run = tailrace.open(tmp_path)
    assert run.info()["events"] == 0 and run.meta == {} and run.stages.empty and run.tasks.empty
    assert len(run.events().compute()) == 0


def test_a_file_of_many_processes_is_scanned_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scanned: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(headers, "BLOCKS_AT_ONCE", 3)
    blocks = [tw.block([tw.event(pid=pid)], {"start": f"{pid:x}"}) for pid in range(1, 8)]
    data = b"".join(blocks[:5]) + blocks[5][:20] + blocks[6]
    run = tailrace.open(tw.make_run(tmp_path / "run", {"node_1.0": data}))
    assert sorted(run.processes["pid"]) == [1, 2, 3, 4, 5, 7]
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [["torn", "bytes", 20]]
    assert [start for _, start in scanned] == [0, len(b"".join(blocks[:3])), len(data)]


def test_a_process_that_is_also_in_a_file_that_is_gone_is_read_anew(tmp_path: Path) -> None:
    end = tw.block([tw.event("exit", cat="PROCESS", ts_us=tw.T0_US + 50, code=3)])
    directory = tw.make_run(tmp_path / "run", {"n-7-1": tw.block([start_event()]), "n.0": end})
    assert tailrace.open(directory).processes["exit"].tolist() == [3]
    (directory / "trace" / "n.0.pfw.gz").unlink()
    (row,) = tailrace.open(directory).processes.itertuples()
    assert (row.exe, row.events, row.account) == ("/bin/a", 1, None)


def test_a_block_that_comes_twice_counts_once(tmp_path: Path) -> None:
    """In the same file or in another one; one that a writer left without an event is no copy."""
    sealed = {"seg": 0, "epoch": 3, "slots": 9}
    one = tw.block([tw.event(dir="r", size=5)], {**sealed, "lost": {"unnamed": 1}, "reaped": [[9, 0, 1, 1]]})
    other = tw.block([tw.event(ts_us=tw.T0_US + 5, dir="r", size=7)], {**sealed, "slots": 12})
    empty = tw.block([], {**sealed, "slots": 12, "lost": {"unnamed": 1}})
    directory = tw.make_run(tmp_path / "run", {"n-7-1": one + other + empty + empty + one, "n.0": other})
    run = tailrace.open(directory)
    assert (run.info()["events"], run.info()["read_bytes"], len(run.read(["name"]))) == (2, 12, 2)
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [
        ["copied", "blocks", 1],
        ["unnamed", "events", 3],
        ["copied", "blocks", 1],
    ]
    assert run._catalogue.rows("SELECT count(*) FROM reaped") == [(1,)]
    assert "2 blocks that are copies of others, counted once (trace/n-7-1" in run.problems[0]
    (directory / "trace" / "n-7-1.pfw.gz").unlink()
    assert len(tailrace.open(directory).read(["name"])) == 1 and tailrace.open(directory).problems == []


def test_a_block_that_others_of_its_segment_came_after_is_missed(tmp_path: Path) -> None:
    """In whatever order and file they are, and where one comes twice."""
    one, two, three, four = (
        tw.block([tw.event(ts_us=tw.T0_US + n)], {"seg": 0, "epoch": 1, "slots": n + 1, "block": n}) for n in range(4)
    )
    other = tw.block([tw.event(pid=8, ts_us=tw.T0_US + 9)], {"pid": 8, "block": 0})
    directory = tw.make_run(tmp_path / "run", {"node_1.0": one + four + other, "node_1-7-1": three + three})
    run = tailrace.open(directory)
    assert run.losses[["cause", "unit", "count"]].values.tolist() == [["copied", "blocks", 1], ["missing", "blocks", 1]]
    assert "1 blocks missing, which were written" in run.problems[1]
    (directory / "trace" / "node_1-7-1.pfw.gz").write_bytes(three + two)
    assert tailrace.open(directory).problems == []


def test_a_missing_block_is_said_of_the_same_file_however_the_run_was_read(tmp_path: Path) -> None:
    """Of the first one by name with blocks of the process, also where another file was found earlier."""
    blocks = [
        tw.block([tw.event(ts_us=tw.T0_US + n)], {"seg": 0, "epoch": 1, "slots": n + 1, "block": n}) for n in (0, 2, 4)
    ]
    run = tw.make_run(tmp_path / "run", {"n-7-2": blocks[1]})
    assert tailrace.open(run).losses["file"].tolist() == ["trace/n-7-2.pfw.gz"]
    for name, block in (("n-7-1", blocks[0]), ("n-7-3", blocks[2])):
        (run / "trace" / f"{name}.pfw.gz").write_bytes(block)
    losses = tailrace.open(run).losses
    assert losses[["file", "cause", "count"]].values.tolist() == [["trace/n-7-1.pfw.gz", "missing", 2]]


def test_a_file_of_the_manifest_that_is_gone_is_missed(tmp_path: Path) -> None:
    block = tw.block([tw.event()], {"block": 0})
    directory = tw.make_run(tmp_path / "run", {"node_1.0": block, "node_1-7-1": block[:0], "node_1-8-1": block[:0]})
    folder = directory / "manifest"
    folder.mkdir()

    def line(text: bytes) -> bytes:
        return text + b',"crc":"%08x"}\n' % zlib.crc32(text)

    whole = line(b'{"file":"node_1.0.pfw.gz","blocks":1') + line(b'{"file":"node_1-7-1.pfw.gz"')
    (folder / "node_1.jsonl").write_bytes(whole + line(b'{"file":"node_1.0.pfw.gz","blocks":3') + b'{"file":"torn')
    (folder / "node_2.jsonl").write_bytes(line(b'{"file":"node_2.0.pfw.gz","blocks":7'))
    found = tailrace.open(directory).losses
    assert found[["file", "cause", "unit", "count"]].values.tolist() == [
        ["trace/node_1-7-1.pfw.gz", "missing", "files", 1],
        ["trace/node_1.0.pfw.gz", "missing", "blocks", 2],
        ["trace/node_2.0.pfw.gz", "missing", "files", 1],
    ]
    assert found["problem"][2] == "trace/node_2.0.pfw.gz, which manifest/node_2.jsonl has with 7 blocks, is gone"
    (folder / "node_2.jsonl").write_bytes(whole.replace(b"1.0", b"9.0"))
    assert tailrace.open(directory).problems[0].startswith("1 file damaged: ")


@pytest.mark.parametrize("kept", [True, False])
def test_a_catalogue_with_a_flipped_bit_is_made_anew(tmp_path: Path, kept: bool) -> None:
    directory = two_stage_run(tmp_path)
    wanted = tailrace.open(directory).info()
    if kept:
        tailrace.open(directory).edges()
    path = directory / "tailrace.db"
    whole = path.read_bytes()
    for at in range(0, len(whole), 997):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        assert tailrace.open(directory).info() == wanted


@pytest.mark.parametrize("described", [True, False], ids=["a host is described", "no host is described"])
def test_a_run_without_run_json_is_said_to_lack_it_until_it_is_back(tmp_path: Path, described: bool) -> None:
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block([tw.event()])})
    if described:
        (run / "hosts").mkdir()
        (run / "hosts/n.json").write_text('{"host": "n"}')
    text = (run / "run.json").read_text()
    (run / "run.json").unlink()
    for _ in range(2):
        assert tailrace.open(run).problems == [
            "1 file missing, which were written: run.json, which says what was run, where and when"
        ]
    (run / "run.json").write_text("{")
    (said,) = tailrace.open(run).problems
    assert "damaged" in said and "missing" not in said
    (run / "run.json").write_text(text)
    assert tailrace.open(run).problems == []
