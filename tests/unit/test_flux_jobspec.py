"""traced() and trace_executor() on plain jobspecs; with Flux's own objects: tests/integration/test_flux_python.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import TagError, UsageError
from tailrace.flux import trace_executor, traced


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them there would be a warning: test_flux_paths.py."""
    monkeypatch.setattr("tailrace.flux.jobspec.find_shell_plugin", lambda _: Path("tailrace-shell.so"))


def test_a_jobspec_requests_tracing() -> None:
    jobspec: dict[str, Any] = {"attributes": {"system": {"duration": 0}, "user": {"mine": 1}}}
    assert traced(jobspec, "sim", workflow="w", tags={"campaign": "x", "n": 3}, run="/data/run") is jobspec
    trace = {"workflow": "w", "stage": "sim", "tags": {"campaign": "x", "n": "3"}, "run": "/data/run"}
    assert jobspec["attributes"] == {"system": {"duration": 0}, "user": {"mine": 1, "trace": trace}}
    assert traced({})["attributes"]["user"]["trace"] == {}  # type: ignore[typeddict-item]
    assert traced(jobspec, trace=False)["attributes"]["user"]["trace"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"stage": ""}, "stage"),
        ({"stage": "a\nb"}, "stage"),
        ({"tags": {"A": "b"}}, "A"),
        ({"tags": {"a": 1.5}}, "float"),
        ({"tags": {"stage": "s"}}, "stage="),
        ({"tags": {"job": "1"}}, "Flux"),
        ({"tags": {f"k{i}": "v" * 1000 for i in range(9)}}, "8192"),
    ],
)
def test_a_wrong_tag_is_an_error_that_names_it(arguments: dict[str, Any], said: str) -> None:
    jobspec: dict[str, Any] = {}
    with pytest.raises(TagError, match=said):
        traced(jobspec, **arguments)
    assert "user" not in jobspec.get("attributes", {})


def test_an_invalid_jobspec_and_a_relative_run_are_refused() -> None:
    with pytest.raises(UsageError, match="list"):
        traced([], "sim")
    with pytest.raises(UsageError, match="absolute"):
        traced({}, "sim", run="runs/1")


class Executor:
    """What an executor is for trace_executor: something with submit."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def submit(self, jobspec: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen.append((jobspec, args, kwargs))
        return len(self.seen)


def test_an_executor_traces_what_it_submits() -> None:
    executor = Executor()
    assert trace_executor(executor, lambda jobspec: jobspec["name"], workflow="w", tags={"k": 1}) is executor
    own = traced({"name": "own"}, "mine")
    assert [executor.submit({"name": "a"}, 1, waitable=True), executor.submit(own)] == [1, 2]
    (first, args, kwargs), (second, *_) = executor.seen
    assert first["attributes"]["user"]["trace"] == {"workflow": "w", "stage": "a", "tags": {"k": "1"}}
    assert (args, kwargs) == ((1,), {"waitable": True})
    assert second["attributes"]["user"]["trace"] == {"stage": "mine"}
    with pytest.raises(TagError):
        trace_executor(executor, "a\nb")
