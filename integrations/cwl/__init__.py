"""Tracing for cwltool: the I/O of every job is tagged with workflow, step and job.

python -m tailrace.cwl workflow.cwl job.yml

__main__.py   is `cwltool`, with the jobs followed
jobs.py       what runs every job: its scope, and what is declared of it
steps.py      which step a job is of, and what that takes of others
"""
