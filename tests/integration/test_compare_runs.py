"""`tailrace compare` and the findings as a user calls them, on real runs."""

import json
import sys

import pytest


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two runs of the same command, the second with twice the data."""
    from support.commands import run_cli

    folder = tmp_path_factory.mktemp("two")
    for name, size in (("a", 20_000), ("b", 40_000)):
        (folder / "in").write_bytes(b"x" * (size - 1) + b"\n")
        script = f"cat in > mid && sort mid > out && rm mid && {sys.executable} -c 'import json'"
        done = run_cli("run", "-o", folder / name, "--tag", "stage=work", "--", "sh", "-c", script, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_differences_are_printed(two, cli):
    done = cli("compare", two / "a", two / "b", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    figures = {(row["scope"], row["figure"]): row for row in found["table"]}
    assert figures["", "written_bytes"]["difference"] == 40_000
    assert figures["work", "processes"]["difference"] == 0
    files = {row["path"]: row for row in found["files"]}
    assert (files["out"]["a_written"], files["out"]["b_written"]) == (20_000, 40_000)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("a", "b", "--fail-on", "written_bytes>+110%"), 0, ""),
        (("a", "b", "--fail-on", "written_bytes>+50%"), 1, "written_bytes: 40000 -> 80000 B (+100.0%)"),
        (("a", "--", "b", "--fail-on", "work.written_bytes>+50%"), 1, "work.written_bytes"),
        (("a", "a", "--", "a", "a", "--fail-on", "io_time>+1%"), 0, ""),
        (("a", "b", "--fail-on", "speed>+1%"), 2, "there is no figure 'speed'"),
        (("a", "b", "--fail-on", "other.calls>+1%"), 2, "no such figure in these runs; stages are"),
        (("a",), 2, "tailrace compare A1 A2 -- B1 B2"),
        (("a", "none"), 1, "none"),
    ],
)
def test_exit_codes(two, cli, arguments, code, words):
    done = cli("compare", *arguments, cwd=two)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == (code != 0)


def test_identical_runs_are_one_sentence(two, cli):
    done = cli("compare", two / "a", two / "a")
    assert done.stdout == "A: 1 run, B: 1 run. They are identical: every figure, flow and file is the same.\n"


def test_a_gate_ends_with_its_verdicts(two, cli):
    limits = ("--fail-on", "written_bytes>+50%", "--fail-on", "tasks>+1")
    done = cli("compare", two / "a", two / "b", *limits)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "exceeded: written_bytes>+50% (written_bytes: 40000 -> 80000 B (+100.0%))",
        "passed: tasks>+1 (tasks: 0 -> 0 (+0))",
    ]
    found = json.loads(cli("compare", two / "a", two / "b", "--format", "json", *limits).stdout)
    assert [limit["exceeded"] for limit in found["limits"]] == [True, False]


def test_what_is_below_the_noise_floor_is_counted_and_not_printed(two, cli):
    done = cli("compare", two / "a", two / "b")
    assert "written_bytes" in done.stdout and " left out, of at most 5% and 10 ms of a time" in done.stdout
    assert "critical_gap" in cli("compare", two / "a", two / "b", "--all").stdout


def test_the_report_leads_with_the_verdict_and_the_critical_path(two, cli):
    done = cli("report", two / "b")
    text = " ".join(done.stdout.split())
    assert "Critical path: " in text and "the longest chain of work is" in text
    assert text.index(" bounds it: ") < text.index("Critical path: ") < text.index("Data quality: Coverage: ")
    assert "Written, kept, never read by another task" in text


def test_the_graph_has_slack_confidence_and_packages(two, cli):
    done = cli("graph", two / "b", "--level", "process", "--format", "json", "--software")
    assert done.returncode == 0, done.stderr
    graph = json.loads(done.stdout)
    kinds = {node["kind"] for node in graph["nodes"]}
    assert {"process", "file", "package"} <= kinds
    words = {edge["confidence"] for edge in graph.get("links", graph.get("edges")) if edge["kind"] != "base"}
    assert words <= {"complete", "external", "partial"} and "external" in words
    unknown = cli("graph", two / "b", "--stage", "nowhere")
    assert unknown.returncode == 1 and "there is no stage 'nowhere'; there are work" in unknown.stderr
