"""Which process read what which process wrote, by strace: the truth for a workflow's process-to-process file edges.

    [*strace_command(logs), *command]                 what to run
    edges(logs, below)                                {(writer pid, reader pid, path)}

All threads' calls are gone through in the order of their times, with the writers of each path's present content: an
open that truncates forgets them, a rename moves them, a read of at least one byte (or a mapping) makes an edge from
each of them. `edges` uses nothing of tailrace's.
"""

import os
import re
from pathlib import Path

from support.truth import CALL, COPIES, READS, WRITES, split_arguments

MOVES = ("rename", "renameat", "renameat2")
STARTS = ("clone", "clone3", "fork", "vfork")
TRACED = (*READS, *WRITES, *COPIES, *MOVES, *STARTS, "open", "openat", "creat", "unlink", "unlinkat", "mmap")
NAMED = re.compile(r"^(?:-?\d+|AT_FDCWD)<(.*?)>(?:\(deleted\))?$")


def strace_command(logs):
    """The beginning of a command that writes one log a thread into the folder `logs`, which is made."""
    logs.mkdir()
    tracer = ["strace", "-ff", "-qq", "-ttt", "-yy", "-s", "0", "--seccomp-bpf"]
    return [*tracer, "-e", f"trace={','.join(TRACED)}", "-o", str(logs / "log")]


def edges(logs, below):
    """(writer, reader, path) of files under `below`, pids of processes (not threads); a process's own are left out."""
    calls, leader = [], {}
    for log in logs.iterdir():
        thread = int(log.suffix[1:])
        for line in log.read_text(errors="surrogateescape").splitlines():
            at, _, text = line.partition(" ")
            found = CALL.match(text)
            if found is None or int(found[3]) < 0:
                continue
            if found[1] in STARTS:
                if "CLONE_THREAD" in found[2]:
                    leader[int(found[3])] = thread
            elif str(below) in text:
                calls.append((float(at), thread, found))
    content = _Content(str(below))
    for _, thread, found in sorted(calls, key=lambda call: call[0]):
        while thread in leader:
            thread = leader[thread]
        content.take(thread, found[1], split_arguments(found[2]), int(found[3]), found[4])
    return content.edges


class _Content:
    """Who wrote what each path holds now."""

    def __init__(self, below):
        self.below = below.rstrip("/") + "/"
        self.writers, self.edges = {}, set()

    def take(self, pid, call, arguments, result, opened):
        if call in READS:
            self._read(pid, self._path(arguments[0]), result)
        elif call in WRITES:
            self._write(pid, self._path(arguments[0]), result)
        elif call in COPIES:
            source, sink = (self._path(arguments[i]) for i in COPIES[call])
            self._read(pid, source, result)
            self._write(pid, sink, result)
        elif call == "mmap":
            self._read(pid, self._path(arguments[4]), 1)
        elif call in ("open", "openat", "creat"):
            if call == "creat" or any("O_TRUNC" in argument for argument in arguments):
                self.writers.pop(opened, None)
        else:
            names = [argument[1:-1] for argument in arguments if argument.startswith('"')]
            moved = self.writers.pop(os.path.normpath(names[0]), set())
            if call in MOVES:
                self.writers[os.path.normpath(names[1])] = moved

    def _path(self, argument):
        found = NAMED.match(argument)
        return found[1] if found and found[1].startswith(self.below) else None

    def _write(self, pid, path, size):
        if path and size > 0:
            self.writers.setdefault(path, set()).add(pid)

    def _read(self, pid, path, size):
        if path and size > 0:
            self.edges |= {(writer, pid, path) for writer in self.writers.get(path, ()) if writer != pid}


def seen_edges(run, below):
    """The same by tailrace's dataflow at the level of processes."""
    from tailrace.analyzer.model import dataflow

    model = dataflow.model(run)
    _, activities = dataflow.activities(model, "process")
    rows = dataflow.flow_table(model, "process", ("data", "software", "system"))
    pids = activities["pid"].to_numpy()
    found = {
        (int(pids[producer]), int(pids[consumer]), str(model.paths[file]))
        for producer, consumer, file in rows[["producer", "consumer", "file"]].to_numpy().tolist()
        if producer >= 0
    }
    inside = str(Path(below)) + "/"
    return {(writer, reader, path) for writer, reader, path in found if writer != reader and path.startswith(inside)}
