"""A script that is killed when it has written, and what was recorded of it: in a container as outside."""

from pathlib import Path

from support.run_files import Trace

# Writes by the shell itself, and a program with a pipe; then the shell is killed.
SCRIPT = "for i in 1 2 3 4 5 6 7 8 9; do echo $i >> log; done; cat log log | sort > sorted; kill -9 $$"


def moved(run: Path, work: Path) -> set[tuple[str, str, int]]:
    """(file, direction, bytes), summed up; work: where the script ran."""
    sums: dict[tuple[str, str], int] = {}
    trace = Trace(run)
    for name in ("log", "sorted"):
        for event in trace.of(work / name, {"read", "write", "fread", "fwrite", "fflush", "fclose"}):
            key = (name, event["args"].get("dir", event["name"]))
            sums[key] = sums.get(key, 0) + int(event["args"].get("size", 0))
    return {(*key, size) for key, size in sums.items() if size}
