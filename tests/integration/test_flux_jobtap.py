"""The jobtap plugin: which jobs it selects, what it passes to their shells, what it rejects."""

import itertools
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support.flux_instance import clean_environment

EVENT = "tailrace.trace"
BESIDE_JOB = "tailrace-runs/{{id.f58plain}}"


def trace_event(instance, job):
    """The context of the one event of the job; None without."""
    found = instance.events(job, EVENT)
    assert len(found) < 2, found
    return found[0]["context"] if found else None


def load(instance, plugins, *conf, **options):
    return instance.run("jobtap", "load", "-r", "all", plugins.jobtap, *conf, **options)


@pytest.fixture
def reconfigured(traced_flux, flux_plugins):
    """Loads the plugin again with KEY=VALUE...; restores it afterwards. Runs are not made in this user's home."""
    yield lambda *conf: load(traced_flux, flux_plugins, f"run={BESIDE_JOB}", *conf)
    load(traced_flux, flux_plugins)


def test_a_traced_job_has_the_event_and_shows_its_stage(traced_flux, flux_plugins):
    job = traced_flux.submit(
        "--job-name=relax",
        "--setattr=user.trace.stage=sim",
        "--setattr=user.trace.workflow=mummi",
        "--setattr=user.trace.tags.round=3",
        "true",
    )
    traced_flux.wait(job)
    event = trace_event(traced_flux, job)
    assert event == {
        "version": 1,
        "library": str(flux_plugins.library),
        "run": BESIDE_JOB,
        "tags": {"workflow": "mummi", "stage": "sim", "round": "3"},
    }
    shown = traced_flux.ask("jobs", "-n", "-o", "{user.trace.stage} {user.trace.result}", job)
    assert shown == "sim completed"
    names = [entry["name"] for entry in traced_flux.events(job)]
    assert names.count("memo") == 1 and names.index("memo") > names.index("finish")


def test_a_held_job_shows_its_stage_and_has_no_memo(traced_flux):
    """`flux job wait-event JOB memo` must not end by what we say of a job that has not begun."""
    job = traced_flux.submit("--setattr=user.trace.stage=held", "--urgency=hold", "true")
    assert traced_flux.ask("jobs", "-n", "-o", "{user.trace.stage}", job) == "held"
    traced_flux.run("cancel", job)
    traced_flux.wait(job)
    assert traced_flux.ask("jobs", "-n", "-o", "{user.trace.stage} {user.trace.result}", job) == "held canceled"
    assert not traced_flux.events(job, "memo")


def test_the_first_memo_of_a_traced_instance_is_its_own(traced_flux):
    """By it scripts wait until the instance answers. One that never does has none."""
    answers = traced_flux.submit("--setattr=user.trace.stage=inner", "flux", "broker", "true")
    fails = traced_flux.submit("--setattr=user.trace.stage=inner", "flux", "broker", "--no-such-option")
    for job in (answers, fails):
        traced_flux.wait(job)
    keys = [[*memo["context"]] for memo in traced_flux.events(answers, "memo")]
    assert keys == [["uri"], ["trace"]]
    assert not traced_flux.events(fails, "memo")
    for job, result in ((answers, "completed"), (fails, "failed")):
        assert traced_flux.ask("jobs", "-n", "-o", "{user.trace.stage} {user.trace.result}", job) == f"inner {result}"


def test_an_untraced_job_has_no_event(traced_flux):
    for words in (["true"], ["--setattr=user.trace=false", "true"], ["--setattr=user.stage=sim", "true"]):
        job = traced_flux.submit(*words)
        traced_flux.wait(job)
        names = {entry["name"] for entry in traced_flux.events(job)}
        assert not names & {EVENT, "memo"}


def test_stage_is_the_name_of_the_job_or_of_its_program(traced_flux):
    named = traced_flux.submit("--job-name=a name, with = signs ƒ", "--setattr=user.trace=true", "true")
    plain = traced_flux.submit("--setattr=user.trace=true", "/bin/true")
    assert trace_event(traced_flux, named)["tags"] == {"stage": "a name, with = signs ƒ"}
    assert trace_event(traced_flux, plain)["tags"] == {"stage": "true"}


