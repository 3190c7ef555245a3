"""The ledger's arithmetic over written traces: accounts from exits and from parents, untraced children, the totals."""

from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.trace_writer import T0_US, block, event, make_run
from tailrace.analyzer.model import graphs
from tailrace.analyzer.store import ledger

LEDGER = {"base": [1000, 0], "own": [90, 500], "reaped": [0, 0], "done": [0, 0], "ahead": 0, "loaded": 0}


OBSTACLES = ["static", "go", "musl", "setuid", "machine", "left_out", "dropped", "unreachable", "unreadable"]


def process(
    pid: int, events: list[dict[str, Any]], header: dict[str, Any], exit: dict[str, Any] | None = None
) -> bytes:
    """A process's only block."""
    lines = [event("start", cat="PROCESS", pid=pid, ppid=1, exe=f"/bin/p{pid}", argv=[], cwd="/", uid=0), *events]
    if exit is not None:
        lines.append(event("exit", cat="PROCESS", pid=pid, code=0, **exit))
    return block(lines, {"start": f"{pid:x}", **header})


def write(pid: int, size: int) -> dict[str, Any]:
    return event("write", pid=pid, dir="w", size=size)


def coverage(directory: Path, files: dict[str, bytes]) -> dict[int, dict[str, Any]]:
    rows = tailrace.open(make_run(directory / "run", files)).coverage
    return {int(row["pid"]): row for row in rows.to_dict("records")}


def test_a_process_accounts_for_itself(tmp_path: Path) -> None:
    done = {**LEDGER, "done": [0, 70]}
    rows = coverage(tmp_path, {"a": process(7, [write(7, 170)], {"ledger": done}, {"rchar": 0, "wchar": 100})})
    assert (rows[7]["kernel_written"], rows[7]["captured_written"], rows[7]["share"]) == (170, 170, 1.0)
    assert (rows[7]["account"], rows[7]["cause"]) == ("exit", "")


def test_uncounted_bytes_are_on_neither_side(tmp_path: Path) -> None:
    header = {"ledger": LEDGER, "uncounted": [0, 40]}
    rows = coverage(tmp_path, {"a": process(7, [write(7, 140)], header, {"rchar": 0, "wchar": 100})})
    assert rows[7]["captured_written"] == 100 and rows[7]["share"] == 1.0


def test_a_killed_child_has_its_parents_account_of_it(tmp_path: Path) -> None:
    child = process(8, [write(8, 300)], {"ledger": {**LEDGER, "ahead": 10}})
    wait = {"ledger": LEDGER, "reaped": [[8, 9, 1100, 801]]}
    parent = process(7, [event("wait", cat="PROCESS", ts_us=T0_US + 9)], wait, {"rchar": 0, "wchar": 0})
    rows = coverage(tmp_path, {"a": parent, "b": child})
    assert (rows[8]["account"], rows[8]["signal"]) == ("parent", 9)
    assert (rows[8]["kernel_read"], rows[8]["kernel_written"], rows[8]["ahead"]) == (10, 301, 10)
    assert rows[8]["share"] == pytest.approx(310 / 311) and rows[8]["cause_key"] == "cut_off"


def test_a_child_without_a_trace_is_a_row(tmp_path: Path) -> None:
    wait = {"ledger": LEDGER, "reaped": [[9, 0, 50, 950], [10, 0, None, None]]}
    rows = coverage(tmp_path, {"a": process(7, [write(7, 1000)], wait, {"rchar": 0, "wchar": 1000})})
    assert (
        set(rows) == {7, 9}
        and not rows[9]["traced"]
        and rows[9]["cause"] == f"not traced: {ledger.WORDS['without_settings']}"
    )
    run = tailrace.open(tmp_path / "run")
    assert ledger.totals(run.coverage)["share"] == pytest.approx(0.5)
    assert run.info()["coverage"]["untraced"] == 1 and len(run.processes) == 1


@pytest.mark.parametrize("why", [*OBSTACLES, "a word of a later version"])
def test_the_reason_why_a_child_has_no_trace(tmp_path: Path, why: str) -> None:
    header = {"ledger": LEDGER, "reaped": [[9, 0, 50, 950]], "untraced": [[9, why, "/bin/x"], "damaged", [1, 2, 3]]}
    rows = coverage(tmp_path, {"a": process(7, [write(7, 1000)], header, {"rchar": 0, "wchar": 1000})})
    assert rows[9]["exe"] == "/bin/x" and rows[9]["cause"] == f"not traced: {ledger.WORDS.get(why, why)}"


