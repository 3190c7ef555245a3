"""Tracing for Merlin: the shell by which the scripts of its steps are run.

    tailrace run -o run -- merlin run --local study.yaml     with `batch: {shell: <tailrace adapter merlin>}`
    tailrace declare --from STUDY_TIME run

shell    gives a script its step as stage, its own name with its sample's as task, and its try, and runs it by bash
"""
