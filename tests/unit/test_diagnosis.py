"""What an expert concludes from a run: the verdict, what is folded, and what looks like a finding and is none."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from support import diagnosis_stories as stories
from support.call_stories import (
    jumping_stream,
    many_flushes,
    random_offsets,
    rank_imbalance,
    stream_buffers,
    stream_flushes,
)
from support.diagnosis_stories import processes
from support.finding_cases import barrier, critical_io, limited_concurrency, undeclared_in_order
from support.flowcase import MS, T0_NS, FakeRun, Story
from support.task_stories import declared, moment, task
from tailrace.analyzer import summary
from tailrace.analyzer.insights import access_costs, call_costs, insights
from tailrace.analyzer.insights.finding import ADVISED, Finding
from tailrace.analyzer.insights.processors import listed
from tailrace.analyzer.report import terminal


def kinds(run: FakeRun) -> list[str]:
    return [one.kind for one in insights(run).findings()]


def told(run: FakeRun, kind: str) -> Finding:
    (found,) = [one for one in insights(run).findings() if one.kind == kind]
    return found


def printed(run: FakeRun, every: bool = False) -> str:
    out = io.StringIO()
    terminal.show(summary.collect(run), Console(file=out, width=200, force_terminal=False), every)
    return out.getvalue()


class TestRanking:
    def flushes(self, span_ms: float) -> FakeRun:
        """40 ms of needless flushes in a run of a length."""
        story = Story()
        for number in range(100):
            story.write("/d", 64 * number, 64, task="use", stage="u", at_ms=number, dur=10_000)
            story.event("fsync", "/d", task="use", stage="u", at_ms=number + 0.5, dur=400_000)
        moment(story, span_ms, task="use", stage="u")
        return story.run()

    @pytest.mark.parametrize(("span_ms", "small"), [(1000, False), (1300, False), (1400, True), (3900, True)])
    def test_what_costs_under_three_percent_is_small_and_last(self, span_ms: float, small: bool) -> None:
        found = insights(self.flushes(span_ms)).findings()
        assert told(self.flushes(span_ms), "many flushes").small == small
        assert [one.small for one in found] == sorted(one.small for one in found)

    def test_what_costs_under_one_percent_is_no_finding(self) -> None:
        assert "many flushes" not in kinds(self.flushes(4100))

    def test_small_things_are_one_line_with_the_command_that_lists_them(self) -> None:
        run = self.flushes(2000)
        text = printed(run)
        assert "1 small thing (under 3% of the run): many flushes." in text
        assert "tailrace report /runs/story --all" in text and "100 flushes" not in text
        assert "100 flushes" in printed(run, every=True) and "small thing" not in printed(run, every=True)

    def test_a_race_is_never_small(self) -> None:
        story = Story()
        for at, name in enumerate("ab"):
            story.write("/f", 0, 10, task=name, stage=name, at_ms=1 + at, pid=ord(name))
        moment(story, 10_000, pid=9)
        assert not told(story.run(), "two writers").small

    def test_a_fault_is_never_small_and_comes_first_among_its_like(self) -> None:
        found = insights(stories.failing_calls()).findings()
        assert (found[0].kind, found[0].small) == ("failing calls", False)
        assert found[0].cost_ns < ADVISED.value / 100 * insights(stories.failing_calls()).inputs.makespan_ns

    def test_where_time_went_is_no_finding_where_another_says_why(self) -> None:
        story = Story()
        for number in range(100):
            story.write("/d", 64 * number, 64, task="use", stage="u", at_ms=number, dur=10_000)
            story.event("fsync", "/d", task="use", stage="u", at_ms=number + 0.5, dur=400_000)
        found = kinds(story.run())
        assert "many flushes" in found and "critical path I/O" not in found

    def test_where_time_went_is_a_finding_where_nothing_explains_it(self) -> None:
        assert "critical path I/O" in kinds(critical_io())

    def test_look_ups_that_fail_stand_for_the_metadata_load_that_they_are(self) -> None:
        found = told(stories.searches(), "failing calls")
        assert found.title == (
            "look: 2,000 calls of stat on /w (2,000 names in it) failed with ENOENT (No such file or directory), and"
            " took 40.0 ms"
        )
        assert "metadata load" not in kinds(stories.searches())
        assert kinds(stories.searches(there=True)) == ["metadata load"]


class TestVerdict:
    def text(self, run: FakeRun) -> str:
        return insights(run).verdict.text

    def computing(self, used_ms: float | None) -> FakeRun:
        story = Story()
        task(story, "a", 0, 100, writes="/a", pid=1)
        return story.run(processes=processes((1, 99, "/bin/a"), used_ms=used_ms))

    def test_computing_is_said_of_processor_time(self) -> None:
        assert self.text(self.computing(100)).startswith("Computing bounds it: 99% of 100 ms.")
        assert "Nothing much to gain but by computing less." in self.text(self.computing(100))

    def test_a_task_that_sleeps_does_not_compute(self) -> None:
        text = self.text(self.computing(1))
        assert text.startswith(
            "Waiting outside of recorded calls (asleep, or for a processor) bounds it: 98% of 100 ms"
        )
        assert "Computing" not in text

    def test_without_an_account_neither_is_said(self) -> None:
        words = "Running outside of recorded calls (computing, asleep or waiting) bounds it: 99% of 100 ms."
        assert self.text(self.computing(None)).startswith(words)

    def test_more_tasks_than_processors_that_are_busy(self) -> None:
        story = Story()
        for pid in range(1, 5):
            task(story, f"a{pid}", 0, 100, writes=f"/a{pid}", pid=pid)
        table = processes(*((pid, 99, "/bin/a") for pid in range(1, 5)), used_ms=50)
        text = self.text(story.run(processes=table))
        assert text.startswith("The processors bound it: 2 for up to 4 tasks at a time, all busy for 100% of 100 ms")

    @pytest.mark.parametrize(("own_ms", "told"), [(250, True), (990, False)])
    def test_who_waits_for_others_wants_no_processor(self, own_ms: int, told: bool) -> None:
        """Two tasks that compute on two processors, and one that waits beside them; other programs have the processors
        for most of the time, or for none of it."""
        run = stories.processor_waits(tasks=3, lasts_ms=1000)
        run.processes["run_ns"] = pd.array([own_ms * MS] * 2 + [MS], dtype="Int64")
        run.processes["ready_of_ns"] = run.processes["run_ns"]
        run.processes["ready_ns"] = pd.array([(1000 - own_ms) * MS] * 2 + [MS], dtype="Int64")
        text = self.text(run)
        assert "The processors bound it" not in text
        assert ("its 2 processors were all busy, 25% with this run" in text) == told

    @pytest.mark.parametrize(("begin", "after"), [(105, "running montage after the last task"), (50, "")])
    def test_a_last_step_that_is_no_task_is_named(self, begin: float, after: str) -> None:
        """A script's own program after its tasks, or beside them as what the manager runs."""
        story = Story()
        moment(story, 0, pid=99)
        task(story, "a", 10, 100, writes="/a", pid=1)
        story.read("/a", 0, 100, pid=2, at_ms=begin)
        moment(story, 190, pid=2)
        moment(story, 200, pid=99)
        rows = ((1, 99, "/bin/a"), (2, 99, "/usr/bin/montage"), (99, 1, "/bin/sh"))
        table = processes(*rows, used_ms=80)
        text = self.text(story.run(processes=table))
        table["argv"] = [["a"], ["python3", "/opt/bin/tailrace-python", "adapter"], ["sh"]]
        assert "tailrace's adapter" in self.text(story.run(processes=table)).lower()
        assert (after or "ending after the last task") in text[0].lower() + text[1:]

    def test_the_best_single_change_is_that_of_the_costliest_finding(self) -> None:
        run = TestRanking().flushes(110)
        verdict = insights(run).verdict
        assert "Best single change: fewer flushes in u, about 39.6 ms less, at most 99.4 ms." in verdict.text
        assert (verdict.change, verdict.gain_ns) == ("fewer flushes in u", told(run, "many flushes").cost_ns)
        assert "Nothing much to gain" not in verdict.text

    def test_too_few_workers_bound_a_run(self) -> None:
        words = "Too few workers bound it: twice as many could save 50% of 400 ms."
        assert self.text(TestTooFewWorkers().run(1)).startswith(words)

    def test_the_parts_are_the_makespan(self) -> None:
        for run in (critical_io(), self.computing(30), limited_concurrency(), stories.serial_stage()):
            assert sum(insights(run).verdict.parts.values()) == insights(run).inputs.makespan_ns

    def test_it_opens_the_report_and_quality_closes_it(self) -> None:
        lines = printed(critical_io()).splitlines()
        assert "bounds it" in lines[1] or "bounds it" in lines[2]
        assert any(line.startswith("Data quality: Coverage") for line in lines[-3:])

    def test_an_empty_run_has_one(self) -> None:
        assert self.text(Story().run()) == "Nothing ran."

    def test_time_on_pipes_is_computing_while_another_process_of_the_task_goes_on(self) -> None:
        """gen (1) computes and writes a pipe, wc (2) is in its reads for the whole time."""
        story = Story()
        where: dict[str, Any] = {"task": "t", "stage": "s"}
        moment(story, 0, pid=1, **where)
        pipe = {"path": "pipe:[5]", "file": "pipe:[5]", "ftype": "fifo", "cat": "PIPE"}
        story.event("read", pid=2, at_ms=1, dur=98 * MS, dir="r", size=10, **pipe, **where)
        story.event("write", pid=1, at_ms=98, dur=MS, dir="w", size=10, **pipe, **where)
        moment(story, 100, pid=1, **where)
        parts = insights(story.run()).critical.parts
        assert parts["compute"] >= 97 * MS and parts["pipe"] <= 2 * MS


