"""Tracing for Maestro: the shell by which the scripts of their steps are run.

    tailrace run -o run -- maestro run -fg study.yaml        with `batch: {shell: <tailrace adapter maestro>}`
    tailrace declare --from STUDY run

shell    gives a script its step as stage and its own name as task, and runs it by bash
"""
