"""The words of every finding, and that the documentation has it: one story a kind."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import tailrace
from support.call_stories import many_flushes
from support.diagnosis_stories import processes
from support.finding_cases import CASES, crashed_process, ended, failed_command, failed_tasks
from support.flowcase import MS, T0_NS, FakeRun, Story
from support.story_run import on_disk
from support.task_stories import declared, moment, task
from tailrace.analyzer.insights import access_patterns, call_costs, insights
from tailrace.analyzer.insights.finding import RANK, Finding, Rule, Threshold
from tailrace.analyzer.insights.findings import RULES
from tailrace.analyzer.util import intervals
from tailrace.cli import access, main, report
from tailrace.errors import FindingError, QueryError, UsageError

ROOT = Path(__file__).parents[2]


def test_advice_about_gaps_names_workers_only_where_a_manager_has_some() -> None:
    story = Story()
    task(story, "a", 0, 100, writes="/a")
    task(story, "b", 600, 700, reads="/a", writes="/big", io=40)
    said = {}
    for managed, tables in {False: {}, True: declared(("a", "b", "file"))}.items():
        (gap,) = [one for one in insights(story.run(**tables)).findings() if one.kind == "critical path gaps"]
        said[managed] = gap.advice
    assert "workers" in said[True] and "script" in said[False] and "workers" not in said[False]


@pytest.mark.parametrize(("late", "is_told"), [(False, False), (True, True)])
def test_what_a_manager_takes_for_the_start_of_tasks_is_no_finding_but_a_late_submission(
    late: bool, is_told: bool
) -> None:
    """Five jobs of 300 ms with 60 ms before each."""
    story = Story()
    for number in range(5):
        begin, reads = 360 * number, f"/a{number - 1}" if number else ""
        task(story, f"a{number}", begin, begin + 300, reads=reads, writes=f"/a{number}", pid=number + 1)
    tables = declared(*((f"a{number}", f"a{number + 1}", "file") for number in range(4)))
    names = tables["declared_tasks"]["task"].str[1:].astype(int)
    tables["declared_tasks"]["t_submit_ns"] = T0_NS + late * (360 * names * MS - 1)
    assert ("critical path gaps" in [one.kind for one in insights(story.run(**tables)).findings()]) == is_told


@pytest.mark.parametrize(("used_ms", "is_told"), [(400, False), (200, True)])
def test_a_program_that_waits_for_a_processor_is_no_gap_of_its_script(used_ms: int, is_told: bool) -> None:
    """Two programs have both processors, or half of each, for all of the run."""
    story = Story()
    for pid in (1, 2):
        task(story, f"c{pid}", 0, 400, writes=f"/c{pid}", pid=pid)
    task(story, "a", 0, 100, writes="/a", pid=3)
    task(story, "b", 300, 410, reads="/a", writes="/b", pid=4)
    table = processes(*((pid, 99, "/bin/c") for pid in (1, 2, 3, 4)), used_ms=used_ms)
    table.loc[table["pid"] > 2, "utime_ns"] = MS
    found = [one.kind for one in insights(story.run(processes=table)).findings()]
    assert ("critical path gaps" in found) == is_told


@pytest.mark.parametrize(("submitted_ms", "late"), [(550, "450 ms"), (300, "")])
def test_a_gap_before_a_task_that_was_submitted_late_says_so(submitted_ms: float, late: str) -> None:
    story = Story()
    task(story, "a", 0, 100, writes="/a")
    task(story, "b", 600, 700, reads="/a", writes="/big")
    tables = declared(("a", "b", "file"))
    submitted = {"a": T0_NS, "b": T0_NS + round(submitted_ms * MS)}
    tables["declared_tasks"]["t_submit_ns"] = [submitted[name] for name in tables["declared_tasks"]["task"]]
    (gap,) = [one for one in insights(story.run(**tables)).findings() if one.kind == "critical path gaps"]
    end = f"; for {late} the next task had not been submitted" if late else ""
    assert gap.title == (
        f"The critical path was between tasks for 500 ms of 700 ms; the longest gap is 500 ms, before b{end}"
    )
    assert ("Where a program or script of yours submits them" in gap.advice) == bool(late)


def test_of_a_task_without_an_end_nothing_is_said_that_it_may_still_do() -> None:
    """Its program was killed, or runs: it may read yet, and when it was over is unknown."""

    def ended(**times: int | None) -> FakeRun:
        story = Story()
        moment(story, 0, pid=9)
        task(story, "a", 500, 510, writes="/a")
        task(story, "b", 510, 520, reads="/other", writes="/b")
        moment(story, 900, pid=9)
        tables = declared(("a", "b", "file"))
        rows = tables["declared_tasks"].assign(t_launch_ns=T0_NS, tries=1)
        rows["status"] = ["done" if times[name] is not None else None for name in rows["task"]]
        rows["t_end_ns"] = [times[name] for name in rows["task"]]
        return story.run(**{**tables, "declared_tasks": rows})

    over = insights(ended(a=T0_NS + 510 * MS, b=T0_NS + 520 * MS)).findings()
    assert {"dependency without data", "start-up and stop"} <= {finding.kind for finding in over}
    (title,) = (finding.title for finding in over if finding.kind == "start-up and stop")
    assert title == "The run took 500 ms before its first task began, and 380 ms after its last one was over, of 900 ms"
    unended = insights(ended(a=T0_NS + 510 * MS, b=None)).findings()
    assert "dependency without data" not in {finding.kind for finding in unended}
    (title,) = (finding.title for finding in unended if finding.kind == "start-up and stop")
    assert title == (
        "The run took 500 ms before its first task began, and 380 ms after the last call of a task, of 900 ms;"
        " when the last task was over is not known, since 1 task that had begun has no declared end"
    )


@pytest.mark.parametrize(("alloc_ms", "told"), [(110, "490 ms"), (590, ""), (None, "")])
def test_a_gap_in_which_the_manager_prepared_the_task_says_so(alloc_ms: int | None, told: str) -> None:
    """The task's wrapper began at that time, copied the inputs, and started the task at 600 ms."""
    story = Story()
    task(story, "make", 0, 100, writes="/a")
    task(story, "use", 600, 1000, reads="/a")
    tables = declared(("make", "use", "file"))
    began = [None if name == "make" or alloc_ms is None else T0_NS + alloc_ms * MS for name in ("make", "use")]
    tables["declared_tasks"]["t_alloc_ns"] = pd.array(began, dtype="Int64")
    (gap,) = [one for one in insights(story.run(**tables)).findings() if one.kind == "critical path gaps"]
    prepared = f"; for {told} its manager prepared the next task" if told else ""
    assert prepared in gap.title and ("prepared" in gap.title) == ("link inputs" in gap.advice) == bool(told)


