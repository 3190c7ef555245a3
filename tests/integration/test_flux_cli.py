"""The Flux command line plugin in Flux's own Python, and `tailrace flux paths`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.commands import TAILRACE
from tailrace.flux.paths import PARTS

PLUGINS = next(part.folder for part in PARTS if part.name == "cli")


@pytest.fixture
def asked(flux):
    """`flux PROG --dry-run WORDS...` with the plugin: the result, with `trace` and `environment` of the jobspec."""

    def run(prog, *words, env=None):
        environment = {**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS), **(env or {})}
        done = flux.run(prog, "--dry-run", *words, env=environment, check=False)
        attributes = json.loads(done.stdout)["attributes"] if done.returncode == 0 else {"system": {}}
        done.trace = (attributes.get("user") or {}).get("trace")
        done.submitter = (attributes.get("user") or {}).get("tailrace", {}).get("submitter")
        done.environment = attributes["system"].get("environment", {})
        return done

    return run


@pytest.mark.parametrize(
    ("words", "trace"),
    [
        (["prog"], None),
        (["--trace", "-n1", "prog", "--trace=mine"], {}),
        (["--trace", "--", "prog", "-x"], {}),
        (["--trace=sim", "prog"], {"stage": "sim"}),
        (["--trace", "--trace-tag=stage=sim", "prog"], {"stage": "sim"}),
        (
            ["--trace=a", "--trace-tag", "workflow=w", "--trace-tag", "k.x=1=2, ü", "p"],
            {"stage": "a", "workflow": "w", "tags": {"k.x": "1=2, ü"}},
        ),
        (["--trace=new", "--setattr=user.trace.tags.x=y", "prog"], {"stage": "new", "tags": {"x": "y"}}),
        (["--trace", "--trace-run=/data/run", "prog"], {"run": "/data/run"}),
        (["--no-trace", "prog"], False),
    ],
)
def test_the_options_become_an_attribute(asked, words, trace):
    assert asked("submit", *words).trace == trace


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        (["run", "--trace=sim", "prog"], True),
        (["alloc", "--trace", "-n1"], True),
        (["alloc", "--trace", "-n1", "--bg"], False),
        (["submit", "--trace=sim", "prog"], False),
        (["submit", "--trace", "--wait", "prog"], True),
        (["submit", "--trace", "--watch", "prog"], True),
        (["submit", "--trace", "--wait-event=start", "prog"], False),
        (["batch", "--trace", "-n1", "--wrap", "prog"], False),
    ],
)
def test_a_traced_job_has_its_submitter_and_whether_that_waits(asked, words, waits):
    found = asked(*words).submitter
    assert (found["host"], found["waits"]) == (os.uname().nodename, waits)
    assert found["pid"] > 1
    assert asked("run", "prog").submitter is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trace", "prog", "-n1"], ["--trace=prog", "--trace -- prog"]),
        (["--trace=", "prog"], ["--trace=STAGE"]),
        (["--trace", "--no-trace", "prog"], ["exclude each other"]),
        (["--trace-tag=a=b", "prog"], ["add --trace"]),
        (["--trace", "--trace-tag=ab", "prog"], ["'ab'", "key=value"]),
        (["--trace", "--trace-tag=A=b", "prog"], ['"A"', "[a-z]"]),
        (["--trace", "--trace-tag=a=", "prog"], ['"a"', "empty"]),
        (["--trace=" + "x" * 1025, "prog"], ['"stage"', "1024"]),
        (["--trace=a\nb", "prog"], ['"stage"']),
        (["--trace", "--trace-tag=job=1", "prog"], ["'job'", "Flux"]),
        (["--trace=a", "--trace-tag=stage=b", "prog"], ["two stages"]),
    ],
)
def test_a_wrong_option_is_named_with_the_rule(asked, words, said):
    done = asked("submit", *words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for part in said:
        assert part in done.stderr


@pytest.mark.parametrize("prog", ["submit", "run", "bulksubmit", "batch", "alloc"])
def test_every_way_to_submit_has_the_option(flux, prog):
    done = flux.run(prog, "--help", env={**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS)})
    for option in ("--trace", "--trace-tag", "--trace-run", "--no-trace"):
        assert option in done.stdout


def test_every_job_of_bulksubmit_requests_tracing(flux):
    env = {**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS)}
    words = ["--trace=bulk", "--trace-tag=k=v", "--job-name={}", "true", ":::", "one", "two"]
    jobs = flux.run("bulksubmit", *words, env=env).stdout.split()
    for job in jobs:
        flux.wait(job)
        attributes = json.loads(flux.ask("job", "info", job, "jobspec"))["attributes"]
        assert attributes["user"]["trace"] == {"stage": "bulk", "tags": {"k": "v"}}
    assert len(jobs) == 2


TEMPLATES = [
    (
        ["bulksubmit", "--trace={}", "--trace-tag=k={seq}", "--trace-run=r-{0./}", "true", ":::", "one", "/x/two"],
        [("one", {"k": "0"}, "r-one"), ("/x/two", {"k": "1"}, "r-two")],
    ),
    (
        ["submit", "--cc=7-8", "--trace=s{cc}", "--trace-tag=k={cc}", "--trace-run=r/{{id}}-{cc}", "true"],
        [("s7", {"k": "7"}, "r/{{id}}-7"), ("s8", {"k": "8"}, "r/{{id}}-8")],
    ),
    (
        ["bulksubmit", "--cc=1-2", "--trace={}", "--trace-tag=k={cc}", "true", ":::", "a"],
        [("a", {"k": "1"}, None), ("a", {"k": "2"}, None)],
    ),
    (["submit", "--trace=s{cc}", "true"], [("s{cc}", None, None)]),
]


@pytest.mark.parametrize(("words", "expected"), TEMPLATES, ids=lambda value: " ".join(map(str, value)))
def test_templates_of_flux_are_filled_in_the_options(flux, words, expected):
    env = {**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS)}
    jobs = flux.run(words[0], "--urgency=hold", *words[1:], env=env).stdout.split()
    specs = [json.loads(flux.ask("job", "info", job, "jobspec"))["attributes"] for job in jobs]
    flux.run("cancel", *jobs)
    traces = [spec["user"]["trace"] for spec in specs]
    assert [(one["stage"], one.get("tags"), one.get("run")) for one in traces] == [
        (stage, tags, run and str(Path(flux.cwd) / run)) for stage, tags, run in expected
    ]


def test_a_wrong_tag_by_a_template_is_named_with_the_rule(flux):
    env = {**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS)}
    done = flux.run("bulksubmit", "--trace={}", "true", ":::", "x" * 1025, env=env, check=False)
    assert done.returncode != 0
    assert '"stage"' in done.stderr and "1024" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_batch_script_can_request_tracing(asked, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n# flux: -n1\n# flux: --trace=campaign\ntrue\n")
    done = asked("batch", script)
    assert done.trace == {"stage": "campaign"}


def test_only_a_traced_job_loads_the_shell_plugin(asked):
    folder = PLUGINS.parents[1] / "shell"
    mine = {"FLUX_SHELL_RC_PATH": f"/mine:{folder}"}
    assert asked("submit", "--trace", "-n1", "true", env=mine).environment["FLUX_SHELL_RC_PATH"] == f"{folder}:/mine"
    assert asked("submit", "-n1", "true", env=mine).environment["FLUX_SHELL_RC_PATH"] == mine["FLUX_SHELL_RC_PATH"]


def plugin_alone(folder):
    """Settings that lead to the command line plugin without anything beside it."""
    (folder / "tailrace_trace.py").write_text((PLUGINS / "tailrace_trace.py").read_text())
    return {"FLUX_CLI_PLUGINPATH": str(folder)}


def test_without_the_core_beside_it_the_plugin_still_works(asked, tmp_path):
    found = {"FLUX_SHELL_RC_PATH": str(PLUGINS.parents[1] / "shell")}
    words = ("--trace=s", "--trace-tag=A=left to the jobtap plugin", "true")
    done = asked("submit", *words, env={**plugin_alone(tmp_path), **found})
    assert done.trace == {"stage": "s", "tags": {"A": "left to the jobtap plugin"}}


def test_without_a_shell_plugin_a_request_is_refused_and_other_jobs_are_not(start_flux, tmp_path):
    instance = start_flux()
    env = {**instance.env, **plugin_alone(tmp_path)}
    done = instance.run("submit", "--trace=s", "true", env=env, check=False)
    assert done.returncode == 1
    assert "--trace would trace nothing" in done.stderr and "--no-binary tailrace tailrace" in done.stderr
    for words in ((), ("--no-trace",)):
        instance.run("submit", *words, "true", env=env)


def test_a_shell_plugin_that_only_the_instance_knows_is_found(flux_plugins, start_flux, tmp_path):
    instance = start_flux(options=[f"-Sconf.shell_pluginpath=/nowhere:{flux_plugins.shell_folder}"])
    instance.run("submit", "--trace=s", "true", env={**instance.env, **plugin_alone(tmp_path)})


def test_the_help_of_the_option_describes_its_use(flux):
    done = flux.run("submit", "--help=trace", env={**flux.env, "FLUX_CLI_PLUGINPATH": str(PLUGINS)})
    assert "--trace=STAGE" in done.stdout


def paths(*words, env=None):
    command = [*TAILRACE, "flux", "paths", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_printed_settings_make_flux_find_the_option(flux):
    exports = paths("--format", "shell").stdout
    script = f"{exports}\nexec {flux.flux} submit --dry-run --trace=sim true"
    done = subprocess.run(["sh", "-c", script], env=flux.env, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["attributes"]["user"]["trace"] == {"stage": "sim"}


def test_one_part_of_the_settings_is_printed_by_name():
    done = paths("cli")
    assert done.stdout.strip() == str(PLUGINS / "tailrace_trace.py")
    wrong = paths("clx")
    assert wrong.returncode == 2
    assert "modprobe" in wrong.stderr
    listed = json.loads(paths("--format", "json").stdout)
    assert set(listed) == {part.name for part in PARTS}
