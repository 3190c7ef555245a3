"""The ensemble campaign, under Flux and without: a loop that rewrites its files comes out unrolled, and nothing passes
that didn't."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.coverage_table import check_coverage
from support.flux_instance import clean_environment, missing
from tailrace.analyzer.model import dataflow, declared_vs_observed

FOLDER = Path(__file__).parents[2] / "workflows" / "ensemble"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
ROUNDS = range(1, EXPECTED["rounds"] + 1)
SIMULATIONS = range(EXPECTED["simulations"])
CLOCKS_NS = 20_000_000
"""By how much the time stamps of Flux and of the trace may differ."""


class Campaign:
    """A finished, traced campaign: its files, its run, and its dataflow with the names of the steps."""

    def __init__(self, folder, found):
        self.files = folder / "files"
        self.found = found
        self.run = tailrace.open(folder / "run")
        self.graph = self.run.dataflow(level="task")
        tasks = self.run.declared_tasks
        self.names = dict(zip(tasks["task"], tasks["name"], strict=True))

    def step(self, node):
        """The name of a step by its node; None for a process of no task."""
        task = self.graph.nodes[node].get("task")
        return self.names.get(task, task)

    def versions(self, path):
        """The versions of a file in the order of their writing: (identity, number, writers, readers, base's number)."""
        found = []
        for node, facts in self.graph.nodes(data=True):
            if facts["kind"] == "file" and str(self.files / path) in facts["aliases"]:
                writes = [(a, e) for a, _, e in self.graph.in_edges(node, data=True) if e["kind"] == "write"]
                reads = [(b, e) for _, b, e in self.graph.out_edges(node, data=True) if e["kind"] == "read"]
                base = [self.graph.nodes[a]["version"] for a, _, k in self.graph.in_edges(node, "kind") if k == "base"]
                first_ns = min(e["first_ns"] for _, e in writes)
                readers = {self.step(b) for b, e in reads if not e["own"]} - {None}
                row = (facts["file"], facts["version"], {self.step(a) for a, _ in writes}, readers, base)
                found.append((first_ns, row))
        return [row for _, row in sorted(found, key=lambda pair: pair[0])]

    def edges(self):
        """(writer, reader) -> the files, below the campaign's folder, that passed between the two steps."""
        found = {}
        for node, facts in self.graph.nodes(data=True):
            if facts["kind"] != "file" or not facts["path"].startswith(str(self.files)):
                continue
            writers = {self.step(a) for a, _, k in self.graph.in_edges(node, "kind") if k == "write"}
            readers = {self.step(b) for _, b, k in self.graph.out_edges(node, "kind") if k == "read"} - {None}
            for pair in ((writer, reader) for writer in writers for reader in readers if writer != reader):
                found.setdefault(pair, set()).add(facts["path"].removeprefix(f"{self.files}/"))
        return found

    def written(self):
        """Path -> bytes that all steps together wrote to it."""
        found = {}
        for node, facts in self.graph.nodes(data=True):
            if facts["kind"] == "file":
                size = sum(e["bytes"] for _, _, e in self.graph.in_edges(node, data=True) if e["kind"] == "write")
                found[facts["path"]] = found.get(facts["path"], 0) + size
        return found


def obstacle():
    """What the campaign lacks on this machine, or None."""
    if importlib.util.find_spec("sklearn") is None:
        return "no scikit-learn for the campaign's selector: pip install scikit-learn"
    return None if shutil.which("lmp") else "LAMMPS comes from Debian, not from PyPI: apt install lammps"


def run_campaign(command, **options):
    """Runs the campaign; its whole session ends with it. Returns what it found."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(command, text=True, start_new_session=True, **pipes, **options)
    try:
        stdout, stderr = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, stderr
    return json.loads(stdout.splitlines()[0])


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    """The campaign without Flux, traced from outside."""
    if obstacle():
        pytest.skip(obstacle())
    folder = tmp_path_factory.mktemp("ensemble-local")
    tailrace_run = [*TAILRACE, "run", "-q", "--tag", "workflow=ensemble"]
    command = [sys.executable, FOLDER / "run_local.py", folder / "files"]
    return Campaign(folder, run_campaign([*tailrace_run, "-o", folder / "run", "--", *command]))


@pytest.fixture(scope="session")
def under_flux(tmp_path_factory, flux_program, flux_plugins):
    """The campaign as its run.sh runs it: under Flux, traced by the plugins."""
    assert flux_plugins.jobtap.is_file()
    if obstacle():
        missing(obstacle())
    folder = tmp_path_factory.mktemp("ensemble-flux")
    env = clean_environment(flux_program, {"PYTHON": sys.executable})
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    return Campaign(folder, run_campaign([FOLDER / "run.sh", folder], env=env))


@pytest.fixture(params=["local", "under_flux"])
def campaign(request):
    return request.getfixturevalue(request.param)


def expected_edges():
    """(writer, reader): which step reads what another has written, by what the steps are for."""
    for r in ROUNDS:
        last = r - 1
        yield f"macro-{r}", f"select-{r}"
        for i in SIMULATIONS:
            yield f"select-{r}", f"simulate-{r}-{i}"
            yield f"select-{r}", f"analyze-{r}-{i}"
            yield f"simulate-{r}-{i}", f"analyze-{r}-{i}"
            yield f"analyze-{r}-{i}", f"reduce-{r}"
        yield f"reduce-{r}", f"learn-{r}"
        if last:
            yield f"reduce-{last}", f"macro-{r}"
            yield f"macro-{last}", f"macro-{r}"
            yield f"learn-{last}", f"select-{r}"
            yield f"learn-{last}", f"learn-{r}"


def test_the_picked_points_are_simulated(campaign):
    assert campaign.found["simulations"] == len(ROUNDS) * len(SIMULATIONS)
    assert [len(set(picks)) for picks in campaign.found["picks"]] == [len(SIMULATIONS)] * len(ROUNDS)


def test_every_step_is_a_task_of_its_stage(campaign):
    tasks = campaign.run.tasks
    steps = {(campaign.names.get(t, t), s) for t, s in zip(tasks["task"], tasks["stage"], strict=True)}
    stages = [stage for name, stage in steps if name.split("-")[0] == stage]
    expected = {s: n for s, n in EXPECTED["tasks"].items() if campaign.names or s != "micro"}
    assert {stage: stages.count(stage) for stage in expected} == expected
    assert len(steps) == len(tasks) == sum(expected.values())
    assert (tasks["events"] > 0).all()


def test_the_simulations_ran_in_their_stage(campaign, read_trace):
    trace = read_trace(campaign.run.path)
    starts = [event for event in trace.events if event["name"] == "start"]
    for stage, program in EXPECTED["program"].items():
        tasks = {e["args"]["task"] for e in starts if Path(e["args"]["exe"]).name == program}
        elsewhere = {e["args"]["stage"] for e in starts if Path(e["args"]["exe"]).name == program} - {stage}
        assert len(tasks) == EXPECTED["tasks"][stage]
        assert not elsewhere


@pytest.mark.parametrize("path", EXPECTED["rewritten"])
def test_a_file_that_is_rewritten_each_round_has_a_version_each_round(campaign, path):
    versions = campaign.versions(path)
    stage = EXPECTED["rewritten"][path]
    assert [(number, writers) for _, number, writers, _, _ in versions] == [(r, {f"{stage}-{r}"}) for r in ROUNDS]
    assert len({identity for identity, *_ in versions}) == 1


@pytest.mark.parametrize("path", EXPECTED["replaced"])
def test_a_file_that_is_replaced_each_round_is_a_new_file_each_round(campaign, path):
    versions = campaign.versions(path)
    stage = EXPECTED["replaced"][path]
    assert [(number, writers) for _, number, writers, _, _ in versions] == [(1, {f"{stage}-{r}"}) for r in ROUNDS]
    assert len({identity for identity, *_ in versions}) == len(ROUNDS)


def test_each_round_reads_the_version_of_the_round_before(campaign):
    following = {r: r + 1 for r in ROUNDS if r < ROUNDS[-1]}
    for path, readers in {
        "macro/state.npy": {r: {f"macro-{n}"} for r, n in following.items()},
        "selector/model.pkl": {r: {f"select-{n}", f"learn-{n}"} for r, n in following.items()},
        "feedback/eos.json": {r: {f"macro-{n}"} for r, n in following.items()},
        "feedback/observations.csv": {r: {f"learn-{r}"} for r in ROUNDS},
    }.items():
        assert [found for _, _, _, found, _ in campaign.versions(path)] == [readers.get(r, set()) for r in ROUNDS]


def test_only_an_appended_file_continues_its_last_version(campaign):
    bases = {path: [base for *_, base in campaign.versions(path)] for path in EXPECTED["rewritten"]}
    grown = bases.pop("feedback/observations.csv")
    assert grown == [[r - 1] if r > 1 else [] for r in ROUNDS]
    assert list(bases.values()) == [[[]] * len(ROUNDS)] * len(bases)


def test_flows_between_steps_are_their_exchanged_bytes(campaign):
    assert set(campaign.edges()) == set(expected_edges())


def test_appended_bytes_flow_to_all_later_rounds(campaign):
    """The flows go through the bases: each round reads the lines that the rounds before had added."""
    model = dataflow.model(campaign.run)
    _, activities = dataflow.activities(model, "task")
    names = [campaign.names.get(task, task) for task in activities["task"]]
    flows = dataflow.flow_table(model, "task")
    table = flows[model.paths[flows["file"]] == str(campaign.files / "feedback" / "observations.csv")]
    ends = zip(table["producer"], table["consumer"], strict=True)
    pairs = {(names[p], names[c]): n for (p, c), n in zip(ends, table["bytes"], strict=True)}
    added = {r: pairs[(f"reduce-{r}", f"learn-{r}")] for r in ROUNDS}
    assert sum(added.values()) == (campaign.files / "feedback" / "observations.csv").stat().st_size
    later = {(q, r) for q in ROUNDS for r in ROUNDS if q <= r}
    assert {(q, r): pairs.get((f"reduce-{q}", f"learn-{r}")) for q, r in later} == {(q, r): added[q] for q, r in later}


def test_the_bytes_are_those_of_the_files(campaign):
    written = campaign.written()
    once = [p for p in campaign.files.rglob("*") if p.is_file() and p.parent.name not in ("macro", "feedback", "logs")]
    once = [path for path in once if path.name != "model.pkl"]
    assert sum(path.suffix == ".npy" for path in once) == EXPECTED["patches"]
    assert {str(path): written.get(str(path)) for path in once} == {str(path): path.stat().st_size for path in once}
    state = campaign.files / "macro" / "state.npy"
    assert written[str(state)] == len(ROUNDS) * state.stat().st_size


def test_an_analysis_reads_its_simulation_and_no_other(campaign):
    edges = {pair: files for pair, files in campaign.edges().items() if pair[0].startswith("simulate")}
    outputs = ("frames.lammpstrj", "log.lammps")
    assert edges == {
        (f"simulate-{r}-{i}", f"analyze-{r}-{i}"): {f"micro/{r}/{i}/{name}" for name in outputs}
        for r in ROUNDS
        for i in SIMULATIONS
    }


def test_the_kernels_account_agrees(campaign, coverage_table, request):
    coverage = campaign.run.coverage
    assert coverage["share"].dropna().min() > 0.95
    check_coverage(coverage_table, f"workflows/ensemble, {request.node.callspec.params['campaign']}", campaign.run)
    assert campaign.run.info()["losses"] == []


# --- under Flux ------------------------------------------------------------------------------------------------------


def test_flux_and_the_trace_change_nothing(local, under_flux):
    assert under_flux.found == local.found


def test_every_job_is_traced_with_the_names_that_flux_has_for_it(under_flux):
    tasks = under_flux.run.tasks
    assert len(tasks) == sum(EXPECTED["tasks"].values())
    assert set(tasks["workflow"]) == {"ensemble"}
    assert set(tasks["status"]) == {"done"}
    assert [f"/{task}" for task in tasks["task"]] == [job.replace("ƒ", "f") for job in tasks["job"]]


def test_jobs_of_a_nested_instance_have_the_outer_job_as_parent(under_flux):
    tasks = under_flux.run.declared_tasks
    inner = tasks[tasks["parent"].notna()]
    parents = {(row.name.split("-")[1], under_flux.names[row.parent]) for row in inner.itertuples(index=False)}
    assert len(inner) == 2 * len(ROUNDS) * len(SIMULATIONS)
    assert parents == {(str(r), f"micro-{r}") for r in ROUNDS}
    events = under_flux.run.events(columns=["task", "job", "tag.parent"], stage="simulate").compute()
    assert len(events) > 0
    assert (events["tag.parent"].astype(str) == events["job"].astype(str).str.rsplit("/", n=1).str[0]).all()


def test_every_declared_dependency_is_observed(under_flux):
    table = declared_vs_observed.compare_declared(under_flux.run)
    rows = {
        (under_flux.names[p], under_flux.names[c]): s
        for p, c, s in zip(table["producer"], table["consumer"], table["status"], strict=True)
    }
    declared = {
        *(
            (f"{a}-{r}", f"{b}-{r}")
            for a, b in (("macro", "select"), ("select", "micro"), ("micro", "reduce"), ("reduce", "learn"))
            for r in ROUNDS
        ),
        *((f"simulate-{r}-{i}", f"analyze-{r}-{i}") for r in ROUNDS for i in SIMULATIONS),
        *((f"{a}-{r - 1}", f"{b}-{r}") for a, b in (("reduce", "macro"), ("learn", "select")) for r in ROUNDS[1:]),
    }
    assert {pair for pair, status in rows.items() if status != "undeclared"} == declared
    assert {rows[pair] for pair in declared} == {"observed"}


def test_undeclared_dependencies_are_ordered_by_declared_ones(under_flux):
    """The campaign declares no dependency of a macro model on the last one: what it waits for has waited for that."""
    table = declared_vs_observed.compare_declared(under_flux.run)
    rows = table[table["status"] == "undeclared"]
    pairs = {
        (under_flux.names[p], under_flux.names[c]) for p, c in zip(rows["producer"], rows["consumer"], strict=True)
    }
    assert pairs == {
        *((f"{stage}-{r - 1}", f"{stage}-{r}") for stage in ("macro", "learn") for r in ROUNDS[1:]),
        *((f"reduce-{q}", f"{stage}-{r}") for stage in ("reduce", "learn") for r in ROUNDS for q in ROUNDS if q < r),
    }
    assert (rows["order"] == "declared").all()


def test_a_job_begins_after_its_predecessors_and_encloses_its_events(under_flux):
    tasks = under_flux.run.tasks.set_index("task")
    waits = under_flux.run.declared_deps
    assert len(waits) == 40
    for task, before in zip(waits["task"], waits["dep"], strict=True):
        assert tasks.at[before, "t_end_ns"] <= tasks.at[task, "t_depend_ns"] <= tasks.at[task, "t_alloc_ns"]
    assert (tasks["t_alloc_ns"] - CLOCKS_NS < tasks["t0_ns"]).all()
    assert (tasks["t1_ns"] < tasks["t_end_ns"] + CLOCKS_NS).all()