def test_a_gap_after_the_last_call_says_where_it_is() -> None:
    """`b` computes, and makes no call."""
    story = Story()
    moment(story, 0, pid=9)
    task(story, "a", 0, 100, writes="/a")
    moment(story, 900, pid=9)
    tables = declared(("a", "b", "future"))
    rows = tables["declared_tasks"].assign(tries=1, status="done", t_launch_ns=[T0_NS, T0_NS + 100 * MS])
    rows["t_end_ns"] = [T0_NS + 100 * MS, T0_NS + 850 * MS]
    found = insights(story.run(**{**tables, "declared_tasks": rows})).findings()
    titles = {finding.kind: finding.title for finding in found}
    assert "start-up and stop" not in titles
    assert titles["critical path gaps"] == (
        "The critical path was between tasks for 750 ms of 900 ms; the longest gap is 750 ms, after the last task"
        " of the path"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_each_rule_finds_its_case_and_reports_it(rule: Rule) -> None:
    story, title = CASES[rule.kind]
    (found,) = [finding for finding in insights(story()).findings() if finding.kind == rule.kind]
    assert (found.title, found.about) == (title, rule.about)
    assert found.advice in rule.advice
    assert "{" not in found.query and "RUN" not in found.query
    if found.query.startswith("tailrace "):
        name, *words = shlex.split(found.query)[1:]
        command = main.group.get_command(main.group.make_context("tailrace", [name]), name)
        assert command is not None
        command.make_context(name, words)
    else:
        compile(found.query, "query", "eval")


Rows = list[dict[str, Any]]


def overlap(rows: Rows, finding: Finding) -> int:
    """The bytes that both tasks of a conflict accessed or cut off, by the events of the file."""
    case = finding.evidence[0]
    accessed: dict[str, set[int]] = {str(case["first"]): set(), str(case["second"]): set()}
    for row in rows:
        name = row["task"] or f"process {row['host']}:{row['pid']}"
        if row["size"]:
            accessed[name].update(range(row["offset"], row["offset"] + row["size"]))
        if (row["flags"] or 0) & os.O_TRUNC:
            accessed[name].update(range(1 << 16))
    first, second = accessed.values()
    return len(first & second)


def moved(directions: str) -> Callable[[Rows, Finding], int]:
    return lambda rows, _: sum(row["sum_size"] for row in rows if row["dir"] and set(row["dir"]) & set(directions))


def last_files(rows: Rows, _: Finding) -> str:
    """The files of the calls, from the last one on."""
    return ", ".join(dict.fromkeys(row["path"] for row in rows if row["size"]))


def absent(rows: Rows, finding: Finding) -> bool:
    """Whether no row is the access that was declared."""
    case = finding.evidence[0]
    return all(
        case["path"] not in (row["path"], row["path2"]) or case["direction"] not in (row["dir"] or "") for row in rows
    )


NUMBERS: dict[str, tuple[Callable[[Any, Finding], Any], Callable[[Finding], Any]]] = {
    **dict.fromkeys(
        (
            "read during write",
            "read before write",
            "two writers",
            "same bytes, in order this time",
            "same bytes, by ranks",
        ),
        (overlap, lambda f: f.evidence[0]["bytes"]),
    ),
    **dict.fromkeys(
        [rule.kind for rule in RULES if rule.kind.startswith("undeclared")],
        (lambda rows, _: sum(row["sum_size"] for row in rows), lambda f: f.cost_bytes),
    ),
    "undeclared input": (lambda history, _: history["files"][0]["path"], lambda f: f.evidence[0]["path"]),
    "critical path gaps": (lambda table, _: table["gap"].sum(), lambda f: f.cost_ns),
    "limited concurrency": (lambda table, _: (table["begin_ns"] - table["ready_ns"]).sum(), lambda f: f.cost_ns),
    "interleaved appends": (lambda rows, _: sorted(row["task"] for row in rows), lambda _: ["a", "b"]),
    "start-up and stop": (lambda parts, _: parts["startup"] + parts["stop"], lambda f: f.cost_ns),
    "critical path I/O": (lambda rows, _: sum(row["sum_dur"] for row in rows), lambda f: f.evidence[0]["io"]),
    "small calls": (
        lambda rows, f: sum(row["count"] for row in rows if row["path"] == f.evidence[0]["path"]),
        lambda f: f.evidence[0]["calls"],
    ),
    "random offsets": (lambda rows, _: sum(row["path"] == "/d" for row in rows), lambda f: 50),
    "many flushes": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "stream flushes": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "useless seeks": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["seeks"]),
    "stream buffers": (lambda rows, _: sum(row["sum_size"] for row in rows), lambda f: f.evidence[0]["bytes"]),
    "read ahead for nothing": (lambda rows, _: sum(row["sum_ahead"] for row in rows), lambda f: f.evidence[0]["ahead"]),
    "shared file": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "independent MPI-IO": (
        lambda rows, _: sum(row["count"] for row in rows if "_all" not in row["name"]),
        lambda f: f.evidence[0]["independent"],
    ),
    "read by every rank": (
        lambda rows, _: sum(row["sum_size"] for row in rows),
        lambda f: f.evidence[0]["ranks"] * f.evidence[0]["bytes"],
    ),
    "rank imbalance": (lambda rows, _: rows[0]["rank"], lambda f: f.evidence[0]["rank"]),
    "misaligned calls": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "repeated writes": (lambda rows, _: sum(row["sum_size"] for row in rows), lambda f: f.cost_bytes + (1 << 20)),
    "metadata load": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "short processes": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.count),
    "repeated start-ups": (lambda rows, _: rows[0]["count"], lambda f: f.evidence[0]["starts"]),
    "straggler": (lambda profile, f: profile["task"], lambda f: "a5"),
    "submitted after others": (lambda profile, f: profile["task"], lambda f: "a3"),
    "threads of one interpreter": (lambda profile, f: profile["name"], lambda f: "a"),
    "serial stage": (lambda profile, f: profile["task"], lambda f: "b"),
    "small pipe writes": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "waiting for a server": (lambda rows, _: sum(row["sum_dur"] for row in rows), lambda f: f.cost_ns),
    "lock contention": (lambda rows, _: rows[0]["sum_dur"], lambda f: f.cost_ns),
    "polling": (lambda rows, _: sum(row["count"] for row in rows if row["errno"]), lambda f: f.evidence[0]["looks"]),
    "sleep loop": (lambda rows, _: rows[0]["sum_dur"], lambda f: f.cost_ns),
    "sleeping past a server's start": (
        lambda rows, _: next(row["count"] for row in rows if row["name"] == "wait"),
        lambda f: f.evidence[0]["tries"] * 2 + 1,
    ),
    "helper that outlives the work": (lambda profile, _: profile["task"], lambda _: ""),
    "waiting for a processor": (lambda profile, f: profile["task"], lambda f: "c1"),
    "outliving processes": (lambda profile, f: profile["task"], lambda f: "t"),
    "half-written output": (lambda history, _: history["files"][0]["path"], lambda f: f.evidence[0]["path"]),
    "lost data": (lambda rows, _: sum(row["sum_count"] for row in rows), lambda f: f.evidence[0]["bytes"]),
    "failing calls": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "read amplification": (
        lambda rows, _: next(row["count"] for row in rows if row["name"] == "H5Dread"),
        lambda f: f.evidence[0]["calls"],
    ),
    "failed in a pipeline": (lambda profile, f: profile["task"], lambda f: "make"),
    "page faults": (lambda profile, f: profile["task"], lambda f: "denoise"),
    "round trips": (
        lambda rows, _: sum(row["count"] for row in rows if row["path"]),
        lambda f: f.evidence[0]["requests"] + f.evidence[0]["answers"],
    ),
    "unnoticed failure": (lambda history, _: history["files"][0]["path"], lambda f: f.evidence[0]["path"]),
    "tasks one after the other": (lambda rows, _: len(rows), lambda _: 3),
    "repeated work": (lambda rows, _: len(rows), lambda f: f.evidence[0]["tasks"]),
    "dependency without data": (
        lambda estimate, f: estimate["makespan_ns"] - estimate["low_ns"] >= f.cost_ns,
        lambda f: f.cost_ns > 0,
    ),
    "streaming candidate": (lambda estimate, f: estimate["saved_ns"] >= f.cost_ns, lambda f: True),
    "never read": (moved("w"), lambda f: f.evidence[0]["written_bytes"]),
    "written, then deleted unread": (moved("w"), lambda f: f.evidence[0]["unread_bytes"]),
    "repeated reads": (lambda rows, _: sum(row["sum_size"] for row in rows) - (3 << 20), lambda f: f.cost_bytes),
    "file copies": (moved("w"), lambda f: f.evidence[0]["bytes"]),
    "node-local candidate": (moved("rw"), lambda f: f.evidence[0]["moved_bytes"]),
    "co-location candidate": (
        lambda rows, _: sum(row["sum_size"] for row in rows if row["host"] == "n2"),
        lambda f: f.cost_bytes,
    ),
    "declared, not accessed": (absent, lambda f: True),
    "clock skew": (
        lambda told, _: {row["host"]: row["clock_ahead_ns"] for row in told["hosts"] if row["clock_ahead_ns"]},
        lambda f: {row["host"]: row["ahead_ns"] for row in f.evidence},
    ),
    "unordered hand-overs": (lambda number, _: number, lambda f: f.count),
    "failed tasks": (last_files, lambda f: f.evidence[0]["last files"]),
    "failed command": (last_files, lambda f: f.evidence[0]["last files"]),
    "retried tasks": (lambda profile, _: profile["tries"], lambda f: f.evidence[0]["tries"]),
    "unchecked accesses": (lambda number, _: number, lambda f: f.count),
}
"""kind -> the number in what its query gives, and the same number of the finding."""