def test_why_a_process_has_no_end(tmp_path: Path) -> None:
    gone = process(8, [write(8, 10)], {"ledger": LEDGER, "untraced": [[8, "go", "/bin/x"]]})
    parent = {"ledger": LEDGER, "reaped": [[8, 0, 1090, 5000]]}
    wait = [event("wait", cat="PROCESS", ts_us=T0_US + 9)]
    rows = coverage(tmp_path, {"a": process(7, wait, parent, {"rchar": 0, "wchar": 0}), "b": gone})
    assert rows[8]["cause"] == f"went on as a program that is not traced: {ledger.WORDS['go']}"


def test_the_first_of_a_pid_namespace_is_waited_for_by_another_pid(tmp_path: Path) -> None:
    start = {"process": {"ppid": 0, "exe": "/bin/init", "argv": [], "cwd": "/", "uid": 0}}
    first = process(1, [write(1, 300)], {"ledger": LEDGER, **start})
    wait = {"ledger": LEDGER, "reaped": [[4711, 9, 1090, 800]]}
    parent = process(7, [event("wait", cat="PROCESS", ts_us=T0_US + 9)], wait, {"rchar": 0, "wchar": 0})
    rows = coverage(tmp_path, {"a": parent, "b": first})
    assert set(rows) == {1, 7}
    assert (rows[1]["account"], rows[1]["kernel_written"], rows[1]["signal"]) == ("parent", 300, 9)


@pytest.mark.parametrize(("read", "written"), [((8, 9), (1, 2)), ((1, 1), (5, 7))])
def test_processes_of_one_pid_have_their_own_ends(
    tmp_path: Path, read: tuple[int, int], written: tuple[int, int]
) -> None:
    """Both were killed and waited for by their own parents, which ran side by side and have one pid, too."""
    files = {}
    for number, (at, start) in enumerate(((0, "a"), (40, "b"))):
        child = [event("write", ts_us=T0_US + at + 5, pid=8, dir="w", size=written[number])]
        begin = event("start", cat="PROCESS", ts_us=T0_US + at + 3, pid=8, ppid=7)
        files[f"child-{start}"] = block([begin, *child], {"start": f"c{start}", "ledger": LEDGER})
        wait = {"ledger": LEDGER, "reaped": [[8, 9, 1090 + read[number], 500 + written[number]]], "start": start}
        events = [event("start", cat="PROCESS", ts_us=T0_US + at, pid=7, ppid=1)]
        files[f"parent-{start}"] = block([*events, event("wait", cat="PROCESS", ts_us=T0_US + at + 9, pid=7)], wait)
    run = tailrace.open(make_run(tmp_path / "run", files))
    rows = {row["start"]: row for row in run.coverage.to_dict("records")}
    assert set(rows) == {"a", "b", "ca", "cb"}
    for number, start in enumerate(("ca", "cb")):
        assert (rows[start]["kernel_read"], rows[start]["kernel_written"]) == (read[number], written[number])
        assert (rows[start]["signal"], rows[start]["account"]) == (9, "parent")


def test_a_process_that_changed_its_user_has_two_rows(tmp_path: Path) -> None:
    before = process(8, [write(8, 10)], {"ledger": LEDGER})
    header = {"start": "88", "ledger": LEDGER, "t0": T0_US * 1000 + 5000}
    after = block(
        [
            event("start", cat="PROCESS", ts_us=T0_US + 5, pid=8),
            event("write", ts_us=T0_US + 6, pid=8, dir="w", size=300),
        ],
        header,
    )
    again = block([event("write", ts_us=T0_US + 20, pid=8, dir="w", size=1)], {"start": "99", "ledger": LEDGER})
    wait = {"ledger": LEDGER, "reaped": [[8, 9, 1090, 801]]}
    parent = process(7, [event("wait", cat="PROCESS", ts_us=T0_US + 9)], wait, {"rchar": 0, "wchar": 0})
    run = tailrace.open(make_run(tmp_path / "run", {"a": parent, "b": before, "c": after, "d": again}))
    rows = {row["start"]: row for row in run.coverage.to_dict("records")}
    assert rows["8"]["cause_key"] == "another" and rows["8"]["account"] is None
    assert (rows["88"]["account"], rows["88"]["kernel_written"], rows["88"]["signal"]) == ("parent", 301, 9)
    assert rows["99"]["cause_key"] == "no_account"


def test_go_programs_call_the_kernel_themselves(tmp_path: Path) -> None:
    start = {"process": {"ppid": 1, "exe": "/bin/g", "argv": [], "cwd": "/", "uid": 0, "runtime": "go"}}
    rows = coverage(
        tmp_path, {"a": process(7, [write(7, 5)], {"ledger": LEDGER, **start}, {"rchar": 0, "wchar": 9000})}
    )
    assert rows[7]["cause_key"] == "go_calls"