class TestHealthy:
    """What looks like a finding and is none."""

    def test_a_task_alone_for_a_tenth_of_the_run(self) -> None:
        assert "serial stage" not in kinds(stories.serial_stage(healthy=True))

    def test_tasks_one_after_the_other_are_no_serial_stage(self) -> None:
        story = Story()
        task(story, "a", 0, 10, writes="/a")
        task(story, "b", 10, 40, reads="/a", writes="/b")
        assert "serial stage" not in kinds(story.run())

    def test_the_programs_of_a_task_without_a_stage_are_one_task(self) -> None:
        """Jobs of GNU parallel: a shell that copies and compares; the copies take longest."""
        story = Story()
        rows = []
        for job in (1, 2):
            for pid, program, ms in ((10 * job, "bash", 60), (10 * job + 1, "cp", 40), (10 * job + 2, "cmp", 10)):
                story.write(f"/{pid}", 0, 10, task=f"9.{job}", pid=pid, at_ms=job, dur=ms * MS)
                rows.append((pid, 99, f"/bin/{program}"))
        tasks = insights(story.run(processes=processes(*rows))).inputs.tasks
        assert sorted(zip(tasks["stage"], tasks["task"], strict=True)) == [("(cp)", "9.1"), ("(cp)", "9.2")]

    def test_a_manager_that_runs_several_tasks_at_a_time_waits_for_none_of_them(self) -> None:
        assert "undeclared dependency" in kinds(stories.reaped())
        assert "undeclared, but awaited" in kinds(stories.reaped(overlapping=False))

    @pytest.mark.parametrize("how", [{"looks": 1}, {"looks": 2}])
    def test_few_looks_with_long_sleeps_are_polling_if_another_task_makes_the_file(self, how: dict[str, int]) -> None:
        assert "polling" in kinds(stories.polling(**how))
        assert not {"polling", "sleep loop"} & set(kinds(stories.polling(maker="", **how)))

    def test_a_loop_that_looks_for_what_another_task_makes_waits_for_it(self) -> None:
        found = told(stories.spinning(), "failing calls")
        assert ", until make made it, and took" in found.title and found.advice.startswith(
            "The loop waits for that file"
        )
        assert told(stories.spinning(maker=""), "failing calls").advice.startswith("Look in fewer places")

    @pytest.mark.parametrize("how", [{"last": 1}, {"others": 0}, {"program": "grep"}])
    def test_an_exit_code_that_the_shell_saw_or_that_is_an_answer(self, how: dict[str, Any]) -> None:
        assert "failed in a pipeline" not in kinds(stories.failed_in_pipe(**how))

    @pytest.mark.parametrize(
        "how",
        [{"code": 1, "program": "grep"}, {"again": True}, {"reader_ends": 2}, {"others": 0}, {"code": 0}],
        ids=str,
    )
    def test_a_failure_that_somebody_noticed_or_that_is_an_answer(self, how: dict[str, Any]) -> None:
        assert "unnoticed failure" not in kinds(stories.unnoticed_failure(**how))

    @pytest.mark.parametrize("how", [{"count": 9000}, {"answers": 0.2}, {"size": 5000}, {"serves": True}], ids=str)
    def test_few_or_large_requests_requests_without_answers_and_a_server(self, how: dict[str, Any]) -> None:
        assert "round trips" not in kinds(stories.round_trips(**how))

    @pytest.mark.parametrize("how", [{"faults": 90_000}, {"system_ms": 15}, {"resident_kib": 400_000}], ids=str)
    def test_memory_that_is_taken_once_and_little_time_in_the_kernel(self, how: dict[str, Any]) -> None:
        assert "page faults" not in kinds(stories.page_faults(**how))

    def test_the_path_of_a_conversation_goes_back_to_the_client_at_each_turn(self) -> None:
        found = insights(stories.conversation())
        path, inputs = found.critical.path, found.inputs
        spent = (path["end_ns"] - path["begin_ns"]).groupby([inputs.name(task) for task in path["task"]]).sum()
        assert spent.idxmax().startswith("work") and spent.max() > 75 * MS, spent

    @pytest.mark.parametrize("shared", [True, False])
    def test_processes_that_share_memory_may_have_locks_there(self, shared: bool) -> None:
        assert ("two writers" in kinds(stories.server_processes(shared))) == (not shared)
        found = insights(stories.server_processes(shared)).conflicts
        assert (found.unknown, len(found.rows)) == ((1, 0) if shared else (0, 1))

    def test_a_program_that_stopped_reading_and_failed(self) -> None:
        found = told(stories.failed_in_pipe(signal=13, others=0), "failed in a pipeline")
        assert "ended with exit code 1 before it had read all that was written to it, in a pipeline" in found.title

    @pytest.mark.parametrize("how", [{"fed": True}, {"read": True}, {"socket": True}, {"used_ms": 150}], ids=str)
    def test_tasks_that_need_the_one_before_or_have_no_processor_beside_it(self, how: dict[str, Any]) -> None:
        assert "tasks one after the other" not in kinds(stories.sequential_tasks(**how))

    def test_work_on_copies_of_one_file_is_repeated_work(self) -> None:
        assert told(stories.repeated_work(copied=True), "repeated work").evidence[0]["path"] == "/ref.gz"

    def test_a_program_that_fails_each_time_is_to_be_left_out(self) -> None:
        found = told(stories.repeated_start_ups(failed=10), "repeated start-ups")
        assert found.title.endswith("; 10 of these ended with exit code 3")
        assert found.advice.startswith("Look why it fails")
        assert "exit code" not in told(stories.repeated_start_ups(failed=2), "repeated start-ups").title

    @pytest.mark.parametrize("how", [{"tasks": 2}, {"option": "--seed="}, {"wrote": 1}, {"fed": True}], ids=str)
    def test_two_tasks_or_other_arguments_outputs_or_inputs_are_no_repeated_work(self, how: dict[str, Any]) -> None:
        assert "repeated work" not in kinds(stories.repeated_work(**how))

    def test_what_goes_from_back_to_front_is_not_at_random_offsets(self) -> None:
        assert "random offsets" in kinds(random_offsets())
        assert "random offsets" not in kinds(random_offsets(backward=True))

    def test_a_flush_for_a_full_buffer_costs_nothing_and_none_is_a_call_on_names(self) -> None:
        assert "metadata load" not in kinds(stream_flushes())
        assert "stream flushes" not in kinds(stream_flushes(each=64))

    def test_a_stream_that_jumps_gains_nothing_by_a_larger_buffer(self) -> None:
        assert "stream buffers" in kinds(jumping_stream(1))
        assert "stream buffers" not in kinds(jumping_stream(7919))

    def test_a_journal_that_is_made_anew_needs_one_flush(self) -> None:
        found = insights(many_flushes(anew=True)).findings()
        (flushes,) = [one for one in found if one.kind == "many flushes"]
        assert [(row["stage"], row["needed"]) for row in flushes.evidence] == [("u", 1), ("v", 1)]

    def test_a_process_that_its_parent_killed_when_it_needed_it_no_more_did_not_fail(self) -> None:
        """GNU parallel's children that only sleep; but not one that had written, or whose parent failed."""
        for wrote, parent, failed in ((False, 0, False), (True, 0, True), (False, 1, True)):
            story = Story()
            moment(story, 0, pid=1)
            moment(story, 5, pid=2)
            if wrote:
                story.write("/half", 0, 10, pid=2, at_ms=6)
            moment(story, 30, pid=1)
            table = processes((1, 99, "/usr/bin/parallel"), (2, 1, "/bin/sleep"), signal={2: 9})
            table.loc[table["pid"] == 1, "exit"] = parent
            table["t1_ns"] = pd.array([T0_NS + 30 * MS, T0_NS + 10 * MS], dtype="Int64")
            assert ("failed command" in kinds(story.run(processes=table))) == failed

    def test_one_of_two_ranks_that_moves_most_but_not_nearly_all(self) -> None:
        assert "rank imbalance" in kinds(rank_imbalance(ranks=2, most=50))
        assert "rank imbalance" not in kinds(rank_imbalance(ranks=2, most=5))

    @pytest.mark.parametrize("path", ["/w/in.fai", "/w/.cache/norm", "/usr/share/norm", "/other/norm", "/w/in/part"])
    def test_an_index_a_hidden_file_or_one_elsewhere_is_no_undeclared_input(self, path: str) -> None:
        assert "undeclared input" not in kinds(stories.undeclared_input(path))

    def test_a_run_that_declares_no_files_has_no_undeclared_input(self) -> None:
        story = Story()
        story.read("/w/cache/norm", 0, 8192, task="use", stage="u")
        assert "undeclared input" not in kinds(story.run(**declared(("a", "use", "future"))))

    def test_the_starts_of_programs_are_no_gaps_of_their_script(self) -> None:
        """Twenty programs, each 30 ms after the one before; or a task that a manager starts so."""
        found = {}
        for managed in (False, True):
            story = Story()
            for n in range(20):
                reads = f"/f{n - 1}" if n else ""
                task(story, f"a{n}", 40 * n, 40 * n + 10, reads=reads, writes=f"/f{n}", io=0.1, pid=n + 1)
            tables = declared(*((f"a{n}", f"a{n + 1}", "file") for n in range(19))) if managed else {}
            found[managed] = "critical path gaps" in kinds(story.run(**tables))
        assert found == {False: False, True: True}

    def test_a_background_process_that_ends_with_its_task(self) -> None:
        assert "outliving processes" not in kinds(stories.outliving_processes(healthy=True))

    @pytest.mark.parametrize("how", [{"closed": True}, {"signal": 13}, {"anew": True}])
    def test_a_file_that_was_closed_or_written_anew_is_whole(self, how: dict[str, Any]) -> None:
        assert "half-written output" not in kinds(stories.half_written(**how))

    @pytest.mark.parametrize("how", [{}, {"between": True}])
    def test_a_writer_that_stops_when_its_parent_is_killed_may_have_left_half_of_what_another_task_reads(
        self, how: dict[str, bool]
    ) -> None:
        assert told(stories.fell_silent(**how), "half-written output").title == (
            "make fell silent when timeout above it was killed by signal 9 (SIGKILL), while it wrote /out: the 97.7 KiB"
            " that are there may be half of it, and use read it"
        )

    @pytest.mark.parametrize("how", ["goes_on", "exits", "unread", "alive"])
    def test_a_process_that_goes_on_or_ends_or_whose_parent_does_is_not_cut_short(self, how: str) -> None:
        assert "half-written output" not in kinds(stories.fell_silent(**{how: True}))

    @pytest.mark.parametrize("then", ["retry", "remove", "truncate", "anew", "replace", "journal"])
    @pytest.mark.parametrize("unread", [False, True])
    def test_bytes_that_a_write_could_not_write_are_there_in_the_end(self, then: str, unread: bool) -> None:
        assert "lost data" not in kinds(stories.lost_data(then=then, unread=unread))

    @pytest.mark.parametrize(
        "how", [{"errno": 11}, {"code": 1, "unread": True}, {"then": "elsewhere", "unread": True}, {"path": "/dev/out"}]
    )
    def test_writes_that_would_wait_or_whose_program_told_of_it_or_wrote_elsewhere(self, how: dict[str, Any]) -> None:
        assert "lost data" not in kinds(stories.lost_data(**how))

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ({"unread": True}, "could not write 16.0 KiB of /out (No space left on device) and went on, exit code 0"),
            (
                {"errno": 122, "then": "removed later"},
                "of /out (Disk quota exceeded) and went on, exit code 0; use read",
            ),
            ({"code": 3}, "and ended with exit code 3; use read that file"),
            ({"buffered": True}, "could not write all of /out (No space left on device) and went on"),
        ],
    )
    def test_lost_data_is_told_unread_or_removed_later_or_passed_on(self, how: dict[str, Any], words: str) -> None:
        found = insights(stories.lost_data(**how)).findings()
        assert found[0].kind == "lost data" and words in found[0].title

    @pytest.mark.parametrize(
        ("code", "words"),
        [(22, "with O_DIRECT"), (28, "Make room"), (5, "dmesg"), (9, "The descriptor"), (71, "Mend what makes")],
    )
    def test_the_advice_about_failing_calls_is_for_their_reason(self, code: int, words: str) -> None:
        assert words in told(stories.failing_calls(code), "failing calls").advice

    @pytest.mark.parametrize(("managed", "kind"), [(True, "undeclared dependency"), (False, "two writers")])
    def test_tasks_that_share_a_scratch_file_are_told_to_have_one_each(self, managed: bool, kind: str) -> None:
        found = told(stories.shared_scratch(managed=managed), kind)
        assert "/tmp1" in found.title and found.advice.startswith("Give each task a file of its own")

    @pytest.mark.parametrize("how", ["reads first", "reads only", "apart"])
    def test_a_file_that_a_task_reads_before_it_writes_is_no_scratch_file(self, how: str) -> None:
        found = insights(stories.shared_scratch(how)).findings()
        assert not any(one.advice.startswith("Give each task") for one in found)
        assert any(one.about == "race" for one in found) == (how != "apart")

    def test_writes_that_lose_data_are_told_once(self) -> None:
        story = Story()
        where: dict[str, Any] = {"task": "make", "stage": "m", "pid": 1}
        story.create("/out", at_ms=0, **where)
        for at in range(200):
            story.event("write", "/out", at_ms=1 + at, dir="w", size=0, count=9, offset=0, ret=-1, errno=28, **where)
        assert kinds(story.run()).count("lost data") == 1 and "failing calls" not in kinds(story.run())

    @pytest.mark.parametrize("how", [{"errno": 11}, {"errno": 4}, {"calls": 99}])
    def test_calls_that_would_wait_or_few_that_fail(self, how: dict[str, int]) -> None:
        assert "failing calls" not in kinds(stories.failing_calls(**how))

    @pytest.mark.parametrize(
        "how",
        [
            {"program": "grep"},
            {"size": 100},
            {"arguments": "2"},
            {"out": "/other"},
            {"changed": True},
            {"fed": True},
            {"then": 1},
            {"beside": True},
        ],
    )
    def test_a_command_that_has_other_work_or_asks_is_not_tried_again(self, how: dict[str, Any]) -> None:
        """grep says no; without data; other arguments; another output; its input was written between, or came from
        others; it fails again; both at a time."""
        assert "retried tasks" not in kinds(stories.retried_command(**how))

    @pytest.mark.parametrize("how", [{"ranks": 1}, {"size": 1 << 16}, {"used_ms": 10}, {"parts": 2}])
    def test_a_file_that_is_small_or_soon_read_or_shared_by_the_ranks(self, how: dict[str, int]) -> None:
        assert "read by every rank" not in kinds(stories.read_by_every_rank(**how))

    def test_a_server_that_is_a_task_of_the_run_is_none_outside_of_it(self) -> None:
        assert "waiting for a server" not in kinds(stories.server_waits(traced=True))

    @pytest.mark.parametrize("how", ["tries", "lock file"])
    def test_who_is_refused_a_lock_and_goes_on_waits_for_none(self, how: str) -> None:
        assert "lock contention" not in kinds(stories.lock_contention(how, healthy=True))

    def test_a_dataset_of_which_each_chunk_is_read_once_costs_what_it_must(self) -> None:
        assert "read amplification" not in kinds(stories.read_amplification(read_bytes=4096))

    def test_a_file_that_the_task_makes_itself_is_no_other_tasks(self) -> None:
        """A server's port, that its script waits for."""
        assert not {"polling", "sleep loop"} & set(kinds(stories.polling(maker="self")))

    def test_looks_beside_a_sleep_or_at_what_the_kernel_tells_are_no_loop(self) -> None:
        """Six looks within a moment, and then a line of many sleeps; and a loop that reads how much memory there is."""
        story = Story()
        where: dict[str, Any] = {"task": "use", "stage": "u", "pid": 1}
        moment(story, 0, **where)
        calls = {"calls": 100, "span": 90 * MS, "cat": "WAIT"}
        story.event("usleep", at_ms=1, dur=80 * MS, **calls, **where)
        for number in range(6):
            story.event("stat", "/there", at_ms=20 + number / 100, **where)
        moment(story, 100, **where)
        used = processes((1, 99, "/bin/use"), used_ms=1)
        assert "sleep loop" not in kinds(story.run(processes=used))
        assert "/proc" not in told(stories.polling(maker="", at="/proc/meminfo"), "sleep loop").title

    @pytest.mark.parametrize("how", [{"works": True}, {"times": 4}])
    def test_sleeps_that_pace_work_or_are_few_are_no_loop(self, how: dict[str, Any]) -> None:
        assert "sleep loop" not in kinds(stories.sleep_loop(**how))

    @pytest.mark.parametrize("how", [{"beside": True}, {"server": 1}])
    def test_a_server_that_was_there_or_a_script_that_had_more_to_wait_for(self, how: dict[str, Any]) -> None:
        """Refused for another reason; and a script that goes on with whichever child ends."""
        assert kinds(stories.shell_loop(**how)) == []

    @pytest.mark.parametrize("how", [{"works": True}, {"waits": True}, {"pipe": False}, {"until": 50}])
    def test_a_background_process_that_works_is_awaited_or_keeps_nobody_waiting(self, how: dict[str, Any]) -> None:
        assert "helper that outlives the work" not in kinds(stories.left_helper(**how))

    @pytest.mark.parametrize("how", [{"reads": "/a3 /a3"}, {"reads": "/in /in"}, {"told": False}])
    def test_a_task_that_needs_what_the_program_waited_for_or_may(self, how: dict[str, Any]) -> None:
        """It reads of the last one; or of none of them, and what it needs may be a result; or nothing is known."""
        assert "submitted after others" not in kinds(barrier(**how))

    @pytest.mark.parametrize("how", [{"ready_ms": 0}, {"tasks": 2}])
    def test_processes_that_wait_for_no_processor_or_are_as_few(self, how: dict[str, Any]) -> None:
        assert "waiting for a processor" not in kinds(stories.processor_waits(**how))

    @pytest.mark.parametrize(
        "how",
        [{"cpus": ("0", "1"), "ready_ms": 0}, {"beside": "0"}, {"beside_ms": 900}, {"used_ms": 300}, {"used_ms": 900}],
    )
    def test_processes_whose_binding_costs_nothing_or_is_not_what_they_waited_for(self, how: dict[str, Any]) -> None:
        """Each has its own; there are no others; the run uses the others; other programs have theirs; and they were on
        more than they were bound to."""
        run = stories.bound_processes(**how)
        assert not any("bound to" in one.title for one in insights(run).findings())

    @pytest.mark.parametrize("how", [{"ret": 1}, {"errno": 111}, {"late": True}])
    def test_a_connection_that_is_accepted_in_the_end_or_refused_at_once(self, how: dict[str, Any]) -> None:
        assert "waiting for a server" not in kinds(stories.unanswered(**how))

    @pytest.mark.parametrize("how", [{"size": 4096}, {"name": "fputs"}])
    def test_pages_or_a_buffered_stream_through_a_pipe(self, how: dict[str, Any]) -> None:
        assert "small pipe writes" not in kinds(stories.small_pipe_writes(**how))

    def test_the_streams_of_a_general_tool_are_not_the_users(self) -> None:
        found = {}
        for program in ("/usr/bin/sort", "/home/ada/prog"):
            run = stream_buffers()
            run.processes = processes((1, 99, program))
            found[program] = "stream buffers" in kinds(run)
        assert found == {"/usr/bin/sort": False, "/home/ada/prog": True}

    @pytest.mark.parametrize("how", [{"starts": 9}, {"apart": True}])
    def test_few_starts_or_a_library_that_is_loaded_late(self, how: dict[str, Any]) -> None:
        assert "repeated start-ups" not in kinds(stories.repeated_start_ups(**how))

    def test_imports_are_no_metadata_load(self) -> None:
        """Look-ups before the last library that is read before data; the same look-ups after it are one."""
        found = {}
        for late in (False, True):
            story = Story()
            where: dict[str, Any] = {"task": "look", "stage": "u"}
            story.read("/usr/lib/liba.so", 0, 100, at_ms=0, dur=1000, **where)
            for number in range(1000):
                story.event("stat", f"/f{number % 5}", at_ms=1 + number / 50, dur=10_000, **where)
            story.read("/usr/lib/libb.so", 0, 100, at_ms=0.5 if late else 22, dur=1000, **where)
            story.read("/f1", at_ms=25, **where)
            found[late] = "metadata load" in kinds(story.run())
        assert found == {False: False, True: True}

    def straggler(self, used: float | None, cpus: str, locked_ms: float = 0) -> FakeRun:
        """Five tasks at once, the last of which takes four times as long; each used as much of a processor."""
        story = Story()
        for pid, took in enumerate((10, 11, 10, 12, 40), 1):
            task(story, f"a{pid}", 0, took, writes=f"/a{pid}", pid=pid)
        task(story, "b", 41, 45, reads="/a1 /a2 /a3 /a4 /a5", pid=9, io=0.1)
        if locked_ms:
            lock = {"flags": stories.EXCLUSIVE, "holder": 1, **stories.READ_WRITE}
            story.event("fcntl", "/db", at_ms=5, dur=round(locked_ms * MS), task="a5", stage="a", pid=5, **lock)
        return story.run(
            processes=processes(*((pid, 99, "/bin/a") for pid in (1, 2, 3, 4, 5, 9)), used_ms=used, cpus=cpus)
        )

    def test_a_task_that_waited_for_a_processor_is_no_straggler(self) -> None:
        assert "straggler" not in kinds(self.straggler(8, "0-1"))
        assert "straggler" in kinds(self.straggler(8, "0-7")), "there was a processor for each"
        assert "straggler" in kinds(self.straggler(None, "0-1")), "what it used is not known"

    def test_a_task_that_waited_for_a_lock_is_no_straggler(self) -> None:
        assert "straggler" in kinds(self.straggler(8, "0-7", locked_ms=2))
        assert "straggler" not in kinds(self.straggler(8, "0-7", locked_ms=29))

    def test_a_task_that_was_ready_and_waited_is_no_straggler(self) -> None:
        """Whoever had the processor meanwhile: another program on the machine is not in the trace."""
        found = {}
        for ready in (0, 28):
            run = self.straggler(None, "0-7")
            waited = [round(ready * MS) if pid == 5 else 0 for pid in run.processes["pid"]]
            run.processes["ready_ns"] = pd.array(waited, dtype="Int64")
            run.processes["ready_of_ns"] = pd.array([MS] * len(waited), dtype="Int64")
            found[ready] = "straggler" in kinds(run)
        assert found == {0: True, 28: False}

    def pages(self, call: str, path: str, size: int = 4096, times: int = 1, **where: Any) -> FakeRun:
        """A file of pages and a piece, a page at a time, from front to back."""
        story = Story()
        lengths = [size] * (12_000 // times) + [size // 3, 0]
        for number, length in enumerate(lengths * times):
            at: dict[str, Any] = {"at_ms": number / 100, "dur": 9000, "task": "t", "stage": "s", **where}
            offset = (number % len(lengths)) * size
            story.read(path, offset, length, name=call, **at)
        return story.run()

    def test_pages_and_a_last_piece_are_no_small_calls(self) -> None:
        assert "small calls" not in kinds(self.pages("read", "/big", times=3))
        assert "small calls" in kinds(self.pages("read", "/big", size=1000, times=3))
        streams = {size: self.pages("fread", "/big", size=size, cat="STDIO") for size in (4096, 1000)}
        found = {size: len(call_costs.streams(insights(run).inputs)) for size, run in streams.items()}
        assert found == {4096: 0, 1000: 1}

    def test_pages_and_a_last_piece_through_a_pipe(self) -> None:
        story = Story()
        for number in range(20_001):
            at: dict[str, Any] = {"at_ms": number / 100, "dur": 5000, "task": "gen", "stage": "g", "ftype": "fifo"}
            size = 4096 if number < 20_000 else 7
            story.event("write", "pipe:[5]", dir="w", size=size, count=size, ret=size, file="0:9:5", **at)
        story.event("read", "pipe:[5]", dir="r", size=1, at_ms=201, task="use", pid=2, ftype="fifo", file="0:9:5")
        assert "small pipe writes" not in kinds(story.run())

    def test_as_many_bytes_are_no_copy(self) -> None:
        story = Story()
        for place in (0, 1 << 19):
            story.read("/a", place, 1 << 19, task="up", stage="s")
            story.write("/b", place, 1 << 19, task="up", stage="s")
        assert "file copies" not in kinds(story.run(processes=processes((1, 99, "/usr/bin/upper"))))

    def streamed(self, *seeks: str) -> FakeRun:
        story, part = Story(), 40 << 10
        for at, place in zip((1, 40, 99), (0, part, 2 * part), strict=True):
            story.write("/once", place, part, task="make", stage="m", at_ms=at)
        story.event("openat", "/once", task="use", stage="u", at_ms=109, fd=3, flags=0)
        for _ in seeks:
            story.event("lseek", "/once", task="use", stage="u", at_ms=109.5)
        for at, place in zip((110, 120, 149), (0, part, 2 * part), strict=True):
            story.read("/once", place, part, task="use", stage="u", at_ms=at)
        return story.run()

    def test_a_reader_that_seeks_can_not_read_a_pipe(self) -> None:
        assert "streaming candidate" in kinds(self.streamed())
        assert "streaming candidate" in kinds(self.streamed("where am I")), "Python's open asks once"
        assert "streaming candidate" not in kinds(self.streamed("end", "begin"))

    def test_what_is_missing_is_a_doubt_only_of_what_was_not_seen_to_happen(self) -> None:
        """Small calls were seen; that nobody reads a file was not."""
        run = critical_io()
        run.lossy_processes = {("n1", 1, "")}
        assert told(run, "critical path I/O").doubts == []


class TestReasons:
    """What lies one level below: of which a finding's sentence tells where the trace shows it."""

    def straggler(self, size: int = 5000, host: str = "n1", io_ms: float = 1) -> FakeRun:
        """Five tasks of a stage, the last of which takes four times as long."""
        story = Story()
        for pid in range(1, 6):
            last = pid == 5
            where: dict[str, Any] = {"task": f"a{pid}", "stage": "a", "pid": pid, "host": host if last else "n1"}
            dur = round((io_ms if last else 1) * MS)
            story.read(f"/in{pid}", 0, size if last else 5000, at_ms=0, dur=dur, **where)
            story.write("/tmp/a", 0, 90_000, at_ms=9, dur=1000, **where)
            moment(story, 40 if last else 10, **where)
        return story.run()

    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ({"size": 20_000}, ": its input is 19.5 KiB (most of it /in5), 4.0 times the others' median (4.88 KiB)"),
            ({"host": "n2"}, ": it alone ran on n2"),
            ({"io_ms": 25.0}, ": it was in calls on files for 25.0 ms, the others for 1.00 ms (median)"),
            ({}, ""),
        ],
    )
    def test_what_sets_a_straggler_apart(self, how: dict[str, Any], reason: str) -> None:
        title = told(self.straggler(**how), "straggler").title
        assert title.endswith(f"and the critical path goes through it{reason}"), title

    @pytest.mark.parametrize(
        ("flags", "reason"),
        [
            (os.O_DSYNC, "; it was opened with O_DSYNC: each write waits for the device"),
            (os.O_SYNC, "; it was opened with O_SYNC: each write waits for the device"),
            (0, ""),
        ],
    )
    def test_small_writes_to_a_file_that_waits_for_its_device(self, flags: int, reason: str) -> None:
        story, where = Story(), {"task": "t", "stage": "t"}
        story.event("openat", "/log", flags=os.O_WRONLY | flags, fd=3, at_ms=0, **where)
        for number in range(1000):
            story.write("/log", 50 * number, 50, at_ms=1 + number / 10, dur=90_000, **where)
        found = told(story.run(), "small calls")
        assert found.title.endswith(f"1 call of 1.00 MiB would do{reason}")
        assert ("without O_SYNC" in found.advice) == bool(flags)

    def test_the_program_that_a_serial_stage_computes_in(self) -> None:
        run = stories.serial_stage()
        run.processes = processes(*((pid, 99, "/bin/sim") for pid in (1, 2, 3)), (4, 99, "/bin/gzip"), used_ms=8)
        assert "ran alone for 30.0 ms of 40.0 ms (most of it gzip, 8.00 ms on a processor)" in (
            told(run, "serial stage").title
        )

    @pytest.mark.parametrize(
        ("path", "is_told"), [("/ref.gz.tbi", True), ("/ref.tbi", True), ("/refs.gz.tbi", False), ("/other", False)]
    )
    def test_repeated_work_over_a_file_whose_index_is_not_read(self, path: str, is_told: bool) -> None:
        run = stories.repeated_work()
        files = declared(files=tuple((f"t{pid}", "r", name) for pid in (1, 2, 3) for name in ("/ref.gz", path)))
        run.declared_tasks, run.declared_files = files["declared_tasks"], files["declared_files"]
        found = told(run, "repeated work")
        assert (f"; {path}, named after it, is a declared input, and none of them read it" in found.title) == is_told
        assert ("tabix" in found.advice) == is_told


