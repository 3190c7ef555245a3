"""Tracing for Snakemake: the I/O of every job is tagged with workflow, stage (its rule), task and try.

    snakemake --logger tailrace ...                                                Snakemake 8 and later
    snakemake --log-handler-script "$(tailrace adapter snakemake)" ...             Snakemake 7

    hooks.py        where Snakemake calls us: its scheduler, its local executor, what makes the commands of its jobs
    jobs.py         a job in our words: task, files, dependencies, resources
    driver.py       the process that runs the workflow: declares its tasks, tags those that it runs itself
    spawned.py      a Snakemake that runs a part of the workflow, on another node or for a `run:` directive
    hand_over.py    what the one gives the other
    log_handler.py  Snakemake 7 loads this file by its path
    __main__.py     `python -m tailrace.snakemake` is `python -m snakemake` with the hooks

The logger plugin is the module snakemake_logger_plugin_tailrace in plugins/: Snakemake finds plugins by their names.
Its logger tells too little: not the thread that runs a job, not the dependencies.
"""
