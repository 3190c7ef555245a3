"""Tracing for cwltool: the I/O of every job is tagged with workflow, step and job.

python -m tailrace.cwl workflow.cwl job.yml

__main__.py   is `cwltool`, with the jobs followed
jobs.py       one method of cwltool's runs every job: its scope, and what is declared of it
manager.py    for `tailrace managers`
"""
