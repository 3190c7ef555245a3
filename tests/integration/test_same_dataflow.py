"""workflows/genomics/managers: one computation under each manager that is here moves the same data between steps."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import tailrace
from support.managers import SNAKEMAKE_PLUGIN, SOURCE, all_on_path, share_tailrace
from support.run_files import Trace

FOLDER = SOURCE / "workflows" / "genomics" / "managers"
PROGRAMS = ("bwa", "samtools", "wgsim", "bcftools")
EDGES = 54
"""Files by the step that wrote them and a step that read them."""
COUNTS = {"variants": 237, "true": 237, "aligned": 4000}
BRIEF = ("make", "Dask")
"""Others take 10 to 30 s each: TAILRACE_ALL_MANAGERS=1 runs them."""


def skip_long(name):
    if name not in BRIEF and os.environ.get("TAILRACE_ALL_MANAGERS") != "1":
        pytest.skip("takes 10 to 30 s: TAILRACE_ALL_MANAGERS=1 runs it")


@pytest.fixture(scope="module")
def compare():
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt install bwa samtools bcftools")
    specification = importlib.util.spec_from_file_location("compare_managers", FOLDER / "compare.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What other environments' managers need to import this tailrace, and nothing of an outer run."""
    monkeypatch.setenv("PYTHONPATH", share_tailrace(tmp_path / "site", SNAKEMAKE_PLUGIN)["PYTHONPATH"])
    for name in [name for name in os.environ if name.startswith(("TAILRACE_", "SLURM_", "FLUX_"))]:
        if name not in ("TAILRACE_REQUIRE_FLUX", "TAILRACE_ALL_MANAGERS"):
            monkeypatch.delenv(name)


def check(compare, folder, tasks=28):
    run = tailrace.open(folder / "run")
    edges = compare.edges(run)
    truth = json.loads((FOLDER / "edges.json").read_text())
    assert edges == {tuple(edge) for edge in truth} and len(edges) == EDGES
    count, spent = compare.times(run, 0, sys.maxsize)
    assert count == tasks and spent["tasks"] > 0 and spent["between"] >= 0
    return run


@pytest.mark.parametrize("name", ["make", "Snakemake", "Nextflow", "CWL", "Dask"])
def test_a_manager_moves_the_same_data(compare, environment, tmp_path, monkeypatch, name):
    skip_long(name)
    if name in ("Snakemake", "CWL"):
        needs = compare.MANAGERS[name].needs
        found = [one for one in all_on_path(needs) if not one.version.startswith("7.")]
        if not found:
            pytest.skip(f"no environment with {needs} on PATH")
        monkeypatch.setenv("PATH", f"{found[0].program.parent}:{os.environ['PATH']}")
    if name == "Dask":
        pytest.importorskip("distributed", reason="no Dask distributed: pip install distributed")
    ran = compare.run(name, tmp_path / name)
    if isinstance(ran, str):
        pytest.skip(ran)
    check(compare, tmp_path / name)
    (summary,) = {path.read_text() for path in (tmp_path / name).rglob("summary.json")}
    assert json.loads(summary) == COUNTS


def test_flux_moves_the_same_data(compare, environment, flux_plugins, flux_program, tmp_path, monkeypatch):
    skip_long("Flux")
    monkeypatch.setenv("PATH", f"{flux_program.parent}:{os.environ['PATH']}")
    assert not isinstance(compare.run("Flux", tmp_path / "flux"), str)
    run = check(compare, tmp_path / "flux")
    assert set(run.declared_tasks["status"]) == {"done"}


@pytest.mark.parametrize("name", ["Slurm", "Slurm, MPI"])
def test_slurm_moves_the_same_data(compare, environment, slurm, monkeypatch, name):
    skip_long(name)
    slurm.configure()
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    folder = slurm.folder / name
    if isinstance(reason := compare.run(name, folder), str):
        pytest.skip(reason)
    run = check(compare, folder, compare.MANAGERS[name].tasks)
    assert set(run.declared_tasks["status"]) == {"done"}
    if name == "Slurm, MPI":
        trace = Trace(folder / "run")
        for rank, sample in enumerate(("ada", "bo", "cy", "dee")):
            written = trace.of(folder / f"{sample}.bam", {"write"})
            assert trace.tags(written, "stage", "rank") == {("sort", str(rank))}


def test_the_table_in_the_docs_is_the_scripts():
    page = (SOURCE / "docs" / "same-workflow.md").read_text()
    table = re.search(r"<!-- compare\.py -->\n(.*?)<!-- end -->", page, re.DOTALL)[1].splitlines()
    assert [cell.strip() for cell in table[0].split("|")][1:3] == ["manager", "version"]
    named = {row.split("|")[1].strip() for row in table[2:]}
    assert named == {"make", "Snakemake", "Nextflow", "CWL", "Dask", "Parsl", "Flux", "Slurm", "Slurm, MPI"}


def test_steps_fail_loudly():
    done = subprocess.run(["sh", FOLDER / "step.sh", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nothing is no step" in done.stderr
