"""`tailrace flux check` says of a policy what Flux would say, with the jobtap plugin's own code and without Flux."""

import json

import pytest

from support.commands import run_cli

POLICY = """
[[job-manager.plugins]]
load = "/opt/lib/tailrace-jobtap.so"
conf = { jobs = "all" }

[tailrace]
names = ["sim*", "ana*"]
queues = ["batch"]
stages = { "sim_[0-9]*" = "simulate" }
stage-numbers = false
run = "/scratch/{user}/{{id.f58plain}}"
"""


@pytest.fixture
def policy(flux_plugins, tmp_path):
    def write(text):
        (tmp_path / "tailrace.toml").write_text(text)
        return tmp_path / "tailrace.toml"

    return write


def test_a_good_policy_and_what_it_does_to_jobs(policy, tmp_path):
    jobspec = {"attributes": {"user": {"trace": {"stage": 7, "colour": "red"}}}}
    (tmp_path / "job.json").write_text(json.dumps(jobspec))
    names = ["sim_12", "ana-7", "ana7b", "other"]
    asked = [word for name in names for word in ("--job", name)]
    path = policy(POLICY)
    done = run_cli(
        "flux", "check", path, *asked, "--queue", "batch", "--jobspec", tmp_path / "job.json", "--format", "json"
    )
    found = json.loads(done.stdout)
    assert (found["settings"]["jobs"], found["settings"]["sample"]) == ("all", 1.0)
    assert [job["verdict"] for job in found["jobs"]] == ["trace", "trace", "trace", "leave", "reject"]
    assert [job["event"]["tags"]["stage"] for job in found["jobs"][:3]] == ["simulate", "ana", "ana7b"]
    assert 'attributes.user.trace has no key "colour"' in found["jobs"][-1]["fault"]
    shown = run_cli("flux", "check", path, "--job", "sim_1").stdout
    assert "stage-numbers" in shown and shown.split()[-2:] == ["sim_1", "no"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tailrace]\njbos = 1\n", "[tailrace] jbos is no key of tailrace: give one of jobs"),
        ("[tailrace]\nsample = 2\n", "[tailrace] sample is 2: give a number from 0 to 1"),
        ('[tailrace]\nstages = { "a*" = "x\\n" }\n', 'stages a*: tag "stage": the value has a control character'),
        ('[tailrace]\nstages = { "a*" = 3 }\n', "stages a*: the stage is an integer: give text"),
        ("[tailrace\n", "Expected"),
    ],
)
def test_a_faulty_policy_is_refused_with_the_plugins_words(policy, text, said):
    done = run_cli("flux", "check", policy(text))
    assert done.returncode == 2 and "tailrace.toml: " in done.stderr and said in done.stderr
