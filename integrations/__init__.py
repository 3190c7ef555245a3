"""What the plugins of all workflow managers share: run directories, traced environments, launching, declaring.

    rundir.py       create or open a run directory; describe the run and its hosts in run.json
    environment.py  the environment that preloads the core and carries the tags
    launcher.py     run a command traced, then seal the journals of its dead processes
    pool.py         the same for a worker pool, for plugins (`python -m tailrace.integrations.pool`)
    declared_log.py the writer of declared lines: what a manager states about its tasks
    messages.py     lines on stderr
    programs.py     how a module of ours is started
    wfformat.py     a declared DAG from a WfFormat file

A plugin combines these; nothing here depends on a workflow manager.
"""
