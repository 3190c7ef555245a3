"""What every workflow manager needs, once: run directories, the environment of a traced task, launching, declaring.

    rundir.py       make or open a run directory, describe the run and its hosts in run.json
    environment.py  the environment that puts the core and the tags into a process
    launcher.py     run a command traced, and seal what its dead processes left
    pool.py         the same around a worker pool, for plugins (`python -m tailrace.integrations.pool`)
    declared.py     what the manager knows of its tasks, as JSON lines
    programs.py     what keeps a program from being traced
    wfformat.py     the graph of any manager, as a WfFormat instance, read and declared

A plugin composes these; nothing here knows a workflow manager.
"""