class TestRetriedCommands:
    def test_the_first_try_is_told_with_what_it_cost_and_what_it_failed_at(self) -> None:
        found = told(stories.retried_command(), "retried tasks")
        assert found.title == (
            "`step /in` ended with exit code 1 by `mv /out /d/out` (its last call that failed: renameat2 on /d/out, No"
            " such file or directory), and was run again over the same data; the failed tries took 47.0 ms"
        )
        assert (found.cost_ns, found.is_bound, found.query) == (47 * MS, True, "tailrace task /runs/story 'step n1:11'")

    def test_what_the_second_try_reads_again_is_its_shadow(self) -> None:
        run = stories.retried_command(task="t", size=1 << 20)
        assert "repeated reads" not in kinds(run) and "retried tasks" in kinds(run)
        assert "repeated reads" in kinds(stories.retried_command(task="t", size=1 << 20, code=0))


class TestEarlyReads:
    """`make` writes ten pieces of 4 KiB in order, and `use` reads from 35 ms on."""

    @staticmethod
    def run(pieces: int = 3, head_last: bool = False, end: bool = True, **values: Any) -> FakeRun:
        """pieces: how many `use` reads; head_last: at last `make` writes the first piece again; end: `use` finds the
        end of the file."""
        story, at = Story(), [*range(10), *([0] if head_last else ())]
        makes: dict[str, Any] = {"task": "make", "stage": "m", "pid": 1}
        uses: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
        for number, piece in enumerate(at):
            story.write("/f", piece << 12, 4096, at_ms=10 * number + 1, **makes)
        for piece in range(pieces):
            story.read("/f", piece << 12, 4096, at_ms=35 + piece, **uses)
        if end:
            story.event("read", "/f", dir="r", offset=pieces << 12, size=0, count=4096, at_ms=39, **uses)
        return story.run(**values)

    def test_a_dependency_that_cost_the_reader_bytes_is_told_once(self) -> None:
        """Whether it found the end, or took the size from the file's attributes."""
        tables = declared(("a", "make", "future"), ("b", "use", "future"))
        early = "use read the first 12.0 KiB of 40.0 KiB of /f while make still wrote it"
        for end in (True, False):
            run = self.run(end=end, **tables)
            found = told(run, "undeclared dependency")
            assert found.title == f"{early}, but no dependency is declared and nothing orders them"
            assert "missing from the reader's result" in found.advice
            assert not {"read before write", "read during write"} & set(kinds(run))

    def test_who_reads_all_or_a_file_that_changes_elsewhere_misses_nothing_known(self) -> None:
        tables = declared(("a", "make", "future"), ("b", "use", "future"))
        for run in (
            self.run(head_last=True, end=False, **tables),
            self.run(4, end=False, **declared(("make", "use", "file"))),
        ):
            assert not any("still wrote it" in one.title for one in insights(run).findings())


