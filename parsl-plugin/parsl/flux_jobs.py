"""Parsl's FluxExecutor: each task is a Flux job of its own, and its process starts traced.

    submit() -> queue -> the executor's thread: _submit_single_job() makes the jobspec -> flux.job.FluxExecutor.submit()

The executor has no option for the jobs' environment: it gives them that of this process. So the function that makes the
jobspecs, which all FluxExecutors share, is replaced once. It hands them to a stand-in for the flux.job.FluxExecutor,
which adds the variables of the executor, recognized by its working directory, and passes them on. An executor that is
not traced is served as before.
"""

from collections.abc import Callable, Mapping
from typing import Any

from parsl.executors import FluxExecutor
from parsl.executors.flux import executor as flux_module

_SUBMIT = "_submit_single_job"

_variables: dict[str, dict[str, str]] = {}
"""Of each traced executor, by its working directory."""


def can_be_traced() -> bool:
    """Whether this version of Parsl makes its jobspecs where we can add to them."""
    return callable(getattr(flux_module, _SUBMIT, None))


def trace_jobs(executor: FluxExecutor, variables: Mapping[str, str], preload: str) -> None:
    """Makes the jobs of `executor` start with `variables` and the library `preload`."""
    _variables[executor.working_dir] = {**variables, "LD_PRELOAD": preload}
    original = getattr(flux_module, _SUBMIT)
    if not isinstance(original, _Submission):
        setattr(flux_module, _SUBMIT, _Submission(original))


class _Submission:
    """In place of Parsl's function that submits a job."""

    def __init__(self, original: Callable[..., None]) -> None:
        self._original = original

    def __call__(self, flux_executor: Any, working_dir: str, job: Any) -> None:
        variables = _variables.get(working_dir)
        self._original(_Adding(flux_executor, variables) if variables else flux_executor, working_dir, job)


class _Adding:
    """In place of a flux.job.FluxExecutor: adds variables to the jobs' environment."""

    def __init__(self, flux_executor: Any, variables: Mapping[str, str]) -> None:
        self._executor = flux_executor
        self._variables = variables

    def submit(self, jobspec: Any, *args: Any, **kwargs: Any) -> Any:
        """flux.job.FluxExecutor.submit()."""
        environment = dict(jobspec.environment)
        preloads = ":".join(filter(None, [self._variables["LD_PRELOAD"], environment.get("LD_PRELOAD")]))
        jobspec.environment = {**environment, **self._variables, "LD_PRELOAD": preloads}
        # Where an instance traces all jobs, its plugin would trace this one as well, into another run.
        jobspec.setattr("user.trace", False)
        return self._executor.submit(jobspec, *args, **kwargs)
