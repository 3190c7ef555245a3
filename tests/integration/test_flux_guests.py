"""Jobs of other users: what the job manager decides about them, by its own requests with another user's id.

Signing a job as another user, and starting its shell as that user, need flux-security. So these jobs are submitted as
job-ingest submits them, with urgency hold.
"""

import json

import pytest

GUEST = 4242


@pytest.fixture
def instance(start_traced_flux, tmp_path):
    """An instance that lets guests in, and the plugin's conf as given."""

    def start(*conf):
        table = tmp_path / "conf.toml"
        table.write_text("[access]\nallow-guest-user = true\n")
        return start_traced_flux(*conf, options=["-c", table], cwd=tmp_path)

    return start


def as_guest(flux):
    """The environment of a command whose requests are the guest's."""
    return {**flux.env, "FLUX_HANDLE_USERID": str(GUEST), "FLUX_HANDLE_ROLEMASK": "0x2"}


SUBMIT = """
import flux, json, sys, time
from flux.job import JobID
jobspec = json.load(sys.stdin)
jobspec["attributes"]["system"].pop("environment", None)
job = {"id": int(sys.argv[1]), "userid": int(sys.argv[2]), "urgency": 0, "flags": 0, "t_submit": time.time()}
answer = flux.Flux().rpc("job-manager.submit", {"jobs": [{**job, "jobspec": jobspec}]}).get()
print(answer["errors"][0][1] if answer["errors"] else JobID(job["id"]).f58)
"""


def guest_job(flux, *words):
    """The id of a held job of the guest, or why it was rejected.

    The request is the one that job-ingest makes when it has checked the guest's signature, for which there must be
    flux-security.
    """
    jobspec = flux.ask("run", "--dry-run", *words)
    number = int(flux.ask("job", "id", "--to=dec", flux.submit("--urgency=hold", "true"))) + 1
    return flux.ask("python", "-c", SUBMIT, number, GUEST, input=jobspec)


def events(flux, job):
    return {event["name"]: event["context"] for event in flux.events(job) if "context" in event}


def test_a_guests_own_job_is_traced_as_the_guest(instance, flux_plugins):
    flux = instance()
    job = guest_job(flux, "--setattr=user.trace.stage=s", "true")
    found = events(flux, job)
    assert found["submit"]["userid"] == GUEST
    assert found["tailrace.trace"]["tags"] == {"stage": "s"}
    assert found["tailrace.trace"]["library"] == str(flux_plugins.library)


def test_a_guests_bad_tag_is_rejected(instance):
    flux = instance()
    answer = guest_job(flux, "--setattr=user.trace.tags.X=1", "true")
    assert answer.startswith('tailrace: attributes.user.trace: tag "X": the key is not')


def test_a_guest_cannot_choose_the_library(instance):
    flux = instance()
    answer = guest_job(flux, "--setattr=user.trace.library=/home/guest/mine.so", "true")
    assert 'attributes.user.trace has no key "library"' in answer


def test_guests_are_untraced_where_the_configuration_excludes_them(instance):
    flux = instance("jobs=all", "guests=false")
    assert "tailrace.trace" not in events(flux, guest_job(flux, "--setattr=user.trace.stage=s", "true"))
    assert "tailrace.trace" not in events(flux, guest_job(flux, "--setattr=user.trace=1.5", "true"))
    assert "tailrace.trace" in events(flux, flux.submit("--urgency=hold", "true"))


REQUEST = """
import flux, json, sys
try:
    flux.Flux().rpc(sys.argv[1], json.loads(sys.argv[2])).get()
except OSError as error:
    print(error)
"""


def test_a_guest_cannot_have_anothers_job_traced(instance, flux_plugins):
    flux = instance()
    job = flux.submit("--urgency=hold", "true")
    number = int(flux.ask("job", "id", "--to=dec", job))
    event = {"version": 1, "library": "/home/guest/mine.so", "run": "/home/guest", "tags": {}}
    requests = {
        "job-manager.post-event.post": {"id": number, "name": "tailrace.trace", "context": event},
        "job-manager.memo": {"id": number, "memo": {"trace": {"stage": "theirs"}}},
        "job-manager.update": {"id": number, "updates": {"attributes.user.trace": True}},
        "job-manager.jobtap": {"load": str(flux_plugins.jobtap), "conf": {"jobs": "all"}, "remove": "all"},
    }
    for topic, request in requests.items():
        answer = flux.ask("python", "-c", REQUEST, topic, json.dumps(request), env=as_guest(flux))
        assert answer, topic
    found = events(flux, job)
    assert not {"tailrace.trace", "memo", "jobspec-update"} & set(found)
    shown = json.loads(flux.ask("jobtap", "query", "tailrace-jobtap.so"))
    assert shown["settings"]["jobs"] == "requested"
