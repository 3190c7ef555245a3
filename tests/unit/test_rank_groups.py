"""The parallel programs of a run, from events written by hand: launches, hosts, missing ranks, spreads."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import pytest

from support.flowcase import MS, FakeRun, Story
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.rank_groups import RankGroup, rank_groups
from tailrace.analyzer.insights.views import programs_document
from tailrace.analyzer.util.terminal import Screen, document_lines


class Proc(NamedTuple):
    pid: int
    rank: str
    ppid: int = 100
    host: str = "n1"
    exe: str = "/bin/sim"
    world_size: int | None = None
    task: str | None = None
    at_ms: float = 0.0
    written: int = 1000


def run_of(*procs: Proc) -> FakeRun:
    """Each writes a file of its own for a millisecond."""
    story = Story()
    for one in procs:
        place = {"host": one.host, "pid": one.pid, "task": one.task, "dur": MS}
        story.write(f"/out/{one.host}.{one.pid}", 0, one.written, at_ms=one.at_ms, **place)
    own = [one._asdict() for one in procs]
    processes = pd.DataFrame([{key: row[key] for key in ("host", "pid", "exe", "ppid")} | {"argv": ""} for row in own])
    ranks = pd.DataFrame([{key: row[key] for key in ("host", "pid", "rank", "world_size")} for row in own])
    ranks["world_size"] = ranks["world_size"].astype("Int64")
    return story.run(processes=processes.assign(start=""), process_ranks=ranks.assign(start=""))


def groups_of(*procs: Proc) -> list[RankGroup]:
    return rank_groups(insights(run_of(*procs)).inputs)


def ranks_of(group: RankGroup) -> str:
    return " ".join(row["rank"] for row in group.rows)


def test_a_rank_has_what_its_processes_did() -> None:
    children = Proc(11, "1", ppid=2, exe="/bin/gzip", task="t", at_ms=4, written=50, world_size=2)
    (group,) = groups_of(Proc(1, "0", world_size=2), Proc(2, "1", world_size=2, at_ms=1), children)
    assert (group.program, group.task, group.world_size, group.missing) == ("sim", "", 2, [])
    assert (group.hosts, group.processes, group.end_ns - group.begin_ns) == (["n1"], 3, 5 * MS)
    assert [(row["rank"], row["processes"], row["written_bytes"]) for row in group.rows] == [
        ("0", 1, 1000),
        ("1", 2, 1050),
    ]
    assert [(row["io_ns"], row["end_ns"] - row["begin_ns"]) for row in group.rows] == [(MS, MS), (2 * MS, 4 * MS)]
    spreads = {spread.figure: spread for spread in group.spreads}
    written, began = spreads["written_bytes"], spreads["begin_ns"]
    assert (written.least, written.least_rank, written.median, written.most, written.most_rank) == (
        1000,
        "0",
        1025,
        1050,
        "1",
    )
    assert (began.least, began.least_rank, began.most, began.most_rank) == (0, "0", MS, "1")


def test_parts_of_a_launch_on_several_hosts_are_one() -> None:
    first = [Proc(1, "0"), Proc(2, "1"), Proc(1, "2", host="n2", ppid=7), Proc(2, "3", host="n2", ppid=7)]
    later = [one._replace(pid=one.pid + 10, ppid=one.ppid + 1, at_ms=50) for one in first]
    found = groups_of(*[one._replace(world_size=4) for one in (*first, *later)])
    assert [(ranks_of(one), one.hosts, one.missing) for one in found] == [("0 1 2 3", ["n1", "n2"], [])] * 2


def test_missing_ranks_are_those_of_no_program_of_the_launch() -> None:
    a, b = Proc(1, "0", world_size=8), [Proc(pid, str(pid), exe="/bin/post", world_size=8, at_ms=1) for pid in (3, 4)]
    sim, post = groups_of(a, *b)
    assert (ranks_of(sim), ranks_of(post)) == ("0", "3 4")
    assert sim.missing == post.missing == [[1, 2], [5, 7]] and sim.lacking == 5


@pytest.mark.parametrize("size", [None, 0, -5, 1])
def test_nothing_is_said_to_be_missing_where_the_number_is_not_known_or_wrong(size: int | None) -> None:
    (group,) = groups_of(Proc(1, "0", world_size=size), Proc(5, "5", world_size=size))
    assert group.missing == [] and ranks_of(group) == "0 5"


def test_a_huge_number_of_ranks_is_no_list() -> None:
    (group,) = groups_of(Proc(1, "3", world_size=2**32 - 1))
    assert group.missing == [[0, 2], [4, 2**32 - 2]] and group.spreads == []


def test_ranks_without_a_number_come_last() -> None:
    (group,) = groups_of(Proc(1, "shared"), Proc(2, "10"), Proc(3, "9"))
    assert ranks_of(group) == "9 10 shared" and group.ranks == 2
    assert {spread.most_rank for spread in group.spreads} <= {"9", "10"}


def test_launches_with_tags_of_their_own_are_apart() -> None:
    found = groups_of(*[Proc(pid, str(pid % 2), task=f"t{pid // 2}", world_size=2) for pid in range(2, 6)])
    assert [(one.task, ranks_of(one)) for one in found] == [("t1", "0 1"), ("t2", "0 1")]


def test_a_launch_within_a_rank_is_another_one() -> None:
    inner = [Proc(10 + rank, str(rank), ppid=9, exe="/bin/inner", world_size=3) for rank in range(3)]
    found = groups_of(
        Proc(1, "0", world_size=2), Proc(2, "1", world_size=2), Proc(9, "0", ppid=1, world_size=2), *inner
    )
    assert [(one.program, ranks_of(one), one.processes) for one in found] == [("inner", "0 1 2", 3), ("sim", "0 1", 3)]


def test_the_ranks_far_from_the_others_are_named() -> None:
    procs = [Proc(1 + rank, str(rank), world_size=6, written=10**6 if rank == 4 else 1000 + rank) for rank in range(6)]
    (group,) = groups_of(*procs)
    assert {spread.figure: spread.far for spread in group.spreads if spread.far} == {"written_bytes": ["4"]}


def test_a_little_more_than_the_others_is_not_far_from_them() -> None:
    procs = [Proc(1 + rank, str(rank), world_size=6, written=1001 if rank == 4 else 1000) for rank in range(6)]
    late = Proc(9, "0", ppid=1, at_ms=10**6, world_size=6, written=1)
    (group,) = groups_of(*procs[:5], procs[5]._replace(at_ms=0.001), late)
    assert {spread.figure: spread.far for spread in group.spreads if spread.far} == {"lasted_ns": ["0"]}


def test_what_the_manager_gave_and_where_ranks_might_run() -> None:
    run = run_of(Proc(1, "0", task="t"), Proc(2, "1", task="t"), Proc(3, "0", ppid=200, task="u"))
    run.processes["cpus"] = ["0", "0-3,8", None]
    given = {"workflow": "w", "stage": None, "name": None, "parent": None}
    tasks = [{"task": "t", "nodes": ["n1", "n2"], "cores": 8}, {"task": "u", "nodes": None, "cores": None}]
    run.declared_tasks = pd.DataFrame([{**given, **one} for one in tasks])
    found = rank_groups(insights(run).inputs)
    assert [(one.task, one.nodes, one.cores) for one in found] == [("t", ["n1", "n2"], 8), ("u", [], None)]
    assert [[row["cpus"] for row in one.rows] for one in found] == [["0", "0-3,8"], [""]]


def test_a_run_without_ranks_has_none() -> None:
    assert rank_groups(insights(Story().run()).inputs) == []


def test_what_the_command_prints_of_many_ranks_and_programs() -> None:
    many = [Proc(1 + number, str(number), world_size=16, at_ms=number) for number in range(12)]
    single = [Proc(50 + number, "0", ppid=200 + number, exe="/bin/one", world_size=1) for number in range(3)]
    text = "\n".join(
        document_lines(programs_document(groups_of(*many, *single), 0), Screen(rest=": --format json has them"))
    )
    assert "sim\n  12 of 16 ranks, 12 processes on 1 host\n  Not in the trace: ranks 12-15\n" in text
    assert "The 10 ranks with the longest file I/O" in text and "and 2 ranks more: --format json" in text
    assert text.endswith("3 programs of one rank")


def test_json_has_plain_values() -> None:
    import json

    (group,) = groups_of(Proc(1, "0", world_size=2))
    text: dict[str, Any] = json.loads(json.dumps(group.to_json()))
    assert text["missing"] == [[1, 1]] and text["rows"][0]["hosts"] == ["n1"]