def test_a_straggler_among_tasks_that_did_nothing() -> None:
    """There is no "times as long as" of a median of 0."""
    story = Story()
    for pid in range(1, 6):
        moment(story, 0, task=f"a{pid}", stage="a", pid=pid)
    task(story, "a6", 0, 40, writes="/a6", pid=6)
    task(story, "b", 41, 45, reads="/a6", pid=9, io=0.1)
    (found,) = [finding for finding in insights(story.run()).findings() if finding.kind == "straggler"]
    assert found.title == (
        "a6 worked 40.0 ms, while more than half of the tasks of its stage did no work, and the critical path"
        " goes through it"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_the_query_of_a_finding_gives_its_number(rule: Rule, tmp_path: Path) -> None:
    """Of a run on disk, by a shell or by Python, as offered."""
    story, title = CASES[rule.kind]
    run = on_disk(story(), tmp_path / "a run")
    (found,) = [finding for finding in run.findings() if finding.kind == rule.kind]
    assert found.title == title, "the run on disk is the story"
    given, wanted = NUMBERS[rule.kind]
    if not found.query.startswith("tailrace "):
        assert given(eval(found.query, {"tailrace": tailrace}), found) == wanted(found)
        return
    words = subprocess.run(["sh", "-c", f"printf '%s\\0' {found.query}"], capture_output=True, text=True, check=True)
    arguments = [*words.stdout.split("\0")[1:-1], "--format", "json"]
    done = CliRunner().invoke(main.group, arguments, catch_exceptions=False)
    assert given(json.loads(done.stdout), found) == wanted(found)


def test_a_report_fails_on_the_findings_that_are_forbidden(tmp_path: Path) -> None:
    path = str(on_disk(many_flushes(), tmp_path / "run").path)
    for wanted in ("finding:many flushes", "finding:time", "finding:any"):
        with pytest.raises(FindingError, match="many flushes: u: 100 flushes to disk"):
            report.command.main([path, "--fail-on", "finding:race", "--fail-on", wanted], standalone_mode=False)
    report.command.main([path, "--fail-on", "finding:race"], standalone_mode=False)
    with pytest.raises(UsageError, match="did you mean 'many flushes'"):
        report.command.main([path, "--fail-on", "finding:many flush"], standalone_mode=False)
    with pytest.raises(
        UsageError, match=r"'race' \(did you mean 'finding:race'\?\): write finding: and any, failure, race"
    ):
        report.command.main([path, "--fail-on", "race"], standalone_mode=False)


def test_failures_come_first_and_those_with_most_lost_tasks_before_the_others() -> None:
    rows = insights(failed_tasks(ended("b1", "timeout", "AppTimeout"))).findings()
    assert [(row.kind, row.count) for row in rows[:2]] == [("failed tasks", 4), ("failed tasks", 1)]
    assert rows[1].title == "b1 timed out: AppTimeout"
    assert rows[1].query == "tailrace.open('/runs/story').outcomes", "it left no events to be queried"


@pytest.mark.parametrize("others", [3, 4, 30])
def test_failures_in_many_ways_are_few_findings_and_none_is_left_out(others: int) -> None:
    """Each way would hide a finding about the data, of which a report shows ten in all."""
    ways = [
        ended(f"s{n}x{n}", "killed" if n % 2 else "failed", f"cause {'ghijklmnop'[n % 10] * (n + 1)}")
        for n in range(others)
    ]
    rows = [row for row in insights(failed_tasks(*ways)).findings() if row.about == "failure"]
    assert len(rows) == 4
    assert sum(row.count for row in rows) == others + 4
    folded = others - 2
    if folded == 1:
        assert "other ways" not in rows[-1].title
        return
    told = re.fullmatch(r"(\d+) more tasks ended in (\d+) other ways \((.*)\): (.*)", rows[-1].title)
    assert told is not None, rows[-1].title
    assert [int(told[1]), int(told[2]), sum(map(int, re.findall(r"\d+", told[3])))] == [folded] * 3
    named = told[4].split(", ")
    assert len({*named} - {"..."}) == min(folded, 5) and ("..." in named) == (folded > 5)
    assert rows[-1].query == "tailrace.open('/runs/story').outcomes"


@pytest.mark.parametrize(("code", "told"), [(141, "SIGPIPE"), (137, "SIGKILL"), (3, "")])
def test_a_failed_task_says_which_signal_its_exit_status_stands_for(code: int, told: str) -> None:
    row = insights(failed_tasks(ended("b1", "failed", f"returned non-zero exit status {code}"))).findings()[1]
    assert [name in row.title for name in ("SIGPIPE", "SIGKILL")] == [told == "SIGPIPE", told == "SIGKILL"]
    assert ("pipefail" in row.advice) == (told == "SIGPIPE")


@pytest.mark.parametrize(("exe", "told"), [("/bin/bash", True), ("/opt/solver", False)])
def test_only_a_shells_exit_code_stands_for_a_signal(exe: str, told: bool) -> None:
    run = failed_command()
    run.processes.loc[run.processes["pid"] == 3, ["exe", "exit"]] = [exe, 141]
    (row,) = [finding for finding in insights(run).findings() if finding.kind == "failed command"]
    assert "ended with exit code 141" in row.title
    assert ("SIGPIPE" in row.title, "pipefail" in row.advice) == (told, told)


def test_the_code_that_a_traceback_quotes_is_no_last_file() -> None:
    """A program's own code may be what failed, a library's is what reports it."""
    run = failed_tasks()
    story = Story(run.rows, files=50, now_ms=50)
    for path in ("/home/u/step.py", "/home/u/venv/lib/python3.11/site-packages/manager/shell.py"):
        story.read(path, task="a1", stage="a")
        story.read(path, task="a2", stage="a")
    shown = insights(run).findings()[0].evidence[0]["last files"]
    assert shown == "/home/u/step.py, /part-a1, /in-a1"


def test_a_process_that_crashed_is_found_though_the_command_went_on() -> None:
    (row,) = [finding for finding in insights(crashed_process()).findings() if finding.kind == "failed command"]
    assert row.title == "ls n1:4 was killed by signal 11 (SIGSEGV); its last files: /out-4"
    assert "--pid 4 " in row.query


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_each_rule_declares_what_the_documentation_needs(rule: Rule) -> None:
    assert rule.about in RANK
    assert rule.title and not rule.title.endswith(".")
    assert rule.definition.endswith(".") and rule.advice.endswith(".") and rule.source


def test_kinds_are_distinct_and_have_a_case_each() -> None:
    assert len({rule.kind for rule in RULES}) == len(RULES)
    assert {rule.kind for rule in RULES} == set(CASES) == set(NUMBERS)


def test_the_documentation_has_every_finding() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools/findings_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("part", "reached"), [(0, False), (9, False), (10, True), (1000, True)])
def test_a_threshold_is_reached_from_its_value_on(part: int, reached: bool) -> None:
    assert Threshold(1, "% of the makespan").reached(part, 1000) == reached
    assert not Threshold(1, "% of the makespan").reached(0, 0), "nothing is no part of nothing"