@pytest.mark.parametrize(("waits", "race"), [(True, False), (False, True), (None, True)])
def test_a_task_whose_command_waited_for_it_is_not_called_a_race_to_be(waits: bool | None, race: bool) -> None:
    """`flux run` waits for its job; whose command it was is not in the trace."""
    run = undeclared_in_order()
    if waits is not None:
        run.declared_tasks["submitter"] = [{"host": "n1", "pid": pid, "waits": waits} for pid in (901, 902)]
    found = told(run, "undeclared, in order this time")
    assert ("would make it a race" in found.advice) == race
    assert ("wait for their tasks" in found.advice) != race


class TestWaits:
    @pytest.mark.parametrize(("how", "lock"), [("fcntl", "db"), ("tries", "db"), ("lock file", "db.lock")])
    def test_the_verdict_names_the_lock_that_was_waited_for(self, how: str, lock: str) -> None:
        """However the wait looks: in a call, or asleep between two tries."""
        text = insights(stories.lock_contention(how)).verdict.text
        assert text.startswith(f"Waiting for the lock on {lock} bounds it: 7")
        assert "Sleeping" not in text

    @pytest.mark.parametrize("how", ["fcntl", "tries", "lock file"])
    def test_a_lock_has_its_holder_however_it_is_waited_for(self, how: str) -> None:
        found = told(stories.lock_contention(how), "lock contention")
        path = "/db.lock" if how == "lock file" else "/db"
        assert found.title.startswith("wants waited 7") and f"for a lock on {path}, which has had for" in found.title
        assert 70 * MS <= found.cost_ns <= 80 * MS

    def test_processes_of_many_threads_are_told_to_have_fewer(self) -> None:
        run = stories.processor_waits(tasks=4, lasts_ms=1000, ready_ms=3750)
        found = told(run, "waiting for a processor")
        assert found.title == (
            "the threads of c1 were ready and waited 3.75 s in sum for processors: up to 16 threads of 4 processes"
            " wanted one at a time, and the run could use 2 (it was on them for 50% of the time)"
        )
        assert "OMP_NUM_THREADS" in found.advice and found.change == "fewer threads in each process"
        text = insights(run).verdict.text
        assert "2 for up to 16 threads of 4 processes at a time" in text and "fewer threads" in text
        assert "all busy for 100% of 1.00 s (50% with this run)" in text

    def test_a_connection_that_nobody_accepts_is_waited_for_in_vain(self) -> None:
        found = told(stories.unanswered(), "waiting for a server")
        assert found.title == "use waited 80.0 ms for a connection to 10.0.0.1:80 that nobody accepted"
        assert found.cost_ns == 80 * MS and found.advice.startswith("Nobody answers there")

    def test_processes_that_are_bound_to_one_processor_are_told_to_be_apart(self) -> None:
        run = stories.bound_processes()
        found = told(run, "waiting for a processor")
        assert found.title == (
            "2 processes were bound to processor 0 and waited up to 500 ms each for it, while the run had little or"
            " nothing for processor 1 of n1"
        )
        assert found.advice.startswith("Bind them to different ones") and found.change == "binding to other processors"
        assert found.cost_ns == 500 * MS
        assert "were all busy" not in insights(run).verdict.text

    def test_a_process_of_many_threads_is_told_to_be_bound_to_as_many_processors(self) -> None:
        run = stories.bound_processes(cpus=("2",), used_ms=1000, ready_ms=3000, beside="0-3")
        found = told(run, "waiting for a processor")
        assert found.title.startswith("c1, of several threads, was bound to processor 2 and waited up to 3.00 s in sum")
        assert found.title.endswith("for processors 0-1,3 of n1") and "--cpus-per-task" in found.advice

    def test_processes_of_one_thread_each_are_told_of_more_processors(self) -> None:
        run = stories.processor_waits(tasks=8, lasts_ms=1000, ready_ms=750)
        assert told(run, "waiting for a processor").change == "more processors"
        assert "threads" not in insights(run).verdict.text

    def test_a_start_up_lasts_at_most_until_the_program_works(self) -> None:
        found = told(stories.repeated_start_ups(), "repeated start-ups")
        assert (found.cost_ns, found.most_ns) == (270 * MS, 279 * MS)

    def test_a_loop_costs_the_sleep_after_what_it_looks_for_was_made(self) -> None:
        """Made at 75 ms, in a sleep from 72.1 to 81.9."""
        assert told(stories.polling(), "polling").cost_ns == round((81.9 - 75.001) * MS)

    def test_a_run_without_waits_has_none(self) -> None:
        """Of an older trace: the same, but for the sleeps."""
        run = stories.lock_contention("tries")
        run.rows = [row for row in run.rows if row["cat"] != "WAIT"]
        assert not {"lock contention", "polling", "sleep loop"} & set(kinds(run))

    def test_what_nobody_makes_costs_the_time_on_the_critical_path(self) -> None:
        found = told(stories.polling(maker=""), "sleep loop")
        assert found.title == "use looked for /done 8 times and slept 78.4 ms in between; no task of the run made it"
        assert found.cost_ns == round(78.4 * MS)

    @pytest.mark.parametrize("how", [{}, {"wrapped": True}])
    def test_the_sleep_that_a_script_runs_is_its_own(self, how: dict[str, bool]) -> None:
        """And its looks are those of the programs that it runs and waits for."""
        found = told(stories.shell_loop("stat", **how), "sleep loop")
        assert found.title == (
            "sh n1:99 looked for /done 6 times and slept 113 ms in between; no task of the run made it"
        )
        run = insights(stories.shell_loop("stat", **how))
        slept = {run.inputs.name(int(row.task)) for row in run.critical.path.itertuples() if row.sleep}
        assert slept == {"sh n1:99"} and run.critical.parts["sleep"] == round(6 * 18.8 * MS)

    def test_what_runs_in_a_scripts_background_is_neither_its_look_nor_what_it_waited_for(self) -> None:
        """It writes data, and ends during a sleep, which the script goes on to wait for."""
        run = insights(stories.shell_loop("stat", background=True))
        assert [one.kind for one in run.findings()] == ["sleep loop"]
        slept = {run.inputs.name(int(row.task)) for row in run.critical.path.itertuples() if row.sleep}
        assert slept == {"sh n1:99"} and "other" not in {
            run.inputs.name(task).split()[0] for task in run.critical.path["task"]
        }

    @pytest.mark.parametrize("at", ["/run/d/d.sock", "/dev/log", "/w/d.sock"])
    def test_who_tries_to_connect_again_and_again_is_told_the_address_wherever_it_is(self, at: str) -> None:
        found = told(stories.refused(at), "sleep loop")
        assert found.title == f"use tried to connect to {at} 9 times (refused) and slept 78.4 ms in between"
        assert "Nobody listens" in found.advice

    def test_a_task_whose_other_process_goes_on_does_not_wait(self) -> None:
        story = stories.sleep_loop()
        where: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
        other = Story()
        moment(other, 0, **where)
        moment(other, 95, **where)
        story.rows += other.rows
        assert "sleep loop" not in kinds(story)


