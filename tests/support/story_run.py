"""A story as a run on disk, so that commands can be run on it: its events as trace files, its tables as declared files.

Each process of the story is a trace file of one block. The files lie on one network file system, as the identities of a
story have no host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

import tailrace
from support import trace_writer as tw
from support.flowcase import FakeRun
from tailrace.analyzer.run import Run

ARGS = (
    "ret",
    "errno",
    "offset",
    "size",
    "count",
    "dir",
    "flags",
    "prot",
    "ahead",
    "calls",
    "span",
    "timeout_ns",
    "at_once",
    "holder",
    "run_ns",
    "ready_ns",
    "object",
    "workflow",
    "stage",
    "task",
    "job",
    "rank",
)


def on_disk(story: FakeRun, directory: Path) -> Run:
    """The run of a story, written to a directory and opened."""
    processes: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in story.rows:
        processes.setdefault((row["host"], row["pid"]), []).append(row)
    ended = [row for row in story.processes.to_dict("records") if not pd.isna(row.get("exit"))]
    facts = {(row["host"], row["pid"]): _facts(row) for row in ended}
    files = {f"{h}-{pid}-187a": _block(h, pid, rows, facts.get((h, pid))) for (h, pid), rows in processes.items()}
    hosts = [{"host": host, "boot_id": host, "mounts": [_mount()]} for host in sorted({host for host, _ in processes})]
    first, *others = hosts or [{"host": tw.HOST}]
    text = "".join(json.dumps(line) + "\n" for line in _declared(story))
    tw.make_run(directory, files, {**first, "cwd": "/", "restarts": others}, **({"test-n1-1-1": text} if text else {}))
    _write_accounts(story, directory)
    return tailrace.open(directory)


def _mount() -> dict[str, str]:
    return {"dev": "8:1", "point": "/", "source": "server:/", "root": "/", "fstype": "nfs4", "options": "rw"}


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """The keys of a header about a process and its end."""
    begin = {"exe": row["exe"], "argv": row["argv"], "ppid": int(row["ppid"])}
    end = {"code": int(row["exit"])}
    if not pd.isna(row.get("ready_ns")):
        begin["cpus"] = row["cpus"]
        end.update({name: int(row[name]) for name in ("run_ns", "ready_ns", "ready_of_ns")})
    if "minflt" in row:
        usage = {"utime": "utime_ns", "stime": "stime_ns", "maxrss": "maxrss_kib", "minflt": "minflt"}
        end.update({key: int(row[name]) for key, name in usage.items()})
    return {"process": begin, "exit": end}


def _write_accounts(story: FakeRun, directory: Path) -> None:
    """What `tailrace run` writes of its command's end."""
    for number, end in enumerate(story.command_ends.to_dict("records")):
        (directory / "accounts").mkdir(exist_ok=True)
        row = {"host": end["host"], **{key: int(end[key]) for key in ("pid", "status")}, "ns": int(end["end_ns"])}
        (directory / "accounts" / f"{number}.json").write_text(json.dumps({**row, "rchar": 0, "wchar": 0}))


def _block(host: str, pid: int, rows: list[dict[str, Any]], facts: dict[str, Any] | None) -> bytes:
    hashes: dict[tuple[str, str], str] = {}
    kinds = {row["path"]: row["ftype"] for row in rows if row.get("path")}
    events = [_event(row, hashes) for row in rows]
    blocks = {row["path"]: row["blksize"] for row in rows if row.get("blksize")}
    names = [
        tw.file_line(
            value,
            path,
            int(identity.split(":")[2]),
            "8:1",
            btime=None,
            kind=kinds.get(path, "reg"),
            blksize=blocks.get(path),
        )
        for (path, identity), value in hashes.items()
    ]
    return tw.block([tw.host_line(host), *names, *events], {"host": host, "pid": pid, **(facts or {})})


def _event(row: dict[str, Any], hashes: dict[tuple[str, str], str]) -> tw.Line:
    args = {name: row[name] for name in ARGS if row.get(name) is not None}
    args.update({name: json.loads(row[name]) for name in ("dims", "chunk", "slab") if row.get(name)})
    for key, path, file in (("fhash", "path", "file"), ("fhash2", "path2", "file2")):
        if row.get(path):
            args[key] = hashes.setdefault((row[path], row[file]), f"{len(hashes) + 1:x}")
    ts_us, ns = divmod(row["ts"], 1000)
    line = tw.event(row["name"], ts_us, row["dur"] / 1000, row["pid"], row["cat"], ns=ns, **args)
    return {**line, "tid": row["tid"]}


def _declared(story: FakeRun) -> list[dict[str, Any]]:
    """A line for each declared workflow, and one for each task, with its dependencies and files."""
    rows = story.declared_workflows.to_dict("records")
    out: list[dict[str, Any]] = [{"type": "workflow", **row, "config": json.loads(row["config"])} for row in rows]
    for task in story.declared_tasks.to_dict("records"):
        task = {key: value for key, value in task.items() if isinstance(value, list | dict) or not pd.isna(value)}
        line = {"type": "task", **{key: task[key] for key in ("workflow", "stage", "task")}, "name": task["task"]}
        deps = _of(story.declared_deps, task["task"])
        told = [(row["dep"], *(_known(row.get(key)) for key in ("via", "path"))) for row in deps]
        line["deps"] = [dict(zip(("task", "via", "path"), dep, strict=True)) for dep in told]
        files = _of(story.declared_files, task["task"])
        for name, direction in (("inputs", "r"), ("outputs", "w")):
            line[name] = [{"path": row["path"], "url": None} for row in files if row["direction"] == direction]
        times = {key: int(task[key]) for key in ("t_submit_ns", "t_end_ns") if key in task}
        out.append({**line, **times})
        if "t_end_ns" in times:
            end = {key: task[key] for key in ("tries", "error") if key in task}
            key = {key: line[key] for key in ("workflow", "task")}
            out.append({"type": "end", **key, **times, "status": "done", **end, **_status(task)})
    for row in story.declared_tries.to_dict("records"):
        known = {key: value for key, value in row.items() if not pd.isna(value)}
        out.append({"type": "try", **known})
    for wait in story.declared_waits.to_dict("records"):
        awaited = [wait["awaited"]] if isinstance(wait["awaited"], str) else []
        after = {"after": wait["after"]} if isinstance(wait["after"], str) else {}
        out.append({"type": "wait", "workflow": wait["workflow"], "task": wait["task"], "awaited": awaited, **after})
    return out


def _known(value: Any) -> Any:
    return None if pd.isna(value) else value


def _status(task: dict[str, Any]) -> dict[str, Any]:
    return {"status": task["status"]} if "status" in task else {}


def _of(table: pd.DataFrame, task: str) -> list[dict[str, Any]]:
    return [row for row in table.to_dict("records") if row["task"] == task]
