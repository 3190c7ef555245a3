"""Samples that the launcher takes of the node and of processes, compared with what programs and the kernel say."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.browser_page import NO_BROWSER, browser
from support.commands import TAILRACE
from tailrace import open as open_run
from tailrace.analyzer.store import samples

__all__ = ["browser"]

BUSY = """
    import os, resource, sys, time
    held = bytearray(200 << 20)
    begin = time.time_ns()
    while time.process_time() < 1.5: sum(range(1000))
    end = time.time_ns()
    time.sleep(0.4)
    measured = time.time_ns()
    used = resource.getrusage(resource.RUSAGE_SELF)
    rss = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
    print(os.getpid(), begin, end, time.process_time_ns(), rss, used.ru_nvcsw + used.ru_nivcsw, measured)
"""


def traced(run: Path, *command: Any, rate: str | None = "20", **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "TAILRACE_SAMPLE"}
    environment |= {"TAILRACE_SAMPLE": rate} if rate is not None else {}
    words = [*TAILRACE, "run", "-q", "-o", str(run), "--", *map(str, command)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120, **options)


def until_sampled(run: Path) -> tuple[str, str, str]:
    """A command that goes on until the node has been sampled ten times, however late the samples come."""
    return "sh", "-c", f"""until [ "$(cat '{run}'/samples/*.jsonl | grep -c '"node"')" -ge 10 ]; do sleep 0.05; done"""


def test_a_process_is_sampled_as_it_says_of_itself(tmp_path: Path) -> None:
    done = traced(tmp_path / "run", sys.executable, "-c", dedent(BUSY))
    assert done.returncode == 0, done.stderr
    pid, begin, end, used_ns, memory, switches, measured = map(int, done.stdout.split())
    run = open_run(tmp_path / "run")
    assert run.samples.problems == []
    mine = run.samples.processes[run.samples.processes["pid"] == pid]
    identities = {(p.host, p.pid, p.start) for p in run.processes.itertuples()}
    assert set(zip(mine["host"], mine["pid"], mine["start"], strict=True)) <= identities
    inside = mine[(mine["ts"] >= begin) & (mine["ts"] <= end)]
    assert len(inside) >= 5
    last = mine[mine["ts"] < measured].iloc[-1]
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    taken = int(last["user_ns"] + last["system_ns"])
    assert 0.9 * 1.5e9 <= taken <= used_ns + 2 * tick
    assert abs(int(mine["memory_bytes"].max()) - memory) < 16 << 20
    assert 0 < int(last["switches"]) <= switches
    assert mine["switches"].is_monotonic_increasing and set(mine["threads"]) == {1}
    rates = run.samples.process_rates()
    busy = rates[(rates["pid"] == pid) & (rates["begin_ns"] >= begin) & (rates["end_ns"] <= end)]
    span = (busy["end_ns"] - busy["begin_ns"]) / 1e9
    had = float(((busy["user_ns"] + busy["system_ns"]) * span).sum())
    used = inside["user_ns"] + inside["system_ns"]
    assert abs(had * 1e9 - float(used.iloc[-1] - used.iloc[0])) < 2 * tick and had > 0


def test_the_node_is_sampled_as_the_kernel_says(tmp_path: Path) -> None:
    def kernel() -> tuple[int, int]:
        text = Path("/proc/stat").read_text()
        user = sum(map(int, text.splitlines()[0].split()[1:3]))
        found = re.search(r"^ctxt (\d+)$", text, re.MULTILINE)
        assert found
        return user * 10**9 // os.sysconf("SC_CLK_TCK"), int(found[1])

    before, t0 = kernel(), time.time_ns()
    traced(tmp_path / "run", *until_sampled(tmp_path / "run"))
    after, t1 = kernel(), time.time_ns()
    node = open_run(tmp_path / "run").samples.node
    assert len(node) >= 10 and node["n"].tolist() == list(range(len(node)))
    assert node["ts"].between(t0, t1).all()
    for name, low, high in zip(("user_ns", "switches"), before, after, strict=True):
        assert node[name].between(low, high).all() and node[name].is_monotonic_increasing
    total = int(next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line).split()[1])
    assert set(node["memory_bytes"]) == {total * 1024}
    assert (node["available_bytes"] <= node["memory_bytes"]).all()
    assert set(node["processors"]) == {os.sysconf("SC_NPROCESSORS_ONLN")}


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="the kernel tells no pressure")
def test_pressure_is_that_of_the_kernel(tmp_path: Path) -> None:
    def total() -> int:
        return int(Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) * 1000

    low = total()
    many = len(os.sched_getaffinity(0)) + 2
    script = f"for i in $(seq {many}); do timeout 0.7 sh -c 'while :; do :; done' & done; wait"
    traced(tmp_path / "run", "sh", "-c", script)
    high = total()
    told = open_run(tmp_path / "run").samples.node["cpu_some_ns"]
    assert told.between(low, high).all() and int(told.iloc[-1]) > int(told.iloc[0])


def test_nothing_is_sampled_by_default(tmp_path: Path) -> None:
    traced(tmp_path / "run", "true", rate=None)
    assert not (tmp_path / "run" / "samples").exists()
    assert open_run(tmp_path / "run").samples.node.empty


@pytest.mark.parametrize("rate", ["0", "-1", "101", "fast", "1.234", "100.5", "1e1"])
def test_a_bad_rate_is_named_with_what_is_valid(tmp_path: Path, rate: str) -> None:
    done = traced(tmp_path / "run", "true", rate=rate)
    assert done.returncode == 2
    assert "TAILRACE_SAMPLE" in done.stderr and "a number above 0 and up to 100" in done.stderr


def test_a_killed_launcher_leaves_its_samples(tmp_path: Path) -> None:
    words = [*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--", "sleep", "30"]
    with subprocess.Popen(words, env={**os.environ, "TAILRACE_SAMPLE": "50"}) as launcher:
        path: list[Path] = []
        while not path or path[0].read_text().count('"node"') < 10:
            path = list((tmp_path / "run" / "samples").glob("*.jsonl"))
            time.sleep(0.01)
        children = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True, check=True)
        launcher.kill()
    for child in children.stdout.split():
        os.kill(int(child), 9)
    found = samples.read(tmp_path / "run")
    assert len(found.node) >= 10 and found.problems == []


def test_damaged_and_missing_samples_are_told(tmp_path: Path) -> None:
    traced(tmp_path / "run", *until_sampled(tmp_path / "run"))
    (path,) = (tmp_path / "run" / "samples").glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    nodes = [i for i, line in enumerate(lines) if '"node"' in line]
    lines[nodes[2]] = lines[nodes[2]][:40] + "\n"
    path.write_text("".join(lines))
    found = samples.read(tmp_path / "run")
    assert len(found.node) == len(nodes) - 1
    name = f"samples/{path.name}"
    assert found.problems == [f"{name}: 1 damaged line", f"{name}: 1 missing sample"]
    assert len(found.node_rates()) == len(nodes) - 2


@NO_BROWSER
def test_the_timeline_has_a_row_for_the_node(tmp_path: Path, browser: Any) -> None:
    traced(tmp_path / "run", sys.executable, "-c", dedent(BUSY))
    page = tmp_path / "page.html"
    subprocess.run([*TAILRACE, "report", tmp_path / "run", "--html", page], check=True, capture_output=True)
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(page.as_uri())
    (node,) = open_run(tmp_path / "run").samples.node["host"].unique()
    assert node in tab.locator('[data-key="n0"]').inner_text()
    tab.locator('[data-key="n0"] .tree-name').click()
    memory = tab.locator('[data-key="n0used"]')
    assert "at most" in memory.inner_text()
    box = memory.locator("canvas").bounding_box()
    memory.locator("canvas").hover(position={"x": box["width"] / 2, "y": 10})
    assert re.search(r"used, 2\d\d MiB resident in this run", tab.locator("body").inner_text())
    assert errors == []
    tab.close()


def test_the_report_has_the_samples(tmp_path: Path) -> None:
    done = traced(tmp_path / "run", sys.executable, "-c", dedent(BUSY))
    pid, used_ns = (int(done.stdout.split()[at]) for at in (0, 3))
    words = [*TAILRACE, "report", str(tmp_path / "run"), "--format", "json"]
    report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    (node,) = report["samples"]["nodes"]
    spans = [(end - begin) / 1e3 for begin, end in zip(node["from"], node["to"], strict=True)]
    mine = sum(value * span for value, span in zip(node["run_busy"], spans, strict=True))
    # All that it used between its first sample and its last one, which may come late.
    taken = open_run(tmp_path / "run").samples.processes.query("pid == @pid")[["user_ns", "system_ns"]].sum(axis=1)
    assert abs(mine - (taken.iloc[-1] - taken.iloc[0]) / 1e9) < 0.05
    assert 0.9 * 1.5e9 <= taken.iloc[-1] <= used_ns + 2 * 10**9 // os.sysconf("SC_CLK_TCK")
    assert max(node["run_used"]) >= 200 << 20
    assert node["processors"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert all(len(node[name]) == len(spans) for name in ("busy", "used", "switches", "cpu", "memory_some", "io"))
