"""Tracing for CWL by toil: the I/O of every job is tagged with workflow, step and job.

python -m tailrace.toil workflow.cwl job.yml

__main__.py   is `toil-cwl-runner`, with the leader followed
leader.py     starts its workers with the adapter, and declares at the end what no worker could
worker.py     is `_toil_worker`, with the jobs followed
places.py     which step a job belongs to: toil's own names leave that out for scatters and subworkflows
jobs.py       CWLJob.run runs every job: its scope, and what is declared of it
"""
