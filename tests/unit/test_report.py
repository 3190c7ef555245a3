"""The report: its data, its terminal form, and that a name can't get out of the page's data block."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from support.flowcase import MS, T0_NS, FakeRun, Story
from support.task_stories import task
from tailrace.analyzer import summary
from tailrace.analyzer.report import html, names, terminal, terminal_tables
from tailrace.analyzer.summary import limits
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text

HOSTILE = "/d/</script><script>alert(1)</script>&amp;[red]\x1b[31m\u2028"


def story_run(**values: Any) -> FakeRun:
    story = Story()
    story.read("/in", 0, 500, stage="make", task="m1", pid=1)
    story.create("/mid", stage="make", task="m1", pid=1)
    story.write("/mid", 0, 80, stage="make", task="m1", pid=1, dur=5 * MS)
    story.read("/mid", 0, 80, stage="use", task="[b]u1", pid=2)
    story.create(HOSTILE, stage="use", task="[b]u1", pid=2)
    story.write(HOSTILE, 0, 9, stage="use", task="[b]u1", pid=2)
    losses = pd.DataFrame(
        [{"file": f, "cause": c, "unit": "events", "count": 3} for f, c in (("a", "torn"), ("b", "torn"), ("b", "odd"))]
    )
    tasks = pd.DataFrame([{"workflow": "w", "stage": "s", "task": t, "parent": None} for t in ("m1", "[b]u1")])
    deps = pd.DataFrame([{"workflow": "w", "task": "[b]u1", "dep": "m1", "via": "file", "path": "/mid"}])
    values = {
        "losses": losses,
        "declared_tasks": tasks,
        "declared_deps": deps,
        "meta": {"command": ["python3", HOSTILE]},
        **values,
    }
    return story.run(2, **values)


def shown(run: FakeRun) -> str:
    out = io.StringIO()
    terminal.render_terminal(run, Console(file=out, width=200, force_terminal=False))
    return out.getvalue()


class TestData:
    def test_it_is_json_and_complete(self) -> None:
        data = summary.collect(story_run())
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        n = data["numbers"]
        assert (n["stages"], n["tasks"], n["processes"], n["read_bytes"], n["written_bytes"], n["files"]) == (
            2,
            2,
            2,
            580,
            89,
            3,
        )
        assert n["io_ns"] == 5_002_000, "two calls of 1 us, one of 5 ms that hides the other three"
        flows = {(f["source"], f["target"]): (f["bytes"], f["files"]) for f in data["flows"]}
        assert flows == {(-1, 0): (500, 1), (0, 1): (80, 1), (1, -1): (9, 1)}
        assert data["declared"]["counts"] == {"observed": 1}

    def test_a_flow_names_its_files_and_tasks(self) -> None:
        (flow,) = [f for f in summary.collect(story_run())["flows"] if f["source"] == 0]
        assert flow["largest"] == [{"path": "/mid", "bytes": 80}]
        assert (flow["pairs"], flow["tasks"]) == (1, [{"producer": "m1", "consumer": "[b]u1", "bytes": 80}])

    def test_losses_are_summed_by_cause_and_described(self) -> None:
        lost = {row["cause"]: row["text"] for row in summary.losses(story_run())}
        assert lost["torn"].startswith("6 events cut off")
        assert lost["odd"] == "3 events odd", "a cause that has no words yet is shown by its name"

    def test_long_lists_are_cut_and_the_cut_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for what in limits.LIMITS:
            monkeypatch.setitem(limits.LIMITS, what, 1)
        data = summary.collect(story_run())
        assert (len(data["files"]["rows"]), data["files"]["total"]) == (1, 3)
        assert (len(data["tasks"]["rows"]), data["tasks"]["total"]) == (1, 2)
        assert all(-1 not in row["by"] + row["to"] for row in data["files"]["rows"]), "a task that was cut is no row"

    def test_coverage_compares_with_the_kernel_where_it_has_an_account(self) -> None:
        table = pd.DataFrame(
            {
                "host": "n1",
                "pid": [1, 2, 3],
                "exe": ["/bin/a", "/bin/b", None],
                "traced": [True, True, False],
                "account": ["exit", None, "parent"],
                "kernel_read": pd.array([500, None, 0], dtype="Int64"),
                "kernel_written": pd.array([100, None, 400], dtype="Int64"),
                "captured_read": pd.array([500, 80, 0], dtype="Int64"),
                "captured_written": pd.array([70, 9, 0], dtype="Int64"),
                "share": pd.array([0.95, None, 0.0], dtype="Float64"),
                "cause": ["unseen calls", "no account", "not traced"],
            }
        )
        run = story_run()
        run.coverage = table
        coverage = summary.collect(run)["coverage"]
        assert "57.00% of the kernel's count captured" in coverage["text"]
        assert "1 of 2 processes without an account; 1 process not traced" in coverage["text"]
        assert [(row["pid"], row["missing_bytes"]) for row in coverage["causes"]] == [(3, 400), (1, 30)]

    def test_nothing_recorded_is_a_report_too(self) -> None:
        run = Story().run()
        assert summary.collect(run)["stages"] == []
        assert "0 stages" in shown(run)
        assert html.page_text(summary.collect(run))


class TestTerminal:
    def test_it_has_the_main_facts(self) -> None:
        text = shown(story_run())
        for words in (
            "2 stages, 2 tasks, 2 processes on 1 host",
            "580 B read",
            "lost: 6 events",
            "1 observed",
            "(before the run)",
            "/mid",
        ):
            assert words in text, words

    def test_names_are_neither_markup_nor_control_sequences(self) -> None:
        text = shown(story_run())
        assert "\x1b" not in text
        assert "[red]" in text

    def test_names_are_shown_as_they_are(self) -> None:
        s = Story()
        for name in ("/back\\", "/[/red]", "/line\nbreak", "/over\u202eride"):
            s.write(name, 0, 100, stage="make", task="m")
        text = shown(s.run())
        for name in ("/back\\ ", "/[/red] ", "/line\\nbreak ", "/over\\u202eride "):
            assert name in text, name

    def test_an_undeclared_dependency_is_shown(self) -> None:
        nothing = pd.DataFrame(columns=["workflow", "task", "dep", "via", "path"])
        text = shown(story_run(declared_deps=nothing))
        assert "1 undeclared" in text
        assert "s [b]u1" in text and "nothing orders them" in text


def managed_run() -> FakeRun:
    """A run in /home/ada/flow: tasks with a deep input and a long name, and the workflow manager's own files."""
    s = Story()
    s.read("/mnt/reference/genomes/human/GRCh38/chromosome_22.fasta", 0, 4096, stage="align", task="a1", pid=1)
    s.write("/home/ada/flow/data/a1.bam", 0, 900, stage="align", task="a1", pid=1)
    s.read("/home/ada/flow/data/a1.bam", 0, 900, stage="sort", task="s1", pid=2)
    s.write("/home/ada/flow/data/sorted.bam", 0, 900, stage="sort", task="s1", pid=2)
    for name in ("runinfo/000/parsl.log", "runinfo/000/workers/interchange.log", ".snakemake/log/1.log"):
        s.write(f"/home/ada/flow/{name}", 0, 5000, pid=9)
    return s.run(2, meta={"command": ["python3", "flow.py"], "cwd": "/home/ada/flow"})