class TestTooFewWorkers:
    def run(self, used_ms: float, submitted: bool = True) -> FakeRun:
        """Four tasks, submitted at once, one by one in one process that has two processors."""
        story = Story()
        moment(story, 0, pid=99)
        names = [f"a{n}" for n in range(4)]
        for n, name in enumerate(names):
            task(story, name, 100 * n, 100 * n + 100, writes=f"/{name}", pid=1)
        moment(story, 400, pid=99)
        rows = pd.DataFrame([{"workflow": "w", "stage": "a", "task": name, "parent": None} for name in names])
        times = [T0_NS] * 4 if submitted else [T0_NS + 100 * n * MS for n in range(4)]
        rows["t_submit_ns"] = pd.array(times, dtype="Int64")
        return story.run(declared_tasks=rows, processes=processes((1, 99, "/bin/a"), used_ms=used_ms))

    def test_tasks_without_a_producer_are_ready_when_they_are_submitted(self) -> None:
        found = told(self.run(1), "limited concurrency")
        assert found.title.startswith("Tasks of the critical path were ready for 300 ms of 400 ms")
        assert found.query == "tailrace whatif /runs/story --workers 2"

    def reserved(
        self, cores: int = 2, used_ms: int = 90, ready_ms: int = 5, last_ms: int | None = None, known: bool = True
    ) -> FakeRun:
        """Four tasks, submitted at once, each a process that uses one processor, one at a time. last_ms: what the last
        one used."""
        story = Story()
        moment(story, 0, pid=99)
        names = [f"a{n}" for n in range(4)]
        for n, name in enumerate(names):
            task(story, name, 100 * n + 1, 100 * n + 100, writes=f"/{name}", pid=n + 1)
        moment(story, 400, pid=99)
        rows = pd.DataFrame([{"workflow": "w", "stage": "a", "task": name, "parent": None} for name in names])
        rows["t_submit_ns"] = pd.array([T0_NS] * 4, dtype="Int64")
        rows["cores"] = pd.array([cores] * 4, dtype="Int64")
        table = processes(*((n + 1, 99, "/bin/a") for n in range(4)), used_ms=used_ms, cpus="0-3")
        used = [round(ms * MS) for ms in (*[used_ms] * 3, used_ms if last_ms is None else last_ms)]
        table["utime_ns"] = pd.array(used, dtype="Int64")
        for name, ns in (("run_ns", used), ("ready_of_ns", used), ("ready_ns", [round(ready_ms * MS)] * 4)):
            table[name] = pd.array(ns if known else [None] * 4, dtype="Int64")
        return story.run(declared_tasks=rows, processes=table)

    def test_tasks_that_use_fewer_cores_than_they_asked_for_are_told_so(self) -> None:
        found = told(self.reserved(), "limited concurrency")
        assert found.title.endswith(": each task of a asked for 2 cores and had work for 1.0 at most")
        assert found.advice.startswith("Ask for as many cores") and found.change == "fewer cores reserved for each task"

    @pytest.mark.parametrize(
        "how", [{"cores": 1}, {"used_ms": 180}, {"ready_ms": 80}, {"last_ms": 180}, {"known": False}]
    )
    def test_cores_that_tasks_did_not_ask_for_or_had_use_for(self, how: dict[str, Any]) -> None:
        """One of them used or wanted several, or that is not known."""
        found = told(self.reserved(**how), "limited concurrency")
        assert "asked for" not in found.title and found.change == "more workers"

    def test_tasks_that_are_submitted_one_by_one_waited_for_nobody(self) -> None:
        assert "limited concurrency" not in kinds(self.run(1, submitted=False))

    def test_processors_that_other_programs_have_are_busy(self) -> None:
        """Its process was ready for them and waited."""
        run = self.run(1)
        for name, ms in (("ready_ns", 700), ("ready_of_ns", 1)):
            run.processes[name] = pd.array([ms * MS] * len(run.processes), dtype="Int64")
        assert "limited concurrency" not in kinds(run)

    def test_threads_of_one_interpreter_gain_nothing_by_more_of_them(self) -> None:
        assert "limited concurrency" not in kinds(stories.shared_interpreter())
        assert "limited concurrency" in kinds(stories.shared_interpreter(computes=10, waits=80))

    @pytest.mark.parametrize(
        "how",
        [{"computes": 98, "waits": 0}, {"computes": 10, "waits": 80}, {"processes_of": 2}, {"exe": "/bin/prog"}],
    )
    def test_threads_on_two_processors_or_on_none_and_processes_share_no_interpreter(self, how: dict[str, Any]) -> None:
        assert "threads of one interpreter" not in kinds(stories.shared_interpreter(**how))

    def test_busy_processors_gain_nothing_by_more_workers(self) -> None:
        assert "limited concurrency" not in kinds(self.run(780))


