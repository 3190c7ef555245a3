"""The workflows whose truth is known: what was declared and what was not, in tasks and in bytes, and each process's
files as strace has them. expected.json beside a workflow has the expected result, its README.md the reasons.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.commands import TAILRACE

pytest.importorskip("parsl", reason="the workflows need Parsl: pip install 'tailrace[parsl]'")

import tailrace
from support.coverage_table import check_coverage
from support.file_edges import edges, seen_edges, strace_command
from tailrace.analyzer.exports import export
from tailrace.analyzer.model import dataflow, declared_vs_observed
from tailrace.integrations import wfformat

WORKFLOWS = Path(__file__).parents[2] / "workflows"
NEEDS = {  # workflow -> programs, packages that have them
    "genomics": (("bwa", "samtools", "wgsim", "bcftools"), "bwa samtools bcftools"),
    "montage": (("mProject", "mImgtbl", "mViewer"), "montage"),
    "hmmer": (("hmmbuild",), "hmmer hmmer-examples"),
}

DETAIL = {"genomics": "totals", "montage": "auto:400K"}
"""What they are run with: the truth is the same. test_detail_workflows.py compares details on one recording."""


def skip_without(name):
    programs, packages = NEEDS[name]
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt install {packages}")
    if name == "montage":
        pytest.importorskip("astropy", reason="the images are made with astropy")


class Done:
    """A workflow that ran under `tailrace run`: its folder, what it printed, its run."""

    def __init__(self, name, folder, *options, prefix=()):
        self.name, self.files, self.run_dir = name, folder.resolve() / "files", folder / "run"
        self.expected = json.loads((WORKFLOWS / name / "expected.json").read_text())
        command = [sys.executable, str(WORKFLOWS / name / "workflow.py"), str(folder), *options]
        traced = [*TAILRACE, "run", "-q", "--detail", DETAIL.get(name, "full"), "-o", str(self.run_dir), "--"]
        done = subprocess.run([*prefix, *traced, *command], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        self.found = json.loads(done.stdout.splitlines()[-1])
        self.run = tailrace.open(self.run_dir)

    def pairs(self, *statuses):
        """(producer, consumer) rows of the comparison with these statuses, as "stage -> stage" -> how many."""
        rows = declared_vs_observed.compare_declared(self.run)
        rows = rows[rows["status"].isin(statuses)]
        return Counter(f"{a} -> {b}" for a, b in zip(rows["producer_stage"], rows["consumer_stage"], strict=True))

    def passed(self, producer, consumer):
        """Names of the files whose bytes went from one stage's tasks to another's."""
        model = dataflow.model(self.run)
        _, activities = dataflow.activities(model, "stage")
        rows = dataflow.flow_table(model, "stage")
        rows = rows[rows["producer"] >= 0]
        stages = activities["stage"].to_numpy()
        ends = (stages[rows["producer"]] == producer) & (stages[rows["consumer"]] == consumer)
        return sorted({Path(path).name for path in model.paths[rows["file"][ends]]})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The workflow of a name, run once."""
    runs = {}

    def get(name):
        skip_without(name)
        if name not in runs:
            runs[name] = Done(name, tmp_path_factory.mktemp(name))
        return runs[name]

    return get


@pytest.fixture(params=["genomics", "montage"])
def done(request, finished):
    return finished(request.param)


@pytest.fixture
def genomics(finished):
    return finished("genomics")


@pytest.fixture
def montage(finished):
    return finished("montage")


def test_its_tasks_are_declared(done):
    assert done.run.declared_tasks["stage"].value_counts().to_dict() == done.expected["tasks"]
    assert set(done.run.declared_tasks["status"]) == {"done"}


def test_every_declared_dependency_is_observed_except_order_only(done):
    idle = done.pairs("not observed", "value only")
    assert idle == done.expected["order_only"]
    assert done.pairs("observed").total() == done.expected["declared_edges"] - idle.total()


def test_exactly_the_undeclared_dependencies_are_found(done):
    assert done.pairs("undeclared") == done.expected["undeclared"]


def test_the_hidden_dependencies_go_through_these_files(done):
    for pair in done.expected["undeclared"]:
        assert done.passed(*pair.split(" -> ")) == done.expected["hidden_files"]


def test_the_programs_run_in_their_stages(done):
    for stage, programs in done.expected["programs"].items():
        started = done.run.events(columns=["name", "cat", "host", "pid"], stage=stage, name="start").compute()
        exes = done.run.processes.set_index("pid")["exe"]
        assert set(programs) <= {Path(exes[pid]).name for pid in started["pid"]}, stage