def test_result_is_recorded_at_cleanup(traced_flux):
    traced = "--setattr=user.trace.stage=ends"
    jobs = {
        "failed": traced_flux.submit(traced, "false"),
        "timeout": traced_flux.submit(traced, "-t1s", "sleep", 60),
        "canceled": traced_flux.submit(traced, "sleep", 60),
    }
    traced_flux.wait(jobs["canceled"], "start")
    traced_flux.run("cancel", jobs["canceled"])
    for result, job in jobs.items():
        traced_flux.wait(job)
        assert traced_flux.ask("jobs", "-n", "-o", "{user.trace.result}", job) == result


LONG = json.dumps("v" * 65536)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('trace.tags.x="a\\u0001b"', r'tag "x": the value has a control character'),
        ('trace.stage="a\\nb"', r'tag "stage": the value has a control character'),
        (f"trace.tags.x={LONG}", r"the tags are longer than 8192 bytes"),
        (f'trace.tags.x="{"v" * 1025}"', r'tag "x": the value is longer than 1024 bytes'),
        ("trace.stage=1.5", r"attributes.user.trace.stage is a real number: give a string or an integer"),
        ("trace.stage=[1]", r"attributes.user.trace.stage is a list"),
        ('trace.stage=""', r'tag "stage": the value is empty'),
        ("trace=sim", r"attributes.user.trace is a string: give true, false or a table"),
        ("trace=3", r"attributes.user.trace is an integer"),
        ("trace.tags=sim", r"attributes.user.trace.tags is a string: give a table"),
        ("trace.tags.X=1", r'tag "X": the key is not \[a-z\]\[a-z0-9_.-\]\*'),
        ("trace.tags.job=1", r"attributes.user.trace.tags.job is set by Flux"),
        ("trace.tags.stage=1", r"give it as attributes.user.trace.stage"),
        ("trace.library=/tmp/mine.so", r'has no key "library": give stage, workflow, task, tags or run'),
        ("trace.run=7", r"attributes.user.trace.run is an integer: give the path of a directory"),
        ('trace.run=""', r"attributes.user.trace.run is empty"),
    ],
    ids=lambda value: value[:24],
)
def test_an_invalid_request_is_rejected_at_submit(traced_flux, attribute, message):
    done = traced_flux.run("submit", f"--setattr=user.{attribute}", "true", check=False)
    assert done.returncode == 1
    assert re.search(f"tailrace: .*{message}", done.stderr), done.stderr


def test_more_than_64_tags_are_rejected(traced_flux):
    tags = json.dumps({f"k{i}": i for i in range(65)})
    done = traced_flux.run("submit", f"--setattr=user.trace.tags={tags}", "true", check=False)
    assert "one too many: at most 64 tags" in done.stderr


def test_64_kib_of_tags_in_many_are_rejected_and_the_instance_continues(traced_flux):
    tags = json.dumps({f"k{i}": "v" * 1024 for i in range(64)})
    done = traced_flux.run("submit", f"--setattr=user.trace.tags={tags}", "true", check=False)
    assert "the tags are longer than 8192 bytes" in done.stderr
    assert traced_flux.run("run", "true").returncode == 0


def test_workflow_is_inherited_from_the_predecessor(traced_flux):
    trace = "--setattr=user.trace=true"
    first = traced_flux.submit("--setattr=user.trace.workflow=campaign", "true")
    second = traced_flux.submit(trace, f"--dependency=afterok:{first}", "true")
    third = traced_flux.submit(trace, f"--dependency=afterany:{second}", "true")
    alone = traced_flux.submit(trace, "true")
    own = traced_flux.submit(f"--dependency=afterok:{first}", "--setattr=user.trace.workflow=own", "true")
    workflows = [trace_event(traced_flux, job)["tags"].get("workflow") for job in (second, third, alone, own)]
    assert workflows == ["campaign", "campaign", None, "own"]


def test_jobs_are_chosen_by_name_pattern(traced_flux, reconfigured):
    reconfigured("jobs=all", "names=sim-*,*.sh")
    jobs = {name: traced_flux.submit(f"--job-name={name}", "true") for name in ("sim-1", "x.sh", "other")}
    asked = traced_flux.submit("--job-name=other", "--setattr=user.trace=true", "true")
    chosen = {name for name, job in jobs.items() if trace_event(traced_flux, job)}
    assert chosen == {"sim-1", "x.sh"}
    assert trace_event(traced_flux, asked)


