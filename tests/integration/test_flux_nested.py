"""Instances in jobs: the batch script and the inner jobs are traced, each under its own name; Flux itself is not."""

import json
import re
import shutil
from pathlib import Path

import pytest

import tailrace
from support import sanitizer
from support.commands import run_cli
from support.run_files import Trace

OUTER = "--setattr=user.trace.stage=outer"


@pytest.fixture
def work(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 5000)
    return tmp_path


@pytest.fixture
def batch(traced_flux, work):
    """Runs a batch script in `work` as a job: its id, its output, its trace (None when there is no run)."""

    def run(script, *options, arguments=(), command="batch", env=None):
        file = work / "script.sh"
        file.write_text(f"#!/bin/sh -e\n{script}\n")
        file.chmod(0o755)
        words = [command, "-n1", f"--cwd={work}", f"--output={work}/output", f"--error={work}/output", *options]
        job = traced_flux.ask(*words, file, *arguments, env={**traced_flux.env, **(env or {})})
        traced_flux.wait(job, timeout=120)
        runs = list(work.glob("tailrace-runs/*"))
        return job, (work / "output").read_text(), Trace(runs[0]) if runs else None

    return run


def programs(trace):
    return {Path(process["exe"]).name for process in trace.processes.values()}


def test_script_and_inner_jobs_are_traced_and_flux_is_not(traced_flux, batch, work):
    job, output, trace = batch(
        "cat in > script-out\n"
        "flux run --setattr=user.trace.stage=inner cp in inner-out\n"
        "flux run --job-name=named cp in named-out\n"
        "flux run --setattr=user.trace=false cp in refused-out\n"
        "env | sort",
        OUTER,
        "--setattr=user.trace.tags.k=v",
    )
    assert sanitizer.CHOSEN or "LD_PRELOAD" not in output
    assert "TAILRACE_RUN" not in output
    plain = traced_flux.ask("job", "id", "--to=f58plain", job)
    keys = ("workflow", "stage", "job", "tag.parent", "tag.k")
    assert trace.tags(trace.of(work / "script-out"), *keys, "task") == {(plain, "outer", f"/{job}", None, "v", plain)}
    for stage, file in {"inner": "inner-out", "named": "named-out"}.items():
        (found,) = trace.tags(trace.of(work / file), *keys, "task")
        workflow, its_stage, path, parent, free, task = found
        assert (workflow, its_stage, parent, free) == (plain, stage, f"/{job}", "v")
        assert path.startswith(f"/{job}/ƒ")
        assert task == f"{plain}/f{path.rpartition('ƒ')[2]}"
    assert not trace.of(work / "refused-out")
    assert (work / "refused-out").stat().st_size == 5000
    assert json.loads((trace.run_dir / "run.json").read_text())["command"] == ["flux:", "batch", "script.sh"]
    assert programs(trace) <= {"dash", "sh", "bash", "cat", "cp", "env", "sort"}


def test_an_instance_in_an_instance(traced_flux, batch, work):
    (work / "inner.sh").write_text("#!/bin/sh -e\ncat in > inner-out\nflux run --job-name=deep cp in deep-out\n")
    job, _, trace = batch("flux batch -n1 --job-name=middle inner.sh\nflux queue drain", OUTER)
    plain = traced_flux.ask("job", "id", "--to=f58plain", job)
    ((workflow, stage, middle, parent),) = trace.tags(
        trace.of(work / "inner-out"), "workflow", "stage", "job", "tag.parent"
    )
    assert (workflow, stage, parent) == (plain, "middle", f"/{job}")
    ((workflow, stage, deep, parent),) = trace.tags(
        trace.of(work / "deep-out"), "workflow", "stage", "job", "tag.parent"
    )
    assert (workflow, stage, parent) == (plain, "deep", middle)
    assert deep.startswith(f"{middle}/ƒ")
    assert middle.startswith(f"/{job}/ƒ")
    assert not [name for name in programs(trace) if name.startswith(("flux", "python"))]


def test_an_untraced_instance_is_untraced_in_all(batch, work):
    _, output, trace = batch("env\nflux jobtap list\nflux run cp in out")
    assert trace is None
    assert "TAILRACE_FLUX" not in output
    assert "tailrace-jobtap.so" not in output
    assert (work / "out").stat().st_size == 5000


def test_an_inner_instance_that_opts_out_is_untraced_in_all(batch, work):
    inner = "#!/bin/sh -e\ncat in > inner-out\nflux run cp in deep-out\n"
    (work / "inner.sh").write_text(inner)
    _, _, trace = batch("flux batch -n1 --setattr=user.trace=false inner.sh\nflux queue drain", OUTER)
    assert (work / "deep-out").stat().st_size == 5000
    assert not trace.of(work / "inner-out")
    assert not trace.of(work / "deep-out")


