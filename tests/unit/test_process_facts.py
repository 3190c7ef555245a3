"""The columns of a run's processes that are read from what their start and end say."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support.trace_writer import block, event, make_run

ID = "0123456789abcdef" * 4


def row(directory: Path, start: dict[str, Any], end: dict[str, Any] | None = None) -> dict[str, Any]:
    """The only process of a run, by its column names; None for null."""
    lines = [event("start", cat="PROCESS", ppid=1, exe="/bin/p", argv=[], cwd="/", uid=0, **start)]
    if end is not None:
        lines.append(event("exit", cat="PROCESS", code=0, **end))
    (found,) = tailrace.open(make_run(directory / "run", {"a": block(lines)})).processes.to_dict("records")
    return {str(name): None if not isinstance(v, list | dict) and pd.isna(v) else v for name, v in found.items()}


@pytest.mark.parametrize(
    "group",
    [
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/kubepods/burstable/pod1/cri-containerd-{ID}.scope",
        f"/machine.slice/libpod-{ID}.scope/container",
        f"/kubepods/pod1/{ID}",
    ],
)
def test_a_container_is_identified_by_its_control_group(tmp_path: Path, group: str) -> None:
    found = row(tmp_path, {"cgroup": group, "cpus": "0-3,8"})
    assert (found["container"], found["cgroup"], found["cpus"]) == (ID, group, "0-3,8")


@pytest.mark.parametrize("start", [{}, {"cgroup": 7, "cpus": [1]}, {"cgroup": f"/user.slice/{ID}0", "cpus": None}])
def test_missing_facts_are_null(tmp_path: Path, start: dict[str, Any]) -> None:
    found = row(tmp_path, start)
    assert found["container"] is None and found["cpus"] is None
    assert all(found[name] is None for name in ("utime_ns", "stime_ns", "maxrss_kib", "minflt", "oublock"))


def test_what_it_used(tmp_path: Path) -> None:
    used = {"utime": 2**40, "stime": 5, "maxrss": 6, "minflt": 7, "majflt": 8, "inblock": 9, "oublock": "many"}
    found = row(tmp_path, {}, used)
    names = ("utime_ns", "stime_ns", "maxrss_kib", "minflt", "majflt", "inblock", "oublock")
    assert [found[name] for name in names] == [2**40, 5, 6, 7, 8, 9, None]
    assert found["account"]["maxrss"] == 6