def test_without_an_account_there_is_no_share(tmp_path: Path) -> None:
    rows = coverage(tmp_path, {"a": process(7, [write(7, 5)], {})})
    assert rows[7]["cause_key"] == "no_account"
    run = tailrace.open(tmp_path / "run")
    assert run.coverage["share"].isna().all() and run.info()["coverage"]["share"] is None


@pytest.mark.parametrize("broken", [{"reaped": [[1], "x", [1, 2, -3, 4]]}, {"ledger": 3}, {"uncounted": ["a", 1]}])
def test_damaged_figures_are_none(tmp_path: Path, broken: dict[str, Any]) -> None:
    rows = coverage(tmp_path, {"a": process(7, [write(7, 5)], broken, {"rchar": 0, "wchar": 5})})
    assert rows[7]["share"] == 1.0


def test_edges_of_a_process_not_fully_seen_are_partial(tmp_path: Path) -> None:
    seen = process(7, [write(7, 100)], {"ledger": LEDGER}, {"rchar": 0, "wchar": 100})
    unseen = process(8, [write(8, 100)], {"ledger": LEDGER}, {"rchar": 0, "wchar": 90_000})
    run = tailrace.open(make_run(tmp_path / "run", {"a": seen, "b": unseen}))
    assert ledger.partial_processes(run.processes) == {("node-1", 8, "8")}
    kinds = {data["confidence"] for _, _, data in graphs.graph(run, "process").edges(data=True)}
    assert kinds <= {"complete", "partial"}


def test_in_a_nodes_file_a_loss_is_of_the_process_of_its_block(tmp_path: Path) -> None:
    """So is a report of a program that can't be traced."""
    ends = {"ledger": LEDGER, "reaped": [[8, 0, 1000, 900], [9, 0, 1000, 900]]}
    parent = process(7, [event("wait", cat="PROCESS", ts_us=T0_US + 9)], ends, {"rchar": 0, "wchar": 0})
    lossy = process(8, [write(8, 1)], {"ledger": LEDGER, "lost": {"unnamed": 1}})
    became = process(9, [write(9, 1)], {"ledger": LEDGER, "untraced": [[9, "static", "/bin/s"], [8, "go", "/bin/g"]]})
    run = tailrace.open(make_run(tmp_path / "run", {"node-1.0": lossy + became + parent}))
    causes = dict(zip(run.coverage["pid"], run.coverage["cause"], strict=True))
    assert causes == {
        7: "",
        8: ledger.WORDS["lost"],
        9: f"went on as a program that is not traced: {ledger.WORDS['static']}",
    }
    assert run.lossy_processes == {("node-1", 8, "8")}


@pytest.mark.parametrize("own_name", ["node-1-7-7", "zzz"])
def test_the_last_block_of_a_process_counts_in_whichever_file_it_is(tmp_path: Path, own_name: str) -> None:
    first = block([event("start", cat="PROCESS", exe="/a", argv=["a"])], {"start": "7", "ledger": LEDGER})
    second = block(
        [event("start", cat="PROCESS", ts_us=T0_US + 5, exe="/b", argv=["b"]), event("write", ts_us=T0_US + 6)],
        {"start": "7", "ledger": {**LEDGER, "done": [0, 70]}},
    )
    end = block([event("exit", cat="PROCESS", ts_us=T0_US + 9, code=3, rchar=0, wchar=30)], {"start": "7"})
    for number, (own, of_node) in enumerate([(first + end, second), (second, first + end), (first, second + end)]):
        run = tailrace.open(make_run(tmp_path / str(number), {own_name: own, "node-1.0": of_node}))
        (row,) = run.processes.itertuples()
        assert (row.argv, row.exe, row.exit, row.kernel_written, row.events) == (["b"], "/b", 3, 100, 4)


@pytest.mark.parametrize(
    ("damage", "words"), [(lambda data: data[:-5], "is cut off"), (lambda data: b"text", "is no trace")]
)
def test_a_process_that_may_be_in_a_damaged_nodes_file(tmp_path: Path, damage: Any, words: str) -> None:
    wait = {"ledger": LEDGER, "reaped": [[9, 0, 50, 950]]}
    parent = process(7, [write(7, 1000)], wait, {"rchar": 0, "wchar": 1000})
    files = {"node_1-7-7": parent, "node_1.0": damage(process(9, [write(9, 950)], {}))}
    assert coverage(tmp_path, files)[9]["cause"] == f"it may be in trace/node_1.0.pfw.gz, which {words}"
