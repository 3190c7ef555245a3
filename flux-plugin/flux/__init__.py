"""Flux: jobs that are traced when they ask for it, and what Flux knows of them.

    jobspec.py   traced(), trace_executor(): ask for a job to be traced, from Python
    collect.py   a Flux instance's job history as declared lines of a run
    history.py   what collect.py has run by Flux's own Python, to ask the instance
    analysis.py  a Dask cluster as one Flux job, for `tailrace report --flux-workers`
    paths.py     where the parts that Flux loads lie
    etc/         what Flux loads by itself: the command line plugin, rc scripts

The jobtap plugin and the shell plugin are C++. This package needs Flux's Python bindings for nothing: jobs are
submitted and asked for by the `flux` command, and a jobspec is taken as it comes.
"""

from tailrace.flux.jobspec import trace_executor, traced

__all__ = ["trace_executor", "traced"]