def test_all_jobs_are_traced_unless_opted_out(traced_flux, reconfigured):
    reconfigured("jobs=all", "workflow=w", "tags.site=here")
    plain = traced_flux.submit("--job-name=n", "true")
    refusing = traced_flux.submit("--setattr=user.trace=false", "true")
    assert trace_event(traced_flux, plain)["tags"] == {"workflow": "w", "site": "here", "stage": "n"}
    assert trace_event(traced_flux, refusing) is None


def test_only_a_job_that_asks_has_its_run_in_its_working_directory(start_traced_flux, tmp_path):
    instance = start_traced_flux("jobs=all", cwd=tmp_path)
    others = instance.submit("--urgency=hold", "true")
    asked = instance.submit("--urgency=hold", "--setattr=user.trace=true", "true")
    # The alloc event repeats annotations: those of a job that did not ask are as without us.
    assert instance.ask("jobs", "-no", "{annotations}", others) == ""
    assert trace_event(instance, others)["run"] == "{home}/" + BESIDE_JOB
    assert trace_event(instance, asked)["run"] == BESIDE_JOB


def test_none_is_none(traced_flux, reconfigured):
    reconfigured("jobs=none")
    assert trace_event(traced_flux, traced_flux.submit("--setattr=user.trace.stage=s", "true")) is None
    # What isn't traced isn't checked either: the plugin is as good as absent.
    assert trace_event(traced_flux, traced_flux.submit("--setattr=user.trace=5", "true")) is None


def test_sampling_takes_about_its_share(traced_flux, reconfigured):
    reconfigured("jobs=all", "sample=0.5", "memo=false")
    jobs = traced_flux.ask("submit", "--cc=1-100", "true").split()
    traced_flux.run("queue", "idle", timeout=120)
    traced = sum(trace_event(traced_flux, job) is not None for job in jobs[:40])
    # 2 in a million samples of 40 lie outside.
    assert 6 <= traced <= 34


def test_user_attributes_become_tags_where_configured(traced_flux, reconfigured):
    reconfigured("jobs=all", "user-attributes=true")
    job = traced_flux.submit("--setattr=user.stage=plain", "--setattr=user.workflow=w", "--setattr=user.task=7", "true")
    both = traced_flux.submit("--setattr=user.stage=plain", "--setattr=user.trace.stage=traced", "true")
    assert trace_event(traced_flux, job)["tags"] == {"workflow": "w", "stage": "plain", "task": "7"}
    assert trace_event(traced_flux, both)["tags"]["stage"] == "traced"


