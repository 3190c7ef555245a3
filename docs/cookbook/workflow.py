"""The workflow of the cookbook's run: words of a made text are split, sorted, merged, counted and reported.

    tailrace run -o run -- python3 -S workflow.py run

    generate -> split -> sort (x4) -> merge -> count -> report
                     \\-> sample (x4, ranks)        \\-> backup (nobody reads it)
    audit fails, and publish never runs; check fails once and is tried again

Two tasks run at a time. Each is a program with its tags in the environment; the declared DAG is written as
docs/declared-dag.md says. Planted: `sample` reads 64 bytes at random places, its rank 3 more often than the others;
`report` reads its input ten times; `backup` is never read; `check` is declared to wait for `merge` and reads nothing of
it. `run.tar.gz` is such a run, compacted, without the mounts of the machine that have nothing to do with it.
"""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GENERATE = """
import random
chance = random.Random(1)
words = ["%s%d" % (chance.choice("abcdefghijklmnopqrstuvwxyz"), chance.randrange(3000)) for _ in range(4000)]
with open("text.txt", "w") as text:
    for _ in range(15000):
        text.write(chance.choice(words) + "\\n")
"""
SAMPLE = """
import os, random, sys
chance, count = random.Random(1), int(sys.argv[2])
file = os.open("part-0" + sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
found = b"".join(os.pread(file, 64, chance.randrange(size - 64)) for _ in range(count))
with open("sample-" + sys.argv[1], "wb") as out:
    out.write(found)
"""
REPORT = """
from pathlib import Path
lines = [sum(len(line) for line in open("counts.txt")) for _ in range(10)]
Path("report.txt").write_text("%d\\n" % lines[0])
"""
CHECK = """
import sys
from pathlib import Path
if not Path("once").exists():
    Path("once").touch()
    sys.exit("not yet")
Path("checked").touch()
"""
AUDIT = "open('licence.txt')"
PYTHON = "/usr/bin/python3"


def python(program, *arguments):
    return [PYTHON, "-S", "-c", program, *arguments]


def shell(line):
    return ["sh", "-c", line]


FOUR = range(4)
# task -> (stage, command, the tasks it waits for, further tags)
TASKS = {
    "generate": ("generate", python(GENERATE), (), ""),
    "split": ("split", ["split", "-n", "l/4", "-d", "text.txt", "part-"], ("generate",), ""),
    **{f"sort-{i}": ("sort", ["sort", "-o", f"sorted-{i}", f"part-0{i}"], ("split",), "") for i in FOUR},
    **{
        f"sample-{i}": ("sample", python(SAMPLE, str(i), "1200" if i == 3 else "300"), ("split",), f",rank={i}")
        for i in FOUR
    },
    "merge": ("merge", shell("sort -m sorted-* > all.tmp && mv all.tmp all.txt"), [f"sort-{i}" for i in FOUR], ""),
    "count": ("count", shell("uniq -c all.txt | sort -rn > counts.txt"), ("merge",), ""),
    "backup": ("backup", ["cp", "counts.txt", "backup.txt"], ("count",), ""),
    "report": ("report", python(REPORT), ("count",), ""),
    "check": ("check", python(CHECK), ("merge",), ""),
    "audit": ("audit", python(AUDIT), ("count",), ""),
    "publish": ("publish", ["cp", "report.txt", "published.txt"], ("audit", "report"), ""),
}
TRIES = {"check": 2}


class Log:
    """The declared DAG of this run."""

    def __init__(self, run):
        name = f"script-{socket.gethostname()}-{os.getpid()}-{time.time_ns():x}.jsonl"
        self.file = (Path(run) / "declared" / name).open("a", encoding="utf-8")

    def line(self, **keys):
        self.file.write(json.dumps({"workflow": "words", **keys}) + "\n")
        self.file.flush()


def main():
    run = sys.argv[1]
    Path(run, "declared").mkdir(exist_ok=True)
    log = Log(run)
    log.line(type="workflow", manager="script", version="1", t_ns=time.time_ns(), config={})
    states = {}
    for task, (stage, _, before, _) in TASKS.items():
        deps = [{"task": one, "via": "afterok"} for one in before]
        words = {"kind": "bash", "name": stage, "deps": deps, "inputs": [], "outputs": []}
        log.line(type="task", stage=stage, task=task, t_submit_ns=time.time_ns(), **words)
    with ThreadPoolExecutor(2) as pool:
        running = {}
        while len(states) < len(TASKS):
            for task, (_, _, before, _) in TASKS.items():
                if task in running or task in states or any(one not in states for one in before):
                    continue
                if any(states[one] != "done" for one in before):
                    states[task] = "dep_failed"
                    ends = {"t_end_ns": time.time_ns(), "status": "dep_failed", "error": "audit failed"}
                    log.line(type="end", task=task, tries=0, **ends)
                    continue
                running[task] = pool.submit(attempt, log, task)
            for task in [one for one, future in running.items() if future.done() and one not in states]:
                states[task] = running[task].result()
            time.sleep(0.002)


def attempt(log, task):
    """Runs a task until it succeeds or has no tries left; how it ended."""
    stage, command, _, tags = TASKS[task]
    for number in range(TRIES.get(task, 1)):
        log.line(type="try", task=task, **{"try": number}, t_launch_ns=time.time_ns())
        environment = {**os.environ, "TAILRACE_TAGS": f"stage={stage},task={task},try={number},workflow=words{tags}"}
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        error = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode == 0:
            log.line(type="end", task=task, t_end_ns=time.time_ns(), status="done", tries=number + 1)
            return "done"
        ends = {"t_end_ns": time.time_ns(), "status": "failed", "error": error}
        log.line(type="try", task=task, **{"try": number}, **ends)
    log.line(type="end", task=task, tries=TRIES.get(task, 1), **ends)
    return "failed"


if __name__ == "__main__":
    main()