def test_a_single_command_line_runs_by_the_users_shell(traced_flux, work):
    # As `flux alloc 'cp in one && cp one two'`, which needs a terminal.
    words = [f"--cwd={work}", OUTER, "-oper-resource.type=node", "flux", "broker", "cp in one && cp one two"]
    job = traced_flux.submit(*words)
    traced_flux.wait(job)
    (run,) = (work / "tailrace-runs").iterdir()
    trace = Trace(run)
    assert trace.tags(trace.of(work / "two"), "stage") == {("outer",)}


@pytest.mark.parametrize(
    "words",
    [
        ["cp", "in", "out"],
        ["--", "cp", "in", "out"],
        ["-s", "2", "--test-exit-timeout=5s", "-o,-Slog-stderr-level=3", "-Slog-ring-size=55", "cp", "in", "out"],
        ["--test-size=2", "-v", "--setattr", "log-ring-size=55", "cp in out"],
        ["flux", "run", "--job-name=outer", "cp", "in", "out"],
    ],
    ids=lambda words: " ".join(words),
)
def test_an_instance_by_flux_start(traced_flux, work, words):
    job = traced_flux.submit(f"--cwd={work}", OUTER, "flux", "start", *words)
    traced_flux.wait(job, timeout=120)
    assert traced_flux.events(job, "finish")[0]["context"]["status"] == 0
    (run,) = (work / "tailrace-runs").iterdir()
    trace = Trace(run)
    assert trace.tags(trace.of(work / "out"), "stage") == {("outer",)}
    # A shell may have a start-up file of its own, whose programs are traced as well.
    assert not [name for name in programs(trace) if name.startswith("flux")]


@pytest.mark.parametrize("plugins", ["both", "shell"])
def test_an_instance_by_flux_start_is_declared_as_it_is_traced(flux, traced_flux, flux_plugins, work, plugins):
    instance = traced_flux if plugins == "both" else flux
    env = {**instance.env, "FLUX_SHELL_RC_PATH": str(flux_plugins.rc_folder)}
    words = ["flux", "start", "-s", "1", "sh", "-c", "cat in > script-out; flux run --job-name=deep cp in deep-out"]
    job = instance.submit(f"--cwd={work}", "--setattr=user.trace=true", *words, env=env)
    instance.wait(job, timeout=120)
    (run,) = (work / "tailrace-runs").iterdir()
    plain = job.replace("ƒ", "f")
    trace = Trace(run)
    assert trace.tags(trace.of(work / "script-out"), "workflow", "stage", "task") == {(plain, "sh", plain)}
    assert trace.tags(trace.of(work / "deep-out"), "workflow", "stage") == {(plain, "deep")}
    # Without a directory: the run is found by the job, whose template is the default one.
    done = run_cli("flux", "collect", env=instance.env)
    assert f"; {run}" in done.stderr
    tasks = tailrace.open(run).declared_tasks.set_index("task")
    assert tasks.loc[plain, ["workflow", "stage", "kind"]].tolist() == [plain, "sh", "instance"]


START = "flux start sh -c 'flux run --job-name=deep cp in {0}-deep; flux batch -n1 {0}.sh; flux queue drain'"


def test_instances_that_a_script_starts_trace_their_jobs(traced_flux, work):
    """`flux start` twice in the script of a plain job; each submits a job and an instance with a job."""
    for name in ("one", "two"):
        (work / f"{name}.sh").write_text(f"#!/bin/sh\nflux run --job-name=deeper cp in {name}-deeper\n")
    script = work / "script"
    script.write_text("#!/bin/sh -e\nenv | sort > seen\n" + "\n".join(map(START.format, ("one", "two"))) + "\n")
    script.chmod(0o755)
    job = traced_flux.submit(f"--cwd={work}", OUTER, script)
    traced_flux.wait(job, timeout=120)
    assert traced_flux.events(job, "finish")[0]["context"]["status"] == 0
    plain = job.replace("ƒ", "f")
    (run,) = (work / "tailrace-runs").iterdir()
    trace, keys = Trace(run), ("workflow", "stage", "tag.parent", "task")
    assert sanitizer.CHOSEN or "TAILRACE" not in (work / "seen").read_text()
    assert "FLUX_MODPROBE_PATH_APPEND" not in (work / "seen").read_text()
    traced = set()
    for name in ("one", "two"):
        ((workflow, stage, parent, task),) = trace.tags(trace.of(work / f"{name}-deep"), *keys)
        assert (workflow, stage, parent) == (None, "deep", f"/{job}")
        ((workflow, stage, parent, deeper),) = trace.tags(trace.of(work / f"{name}-deeper"), *keys)
        assert (workflow, stage) == (None, "deeper")
        instance = task.rpartition("/")[0]
        assert re.fullmatch(rf"{plain}/start-\d+", instance)
        assert re.fullmatch(rf"{instance}/f\w+/f\w+", deeper)
        assert parent == "/" + deeper.rpartition("/")[0].replace("/f", "/ƒ").replace("f", "ƒ", 1)
        traced |= {task, deeper}
    assert len(traced) == 4
    # Each of the instances collected its history when it ended.
    declared = tailrace.open(run).declared_tasks.set_index("task")
    assert traced <= set(declared.index)
    assert set(declared.loc[list(traced), "workflow"]) == {""}
    assert {parent for task, parent in declared["parent"].items() if task in traced and task.count("/") == 2} == {plain}