def test_they_have_totals(done):
    assert done.run.info()["totals"] > 1000


def test_nearly_all_bytes_are_captured(done, coverage_table):
    check_coverage(coverage_table, f"workflows/{done.name}", done.run)


def test_its_wfformat_has_observed_and_declared_dependencies(done, tmp_path):
    export(done.run, "wfformat", tmp_path / "out.json")
    instance = wfformat.read(tmp_path / "out.json")
    rows = declared_vs_observed.compare_declared(done.run)
    between = set(zip(rows["producer"], rows["consumer"], strict=True))
    tasks = set(done.run.declared_tasks["task"])
    edges = {(parent, task.id) for task in instance.tasks.values() for parent in task.parents}
    assert {(a, b) for a, b in edges if a in tasks and b in tasks} == between
    assert {task.stage for name, task in instance.tasks.items() if name in tasks} == set(done.expected["tasks"])


def test_the_variants_are_found(genomics):
    found = genomics.found
    assert {name: found[name] >= least for name, least in genomics.expected["least"].items()} == dict.fromkeys(
        found, True
    )
    assert found["true"] >= 0.98 * found["variants"]


def test_each_sample_reads_the_undeclared_reference(genomics):
    """By hand: pile is given `genome.fa` as a str, and bcftools looks for `genome.fa.fai` beside it."""
    rows = declared_vs_observed.compare_declared(genomics.run)
    hidden = rows[rows["status"] == "undeclared"]
    tasks = genomics.run.declared_tasks
    piles = set(tasks.loc[tasks["stage"] == "pile", "task"])
    (unpack,) = tasks.loc[tasks["stage"] == "unpack", "task"]
    assert set(zip(hidden["producer"], hidden["consumer"], strict=True)) == {(unpack, pile) for pile in piles}
    assert (hidden["files"] == 2).all()
    assert (hidden["order"] == "declared").all(), "sort waits for align, index and unpack, so it can't race"
    declared = set(genomics.run.declared_files["path"].map(lambda path: Path(path).name))
    assert "genome.fa.fai" not in declared


def test_the_mosaic_has_one_sky(montage):
    sky = montage.found["sky"]
    assert max(sky) - min(sky) < montage.expected["largest_step"], "the images' backgrounds differ by 15 each"


def test_undeclared_accesses_of_montage(montage):
    """By hand: mBackground -t reads the table of images, which is given as a str. The differences wait for the table of
    overlaps, which only the main program reads, to make them. The measuring waits for the picture."""
    rows = declared_vs_observed.compare_declared(montage.run)
    names = dict(zip(montage.run.declared_tasks["task"], montage.run.declared_tasks["stage"], strict=True))
    by_status = {
        status: {(names[a], names[b]) for a, b in zip(part["producer"], part["consumer"], strict=True)}
        for status, part in rows.groupby("status")
    }
    assert by_status == {
        "undeclared": {("table", "background")},
        "not observed": {("overlaps", "difference")},
        "value only": {("view", "measure")},
        "observed": {
            ("project", "table"),
            ("project", "difference"),
            ("project", "background"),
            ("table", "overlaps"),
            ("table", "model"),
            ("table", "add"),
            ("difference", "collect"),
            ("collect", "model"),
            ("model", "background"),
            ("background", "add"),
            ("add", "view"),
            ("add", "measure"),
        },
    }
    assert montage.passed("project", "difference") == sorted(
        f"image_{place}{kind}.fits" for place in ("00", "01", "02", "10", "11", "12") for kind in ("", "_area")
    ), "mDiff reads the areas, which are declared as outputs and not as its inputs"
    assert montage.passed("overlaps", "difference") == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace, the truth, is not installed")
@pytest.mark.parametrize("name", NEEDS)
def test_each_process_reads_the_files_in_straces_log(name, tmp_path):
    """All edges from process to process through files, and no phantom: one run, looked at by both."""
    skip_without(name)
    logs = tmp_path / "strace"
    done = Done(name, tmp_path, "--executor", "threads", prefix=strace_command(logs))
    truth, seen = edges(logs, done.files), seen_edges(done.run, done.files)
    print(f"{name}: {len({(w, r) for w, r, _ in truth})} pairs of processes, {len(truth)} edges with their files")
    assert {"missing": truth - seen, "phantom": seen - truth} == {"missing": set(), "phantom": set()}
    assert len(truth) > 30