def shown_in(run: FakeRun, width: int) -> list[str]:
    out = io.StringIO()
    terminal.render_terminal(run, Console(file=out, width=width, force_terminal=False))
    return out.getvalue().splitlines()


class TestNames:
    def test_paths_below_the_working_directory_are_relative(self) -> None:
        text = "\n".join(shown_in(managed_run(), 120))
        assert "data/a1.bam" in text
        assert "/home/ada/flow/data/sorted.bam" not in text.replace("--path /home", "")
        assert "/mnt/reference/genomes/human/GRCh38/chromosome_22.fasta" in text

    def test_the_managers_files_are_one_row(self) -> None:
        text = "\n".join(shown_in(managed_run(), 120))
        assert re.search(r"\(workflow manager: 3 files\) +0 B +14.6 KiB", text)
        assert not any("parsl.log" in line for line in text.split("Files by bytes moved")[1].splitlines())

    def test_the_managers_files_are_no_finding(self) -> None:
        s = Story()
        s.write("/w/runinfo/000/parsl.log", 0, 5000, stage="join", task="j1")
        assert "parsl.log" not in shown(s.run())

    def test_declared_outputs_are_results_and_no_waste(self) -> None:
        s = Story()
        for path in ("/w/result", "/w/forgotten"):
            s.write(path, 0, 500_000, stage="make", task="m1")
        outputs = pd.DataFrame([{"workflow": "w", "task": "m1", "direction": "w", "path": "/w/result"}])
        data = summary.collect(s.run(declared_files=outputs))
        assert [row["path"] for row in data["never_read"]["rows"]] == ["/w/forgotten"]
        assert data["folded"]["results"] == {"files": 1, "read_bytes": 0, "written_bytes": 500_000}
        (found,) = [row for row in data["findings"]["rows"] if row["kind"] == "never read"]
        assert (found["count"], found["cost_bytes"]) == (1, 500_000)
        (left,) = [flow for flow in data["flows"] if flow["target"] == -1]
        assert left["files"] == 2, "both are left at the end"
        text = shown(s.run(declared_files=outputs))
        assert re.search(r"\(declared results: 1 file\) +488 KiB", text)

    def test_it_says_what_is_untagged(self) -> None:
        s = Story()
        s.write("/a", stage="make", task="m1", pid=1)
        for pid, exe in ((2, "/usr/bin/python3"), (3, "/usr/bin/python3"), (4, "/bin/bash")):
            s.process(pid, exe)
            s.write(f"/x{pid}", pid=pid)
        workflows = pd.DataFrame([{"workflow": "w", "manager": "parsl", "version": "2026.1", "config": "{}"}])
        text = " ".join(shown(s.run(declared_workflows=workflows)).split())
        assert "(untagged): parsl 2026.1 and what is outside of its tasks, 3 processes (2 python3, 1 bash)." in text
        assert "(untagged): what has no stage, 3 processes (2 python3, 1 bash)." in " ".join(shown(s.run()).split())

    def test_what_was_there_before_the_run_is_nothing_that_untagged_processes_passed_among_themselves(self) -> None:
        s = Story()
        s.write("/a", stage="make", task="m1", pid=1)
        s.read("/before", 0, 3_000_000, pid=2)
        s.write("/between", 0, 2000, pid=2)
        s.read("/between", 0, 2000, pid=3, at_ms=5)
        s.write("/after", 0, 400, pid=3, at_ms=6)
        text = shown(s.run())
        assert re.search(r"\(before the run\) +\(untagged\) +2.86 MiB +1 +\S*before\n", text)
        assert re.search(r"\(untagged\) +\(among themselves\) +1.95 KiB +1", text)
        assert re.search(r"\(untagged\) +\(left at the end\) +400 B +1 +\S*after\n", text)

    def test_a_tasks_file_in_the_managers_directory_is_the_tasks(self) -> None:
        s = Story()
        s.write("/w/runinfo/000/task_logs/t1.stdout", 0, 100, stage="make", task="t1")
        assert "runinfo/000/task_logs/t1.stdout" in shown(s.run())

    @pytest.mark.parametrize("width", [80, 109, 110, 120, 139, 140])
    def test_the_table_of_waits_fits_the_terminal(self, width: int) -> None:
        s = Story()
        s.write("/out/a", at_ms=10, stage="simulate", task="1")
        times = {"t_submit_ns": T0_NS, "t_launch_ns": T0_NS + MS, "t_end_ns": T0_NS + 100 * MS}
        row = {"workflow": "w", "stage": "simulate", "task": "1", "status": "done", "error": None, "tries": 1, **times}
        lines = shown_in(s.run(declared_tasks=pd.DataFrame([row]).assign(name=None, parent=None)), width)
        assert any("predecessors" in line for line in lines)
        assert max(map(len, lines)) <= width

    @pytest.mark.parametrize("width", [76, 80, 100])
    def test_no_line_is_wider_than_the_terminal(self, width: int) -> None:
        lines = shown_in(managed_run(), width)
        assert max(map(len, lines)) <= width
        assert any("chromosome_22.fasta" in line for line in lines), "the last component stays"

    @pytest.mark.parametrize(
        ("room", "text"),
        [
            (60, "/mnt/reference/genomes/human/GRCh38/chromosome_22.fasta"),
            (50, "/mnt/\u2026/genomes/human/GRCh38/chromosome_22.fasta"),
            (35, "/mnt/\u2026/GRCh38/chromosome_22.fasta"),
            (22, "\u2026/chromosome_22.fasta"),
            (20, "chromosom\u202622.fasta"),
            (12, "chromo\u2026fasta"),
        ],
    )
    def test_components_go_before_letters(self, room: int, text: str) -> None:
        assert names.fit("/mnt/reference/genomes/human/GRCh38/chromosome_22.fasta", room) == text

    def test_sentences_have_relative_paths(self) -> None:
        of = names.Names("/home/ada/flow")
        assert of.sentence("most of /home/ada/flow/a.nc, (/home/ada/flow/b)") == "most of a.nc, (b)"
        assert of.sentence("/mnt/home/ada/flow/a and /home/ada/flows/b") == "/mnt/home/ada/flow/a and /home/ada/flows/b"

    def test_a_query_can_be_pasted(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        monkeypatch.chdir(tmp_path)
        of = names.Names("/w", str(tmp_path / "a run"))
        query = f"tailrace query '{tmp_path}/a run' --path '/w/x y' --by task,dir --agg sum:size"
        assert of.query(query, 200) == ["tailrace query 'a run' --path '/w/x y' --by task,dir --agg sum:size"]
        lines = of.query(query, 36)
        assert [line.endswith(" \\") for line in lines] == [True, True, False]
        joined = " ".join(line.rstrip("\\").strip() for line in lines)
        assert joined == of.query(query, 200)[0]

    def test_a_python_query_is_short_and_goes_on_behind_a_backslash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/")
        of = names.Names("", "/runs/a.b")
        query = "tailrace.open('/runs/a.b').insights().lifetime.files.query('a.b > 1.5')[['path.x', 'again']]"
        assert of.opening() == "run = tailrace.open('runs/a.b')"
        assert of.query(query, 100) == ["run.insights().lifetime.files.query('a.b > 1.5')[['path.x', 'again']]"]
        lines = of.query(query, 40)
        assert lines == ["run.insights().lifetime.files \\", "    .query('a.b > 1.5')[['path.x', 'again']]"]
        compile("\n".join(lines), "query", "eval")

    def test_a_wide_heading_keeps_the_other_columns_share(self) -> None:
        table = terminal_tables.Table(
            (("A title of some length", "name"), ("bytes", "number"), ("largest", "name")), names.Names()
        )
        table.rows.append(("a", "12 B", "/mnt/a/directory/with/a/long_name.nc"))
        assert max(len(line.plain) for line in table.lines(48)) <= 48

    def test_lines_do_not_break_before_a_unit(self) -> None:
        first, second = terminal._wrapped(terminal.Text("it took no less than 4.42 s in all"), 24)
        assert (first.plain, second.plain) == ("it took no less than", "  4.42 s in all")


class _Tags(HTMLParser):
    """Collects the tags of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", {}))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


class TestPage:
    def page(self) -> tuple[str, _Tags]:
        text, tags = html.page_text(summary.collect(story_run())), _Tags()
        tags.feed(text)
        return text, tags

    def test_the_data_block_has_the_data_and_no_early_end(self) -> None:
        text, tags = self.page()
        assert len(tags.scripts) == 2
        data = json.loads(tags.scripts[0])
        assert HOSTILE in data["files"]["rows"]["columns"]["path"]
        assert "alert(1)</script>" not in text

    def test_nothing_in_the_block_can_be_read_as_markup(self) -> None:
        text = html.embedded(["<!--<script>&amp;\u2028"])
        assert not set("<>&") & set(text) and text.isascii()
        assert json.loads(text) == ["<!--<script>&amp;\u2028"]

    def test_it_loads_nothing(self) -> None:
        text, tags = self.page()
        for tag, attributes in tags.tags:
            assert tag not in ("link", "img", "iframe", "object", "embed")
            assert not {"src", "srcset", "onerror", "onload", "style"} & attributes.keys(), tag
        assert not re.search(
            r"url\((?!#)|@import|fetch\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write|eval\(", text
        )
        assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}

    def test_the_policy_names_exactly_its_script_and_style(self) -> None:
        text, tags = self.page()
        policy = next(a["content"] for t, a in tags.tags if t == "meta" and "http-equiv" in a)
        style = re.search("<style>(.*?)</style>", text, re.S)
        assert style is not None
        assert policy is not None and policy.startswith("default-src 'none'")
        assert html.digest(tags.scripts[1]) in policy
        assert html.digest(style[1]) in policy

    def test_it_is_small(self) -> None:
        assert len(self.page()[0]) < 176_000

    def test_it_is_written_whole(self, tmp_path: Any) -> None:
        html.write_html(story_run(), tmp_path / "r.html")
        assert (tmp_path / "r.html").read_text(encoding="utf-8").endswith("</html>\n")


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (123 * 1024**2, "123 MiB"), (5 * 1024**5, "5.00 PiB")],
)
def test_bytes(amount: int, words: str) -> None:
    assert bytes_text(amount) == words


@pytest.mark.parametrize(
    ("ns", "words"),
    [
        (0, "0 s"),
        (7, "7.00 ns"),
        (1_500_000, "1.50 ms"),
        (90 * 10**9, "90.0 s"),
        (150 * 10**9, "2 min 30 s"),
        (7_260 * 10**9, "2 h 1 min"),
    ],
)
def test_times(ns: int, words: str) -> None:
    assert time_text(ns) == words


def test_a_stage_stands_once_for_its_tasks_in_a_row_on_the_critical_path() -> None:
    story = Story()
    for number in range(9):
        name, stage = str(number), "make" if number < 2 else "use" if number < 8 else "end"
        reads = {"reads": f"/f{number - 1}"} if number else {}
        at = 10 * number
        if reads:
            story.read(reads["reads"], task=name, stage=stage, at_ms=at + 1)
        story.create(f"/f{number}", task=name, stage=stage, at_ms=at + 2)
        story.write(f"/f{number}", task=name, stage=stage, at_ms=at + 8)
    text = terminal.critical_text(summary.collect(story.run())["critical"])
    assert text.endswith("It goes through make 0, 1 -> use 2, 3, (3 more), 7 -> end 8."), text


def test_the_critical_path_names_its_tasks() -> None:
    story = Story()
    for number in range(20):
        reads = {"reads": f"/f{number - 1}"} if number else {}
        task(story, f"s[b]{number}", 10 * number, 10 * number + 8, writes=f"/f{number}", **reads)
    text = terminal.critical_text(summary.collect(story.run())["critical"])
    assert "It goes through s[b]0 -> s[b]1 ->" in text
    assert "s[b]0 -> s[b]1 ->" in shown(story.run()), "no markup of the terminal's"
    assert "-> (8 more) ->" in text and text.endswith("-> s[b]19.")


def test_counts() -> None:
    assert [count_text(n, "process", "es") for n in (0, 1, 1234)] == ["0 processes", "1 process", "1,234 processes"]