def test_the_job_chooses_the_run_unless_configured_otherwise(traced_flux, reconfigured, tmp_path):
    wish = f"--setattr=user.trace.run={tmp_path}/mine"
    assert trace_event(traced_flux, traced_flux.submit(wish, "true"))["run"] == f"{tmp_path}/mine"
    reconfigured("choose-run=false", f"run={tmp_path}/ours")
    assert trace_event(traced_flux, traced_flux.submit(wish, "true"))["run"] == f"{tmp_path}/ours"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("jobs=some", 'tailrace: jobs is "some": give all, requested or none'),
        ("stage=x", "tailrace: plugin's conf stage is no key of tailrace: give one of jobs names queues"),
        ("sample=2", "tailrace: plugin's conf sample is 2: give a number from 0 to 1"),
        ("sample=much", 'tailrace: plugin\'s conf sample is "much": give a number from 0 to 1'),
        ("memo=maybe", 'tailrace: plugin\'s conf memo is "maybe": give true or false'),
        ("library=libtailrace.so", "give an absolute path without blanks, ':' and '$'"),
        ("block-age=0", "give a whole number above 0"),
        ("propagate=never", 'tailrace: plugin\'s conf propagate is "never": give always or environment'),
        ("detail=some", 'tailrace: plugin\'s conf detail is "some": give full, totals, auto or auto:BYTES'),
        ("tags.Site=x", 'tailrace: tags: tag "Site": the key is not [a-z]'),
        ("tags.job=x", "tailrace: tags.job is set by Flux"),
        ("workflow=a\nb", 'tag "workflow": the value has a control character'),
    ],
)
def test_a_bad_configuration_is_refused_with_the_fault_named(flux, flux_plugins, conf, message):
    done = flux.run("jobtap", "load", flux_plugins.jobtap, conf, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert flux_plugins.jobtap.name not in flux.ask("jobtap", "list").split()


def settings(instance):
    return json.loads(instance.ask("jobtap", "query", "tailrace-jobtap.so"))["settings"]


def test_a_configuration_table_applies_completely_or_not_at_all(start_flux, flux_plugins, tmp_path):
    table = tmp_path / "conf.toml"

    def write(text):
        table.write_text(f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n{text}')

    load = f'conf = {{ workflow = "w", run = "{BESIDE_JOB}" }}\n'
    write(load + '[tailrace]\njobs = "all"\nnames = ["a*"]\nworkflow = "under"\n')
    instance = start_flux(options=["-c", table], cwd=tmp_path)
    # The keys of the load override the table.
    assert (settings(instance)["jobs"], settings(instance)["names"], settings(instance)["workflow"]) == (
        "all",
        ["a*"],
        "w",
    )
    assert trace_event(instance, instance.submit("--job-name=abc", "true"))["tags"] == {"stage": "abc", "workflow": "w"}
    write('[tailrace]\njobs = "none"\nsample = "half"\n')
    done = instance.run("config", "reload", check=False)
    assert done.returncode == 1
    assert "tailrace: [tailrace] sample" in done.stderr
    assert settings(instance)["jobs"] == "all"
    write('[tailrace]\njobs = "requested"\n')
    instance.run("config", "reload")
    # The table is swapped whole: names is what it is without the key.
    assert (settings(instance)["jobs"], settings(instance)["names"]) == ("requested", [])


def test_jobs_are_chosen_by_queue(start_flux, flux_plugins, tmp_path):
    table = tmp_path / "conf.toml"
    table.write_text(
        f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n'
        f'[tailrace]\njobs = "all"\nrun = "{BESIDE_JOB}"\nqueues = ["batch"]\n[queues.batch]\n[queues.debug]\n'
    )
    instance = start_flux(options=["-c", table], cwd=tmp_path)
    instance.run("queue", "start", "--all")
    chosen = {queue: trace_event(instance, instance.submit("-q", queue, "true")) for queue in ("batch", "debug")}
    assert chosen["batch"]
    assert chosen["debug"] is None


def test_an_instance_does_not_start_with_a_bad_table(flux_program, flux_plugins, tmp_path):
    table = tmp_path / "conf.toml"
    table.write_text(f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n[tailrace]\njob = "all"\n')
    command = [flux_program, "start", "-c", table, "true"]
    options = {"capture_output": True, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, check=False, env=clean_environment(flux_program), **options)
    assert done.returncode
    assert "tailrace: [tailrace] job is no key of tailrace" in done.stderr


def test_a_reload_in_the_middle_loses_no_job_and_doubles_none(start_traced_flux, flux_plugins, tmp_path):
    instance = start_traced_flux(cwd=tmp_path)
    traced = "--setattr=user.trace.stage=s"
    instance.run("queue", "stop")
    before = instance.submit(traced, "true")
    load(instance, flux_plugins, "jobs=requested")
    assert trace_event(instance, before)
    instance.run("jobtap", "remove", "tailrace-jobtap.so")
    without = instance.submit(traced, "true")
    bad = instance.submit("--setattr=user.trace=7", "true")
    assert trace_event(instance, without) is None
    instance.run("jobtap", "load", flux_plugins.jobtap)
    # Jobs that came meanwhile and haven't begun are traced after all; what is wrong with one is not its end.
    instance.run("queue", "start")
    for job in (before, without, bad):
        instance.wait(job, "clean")
        assert instance.events(job, "finish")[0]["context"]["status"] == 0
    assert trace_event(instance, before)
    assert trace_event(instance, without)
    assert trace_event(instance, bad) is None


def test_a_restart_of_the_job_manager_loses_nothing_and_doubles_nothing(
    start_traced_flux, start_flux, flux_plugins, tmp_path
):
    state = tmp_path / "state"
    state.mkdir()
    table = tmp_path / "conf.toml"
    table.write_text(f'[[job-manager.plugins]]\nload = "{flux_plugins.jobtap}"\n')
    options = ["-c", table, f"-Sstatedir={state}"]
    first = start_flux(options=options, cwd=tmp_path)
    traced = "--setattr=user.trace.stage=s"
    ended = first.submit(traced, "true")
    first.wait(ended)
    first.run("queue", "stop")
    waiting = first.submit(traced, "true")
    held = first.submit(traced, "--urgency=hold", "true")
    first.run("jobtap", "remove", "tailrace-jobtap.so")
    unseen = first.submit(traced, "true")
    assert first.stop() == 0
    second = start_flux(options=options, cwd=tmp_path)
    second.run("queue", "start")
    for job in (waiting, unseen):
        second.wait(job)
        assert trace_event(second, job)["tags"]["stage"] == "s"
        assert second.ask("jobs", "-n", "-o", "{user.trace.stage} {user.trace.result}", job) == "s completed"
    assert trace_event(second, held)
    # The job manager has it again; job-list, which `flux jobs` asks, when it runs.
    code = "import flux; print(flux.Flux().rpc('job-manager.list', {'max_entries': 0}).get()['jobs'])"
    assert "{'user': {'trace': {'stage': 's'}}}" in second.ask("python", "-c", code)
    second.run("job", "urgency", held, "default")
    second.wait(held)
    assert second.ask("jobs", "-n", "-o", "{user.trace.stage} {user.trace.result}", held) == "s completed"
    assert trace_event(second, ended)
    assert (
        second.ask("jobs", "-a", "-n", "-o", "{user.trace.stage} {user.trace.result}", "-f", "inactive").count("s comp")
        == 4
    )


def test_a_few_eventlogs_at_a_time_are_read_after_a_restart(start_flux, flux_plugins, tmp_path):
    """With the messages of the job manager, as flux-module(1) shows them."""
    jobs = 300
    (tmp_path / "state").mkdir()
    options = [f"-Sstatedir={tmp_path}/state"]
    first = start_flux(options=options, cwd=tmp_path)
    held = first.submit("--urgency=hold", f"--cc=1-{jobs}", "--setattr=user.trace.stage=s", "true").split()
    assert first.stop() == 0
    second = start_flux(options=options, cwd=tmp_path)
    messages = tmp_path / "messages"
    words = [second.flux, "module", "trace", "--color=never", "--type=request,response", "job-manager"]
    with messages.open("w") as output, subprocess.Popen(words, env=second.env, stdout=output) as trace:
        while not messages.stat().st_size:
            second.run("jobtap", "list")
        second.run("jobtap", "load", flux_plugins.jobtap)
        while (query := json.loads(second.ask("jobtap", "query", "tailrace-jobtap.so")))["restored"]:
            time.sleep(0.1)
        trace.terminate()
    found = re.findall(r"(tx >|rx <) kvs\.lookup", messages.read_text())
    pending = list(itertools.accumulate(1 if direction == "tx >" else -1 for direction in found))
    assert len(found) >= 2 * jobs
    assert max(pending) <= 64
    assert (query["traced"], query["restored"]) == (jobs, 0)
    for job in (held[0], held[-1]):
        assert len(second.events(job, "tailrace.trace")) == 1


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace to see what the job manager opens")
def test_the_plugin_opens_no_file(start_traced_flux, tmp_path):
    instance = start_traced_flux("jobs=all", f"run={tmp_path}/the-run", cwd=tmp_path)
    (broker,) = instance.broker_pids()
    log = tmp_path / "strace"
    command = ["strace", "-f", "-e", "trace=%file,execve", "-o", str(log), "-p", str(broker)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        try:
            assert strace.stderr is not None
            assert "attached" in strace.stderr.readline()
            job = instance.submit("--setattr=user.trace.stage=s", "true")
            instance.wait(job)
        finally:
            strace.terminate()
    # Its children, the shells, do: only what the broker's own threads did counts.
    threads = {path.name for path in Path(f"/proc/{broker}/task").iterdir()}
    opened = [line for line in log.read_text().splitlines() if line.split()[0] in threads]
    assert opened
    assert not [line for line in opened if "tailrace" in line.split("(", 1)[-1] or "the-run" in line]


def test_the_manual_has_every_key(traced_flux, flux_plugins):
    page = (flux_plugins.root / "man" / "tailrace-jobtap.7").read_text()
    described = set(re.findall(r"^\.BR ([a-z-]+) \" = ", page, flags=re.MULTILINE))
    assert described == set(settings(traced_flux))
