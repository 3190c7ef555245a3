"""Replays a WfFormat instance: every task is a real process that reads its declared inputs and writes its outputs.

    python replay.py INSTANCE FOLDER [--scale S] [--workers N] [--seconds-per-second F]

The instance's external inputs are made in FOLDER/files first, untraced; then the tasks run under `tailrace run`, each
in a process of its own, as soon as its parents have ended and a worker is free. FOLDER/run is the run. Sizes are those
of the instance times S, at least one byte and at most `--largest`; a task takes its runtime times F (default: none).

A file id that is absolute or climbs out of the folder is refused. What a task writes differs from task to task.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import traceback
from hashlib import sha256
from pathlib import Path

from tailrace import context
from tailrace.integrations import wfformat

CHUNK = 1 << 20


def size_of(instance, file, options):
    """Bytes of a file in the replay."""
    return max(1, min(int(instance.sizes.get(file, 0) * options.scale), options.largest))


def place_of(folder, file):
    """Where a file of the instance lies."""
    path = Path(os.path.normpath(folder / file))
    if folder not in path.parents:
        sys.exit(f"{file!r} would lie outside of {folder}")
    return path


def write(path, size, seed):
    """Writes `size` bytes that depend on `seed`."""
    pattern = sha256(seed.encode()).digest() * (CHUNK // 32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        while size > 0:
            size -= os.write(descriptor, pattern[: min(size, CHUNK)])
    finally:
        os.close(descriptor)


def read(path):
    """Reads all of a file. Returns its size."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        total = 0
        while part := os.read(descriptor, CHUNK):
            total += len(part)
        return total
    finally:
        os.close(descriptor)


def work(task, instance, folder, options):
    """What one task does, in its own process."""
    with context.scope(stage=task.stage, task=task.id):
        for file in task.inputs:
            read(place_of(folder, file))
        time.sleep(task.runtime_s * options.seconds_per_second)
        for file in task.outputs:
            write(place_of(folder, file), size_of(instance, file, options), f"{task.id} {file}")


def start(task, instance, folder, options):
    """Starts the process of a task. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(task, instance, folder, options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_tasks(instance, folder, options):
    """Runs all tasks, at most `options.workers` at once; a task that fails ends the replay."""
    waits = {name: len(task.parents) for name, task in instance.tasks.items()}
    children = {name: [] for name in instance.tasks}
    for task in instance.tasks.values():
        for parent in task.parents:
            children[parent].append(task.id)
    ready = [name for name, count in waits.items() if count == 0]
    running = {}
    while ready or running:
        while ready and len(running) < options.workers:
            name = ready.pop(0)
            running[start(instance.tasks[name], instance, folder, options)] = name
        pid, status = os.wait()
        name = running.pop(pid)
        if status:
            sys.exit(f"the task {name!r} failed (status {status})")
        for child in children[name]:
            waits[child] -= 1
            if waits[child] == 0:
                ready.append(child)


def prepare(instance, folder, options):
    """Makes the external inputs and all folders."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for task in instance.tasks.values():
        for file in (*task.inputs, *task.outputs):
            place_of(folder, file).parent.mkdir(parents=True, exist_ok=True)
    for file in sorted(instance.external_inputs()):
        write(place_of(folder, file), size_of(instance, file, options), f"external {file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instance", type=Path, help="a WfFormat file")
    parser.add_argument("folder", type=Path, help="where the files and the run go; its `files` is made anew")
    parser.add_argument("--scale", type=float, default=1e-6, help="bytes a byte of the instance (default: 1e-6)")
    parser.add_argument("--largest", type=int, default=64 << 20, help="no file is larger, in bytes (default: 64 MiB)")
    parser.add_argument("--workers", type=int, default=2, help="tasks at a time (default: 2)")
    parser.add_argument("--seconds-per-second", type=float, default=0.0, help="of a task's runtime (default: 0)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    instance = wfformat.read(options.instance)
    folder = options.folder.resolve() / "files"
    if options.inside:
        run_tasks(instance, folder, options)
        return
    prepare(instance, folder, options)
    traced = [sys.executable, "-m", "tailrace.cli.main", "run", "-o", str(folder.parent / "run")]
    traced += ["--tag", f"workflow={instance.name}", "--"]
    sys.exit(subprocess.call([*traced, sys.executable, *sys.argv, "--inside"], cwd=Path.cwd()))


if __name__ == "__main__":
    main()