def test_an_instance_that_a_batch_script_starts_is_named_below_its_job(traced_flux, batch, work):
    job, _, trace = batch("flux start flux run --job-name=deep cp in deep-out", OUTER)
    plain = job.replace("ƒ", "f")
    ((workflow, task, parent),) = trace.tags(trace.of(work / "deep-out"), "workflow", "task", "tag.parent")
    assert (workflow, parent) == (plain, f"/{job}")
    assert re.fullmatch(rf"{plain}/start-\d+/f\w+", task)
    declared = tailrace.open(trace.run_dir).declared_tasks.set_index("task")
    assert declared.loc[task, ["workflow", "parent"]].tolist() == [plain, plain]


def test_an_unknown_option_leaves_the_initial_program_untraced(traced_flux, work):
    # An abbreviation, as getopt_long(3) takes it.
    words = [f"--cwd={work}", OUTER, "flux", "start", "--test-si=1", "--test-exit-m", "leader", "flux run cp in out"]
    job = traced_flux.submit(*words)
    traced_flux.wait(job, timeout=120)
    done = traced_flux.run("job", "attach", job, check=False)
    assert "the initial program is not traced: unknown option --test-exit-m before it" in done.stderr
    (run,) = (work / "tailrace-runs").iterdir()
    assert Trace(run).tags(Trace(run).of(work / "out"), "stage") == {("cp",)}


def test_the_brokers_message_about_a_failing_script_is_short(traced_flux, flux_plugins, batch, work):
    _, plain, _ = batch("echo said; exit 3")
    _, traced, _ = batch("echo said; exit 3", OUTER)
    plain_line, traced_line = (re.search(r" rc2\.0: (.*)", text)[1] for text in (plain, traced))
    starter = f"{flux_plugins.root / 'lib' / 'traced'} "
    assert traced_line.startswith(starter)

    def without_place(line):
        return [word for word in line.split() if "/" not in word and not word.endswith("s")]

    assert without_place(traced_line) == without_place(plain_line) == ["Exited", "(rc=3)"]
    assert len(traced_line) <= len(starter) + len(plain_line) + 2


def test_propagation_by_the_environment_goes_on_inside(batch, work):
    inner = "flux run --job-name=inner sh -c 'cp in inner; env -i /bin/cp in cleared'"
    refused = "flux run --setattr=user.trace=false cp in refused"
    _, _, trace = batch(f"{inner}; {refused}", OUTER, env={"TAILRACE_PROPAGATE": "environment"})
    assert trace.tags(trace.of(work / "inner"), "stage") == {("inner",)}
    assert not trace.of(work / "cleared")
    assert not trace.of(work / "refused")


def test_broker_options_stand_before_the_script(batch, work):
    _, output, trace = batch(
        'flux getattr tbon.topo; flux getattr log-ring-size; cat in > "out $1"',
        OUTER,
        "--broker-opts=-Stbon.topo=kary:3",
        "--broker-opts=--setattr=log-ring-size=55",
        "--broker-opts=-S",
        "--broker-opts=log-stderr-level=3",
        arguments=["with blank"],
    )
    assert output.split() == ["kary:3", "55"]
    assert trace.of(work / "out with blank")


def test_arguments_and_exit_code_are_the_scripts(traced_flux, batch, work):
    job, output, _ = batch('printf "%s|" "$@"; exit 3', OUTER, arguments=["a b", "$HOME", "--x=1", ""])
    assert output.endswith("a b|$HOME|--x=1||")
    assert traced_flux.events(job, "finish")[0]["context"]["status"] >> 8 == 3


