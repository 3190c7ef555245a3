"""Waiting is order: a script of Flux commands that wait for their jobs, or don't, under `tailrace run` and as a batch
job."""

import subprocess

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace.flux.paths import PARTS

# Each pair of jobs passes a file that nothing declares. The loops wait for a job's end without waiting for its command.
SCRIPT = """#!/bin/sh
is_over() { flux jobs -a --filter=inactive --name=$1 -no '{id}' | grep -q .; }
flux run -n1 --trace=run-make $RUN sh -c 'seq 9 > run'
flux run -n1 --trace=run-use $RUN sh -c 'wc -l run > out1'
flux submit --wait -n1 --trace=wait-make $RUN sh -c 'seq 9 > wait'
flux submit --wait -n1 --trace=wait-use $RUN sh -c 'wc -l wait > out2'
flux run -n1 --job-name=one --trace=background-make $RUN sh -c 'seq 9 > background' &
while ! is_over one; do sleep 0.1; done
flux run -n1 --trace=background-use $RUN sh -c 'wc -l background > out3'
flux submit -n1 --job-name=two --trace=submit-make $RUN sh -c 'seq 9 > submit'
while ! is_over two; do sleep 0.1; done
flux submit --wait -n1 --trace=submit-use $RUN sh -c 'wc -l submit > out4'
flux submit -n1 --trace=overlap-make $RUN sh -c 'seq 9 > overlap; while [ ! -e submitted ]; do sleep 0.1; done'
flux submit -n1 --trace=overlap-use $RUN sh -c 'while ! wc -l overlap > out5; do sleep 0.1; done'
touch submitted
flux queue drain
"""
ORDERS = {"run": "awaited", "wait": "awaited", "background": "in time", "submit": "in time", "overlap": "none"}


@pytest.fixture
def instance(start_traced_flux, tmp_path):
    """A traced instance with the command line plugin; script.sh is in its directory."""
    script = tmp_path / "script.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    settings = {part.variable: str(part.folder) for part in PARTS if part.variable}
    return start_traced_flux(cwd=tmp_path, size=1, env=settings)


def command(instance, *words, **env):
    """`tailrace WORDS...` in the instance."""
    done = subprocess.run(
        [*TAILRACE, *map(str, words)],
        cwd=instance.cwd,
        env={**instance.env, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def orders(run):
    """case -> what orders its two jobs."""
    rows = tailrace.open(run).insights().declared.undeclared
    stages = zip(rows["producer_stage"], rows["consumer_stage"], rows["order"], strict=True)
    return {make.removesuffix("-make"): order for make, use, order in stages if use == make.replace("-make", "-use")}


def test_a_script_under_tailrace_run(instance, tmp_path):
    run = tmp_path / "traced"
    command(instance, "run", "-o", run, "--", "./script.sh", RUN=f"--trace-run={run}")
    command(instance, "flux", "collect", run)
    assert orders(run) == ORDERS
    kinds = {finding.kind: finding.count for finding in tailrace.open(run).insights().findings()}
    assert kinds["undeclared dependency"] == 1
    assert kinds["undeclared, in order this time"] == kinds["undeclared, but awaited"] == 2


def test_a_script_that_is_a_batch_job(instance, tmp_path):
    """Flux's own commands are not traced there: the script's shell made and reaped them."""
    run = tmp_path / "batch"
    job = instance.ask("batch", "-n2", "--trace=campaign", f"--trace-run={run}", "script.sh", env=instance.env)
    instance.wait(job, timeout=120)
    command(instance, "flux", "collect", run)
    assert orders(run) == ORDERS
    # The brokers' start and stop are no time of the script's.
    traced = tailrace.open(run)
    script = traced.processes.sort_values("t0_ns").iloc[0]
    (outer,) = traced.declared_tasks.query("kind == 'instance'").to_dict("records")
    (times,) = traced.waits.query("stage == 'campaign'").to_dict("records")
    assert times["run_ns"] == script["t1_ns"] - script["t0_ns"]
    assert times["stop_ns"] == outer["t_end_ns"] - script["t1_ns"] > 0
    assert times["start_ns"] == script["t0_ns"] - outer["t_alloc_ns"] > 0


def test_a_script_that_is_not_traced_leaves_times_alone(instance, tmp_path):
    run = tmp_path / "jobs"
    subprocess.run(
        ["./script.sh"], cwd=tmp_path, env={**instance.env, "RUN": f"--trace-run={run}"}, check=True, timeout=120
    )
    command(instance, "flux", "collect", run)
    assert orders(run) == {case: "none" if order == "none" else "in time" for case, order in ORDERS.items()}
