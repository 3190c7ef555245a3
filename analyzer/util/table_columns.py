"""The columns of every table that leaves the analyzer: CSV, JSON and pandas. docs/tables.md is made from here.

    TABLES[name].columns[column] -> (unit, meaning)

Invariants: tools/tables_docs.py writes the page, and tests compare it, and compare the tables of real runs with these.
The columns of events are in store/schema.py; those of a comparison in insights/run_comparison.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Columns = Mapping[str, tuple[str, str]]
"""column -> unit ("" for a name, a flag or a count), meaning."""

TIME, NS, BYTES, SHARE = "ns since the epoch", "ns", "bytes", "0..1"


@dataclass(frozen=True)
class Table:
    """source: the Python and, where there is one, the command that gives it; row: what a row is; columns."""

    source: str
    row: str
    columns: Columns


_TASK = {
    "workflow": ("", "workflow tag"),
    "stage": ("", "stage tag; null: untagged"),
    "task": ("", "task tag"),
}
_PROCESS = {
    "host": ("", "node on which the process ran"),
    "pid": ("", "process id"),
    "start": ("ns since the epoch, hex", "when tracing of it began; distinguishes processes of one pid"),
}
_MOVED = {
    "events": ("", "events"),
    "read_bytes": (BYTES, "bytes read, each counted once, at the system-call level"),
    "written_bytes": (BYTES, "bytes written, each counted once, at the system-call level"),
}
_SPAN = {"t0_ns": (TIME, "begin of the first event"), "t1_ns": (TIME, "end of the last event")}
_KERNEL = {
    "kernel_read": (BYTES, "bytes read, by the kernel's byte accounting; null without one"),
    "kernel_written": (BYTES, "bytes written, by the kernel's byte accounting"),
    "captured_read": (BYTES, "bytes read in recorded calls that the kernel counts"),
    "captured_written": (BYTES, "bytes written in recorded calls that the kernel counts"),
    "ahead": (BYTES, "of both: read ahead by libc, and consumed by no call"),
    "share": (SHARE, "captured bytes by the kernel's; null without byte accounting"),
}
_ENDED = {
    "signal": ("", "signal that ended the process; null: none"),
    **_KERNEL,
    "cause": ("", "why the share is low"),
    "cause_key": ("", "its key (docs/report.md, Coverage)"),
    "run_ns": (NS, "time of its threads on a processor"),
    "ready_ns": (NS, "time of its threads ready, waiting for a processor; null: not known"),
    "ready_of_ns": (NS, "time on a processor of those threads whose ready_ns is known: run_ns, where it is complete"),
}
_DECLARED = {
    "kind": ("", "python, bash, join, job, instance, ..."),
    "name": ("", "name by the workflow manager"),
    "executor": ("", "executor or queue"),
    "parent": ("", "join task, job or other manager's task that it belongs to"),
    "parent_workflow": ("", "workflow of `parent`; null: the same"),
    "t_submit_ns": (TIME, "submitted"),
    "t_depend_ns": (TIME, "no longer waiting for another task"),
    "t_launch_ns": (TIME, "first try handed to the executor"),
    "t_alloc_ns": (TIME, "nodes allocated"),
    "t_start_ns": (TIME, "began to run"),
    "t_end_ns": (TIME, "ended"),
    "t_clean_ns": (TIME, "resources released"),
    "status": ("", "done, failed, memoized, dep_failed, canceled; null: no end was declared"),
    "tries": ("", "how often it was started"),
    "error": ("", "why it failed"),
    "result": ("", "the workflow manager's word for how it ended"),
    "nodes": ("", "hosts, list"),
    "ranks": ("", "ranks of the nodes, idset"),
    "cores": ("", "processor cores"),
    "holds": ("", "what else it waited for, list"),
    "annotations": ("", "other facts by the workflow manager, object"),
    "submitter": ("", "process that submitted it, object"),
}
_EDGE = {
    "source": ("", "id of the node at its begin"),
    "target": ("", "id of the node at its end"),
    "kind": ("", "flow, read, write, base, part"),
}
_ACCESS = {
    "bytes": (BYTES, "bytes moved"),
    "first_ns": (TIME, "begin of the first call"),
    "last_ns": (TIME, "end of the last call"),
    "confidence": ("", "how certain the edge is (docs/report.md)"),
}

TABLES = {
    "files": Table(
        "run.files",
        "a trace file",
        {
            "file": ("", "trace file, relative to the run"),
            "kind": ("", "tailrace or foreign"),
            "size_bytes": (BYTES, "its size, compressed"),
            "mtime_ns": (TIME, "when it was changed last"),
            "blocks": ("", "blocks"),
            "events": ("", "events"),
        },
    ),
    "processes": Table(
        "run.processes",
        "a traced process",
        {
            **_PROCESS,
            "ppid": ("", "pid of its parent"),
            "exe": ("", "program"),
            "argv": ("", "arguments, list"),
            "cwd": ("", "working directory when it began"),
            "uid": ("", "user id"),
            **_SPAN,
            "exit": ("", "exit code; null: unknown, or ended by a signal"),
            "account": ("", "arguments of its exit event, object"),
            **_MOVED,
            "cpus": ("", "CPU affinity when it began, as 0-3,8"),
            "cgroup": ("", "control group"),
            "container": ("", "id of the container in the control group's path"),
            "utime_ns": (NS, "CPU time of the program"),
            "stime_ns": (NS, "CPU time of the kernel for it"),
            "maxrss_kib": ("KiB", "largest resident memory"),
            "minflt": ("", "page faults without I/O"),
            "majflt": ("", "page faults with I/O"),
            "inblock": ("512 bytes", "blocks read from devices"),
            "oublock": ("512 bytes", "blocks written to devices"),
            **_ENDED,
        },
    ),
    "coverage": Table(
        "run.coverage",
        "a process that was traced, or that a traced one waited for",
        {
            **_PROCESS,
            "exe": ("", "program"),
            "traced": ("", "whether it left a trace"),
            "account": ("", "source of the kernel's figures: exit, parent, or null"),
            **_ENDED,
        },
    ),
    "losses": Table(
        "run.losses",
        "a trace file and a cause",
        {
            "file": ("", "trace file, relative to the run"),
            "cause": ("", "cause of the loss"),
            "unit": ("", "what was lost: events, bytes, blocks, lines, files"),
            "count": ("unit", "how much was lost"),
            "problem": ("", "a sentence about it, or empty"),
        },
    ),
    "stages": Table(
        "run.stages",
        "a stage of a workflow",
        {
            "workflow": ("", "workflow tag"),
            "stage": ("", "stage tag; null: untagged"),
            "tasks": ("", "distinct task tags"),
            "processes": ("", "processes with events in it"),
            **_MOVED,
            **_SPAN,
        },
    ),
    "tasks": Table(
        "run.tasks",
        "a task with events, or a declared one",
        {
            **_TASK,
            "job": ("", "job of the resource manager"),
            "processes": ("", "processes with events in it"),
            **_MOVED,
            **_SPAN,
            **_DECLARED,
        },
    ),
    "declared_workflows": Table(
        "run.declared_workflows",
        "a workflow",
        {
            "workflow": ("", "workflow tag"),
            "manager": ("", "workflow manager"),
            "version": ("", "its version"),
            "t_ns": (TIME, "when it began"),
            "config": ("", "its configuration, JSON text"),
        },
    ),
    "declared_tasks": Table("run.declared_tasks", "a declared task", {**_TASK, **_DECLARED}),
    "declared_deps": Table(
        "run.declared_deps",
        "a declared dependency",
        {
            "workflow": ("", "workflow tag"),
            "task": ("", "task that waits"),
            "dep": ("", "task that it waits for"),
            "via": ("", "future, file, or the workflow manager's word"),
            "path": ("", "file that it is about"),
        },
    ),
    "declared_files": Table(
        "run.declared_files",
        "a declared input or output",
        {
            "workflow": ("", "workflow tag"),
            "task": ("", "task tag"),
            "direction": ("", "r: input, w: output"),
            "path": ("", "file"),
            "url": ("", "its URL"),
        },
    ),
    "declared_tries": Table(
        "run.declared_tries",
        "a try of a declared task",
        {
            "workflow": ("", "workflow tag"),
            "task": ("", "task tag"),
            "try": ("", "its number, from 0"),
            "t_launch_ns": (TIME, "handed to the executor"),
            "t_end_ns": (TIME, "when it failed; null: it did not"),
            "status": ("", "how it failed"),
            "error": ("", "why it failed"),
        },
    ),
    "declared_waits": Table(
        "run.declared_waits",
        "a wait of the submitting program before it submitted a task",
        {
            "workflow": ("", "workflow tag"),
            "task": ("", "task that was submitted then"),
            "awaited": ("", "task that was over"),
            "after": ("", "task that was submitted before, with its waits"),
        },
    ),
    "command_ends": Table(
        "run.command_ends",
        "a command that tailrace run started, by time",
        {
            "host": ("", "node on which it ran"),
            "pid": ("", "process id"),
            "status": ("", "as waitpid(2) gives it"),
            "end_ns": (TIME, "when it ended"),
        },
    ),
    "process_ranks": Table(
        "run.process_ranks",
        "a process that has a rank of a parallel program",
        {
            "host": ("", "node on which it ran"),
            "pid": ("", "process id"),
            "start": ("ns since the epoch, hex", "when tracing of it began; distinguishes processes of one pid"),
            "rank": ("", "its rank, as text"),
            "world_size": ("", "how many ranks were started; null: not known"),
        },
    ),
    "declared_problems": Table(
        "run.declared_problems",
        "a line of a declared file that could not be used",
        {"file": ("", "declared file"), "line": ("", "its number, from 1"), "problem": ("", "what is wrong with it")},
    ),
    "outcomes": Table(
        "run.outcomes",
        "a declared task, failures first",
        {
            **_TASK,
            "status": ("", "failed, killed, timeout, canceled, dep_failed, memoized, retried or done; null: no end"),
            "tries": ("", "how often it was started"),
            "error": ("", "why it failed; of a retried task, why its first try did"),
            "begin_ns": (TIME, "when it was started first; null: never"),
            "end_ns": (TIME, "when it ended"),
            "lost_ns": (NS, "time in tries that failed"),
        },
    ),
    "waits": Table(
        "run.waits",
        "a declared task",
        {
            **_TASK,
            "depend_ns": (NS, "waiting for other tasks, or for a hold"),
            "data_ns": (
                NS,
                "of depend_ns: until the last byte it reads of other tasks was written, less the next",
            ),
            "upstream_ns": (NS, "of that: while the writer, or the writer's own source, was queued"),
            "order_ns": (NS, "of depend_ns: the rest, waiting for predecessors"),
            "queue_ns": (NS, "ready, until nodes were allocated"),
            "start_ns": (NS, "nodes allocated, until it ran; an instance: until its program ran"),
            "run_ns": (NS, "running"),
            "io_ns": (NS, "of run_ns: with at least one call on a file running"),
            "wait_ns": (NS, "of run_ns: waiting for a processor, processes, pipes, sockets, locks, or asleep"),
            "compute_ns": (NS, "of run_ns: the rest, on a processor as far as the kernel tells"),
            "stop_ns": (NS, "its program was over, until it ended: of an instance, else 0"),
        },
    ),
    "find_files": Table(
        "run.find_files(NAME)",
        "a file that the name means",
        {
            "file": ("", "identity of the file"),
            "path": ("", "its last name"),
            "ftype": ("", "reg, dir, lnk, chr, blk, fifo, sock, anon"),
            "found": ("", "that one of its names by which it was found"),
            "how": ("", "whole, relative, ending or link"),
        },
    ),
    "info": Table(
        "run.info(), tailrace info RUN --format json",
        "one object",
        {
            "path": ("", "directory of the run"),
            "run_id": ("", "id of the run"),
            "foreign": ("", "of another tracer's trace: format, title, notes on what it lacks; else null"),
            "hashed_names": ("", "where names are hashed, the fingerprint of the key; else null"),
            "command": ("", "command, list; null: of a run that several batch jobs share"),
            "jobs": ("", "the batch jobs that share the run, list; empty where they don't"),
            "created": ("", "when the run began, ISO 8601"),
            "hosts": ("", "hosts, list"),
            "trace_files": ("", "trace files"),
            "compressed_bytes": (BYTES, "their size"),
            "processes": ("", "traced processes"),
            "contexts": ("", "distinct sets of tags"),
            "workflows": ("", "workflow tags"),
            "stages": ("", "stage tags"),
            "tasks": ("", "task tags"),
            "declared_tasks": ("", "declared tasks"),
            "declared_problems": ("", "lines of declared files that could not be used"),
            "outcomes": ("", "status of declared tasks -> how many, object"),
            "outcome": ("", "the same and the end of the command in words; empty where all went well"),
            "blocks": ("", "blocks"),
            "events": ("", "events"),
            "totals": ("", "lines that each stand for several calls (docs/trace-format.md)"),
            "totals_since_ns": ("ns", "when the first of them begins; null: there are none"),
            "sealing_ns": ("ns", "processor time in which sealers made the blocks of the trace"),
            "self_sealing_ns": ("ns", "the same of processes that sealed for themselves"),
            **_SPAN,
            "raw_bytes": (BYTES, "size of the blocks, uncompressed"),
            "read_bytes": _MOVED["read_bytes"],
            "written_bytes": _MOVED["written_bytes"],
            "coverage": ("", "sums of run.coverage, object (below)"),
            "losses": ("", "sums of run.losses: objects of cause, unit and count, list"),
        },
    ),
    "info.coverage": Table(
        "run.info()['coverage']",
        "one object",
        {
            "processes": ("", "traced processes"),
            "accounted": ("", "those with byte accounting"),
            "untraced": ("", "processes that left no trace, with byte accounting"),
            "left_out": ("", "processes that TAILRACE_UNTRACED excluded"),
            "below": ("", "processes below 99.9 %"),
            **_KERNEL,
            "causes": (
                "",
                "processes that were not fully seen by cause: objects of key, cause, advice, processes,"
                " kernel_bytes, missing_bytes and program (of the one that misses most), list",
            ),
        },
    ),
    "graph.nodes": Table(
        "tailrace graph RUN --format json, nodes; tailrace export --to graphml and dot",
        "a node; which columns it has depends on its kind",
        {
            "id": ("", "name of the node, unique in the graph"),
            "kind": ("", "workflow, stage, task, process, file, package, dataset"),
            "label": ("", "name to show"),
            **_TASK,
            **_PROCESS,
            "exe": ("", "program of a process"),
            "commands": ("", "command lines of a task's or process's processes, list"),
            "file": ("", "identity of a file"),
            "path": ("", "last name of a file"),
            "aliases": ("", "its other names, list"),
            "version": ("", "number of the version; 0: from before the run"),
            "bytes": (BYTES, "written to the version; of version 0 the extent that was read"),
            "ftype": ("", "type of the file"),
            "external": ("", "whether it is from before the run"),
            "files": ("", "files of a package"),
            "dataset": ("", "name of a dataset in its file"),
            "status": ("", "how a declared task ended"),
            "tries": ("", "how often a declared task was started"),
            "error": ("", "why it failed"),
            "slack_ns": (NS, "how much longer it could have taken without a longer makespan"),
            "path_ns": (NS, "its part of the critical path"),
            "critical": ("", "whether it has no slack"),
            "compute_ns": (NS, "of path_ns: outside of calls, on a processor as far as the kernel tells"),
            "ready_ns": (NS, "of path_ns: waiting for a processor"),
            "io_ns": (NS, "of path_ns: file I/O"),
            "lock_ns": (NS, "of path_ns: waiting for locks of files"),
            "socket_ns": (NS, "of path_ns: on sockets, or until one was ready"),
            "sleep_ns": (NS, "of path_ns: sleeping"),
            "polling_ns": (NS, "of path_ns: until one of several descriptors was ready, or the time was over"),
            "pipe_ns": (NS, "of path_ns: on pipes, or until one was ready"),
            "thread_ns": (NS, "of path_ns: waiting for its own threads, or for signals"),
            "wait_ns": (NS, "of path_ns: waiting for processes outside of the task"),
            "elsewhere_ns": (NS, "of path_ns: blocked outside of recorded calls"),
            "gap_ns": (NS, "of path_ns: before its tasks began"),
            "least_slack_ns": (NS, "least slack of a stage's tasks"),
            "in_max": ("", "most tasks that a task of the stage took data of"),
            "out_max": ("", "most tasks that a task of the stage gave data to"),
            "size": (BYTES, "end of the last known byte of a file"),
            "live_ns": (NS, "from its first write to its last use"),
            "again_bytes": (BYTES, "bytes that its readers read more than once"),
            "never_read": ("", "whether no other task than its writers read it"),
            "intermediate": ("", "whether it was written in the run and read by another task"),
        },
    ),
    "graph.edges": Table(
        "tailrace graph RUN --format json, edges; tailrace export --to graphml and dot",
        "an edge; which columns it has depends on its kind",
        {
            **_EDGE,
            **_ACCESS,
            "calls": ("", "calls"),
            "unsized": ("", "calls on a dataset whose size is unknown"),
            "unique_bytes": (BYTES, "distinct bytes of a flow"),
            "files": ("", "files of a flow, or of a package's read"),
            "extents": (BYTES, "byte ranges, list of [begin, end)"),
            "exact": ("", "whether the extents cover nothing else"),
            "own": ("", "whether the reader wrote the version itself"),
            "raced": ("", "whether a newer version began during the read"),
            "critical": ("", "whether the critical path goes over it"),
        },
    ),
    "graph": Table(
        "tailrace graph RUN --format json",
        "one object",
        {
            "format": ("", "tailrace-graph"),
            "version": ("", "1"),
            "level": ("", "what a node is: workflow, stage, task or process"),
            "files": ("", "which files are nodes: none, shared or all"),
            "cycles": ("", "cycles that times do not resolve"),
            "clocks_ahead_ns": (NS, "host -> by how much its clock was ahead, object"),
            "makespan_ns": (NS, "from the first task's begin to the last task's end"),
            "bound_ns": (NS, "the longest chain of work"),
            "nodes": ("", "list (above)"),
            "edges": ("", "list (above)"),
        },
    ),
}
"""Every table but those of events and of comparisons."""