def test_files_of_several_writers_are_counted_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    # /f7 has 2 + 7 % 3 writers: two at once from 0 on, the others one after the other.
    for file in range(30):
        for writer in range(2 + file % 3):
            first = 0 if writer < 2 else 10 * writer
            for call in range(2):
                at = {"at_ms": first + 2 * call, "dur": 1_000 * (file + 1), "pid": writer + 1}
                story.write(f"/f{file}", 100 * writer + 10 * call, 10, task=f"t{writer}", stage="s", **at)
    inputs = insights(story.run()).inputs
    unions: list[int] = []
    union = intervals.union
    monkeypatch.setattr(intervals, "union", lambda rows: [unions.append(1), union(rows)][1])
    found = call_costs.shared(inputs).set_index("path")
    assert len(unions) == 1
    for file in range(30):
        row = found.loc[f"/f{file}"]
        writers = 2 + file % 3
        assert (row["processes"], row["calls"], row["bytes"]) == (2, 2 * writers, 20 * writers)
        # The two write at the same times.
        assert row["time_ns"] == 2 * (writers - 1) * 1_000 * (file + 1)


def test_the_time_of_an_open_that_truncates_is_not_that_of_writes() -> None:
    story = Story()
    story.create("/a", task="a", stage="s", at_ms=0, dur=9 * MS)
    for number in range(3):
        # Apart by less than what divides bursts.
        at = {"at_ms": 10 + number * 0.015, "dur": 10_000}
        story.write("/a", 100 * number, 100, task="a", stage="s", **at)
    (row,) = access_patterns.accesses(insights(story.run()).inputs).data.to_dict("records")
    assert (row["calls"], row["bytes"], row["time_ns"], row["gap_ns"]) == (3, 300, 30_000, 5_000)


def test_a_run_without_ranks_is_told_so(tmp_path: Path) -> None:
    story = Story()
    story.write("/a", 0, 100, task="a", stage="s")
    path = str(on_disk(story.run(), tmp_path / "run").path)
    assert CliRunner().invoke(access.command, [path, "--by", "rank"]).output == (
        "No process with a rank made a call on files of data.\n"
    )
    with pytest.raises(QueryError, match="there is no rank '0'; the run has no ranks"):
        tailrace.open(path).rank(0)