def test_the_inner_instances_own_configuration_applies(traced_flux, flux_plugins, batch, work):
    conf = work / "conf.toml"
    conf.write_text(
        f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n'
        f'[tailrace]\njobs = "requested"\nrun = "{work}/own-run"\nworkflow = "own"\n'
    )
    _, output, trace = batch(
        "flux run cp in unasked\nflux run --setattr=user.trace.stage=asked cp in asked\nflux jobtap list",
        OUTER,
        f"--conf={conf}",
    )
    assert output.split().count("tailrace-jobtap.so") == 1
    own = Trace(work / "own-run")
    assert own.tags(own.of(work / "asked"), "stage", "workflow") == {("asked", "own")}
    assert not own.of(work / "unasked")
    assert not trace.of(work / "unasked")


def test_an_instance_with_conf_alone_in_an_untraced_job(traced_flux, flux_plugins, batch, work):
    conf = work / "conf.toml"
    policy = 'jobs = "all"\nrun = "tailrace-runs/{{id.f58plain}}"'
    conf.write_text(f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n[tailrace]\n{policy}\n')
    folder = f"{flux_plugins.rc_folder}"
    _, _, trace = batch("flux run cp in out", f"--conf={conf}", env={"FLUX_SHELL_RC_PATH": folder})
    assert trace.tags(trace.of(work / "out"), "stage") == {("cp",)}


def test_over_two_nodes(start_traced_flux, work):
    instance = start_traced_flux(size=2, cwd=work)
    script = work / "script.sh"
    script.write_text("#!/bin/sh -e\nflux run -N2 -n2 sh -c 'cat in > out.$FLUX_TASK_RANK'\n")
    job = instance.ask("batch", "-N2", f"--output={work}/output", OUTER, script)
    instance.wait(job, timeout=120)
    assert (work / "output").read_text() == ""
    (run,) = (work / "tailrace-runs").iterdir()
    trace = Trace(run)
    for rank in "01":
        assert trace.tags(trace.of(work / f"out.{rank}"), "tag.nodeid", "tag.parent") == {(rank, f"/{job}")}


@pytest.mark.parametrize("settings", ["", "{", "[]", '{"jobtap": 3}', '{"jobtap": "/none.so", "shell": "/none"}'])
def test_an_inner_instance_starts_whatever_its_settings_are(flux, flux_plugins, work, settings):
    modprobe = flux_plugins.root / "etc" / "modprobe"
    environment = {**flux.env, "FLUX_MODPROBE_PATH_APPEND": str(modprobe), "TAILRACE_FLUX": settings}
    script = work / "script.sh"
    script.write_text("#!/bin/sh\nflux run cp in out\n")
    job = flux.ask("batch", "-n1", f"--cwd={work}", f"--output={work}/output", script, env=environment)
    flux.wait(job, timeout=120)
    assert flux.events(job, "finish")[0]["context"]["status"] == 0, (work / "output").read_text()
    assert (work / "out").stat().st_size == 5000


def test_two_copies_of_the_drop_in_load_the_plugins_once(traced_flux, flux_plugins, batch, work):
    shutil.copytree(flux_plugins.root / "etc" / "modprobe", work / "modprobe")
    _, output, trace = batch(
        "flux jobtap list; flux getattr conf.shell_pluginpath; flux run cp in out",
        OUTER,
        env={"FLUX_MODPROBE_PATH_APPEND": f"{work}/modprobe"},
    )
    assert output.count("tailrace-jobtap.so") == 1
    assert output.count(str(flux_plugins.shell_folder)) == 1
    assert trace.tags(trace.of(work / "out"), "stage") == {("cp",)}


def test_the_inner_instance_gets_all_settings(traced_flux, batch, flux_plugins, work):
    _, output, _ = batch("printenv TAILRACE_FLUX", OUTER, "--setattr=user.trace.workflow=w")
    settings = json.loads(output)
    assert settings["jobtap"] == str(flux_plugins.jobtap)
    assert settings["shell"] == str(flux_plugins.shell_folder)
    assert settings["conf"]["workflow"] == "w"
    assert settings["conf"]["jobs"] == "all"
    assert Path(settings["conf"]["run"]).is_dir()


@pytest.mark.parametrize("options", [(), (OUTER,)], ids=["untraced", "traced"])
def test_a_second_copy_replaces_the_first_in_both_instances(batch, work, second_copy, options):
    _, output, trace = batch("flux run cp in inner-out\ncp in out", *options, env=second_copy)
    assert "Segmentation" not in output
    assert (work / "inner-out").stat().st_size == (work / "out").stat().st_size == 5000
    if options:
        assert trace.of(work / "inner-out")
        assert trace.of(work / "out")
