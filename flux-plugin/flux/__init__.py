"""Flux: traced jobs, and their history as a declared DAG.

    jobspec.py   traced(), trace_executor(): request tracing of a job, from Python
    history.py   queries an instance's job history; run by Flux's own Python
    declared_jobs.py  the jobs of a history as declared lines: tags, run, workflow, times
    collect.py   writes a Flux instance's job history to the declared DAG of runs
    declared_folder.py  the declared files of a run that may belong to another user
    analysis.py  a Dask cluster as one Flux job, for `tailrace report --flux-workers`
    paths.py     where the parts that Flux loads are installed
    etc/         Python and Lua that Flux loads: the command line plugin, rc scripts

The jobtap plugin and the shell plugin are C++. Only history.py and etc/ need Flux's Python bindings: everything else
uses the `flux` command, and accepts jobspecs as objects or dicts.
"""

from tailrace.flux.jobspec import trace_executor, traced

__all__ = ["trace_executor", "traced"]