def test_processors_are_counted_from_lists_of_the_kernel() -> None:
    assert [listed(text) for text in ("0-3,8", "0", "", "x")] == [{0, 1, 2, 3, 8}, {0}, set(), set()]


def test_the_run_could_use_all_processors_that_its_tasks_are_bound_to() -> None:
    """Each task on one processor of its own, with or without a script that may run on both."""
    for script in ("0", "0-1"):
        story = Story()
        for pid in (1, 2):
            task(story, f"a{pid}", 0, 100, writes=f"/a{pid}", pid=pid)
        table = processes((1, 99, "/bin/a"), (2, 99, "/bin/a"), (99, 1, "/bin/sh"), used_ms=95)
        table["cpus"] = ["0", "1", script]
        found = insights(story.run(processes=table))
        assert found.processors.count == 2
        assert "could use 1" not in found.verdict.text and "The processors bound it" not in found.verdict.text


def test_a_tasks_processor_time_is_not_that_of_its_launcher() -> None:
    """The process ran 30 ms before it was the task's, of 100 ms."""
    story = Story()
    moment(story, 0, pid=1, workflow="", task=None, stage=None)
    moment(story, 30, pid=1, task="t", stage="s")
    moment(story, 100, pid=1, task="t", stage="s")
    found = insights(story.run(processes=processes((1, 99, "/bin/t"), used_ms=50)))
    (code,) = np.flatnonzero((found.inputs.tasks["task"] == "t").to_numpy())
    assert found.processors.of_task[code] == 35 * MS


