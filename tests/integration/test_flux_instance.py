"""The tests' own Flux instances: they start, run jobs and end."""

from pathlib import Path


def test_an_instance_runs_a_job_and_ends(start_flux, tmp_path):
    instance = start_flux(cwd=tmp_path)
    job = instance.submit("sh", "-c", "echo here > out")
    instance.wait(job)
    assert (tmp_path / "out").read_text() == "here\n"
    names = [event["name"] for event in instance.events(job)]
    assert names[0] == "submit"
    assert names[-1] == "clean"
    assert instance.events(job, "finish")[0]["context"]["status"] == 0
    assert instance.stop() == 0
    assert instance.broker_pids() == []


def test_a_killed_instance_is_gone(start_flux):
    instance = start_flux()
    brokers = instance.broker_pids()
    instance.kill()
    assert instance.process.poll() is not None
    assert not [pid for pid in brokers if Path(f"/proc/{pid}").exists()]
