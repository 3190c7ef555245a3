"""`tailrace demo`: what a new user sees first must work, with nothing but Python and coreutils."""

import json
import os
import re

import pytest

import tailrace
from support.commands import run_cli

pytest.importorskip("parsl", reason="the demo needs Parsl: pip install 'tailrace[parsl]'")

STAGES = {"stopwords": 1, "collect": 6, "words": 6, "merge": 1, "rank": 1, "locate": 6, "summary": 1}
DEPENDENT = ["words", "merge", "rank", "locate", "summary"]
PLANTED = ("that stopwords 0 wrote", "were read again by what had read", "from front to back")
"""Of the findings that are there on purpose."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo on a terminal of 80 columns: what it printed, and its folder."""
    place = tmp_path_factory.mktemp("demo")
    done = run_cli("demo", cwd=place, timeout=900, env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    return done, place / "tailrace-demo"


def test_the_demo_shows_its_stages_and_writes_its_page(demo, declared, read_trace):
    done, folder = demo
    assert "most frequent: self" in done.stdout
    assert re.search("nothing lost|no loss known", done.stderr)
    for stage in STAGES:
        assert stage in done.stdout
    page = (folder / "report.html").read_text()
    assert "locate" in page
    assert "tailrace-demo/report.html" in done.stdout
    stages = [line["stage"] for line in declared(folder / "run") if line["type"] == "task"]
    assert {stage: stages.count(stage) for stage in stages} == STAGES
    trace = read_trace(folder / "run", only={"start", "fgetc"})
    names = {
        event["args"]["exe"].rpartition("/")[2]
        for event in trace.events
        if event["name"] == "start" and event["args"].get("stage") in ("words", "merge")
    }
    assert names >= {"tr", "sort", "join", "mv"}
    assert "tailrace.parsl.demo" in json.loads((folder / "run" / "run.json").read_text())["command"]
    # The dependency that the workflow does not declare: merge reads the stopwords.
    readers = [event for event in trace.of(folder / "files" / "stopwords.txt") if event["args"].get("size")]
    assert "merge" in {event["args"].get("stage") for event in readers}
    # Parsl doesn't say when a task got its worker; all other parts of each task's life are known.
    waits = tailrace.open(folder / "run").waits
    known = waits[["depend_ns", "data_ns", "order_ns", "queue_ns", "run_ns", "io_ns", "compute_ns"]]
    assert len(waits) == sum(STAGES.values())
    assert known.notna().all(axis=None)
    assert (known["data_ns"] > 0).to_list() == (waits["stage"].isin(DEPENDENT)).to_list()
    merge = tailrace.open(folder / "run").task("merge 13")
    assert (merge.status, merge.tries, merge.manager.partition(" ")[0]) == ("done", 1, "parsl")
    assert {name.partition(" ")[0] for name in merge.parents} == {"words"} and merge.children == ["rank 14"]
    assert {one.command[0] for one in merge.processes if not one.shared} == {"/bin/bash", "sort", "join", "mv"}
    assert [one for one in merge.processes if one.shared], "the pool's worker, which ran other tasks, too"
    assert {name for one in merge.inputs for name in one.others} >= {"stopwords 0", "words 7", "words 12"}
    assert [(one.path.rpartition("/")[2], one.others) for one in merge.outputs] == [("all.words", ["rank 14"])]
    assert merge.waits["compute_ns"] is not None and merge.waits["data_ns"] == waits["data_ns"].iloc[13]


def findings_of(lines):
    """The lines of each finding of a report; the first one of each has its cost at the margin."""
    begin = next(i for i, line in enumerate(lines) if line.startswith("Findings, by what they cost"))
    blocks = []
    for line in lines[begin + 1 : lines.index("", begin)]:
        if line[:9].strip():
            blocks.append([])
        blocks[-1].append(" ".join(line.split()))
    return blocks


def test_the_report_fits_two_screens_and_names_the_planted_problems(demo):
    done, folder = demo
    lines = done.stdout.splitlines()
    findings = findings_of(lines)
    own = [line for block in findings if not any(words in " ".join(block) for words in PLANTED) for line in block]
    # A slow machine has findings of its own: a task that stands out, a wait that is worth to be told.
    assert len(lines) - len(own) <= 80, "with the workflow's own line, and where the page is"
    assert [
        line for line in lines if len(line) > 80 and len(line.split()) > 3
    ] == [], "but for a path, which is not cut"
    report = done.stdout[done.stdout.index("words: tailrace.parsl.demo\n") :].rpartition("\nAs a page:")[0].splitlines()
    text = "\n".join(report)
    findings = text.split("Findings, by what they cost")[1].split("\nStages ")[0]
    words = " ".join(findings.split()).removeprefix("(run = tailrace.open('tailrace-demo/run')) ")
    assert words.startswith("race merge 13 read ") and " that stopwords 0 wrote" in words
    # What it costs is little beside the start-up of Parsl, so that it may be told in the line of small things.
    assert re.search(r"MiB were read again by what had read .*, most of \w+\.txt\b|small thing.*repeated reads", words)
    # Whether it costs enough to be told depends on how long the run's start-up takes on this machine.
    streams = tailrace.open(folder / "run").insights().streams
    assert streams["path"].str.endswith(".words").any(), streams
    assert text.count("(workflow manager: ") == 1 and "runinfo" not in text and "parsl.log" not in text
    assert "nothing orders them" in words and "Not as declared" not in text, "said once"
    chain = " ".join(text.split()).partition("It goes through ")[2].partition(".")[0]
    assert re.search(r"(collect|words|locate) \d+(, \d+)+( ->|$)", chain), "a stage stands once for its tasks in a row"


def test_the_demo_does_not_write_over_anything(tmp_path, cli):
    (tmp_path / "thesis.tex").write_text("x")
    done = cli("demo", "-o", tmp_path)
    assert done.returncode == 2
    assert "not an empty directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
