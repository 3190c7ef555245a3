"""Several processes of one pid on one host in one run: in pid namespaces side by side, and one after the other.

What each step reads and writes stands in its arguments; each prints its pid.
"""

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace.analyzer.model import dataflow, stages

STEP = 'echo $$ > "$0.pid"; : > "$0.here"; until [ -e "$1.here" ]; do sleep 0.02; done; exec cat "$2" > "$3"'
"""Waits until the other one is there, too; `$0` and `$1` are the names of the two."""
NAMESPACES = {
    "unshare": ["unshare", "--pid", "--fork", "--mount-proc"],
    "bwrap": ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--unshare-pid"],
}
AGAIN = """
next() { echo 299 > /proc/sys/kernel/ns_last_pid; }
next; cat in > A
next; cat A > B
next; sh -c 'cat B > C; kill -9 $$'
next; sh -c 'cat C > D; exit 3'
next; sh -c 'cat D > E' &
wait
true
"""
"""Each command line is a process of pid 300; what the shells start is not."""


def probe(command: list[str]) -> None:
    if shutil.which(command[0]) is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(f"this user may not do it here: {' '.join(command)}")


def traced(directory: Path, script: str, *words: str) -> Any:
    command = [*TAILRACE, "run", "-q", "-o", "run", "--", "sh", "-c", script, *words]
    subprocess.run(command, cwd=directory, check=True, timeout=120)
    return tailrace.open(directory / "run")


def flows(run: Any, names: dict[tuple[str, int, str], str]) -> Counter[tuple[str, str]]:
    """(producer, consumer) -> bytes, as the graph of processes has them; `names` has every process that moved data."""
    graph = run.dataflow("process", files="none")
    called = {node: names[d["host"], d["pid"], d["start"]] for node, d in graph.nodes(data=True) if graph.degree(node)}
    found: Counter[tuple[str, str]] = Counter()
    for producer, consumer, data in graph.edges(data=True):
        found[called[producer], called[consumer]] += data["bytes"]
    return found


def named(run: Any, names: dict[tuple[str, ...], str]) -> dict[tuple[str, int, str], str]:
    """The processes with these arguments, by what they are called."""
    rows = run.processes.to_dict("records")
    return {(r["host"], int(r["pid"]), r["start"]): names[tuple(r["argv"])] for r in rows if tuple(r["argv"]) in names}


@pytest.mark.parametrize("way", NAMESPACES)
def test_namespaces_side_by_side(way: str, tmp_path: Path) -> None:
    probe([*NAMESPACES[way], "true"])
    steps = {"a": ("b", "one", "A"), "b": ("a", "two", "B"), "c": ("d", "A", "C"), "d": ("c", "B", "D")}
    sizes = {"one": 1000, "two": 300, "A": 1000, "B": 300}
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"x" * sizes[name])
    lines = {name: " ".join([f'"$@" sh -c "$STEP" {name}', *words, "&"]) for name, words in steps.items()}
    script = f"STEP='{STEP}'\n{lines['a']}\n{lines['b']}\nwait\n{lines['c']}\n{lines['d']}\nwait\n"
    run = traced(tmp_path, script, "sh", *NAMESPACES[way])
    (pid,) = {int((tmp_path / f"{name}.pid").read_text()) for name in steps}
    mine = named(run, {("cat", words[1]): name for name, words in steps.items()})
    assert sorted(mine.values()) == sorted(steps)
    assert [key[1] for key in mine] == [pid] * 4 and len({key[0] for key in mine}) == 1
    assert flows(run, mine) == {("a", "c"): 1000, ("b", "d"): 300}
    # What a run reports of each: program, pid, number of processes, and that no file was written, then deleted unread.
    graph = run.dataflow("process")
    nodes = [d for _, d in graph.nodes(data=True) if d["kind"] == "process" and d["pid"] == pid]
    others = len(nodes) - 4  # bwrap's own first processes have pid 1
    assert {Path(d["exe"]).name for d in nodes if (d["host"], pid, d["start"]) in mine} == {"cat"}
    assert len({d["label"] for d in nodes}) == 4 + others
    assert run.info()["processes"] == len(run.processes) == len(graph_of_all(run))
    unread = {Path(path).name for path in stages.never_read(dataflow.model(run))["path"]}
    assert {"C", "D"} <= unread and not {"A", "B"} & unread
    for d in nodes:
        rows = run.events(columns=["path", "start"], pid=pid, start=d["start"]).compute()
        assert len(rows) and set(rows["start"]) == {d["start"]}


def graph_of_all(run: Any) -> set[tuple[str, int, str]]:
    """The processes of all events."""
    rows = run.events(columns=["host", "pid", "start"]).compute()
    return set(zip(rows["host"], rows["pid"], rows["start"], strict=True))


def test_a_pid_that_comes_again(tmp_path: Path) -> None:
    probe([*NAMESPACES["unshare"], "sh", "-c", "echo 299 > /proc/sys/kernel/ns_last_pid"])
    (tmp_path / "in").write_bytes(b"x" * 500)
    run = traced(tmp_path, '"$@"', "sh", *NAMESPACES["unshare"], "sh", "-c", AGAIN)
    of_pid = run.processes[run.processes["pid"] == 300].sort_values("t0_ns")
    scripts = ["A", "B", "C", "D", "E"]
    assert len(of_pid) == 5 and of_pid["host"].nunique() == 1 and of_pid["start"].is_unique
    assert [" ".join(argv).split()[-1] for argv in of_pid["argv"].iloc[:2]] == ["in", "A"]
    assert of_pid["exit"].tolist()[:2] == [0, 0] and of_pid["exit"].iloc[3] == 3
    assert of_pid["signal"].fillna(0).tolist() == [0, 0, 9, 0, 0]
    coverage = run.coverage[(run.coverage["pid"] == 300)]
    assert coverage["traced"].all() and len(coverage) == 5
    assert not (coverage["cause_key"] == "another").any()
    order = {(r.host, int(r.pid), r.start): name for r, name in zip(of_pid.itertuples(), scripts, strict=True)}
    parents = {(r.host, int(r.pid), r.start): int(r.ppid) for r in run.processes.itertuples()}
    # What a step's shell starts is the step's.
    starts = sorted((key[2], name) for key, name in order.items())
    for key, parent in parents.items():
        if parent == 300:
            order[key] = [name for start, name in starts if start <= key[2]][-1]
    chain = {("A", "B"): 500, ("B", "C"): 500, ("C", "D"): 500, ("D", "E"): 500}
    assert flows(run, order) == chain
    # Who made whom, and who waited for whose end: each once, by the shell that ran them all.
    inputs = run.insights().inputs
    place = inputs.tasks[["host", "pid", "start"]].astype({"pid": int}).apply(tuple, axis=1).tolist()
    for via, end in (("fork", "consumer"), ("exit", "producer")):
        rows = inputs.handovers[inputs.handovers["via"] == via]
        handed = [place[at] for at in rows[end] if place[at][1] == 300]
        assert sorted(handed) == sorted(key for key in order if key[1] == 300), via