@pytest.mark.parametrize(("to", "advice"), [("/w", "reflink (cp --reflink)."), ("/fast", "Write the data where")])
def test_a_copy_to_another_file_system_can_not_be_a_link(to: str, advice: str) -> None:
    story = Story()
    for place in (0, 1 << 19):
        story.read("/w/in", place, 1 << 19, task="t", stage="s")
        story.write(f"{to}/out", place, 1 << 19, task="t", stage="s")
    points = [{"point": point, "fstype": fstype} for point, fstype in (("/", "ext4"), ("/fast", "tmpfs"))]
    meta = {"host": "n1", "mounts": points}
    found = told(story.run(processes=processes((1, 99, "/bin/cp")), meta=meta), "file copies")
    assert advice in found.advice


def test_the_time_that_bytes_take_is_not_gained_by_larger_calls() -> None:
    """Of 1 us in a call of 1,000 B, 0.2 us are for these."""
    ns, calls, moved = 1_000_000, 1000, 1_000_000
    assert float(access_costs.saved(ns, calls, moved, 1)) == pytest.approx(0.8, abs=0.001)
    assert float(access_costs.saved(ns, calls, 10 * moved, 10)) == 0


class TestWhatIsNotSo:
    def test_a_lock_that_is_there_at_once_is_not_waited_for(self) -> None:
        """A try (LOCK_NB), a release, and a call that may wait and does not; and one that waits."""
        story = Story()
        where: dict[str, Any] = {"task": "t", "stage": "t"}
        for at, flags in enumerate((stories.EXCLUSIVE | 4, stories.RELEASED, stories.EXCLUSIVE)):
            story.event("fcntl", "/db", at_ms=at, flags=flags, dur=2000, **where)
        story.event("fcntl", "/db", at_ms=5, flags=stories.EXCLUSIVE, dur=3 * MS, **where)
        moment(story, 10, **where)
        spent = insights(story.run()).inputs.spent.parts()
        assert spent["lock"].sum() == 3 * MS and spent["metadata"].sum() >= 3 * 2000

    def test_a_file_that_another_one_is_renamed_over_is_not_left(self) -> None:
        story = Story()
        where: dict[str, Any] = {"task": "t", "stage": "t"}
        for step in range(3):
            story.create("/state.tmp", at_ms=10 * step, **where)
            story.write("/state.tmp", 0, 1000, at_ms=10 * step + 1, **where)
            story.rename("/state.tmp", "/state", at_ms=10 * step + 5, **where)
        found = insights(story.run())
        assert found.lifetime.files["removed"].tolist() == [True, True, False]
        assert "written, then deleted unread" not in [one.kind for one in found.findings()]

    def test_a_wait_for_a_child_is_no_start_up(self) -> None:
        """A shell reads its libraries, waits for a program, and reads one more of them."""
        story = Story()
        for n in range(12):
            where: dict[str, Any] = {"task": f"t{n}", "stage": "t", "pid": n + 1}
            story.process(n + 1, "/bin/bash")
            story.read("/usr/lib/libc.so", at_ms=100 * n + 1, **where)
            story.event("wait", cat="PROCESS", at_ms=100 * n + 2, dur=60 * MS, **where)
            story.read("/usr/lib/libm.so", at_ms=100 * n + 63, **where)
            story.write(f"/out{n}", at_ms=100 * n + 70, **where)
        assert "repeated start-ups" not in kinds(story.run())

    def test_attributes_that_files_do_not_have_are_no_failing_calls(self) -> None:
        story = Story()
        where: dict[str, Any] = {"task": "t", "stage": "t"}
        for n in range(2000):
            story.event("lgetxattr", f"/in/{n}", at_ms=n * 0.01, errno=61, ret=-1, **where)
            story.event("stat", "/db-journal", at_ms=n * 0.01, errno=2, ret=-1, **where)
        story.read("/db", at_ms=25, **where)
        assert "failing calls" not in kinds(story.run())

    def test_a_long_task_among_busy_processors_holds_up_nothing(self) -> None:
        """It begins first; the others keep the second processor busy until it ends."""
        story = Story()
        rows = [("long", 0, 100, 1), *((f"a{n}", 20 * n, 20 * n + 20, n + 2) for n in range(5))]
        for name, begin, end, pid in rows:
            where: dict[str, Any] = {"task": name, "stage": "a", "pid": pid}
            moment(story, begin, **where)
            story.write(f"/{name}", at_ms=end, **where)
        used = pd.concat([processes((pid, 99, "/bin/a"), used_ms=end - begin) for _, begin, end, pid in rows])
        assert "straggler" not in kinds(story.run(processes=used.reset_index(drop=True)))


