"""The queries that the page offers: each gives the number beside it, and names pass through the shell unharmed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import tailrace
from support import trace_writer as tw
from support.browser_page import NAMES, NO_BROWSER, browser, pages, show
from support.flowcase import Story
from tailrace.analyzer import summary
from tailrace.analyzer.report import html
from tailrace.analyzer.util import shell

__all__ = ["browser", "pages", "show"]
pytestmark = NO_BROWSER


def test_every_number_has_its_query(show: Any) -> None:
    page = show()
    for tile in page.tab.locator("#numbers button").all():
        tile.click()
        assert "run = tailrace.open" in page.panel()
        page.tab.keyboard.press("Escape")
    for at in page.tab.locator(".head .small-button:visible").all():
        at.click()
        assert "/runs/story" in page.text("#panel pre"), "the query names the run"
        page.tab.keyboard.press("Escape")


def test_a_query_is_copied_whole(show: Any) -> None:
    page = show()
    page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.tab.locator("#numbers button", has_text="Tasks").click()
    page.tab.get_by_role("button", name="Copy: On the command line").click()
    page.tab.locator("#panel [role=status]", has_text="copied").wait_for()
    copied = page.tab.evaluate("navigator.clipboard.readText()")
    assert copied == "tailrace query /runs/story --by workflow,stage --agg nunique:task"


def test_a_query_passes_only_the_name_to_the_shell(show: Any) -> None:
    page = show()
    for name in NAMES:
        page.tab.locator("#search").fill(name.split("\u2028")[0])
        page.tab.locator("#file-table tbody button", has_text="/out/0/").first.click()
        command = page.tab.locator("#panel pre code").first.text_content()
        pattern = "".join(f"[{c}]" if c in "*?[" else c for c in f"/out/0/{name}")
        assert f" --path {shell.quoted(pattern)} " in command, "the terminal report's form"
        for program in ("sh", "dash", "bash"):
            done = subprocess.run([program, "-c", f"printf '%s\\n' {command}"], capture_output=True, check=True)
            words = done.stdout.decode().split("\n")
            assert words[words.index("--path") + 1] == pattern, program
        if name.isprintable():
            assert shlex.split(command)[:3] == ["tailrace", "query", "/runs/story"]


def test_every_field_of_a_process_is_quoted(show: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """Of a process that shares its pid, so that its command has --start; host and start come from a trace."""
    host, starts = "h'\x1b; echo 1", ("3; echo 1", "4; echo 1")
    made = Story()
    for start in starts:
        made.write(f"/{start[0]}", host=host, pid=2, start=start)
    pages["processes"] = tmp_path / "processes.html"
    pages["processes"].write_text(html.page_text(summary.collect(made.run())), encoding="utf-8")
    page = show("processes")
    for start in starts:
        page.tab.locator("#file-table tbody button", has_text=f"/{start[0]}").first.click()
        page.tab.locator("#panel .list button").first.click()
        command = page.tab.locator("#panel pre code").first.text_content()
        for program in ("sh", "dash", "bash"):
            done = subprocess.run([program, "-c", f"printf '%s\\n' {command}"], capture_output=True, check=True)
            words = done.stdout.decode().split("\n")
            assert [words[words.index(f"--{name}") + 1] for name in ("host", "pid", "start")] == [host, "2", start]


def test_the_queries_give_the_numbers_of_the_page(show: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """Of a run on disk, by the command line: what the page copies to the clipboard, run by a shell."""
    name, task = "/d/it's *b* [a]", "t [1]?"
    tags = {"stage": "st*", "task": task, "workflow": "w"}
    moved = {"fhash": "a1", "offset": 0, "size": 4096, "count": 4096, "ret": 4096}
    lines = [
        tw.host_line(),
        tw.file_line("a1", name),
        tw.event("openat", tw.T0_US, fhash="a1", flags=0o1101, ret=3, **tags),
        tw.event("write", tw.T0_US + 10, dir="w", **moved, **tags),
        tw.event("read", tw.T0_US + 1000, dir="r", **moved, **tags),
    ]
    run = tw.make_run(tmp_path / "a run", {"h-7-1": tw.block(lines)})
    pages["real"] = tmp_path / "real.html"
    html.write_html(tailrace.open(run), pages["real"])
    page = show("real")

    # `tailrace` as a user has it: an environment that need not be active here.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

    def ask(row: str) -> list[dict[str, Any]]:
        command = page.tab.locator("#panel pre code").first.text_content()
        words, environment = ["bash", "-c", f"{command} --format json"], {**os.environ, "PATH": path}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, (row, command, done.stderr)
        return list(json.loads(done.stdout))

    page.tab.locator("#file-table button", has_text=name).click()
    assert {(row["dir"], row["sum_size"]) for row in ask("file") if row["dir"]} == {("r", 4096), ("w", 4096)}
    page.tab.locator("#panel button", has_text=task).first.click()
    assert sum(row["sum_size"] for row in ask("task")) == 8192
    page.tab.keyboard.press("Escape")
    page.tab.locator("#stage-table button", has_text="st*").click()
    assert sum(row["sum_size"] for row in ask("stage")) == 8192
    page.tab.keyboard.press("Escape")
    for title, want in (("Read", 4096), ("Written", 4096)):
        page.tab.locator("#numbers button", has_text=title).click()
        assert sum(row["sum_size"] for row in ask(title)) == want
        page.tab.keyboard.press("Escape")
    page.tab.locator("#heat-time canvas").first.click(position={"x": 12, "y": 5})
    assert sum(row["sum_size"] for row in ask("cell")) == 4096, "the second cell has the write"


def test_the_queries_of_untagged_processes_and_of_renamed_tasks(
    show: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    """A run without stages shows programs in their place; a job has a name beside its tag."""
    lines = {}
    for pid, task in ((7, None), (8, None), (9, "f9")):
        start = {"ppid": 1, "exe": f"/bin/p{pid}", "argv": [], "cwd": "/", "uid": 0}
        tags = {} if task is None else {"task": task, "workflow": "w"}
        moved = {"fhash": "a1", "offset": 0, "size": pid, "count": pid, "ret": pid, "dir": "w", **tags}
        events = [tw.event("start", tw.T0_US, pid=pid, cat="PROCESS", **start, **tags)]
        events.append(tw.event("write", tw.T0_US + pid, pid=pid, **moved))
        lines[f"h-{pid}-1"] = tw.block([tw.host_line(), tw.file_line("a1", "/d"), *events])
    job = {"type": "task", "workflow": "w", "stage": "sim", "task": "f9", "name": "big sim", "deps": []}
    declared = json.dumps({**job, "inputs": [], "outputs": []}) + "\n"
    run = tw.make_run(tmp_path / "run", lines, None, flux=declared)
    pages["untagged"] = tmp_path / "untagged.html"
    html.write_html(tailrace.open(run), pages["untagged"])
    page = show("untagged")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

    def asked() -> int:
        command = page.tab.locator("#panel pre code").first.text_content()
        words, environment = ["bash", "-c", f"{command} --format json"], {**os.environ, "PATH": path}
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        page.tab.keyboard.press("Escape")
        return sum(row["sum_size"] for row in json.loads(done.stdout))

    for name, size in (("(p7)", 7), ("(p8)", 8), ("(p9)", 9)):
        page.tab.locator("#stage-table button", has_text=name).click()
        assert asked() == size, name
    page.tab.locator("#stage-table button", has_text="(p9)").click()
    page.tab.locator("#panel button", has_text="big sim").click()
    assert asked() == 9


def test_every_query_of_a_section_runs(show: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """Of a run on disk, in which every section has something: by a shell, and by Python."""
    moved = {"fhash": "a1", "offset": 0, "size": 10, "count": 10, "ret": 10}
    events = []
    for number, task in enumerate(("1", "2", "1")):
        tags = {"workflow": "w", "stage": "s", "task": task}
        at = tw.T0_US + number * 1000
        events.append(tw.event("openat", at, fhash="a1", flags=0o1101, ret=3, **tags))
        events.append(tw.event("write", at + 1, dir="w", **moved, **tags))
        events.append(tw.event("read", at + 500, dir="r", **{**moved, **tags, "task": "3"}))
    block = tw.block([tw.host_line(), tw.file_line("a1", "/d"), *events], {"lost": {"unnamed": 1}})
    keys = {"workflow": "w", "stage": "s", "kind": "job", "name": "n", "inputs": [], "outputs": [], "t_submit_ns": 1}
    task = {"type": "task", **keys, "task": "3", "deps": [{"task": "1", "via": "future"}]}
    run = tw.make_run(tmp_path / "run", {"h-7-1": block + block[:9]}, None, m=json.dumps(task))
    pages["sections"] = tmp_path / "sections.html"
    html.write_html(tailrace.open(run), pages["sections"])
    page = show("sections")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    buttons = page.tab.locator("main section:not([hidden]) button[aria-label^='Query for']")
    asked = set()
    for number in range(buttons.count()):
        buttons.nth(number).click()
        for box in page.tab.locator("#panel .query").all():
            title, text = (box.locator(part).text_content() for part in ("h4", "code"))
            if title == "In Python":
                exec(text, {})
            else:
                environment = {**os.environ, "PATH": path}
                done = subprocess.run(["bash", "-c", text], capture_output=True, check=False, env=environment)
                assert done.returncode == 0, (text, done.stderr)
            asked.add((number, title))
        page.tab.keyboard.press("Escape")
    assert len(asked) >= 18, "nine sections at least, most with both"
