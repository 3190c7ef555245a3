"""A Snakemake that another one started for a job or a group of jobs: tags what it runs, and tells how it ended.

Its own I/O (its modules, the Snakefile, the graph of jobs) has no stage and no task. It seals what dead processes of
its node left, since the driver may be on another one.

It runs as `python -m tailrace.snakemake`, since logger plugins are not loaded in it. A task is rule and wildcards: each
spawned Snakemake numbers its jobs anew.
"""

import logging
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from tailrace import context
from tailrace import tags as tag_strings
from tailrace.integrations.task_tags import TaskTags, tag_value
from tailrace.integrations.workflow import seal
from tailrace.snakemake import jobs
from tailrace.snakemake.driver import INNER
from tailrace.snakemake.hand_over import Orders, Told, tell
from tailrace.snakemake.running import Running

_log = logging.getLogger("tailrace.snakemake")


class Spawned:
    """hooks.Observer of a part of a workflow."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._tags = TaskTags("", orders.workflow)
        self._traced = context.active()

    def begin(self, scheduler: Any) -> None:
        pass

    def running(self, executor: Any, job: Any, spawned: bool) -> AbstractContextManager[None] | None:
        if not self._traced or spawned or not jobs.is_task(job):
            return None
        name = jobs.task(job)
        tags = self._tags.of(tag_value(jobs.stage(job)), name, int(job.attempt) - 1)
        jobid = self._orders.jobids.get(name)
        if jobid is not None:
            tags = tag_strings.merge(tags, tag_strings.encode({"jobid": jobid}))
        return Running(tags, partial(self._ran, name, int(job.attempt)))

    def command(self, executor: Any, job: Any, command: str) -> str:
        ours, found = INNER.subn(" -m tailrace.snakemake", command, count=1)
        return f"export {self._orders.assignment()} && {ours}" if found and self._traced else command

    def finished(self, job: Any) -> None:
        pass

    def failed(self, job: Any, attempt: int, again: bool) -> None:
        pass

    def end(self) -> None:
        directory = context.run_directory() if self._traced else None
        if directory is not None:
            context.flush()
            seal(Path(directory))

    def _ran(self, name: str, attempt: int, began_ns: int, ended_ns: int, error: str) -> None:
        try:
            tell(self._orders.told, Told(name, attempt, began_ns, ended_ns, error))
        except OSError as fault:
            _log.debug("tailrace: can't tell how %s ran: %s", name, fault)