def test_the_path_goes_to_the_writer_that_a_pipes_reader_waited_for() -> None:
    """The reader's call begins before the first write."""
    story = Story()
    gen: dict[str, Any] = {"task": "gen", "stage": "g", "pid": 1}
    use: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
    pipe: dict[str, Any] = {"ftype": "fifo"}
    moment(story, 0, **gen)
    moment(story, 0, **use)
    story.read("pipe:[7]", None, 100, at_ms=1, dur=80 * MS, **pipe, **use)
    story.write("pipe:[7]", None, 100, at_ms=80, **pipe, **gen)
    story.write("pipe:[7]", None, 100, at_ms=81, dur=38 * MS, **pipe, **gen)
    story.read("pipe:[7]", None, 100, at_ms=119, **pipe, **use)
    story.write("/out", at_ms=200, **use)
    found = insights(story.run())
    path = found.critical.path
    assert [found.inputs.name(task) for task in path["task"] if task >= 0] == ["gen", "use"]
    assert path["pipe"].sum() < 10 * MS


class TestGrowingFiles:
    def run(self, more: bool = True, follows: bool = False, short: bool = True) -> FakeRun:
        """A task writes 1000 bytes, another one reads them and finds the end, and the first one writes more."""
        story = Story()
        grow: dict[str, Any] = {"task": "grow", "stage": "g", "pid": 1}
        use: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
        story.write("/data", 0, 1000, at_ms=10, **grow)
        story.event("read", "/data", dir="r", offset=0, size=1000, count=4096 if short else 1000, at_ms=20, **use)
        if more:
            story.write("/data", 1000, 3096, at_ms=30, **grow)
        if follows:
            story.event("read", "/data", dir="r", offset=1000, size=3096, count=4096, at_ms=40, **use)
        story.write("/out", at_ms=50, **use)
        moment(story, 60, **grow)
        return story.run()

    def test_who_finds_the_end_of_what_goes_on_growing_is_told(self) -> None:
        found = told(self.run(), "read before write")
        assert found.title == (
            "use read the first 1000 B of 4.00 KiB of /data while grow still wrote it, and nothing orders the two"
        )

    @pytest.mark.parametrize("how", [{"more": False}, {"follows": True}, {"short": False}])
    def test_who_reads_all_or_no_more_than_it_wants_is_not(self, how: dict[str, bool]) -> None:
        assert "read before write" not in kinds(self.run(**how))
