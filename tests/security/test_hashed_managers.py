"""TAILRACE_REDACT=paths with workflow managers: what they declare is hashed as what is traced is, or left out."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.hashed_runs import HASHED, KEY, MARK, has_mark, key_file, traced
from support.managers import SNAKEMAKE_PLUGIN, Manager, all_on_path, share_tailrace
from support.run_files import read_declared
from tailrace.hashed_names import HashedNames

pytestmark = pytest.mark.slow("runs whole workflows")

PARSL = f"""
import sys
import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider
from tailrace.parsl import trace

@python_app
def {MARK}_app(word, inputs=(), outputs=()):
    open(outputs[0].filepath, "w").write(word)
    return word

@bash_app
def join(inputs=(), outputs=(), stdout=None):
    return f"cat {{inputs[0]}} > {{outputs[0]}}"

@python_app
def fails(word):
    raise ValueError(word)

htex = HighThroughputExecutor(label="{MARK}-htex", max_workers_per_node=1, address="127.0.0.1",
                              provider=LocalProvider(init_blocks=1, max_blocks=1))
executor = htex if sys.argv[1] == "htex" else ThreadPoolExecutor(label="{MARK}-threads")
config = Config(executors=[executor], run_dir="{MARK}-runinfo", retries=1)
with parsl.load(trace(config, run_dir=sys.argv[2], workflow="{MARK}-flow")):
    a = {MARK}_app("{MARK}", outputs=[File("{MARK}-a.txt")])
    b = join(inputs=[a.outputs[0]], outputs=[File("{MARK}-b.txt")], stdout="{MARK}-told")
    b.result()
    assert "{MARK}" in str(fails("{MARK}").exception())
"""

SNAKEFILE = f"""
rule all:
    input: "{MARK}/b.{MARK}"
rule {MARK}_make:
    output: "{MARK}/{{s}}.csv"
    shell: "seq 100 > {{output}}"
rule sort:
    input: "{MARK}/{{s}}.csv"
    output: "{MARK}/{{s}}.{MARK}"
    shell: "sort -r {{input}} > {{output}}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / f"{MARK}-folder"
    made.mkdir()
    return made


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_file(tmp_path / "key")


@pytest.mark.parametrize("executor", ["threads", "htex"])
def test_a_parsl_workflow(tmp_path: Path, folder: Path, key: Path, executor: str) -> None:
    run = tmp_path / "run"
    (folder / f"{MARK}.py").write_text(PARSL)
    environment = {**HASHED, "TAILRACE_REDACT_KEY": str(key)}
    done = subprocess.run(
        [sys.executable, f"{MARK}.py", executor, str(run)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert run_cli("report", run, "--html", run / "page.html").returncode == 0
    assert has_mark(run) == []
    tasks = [line for line in read_declared(run) if line["type"] == "task"]
    assert len(tasks) == 3
    names = HashedNames(KEY)
    assert {names.path(str(folder / f"{MARK}-a.txt"))} == {
        file["path"] for line in tasks for file in line["outputs"] if line["inputs"] == []
    }
    assert set(tailrace.open(run).insights().declared.table["status"]) == {"observed"}


SNAKEMAKES = all_on_path("snakemake")


@pytest.mark.parametrize("snakemake", SNAKEMAKES or [None], ids=str)
def test_a_snakemake_workflow(tmp_path: Path, folder: Path, snakemake: Manager | None) -> None:
    if snakemake is None:
        pytest.skip("no environment with Snakemake on PATH: pip install snakemake")
    run = tmp_path / "run"
    (folder / "Snakefile").write_text(SNAKEFILE)
    shared = share_tailrace(tmp_path / "site", SNAKEMAKE_PLUGIN)
    done = traced(run, folder, snakemake.program, "-c2", "--logger", "tailrace", **clean_environment(shared))
    assert done.returncode == 0, done.stderr
    assert run_cli("report", run, "--html", run / "page.html").returncode == 0
    assert has_mark(run) == []
    assert len([line for line in read_declared(run) if line["type"] == "task"]) == 2
    assert set(tailrace.open(run).insights().declared.table["status"]) == {"observed"}


@pytest.mark.skipif(shutil.which("make") is None, reason="no GNU make")
def test_make_is_traced_without_its_targets_and_says_so(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    (folder / "Makefile").write_text(f"{MARK}.b: {MARK}.a\n\tcp $< $@\n{MARK}.a:\n\techo a > $@\n")
    makefile = run_cli("adapter", "make").stdout.strip()
    done = traced(run, folder, "make", "-f", "Makefile", "-f", makefile)
    assert done.returncode == 0 and "make's targets are neither declared nor tagged" in done.stderr
    assert has_mark(run) == []
    assert read_declared(run) == []
    assert tailrace.open(run).info()["written_bytes"] >= 4
