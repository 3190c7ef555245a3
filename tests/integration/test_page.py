"""The page in a browser, used as a person would: it draws, answers clicks and keys, finds, loads nothing, runs no name.

Playwright drives the Chromium that the machine has; both are asked for, and without one of them these tests skip.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support import sanitizer

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the page: pip install playwright")
import tailrace
from support import trace_writer as tw
from support.flowcase import MS, T0_NS, FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.report import html
from tailrace.analyzer.util import shell

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt install chromium")

NAMES = (
    "<script>alert(1)</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"'&amp;<!--",
    "javascript:alert(1)",
    "\u202eevil\u2028\x1b[31m\u00ad\U000e0041",
    "it's [a] *star*? $(touch x) `y` \\",
)
MANY = 240


def story() -> Story:
    """Three stages; the last one also feeds the first, so there is a flow backwards; hostile names all over."""
    s = Story()
    for i in range(4):
        values = {"stage": "first", "task": f"f{i}", "pid": 10 + i}
        s.read(f"/in/{i}", 0, 10_000_000, **values)
        s.create(f"/mid/MIDDLE-{i}", **values)
        s.write(f"/mid/MIDDLE-{i}", 0, 5_000_000, dur=3 * MS, **values)
    for i in range(3):
        values = {"stage": NAMES[0], "task": NAMES[1], "pid": 20 + i}
        s.read(f"/mid/MIDDLE-{i}", 0, 5_000_000, **values)
        for name in NAMES:
            s.create(f"/out/{i}/{name}", **values)
            s.write(f"/out/{i}/{name}", 0, 100, **values)
    s.read(f"/out/0/{NAMES[2]}", stage="last", task=NAMES[2], pid=30)
    s.create("/back", stage="last", task="l", pid=30)
    s.write("/back", stage="last", task="l", pid=30)
    s.read("/back", stage="first", task="f9", pid=31)
    s.event("stat", "/back", pid=1)
    return s


def crowd() -> Story:
    """More tasks of two types in a stage than a page of the tree holds, and more files than a page of the table."""
    s = Story()
    for i in range(MANY):
        values = {"stage": "work", "task": f"{'odd' if i % 2 else 'even'}-{i}", "pid": 100 + i}
        s.create(f"/w/out-{i}", at_ms=i / 10, **values)
        s.write(f"/w/out-{i}", 0, 10 + i, at_ms=i / 10 + 100, **values)
    return s


def long() -> Story:
    """Names as long as they can be, in a chain of stages, over half an hour."""
    s = Story()
    stages, name = ("x" * 180, "y" * 90 + " z", "w" * 30), "/long" + "/d" * 2000
    for i, stage in enumerate(stages):
        values = {"stage": stage, "task": f"{stage}-{i}", "pid": 10 + i}
        if i:
            s.read(f"{name}/{i - 1}", 0, 1_000_000, at_ms=i * 600_000, **values)
        s.create(f"{name}/{i}", at_ms=i * 600_000 + 10, **values)
        s.write(f"{name}/{i}", 0, 1_000_000, at_ms=i * 600_000 + 590_000, **values)
    return s


def failing() -> FakeRun:
    """bad-0 failed, bad-1 and good-0 did not; never-0 waits for bad-0 for ever, again-0 needed two tries. Side by side
    they are a strip of bars; bad-0 is the first of them."""
    s, ends = Story(), []
    for at, (name, status) in enumerate(
        (("bad-0", "failed"), ("bad-1", "done"), ("good-0", "done"), ("again-0", "done"), ("never-0", "dep_failed"))
    ):
        stage, begin = name.split("-")[0], 10 + 100 * at
        if status != "dep_failed":
            s.read(f"/in/{name}", at_ms=begin, stage=stage, task=name, pid=10 + at)
            s.write(f"/out/{name}", at_ms=begin + 90, stage=stage, task=name, pid=10 + at)
        error = f"ValueError: {NAMES[0]} is no number\nTraceback" if status == "failed" else None
        row = {"workflow": "w", "stage": stage, "task": name, "status": status, "error": error}
        times = {"t_launch_ns": T0_NS, "t_end_ns": T0_NS + (begin + 95) * MS}
        ends.append({**row, **times, "tries": {"again-0": 2, "never-0": 0}.get(name, 1)})
    deps = pd.DataFrame([{"workflow": "w", "task": "never-0", "dep": "bad-0", "via": "future", "path": None}])
    return s.run(2, declared_tasks=pd.DataFrame(ends).assign(name=None, parent=None), declared_deps=deps)


@dataclass
class Opened:
    """A page in a tab, and what went wrong or out while it was open."""

    tab: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.tab.locator(selector).first.inner_text())

    def panel(self) -> str:
        return self.text("#panel")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        environment = sanitizer.uninstrumented()
        browser = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], env=environment)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, written once."""
    folder = tmp_path_factory.mktemp("pages")
    out = {}
    for name, made in (("story", story()), ("crowd", crowd()), ("long", long()), ("empty", Story())):
        out[name] = folder / f"{name}.html"
        out[name].write_text(html.page_text(summary.collect(made.run(2))), encoding="utf-8")
    out["failing"] = folder / "failing.html"
    out["failing"].write_text(html.page_text(summary.collect(failing())), encoding="utf-8")
    return out


@pytest.fixture
def show(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """show(name, width=..., scheme=...) opens a page in a tab of its own."""
    contexts = []

    def opened(name: str = "story", width: int = 1300, scheme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        out = Opened(context.new_page())
        out.tab.on("pageerror", lambda error: out.errors.append(str(error)))
        out.tab.on("console", lambda message: out.errors.append(message.text))
        out.tab.on("request", lambda request: out.requests.append(request.url))
        out.tab.goto(pages[name].as_uri())
        out.tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        return out

    yield opened
    for context in contexts:
        context.close()


# --- it draws --------------------------------------------------------------------------------------------------------


def test_it_draws_everything_inside_the_figure(show: Any) -> None:
    page = show()
    counts = {part: page.tab.locator(f"#sankey .{part}").count() for part in ("node", "ribbon", "stub")}
    assert counts == {"node": 4, "ribbon": 3, "stub": 3}, "an untagged process has no flows"
    assert page.tab.locator("#bars [role=row]").count() == 5, "the critical path and four stages"
    assert page.tab.locator("#numbers li").count() == 10
    assert page.tab.locator("#heat-time canvas").count() >= 4
    assert page.tab.locator("#heat-files tbody tr").count() >= 2
    whole = page.tab.evaluate("""() => {
      const svg = document.querySelector("#sankey svg"), height = +svg.getAttribute("height");
      const boxes = [...svg.querySelectorAll(".node, .stub")].map(e => e.getBBox());
      const bars = [...svg.querySelectorAll(".node")].map(e => e.getBBox());
      const before = (a, b) => a.x + a.width <= b.x || a.y + a.height <= b.y;
      return {
        finite: [...document.querySelectorAll("svg *")].flatMap(e => [...e.attributes])
          .every(a => !/NaN|undefined|Infinity/.test(a.value)),
        inside: boxes.every(b => b.y >= 0 && b.y + b.height <= height),
        apart: bars.every((a, i) => bars.slice(i + 1).every(b => before(a, b) || before(b, a))),
      };
    }""")
    assert whole == {"finite": True, "inside": True, "apart": True}


@pytest.mark.parametrize("name", ["story", "crowd", "long", "empty", "failing"])
def test_no_errors_and_nothing_loaded(show: Any, pages: dict[str, Path], name: str) -> None:
    page = show(name)
    assert page.errors == []
    assert page.requests == [pages[name].as_uri()]


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_never_scrolls_sideways(show: Any, width: int, scheme: str) -> None:
    page = show(width=width, scheme=scheme)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_names_are_never_markup(show: Any) -> None:
    page = show()
    assert "owned" not in page.tab.title()
    assert page.tab.locator("main script, main img, main iframe, #panel script, #panel img").count() == 0
    page.tab.locator("#by-stage").select_option(label=NAMES[0])
    text = page.text("#file-table")
    for name in NAMES[:5]:
        assert name in text
    page.tab.get_by_role("button", name=f"/out/0/{NAMES[2]}").first.click()
    assert NAMES[2] in page.panel()
    assert page.errors == []


def test_invisible_characters_in_names_are_escaped(show: Any) -> None:
    page = show()
    page.tab.locator("#search").fill("evil")
    assert "/out/0/\\u202eevil\\u2028\\x1b[31m\\xad\\U000e0041" in page.text("#file-table")
    page.tab.locator("#file-table tbody button").first.click()
    assert "\\u202eevil" in page.text("#panel-title")
    text = page.tab.evaluate("document.body.innerText")
    assert not {"\u202e", "\u2028", "\x1b"} & set(text)


def test_names_of_any_length_keep_their_place(show: Any) -> None:
    page = show("long")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 1300
    assert page.tab.evaluate("""() => {
      const parts = [...document.querySelectorAll("#sankey text.name, #sankey .node")];
      const boxes = parts.map(e => e.getBoundingClientRect());
      const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
      return boxes.every((a, i) => boxes.slice(i + 1).every(b => apart(a, b)));
    }"""), "stages and their names are apart"
    heights = "s => [...document.querySelectorAll(s)].map(e => e.getBoundingClientRect().height)"
    for rows in ("#stage-table tbody tr", "#file-table tbody tr", "#bars .tree-row", "#heat-time .heat-row"):
        assert max(page.tab.evaluate(heights, rows)) < 160, rows
    page.tab.locator("#file-table tbody button").first.click()
    assert page.tab.locator("#panel-title").text_content().endswith("/d/d/0"), "the panel has all of it"
    assert page.tab.evaluate("document.getElementById('panel-title').clientHeight") < 250


def test_times_go_by_the_clock(show: Any) -> None:
    page = show("long")
    marks = page.tab.locator("#bars .axis text").all_text_contents()
    assert marks[0] == "0" and len(marks) > 4
    assert all(mark.endswith(" min") for mark in marks[1:]), marks


# --- clicks ----------------------------------------------------------------------------------------------------------


def test_a_stage_leads_to_its_files_and_tasks(show: Any) -> None:
    page = show()
    page.tab.locator("#sankey .node").first.click()
    assert "first" in page.panel() and "/mid/MIDDLE-" in page.panel()
    page.tab.locator("#panel button", has_text="/mid/MIDDLE-0").first.click()
    assert "File" in page.panel() and "Writers" in page.panel()
    page.tab.locator("#panel button", has_text="f0").click()
    assert "Task" in page.panel() and "/in/0" in page.panel()
    page.tab.keyboard.press("Escape")
    assert page.tab.locator("#panel").is_hidden()


def test_failures_are_the_first_news(show: Any) -> None:
    page = show("failing")
    said = "2 of 5 tasks did not succeed: 1 failed, 1 never ran (a dependency failed). Of the others: 1 done at a later"
    assert page.text("#outcome").startswith(said)
    assert page.text("#findings li").startswith("Failed\nbad-0 failed: ValueError: <script>alert(1)</script> is no")
    rows = page.tab.locator("#outcome-table tbody tr").all_inner_texts()
    assert [row.split("\t")[:3] for row in rows] == [
        ["bad-0", "bad", "failed"],
        ["never-0", "never", "never ran"],
        ["again-0", "again", "retried"],
    ]
    page.tab.get_by_role("button", name="bad-0", exact=True).click()
    facts = " ".join(page.panel().split())
    assert "Outcome failed Tries 1" in facts and "Error ValueError: <script>alert(1)</script> is no number" in facts
    assert "/out/bad-0" in facts, "a task that left events has its files"
    page.tab.get_by_role("button", name="never-0", exact=True).click()
    assert "Outcome never ran Tries none" in " ".join(page.panel().split())
    assert page.errors == []


def test_the_bars_of_failed_tasks_have_their_own_colour(show: Any) -> None:
    page = show("failing")
    found = page.tab.evaluate("""() => [...document.querySelectorAll("#bars [role=row]")].map(row => {
      const canvas = row.querySelector("canvas"), pen = canvas.getContext("2d"), colours = new Set();
      const {data} = pen.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colours.add(`${data.slice(i, i + 3)}`);
      const words = row.querySelector(".tree-words").innerText;
      const red = c => { const [r, g, b] = c.split(",").map(Number); return r > 170 && g < 60 && b < 60; };
      return [words, [...colours].some(red)];
    })""")
    red = {words.split("\n")[0]: is_red for words, is_red in found}
    assert red == {"Critical path": False, "bad": True, "good": False, "again": True}
    assert any("2 tasks, 1 failed" in words for words, _ in found)


def test_a_run_that_went_well_has_no_outcome(show: Any) -> None:
    page = show()
    assert page.tab.locator("#outcome").is_hidden() and page.tab.locator("#outcomes").is_hidden()


@pytest.mark.parametrize("name", ["story", "failing"])
def test_the_first_screen_of_a_phone_has_the_first_finding(show: Any, name: str) -> None:
    page = show(name, width=390)
    box = page.tab.locator("#findings li").first.bounding_box()
    assert box["y"] > 0 and box["y"] + box["height"] < 700, box
    order = page.tab.evaluate(
        "[...document.querySelectorAll('#findings button, #numbers button')].map(e => e.closest('[id]').id)"
    )
    assert order.index("findings") < order.index("numbers"), "the keyboard goes the same way"
    page.tab.set_viewport_size({"width": 1300, "height": 900})
    page.tab.locator("#spent-part + #findings-part").wait_for()


def test_a_flow_leads_to_its_files(show: Any) -> None:
    page = show()
    page.tab.locator("#sankey .ribbon").first.dispatch_event("click")
    assert "→" in page.panel() and "/mid/MIDDLE-" in page.panel()
    assert page.tab.locator("#sankey.dim .ribbon.on").count() == 1


def test_a_finding_has_its_evidence_and_its_query(show: Any) -> None:
    page = show()
    found = page.tab.locator("#findings li button")
    assert found.count() >= 1
    found.first.click()
    assert "Evidence" in page.panel() and "tailrace" in page.text("#panel pre")
    rows = page.tab.locator("#panel tbody tr")
    assert rows.count() >= 1


def test_the_critical_path_leads_to_its_tasks(show: Any) -> None:
    page = show()
    page.tab.locator("#bars .tree-name", has_text="Critical path").click()
    assert "Longest chain of work" in page.panel()
    page.tab.locator("#panel .list button").first.click()
    assert "Task" in page.panel() and "on it" in page.panel()
    page.tab.keyboard.press("Escape")
    before = page.tab.locator("#bars").screenshot()
    page.tab.get_by_label("Show what is on the critical path").check()
    assert page.tab.locator("#bars").screenshot() != before, "the other tasks fade"


def test_the_parts_of_the_wall_time_are_all_of_it(show: Any) -> None:
    page = show()
    shares = page.tab.evaluate("[...document.querySelectorAll('.spent span')].map(e => +e.style.flexGrow)")
    assert sum(shares) == pytest.approx(1, abs=0.001)


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


def test_sorting(show: Any) -> None:
    page = show()
    page.tab.locator("#stage-table th button", has_text="Processes").click()
    column = page.tab.locator("#stage-table tbody tr td:nth-child(3)")
    numbers = [int(text) for text in column.all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) > 1
    assert page.tab.locator('#stage-table th[aria-sort="descending"]').count() == 1


# --- search ----------------------------------------------------------------------------------------------------------


def test_search_by_words_kind_and_stage(show: Any) -> None:
    page = show()
    names = page.tab.locator("#file-table tbody tr td:first-child")
    page.tab.locator("#search").fill("MIDDLE-1")
    assert names.all_inner_texts() == ["/mid/MIDDLE-1"]
    page.tab.locator("#search").fill("mid 3")
    assert names.all_inner_texts() == ["/mid/MIDDLE-3"]
    assert page.text("#found").startswith("1 of ")
    page.tab.locator("#search").fill("")
    page.tab.locator("#kind").select_option("inputs")
    assert sorted(names.all_inner_texts()) == ["/in/0", "/in/1", "/in/2", "/in/3"]
    page.tab.locator("#kind").select_option("unread")
    page.tab.locator("#by-stage").select_option(label="first")
    assert names.all_inner_texts() == ["/mid/MIDDLE-3"]
    page.tab.locator("#search").fill("nowhere")
    assert page.text("#file-table") == "None."


def test_a_long_table_comes_in_pages(show: Any) -> None:
    page = show("crowd")
    rows = page.tab.locator("#file-table tbody tr")
    assert rows.count() == 25
    page.tab.locator("#file-table .more").click()
    assert rows.count() == 125


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_dataflow_by_keys(show: Any) -> None:
    page = show()
    assert page.tab.locator('#sankey [tabindex="0"]').count() == 1, "one tab stop"
    page.tab.locator('#sankey svg [tabindex="0"]').focus()
    seen = set()
    for _ in range(10):
        seen.add(page.tab.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.tab.keyboard.press("ArrowRight")
    assert len(seen) == 10, "four stages, three flows, three stubs"
    page.tab.keyboard.press("Enter")
    assert page.tab.evaluate("document.activeElement.id") == "panel-title"
    page.tab.keyboard.press("Escape")
    assert page.tab.evaluate("document.activeElement.closest('#sankey') !== null"), "the focus is back"


def test_the_timeline_by_keys(show: Any) -> None:
    page = show("crowd")
    rows = page.tab.locator("#bars [role=row]")
    assert rows.count() == 2
    rows.first.focus()
    page.tab.keyboard.press("ArrowDown")
    page.tab.keyboard.press("ArrowRight")
    assert rows.count() == 4, "a stage opens to its types of task"
    page.tab.keyboard.press("ArrowDown")
    page.tab.keyboard.press("ArrowRight")
    assert rows.count() == 4 + 100 + 1, "a type to a page of its tasks, and a row for more"
    assert page.tab.locator('[aria-expanded="true"]').count() == 2
    page.tab.keyboard.press("ArrowDown")
    page.tab.keyboard.press("Enter")
    assert "even-0" in page.panel()
    page.tab.keyboard.press("Escape")
    page.tab.keyboard.press("ArrowLeft")
    page.tab.keyboard.press("ArrowLeft")
    assert rows.count() == 4
    assert page.tab.evaluate("document.activeElement.getAttribute('aria-level')") == "2"


def test_more_tasks_on_demand(show: Any) -> None:
    page = show("crowd")
    rows = page.tab.locator("#bars [role=row]")
    rows.nth(1).locator(".tree-name").click()
    rows.nth(2).locator(".tree-name").click()
    page.tab.locator(".tree-name", has_text="Show 20 more of 120").click()
    assert rows.count() == 4 + 120


def test_the_heat_map_by_keys(show: Any) -> None:
    page = show()
    page.tab.locator("#heat-time .heat").focus()
    page.tab.keyboard.press("ArrowRight")
    page.tab.keyboard.press("ArrowDown")
    assert "read" in page.text("#heat-time [role=status]")
    page.tab.keyboard.press("Enter")
    assert "--since" in page.panel() and "--until" in page.panel()


def test_zooming(show: Any) -> None:
    page = show("crowd")
    before = page.text("#bars .axis")
    page.tab.get_by_role("button", name="Zoom in").click()
    assert page.text("#bars .axis") != before
    page.tab.get_by_role("button", name="All of the range").click()
    assert page.text("#bars .axis") == before
    box = page.tab.locator("#bars canvas").first.bounding_box()
    page.tab.mouse.move(box["x"] + 100, box["y"] + 10)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 300, box["y"] + 10, steps=4)
    page.tab.mouse.up()
    assert page.text("#bars .axis") != before


# --- for those who don't see it --------------------------------------------------------------------------------------


def test_every_control_has_a_name(show: Any) -> None:
    page = show()
    page.tab.locator("#numbers button").first.click()
    nameless = page.tab.evaluate("""() => [...document.querySelectorAll("button, a, input, select, [tabindex]")]
      .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length)))
      .map(e => e.outerHTML)""")
    assert nameless == []


def test_headings_and_landmarks(show: Any) -> None:
    page = show()
    levels = page.tab.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.localName[1])")
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    for tag in ("header", "nav", "main", "footer"):
        assert page.tab.locator(tag).count() == 1
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate("document.activeElement.textContent") == "Skip to the report"


def test_each_picture_has_a_table(show: Any) -> None:
    page = show()
    page.tab.locator("#dataflow details summary").click()
    assert "/mid/MIDDLE-" in page.text("#flow-table")
    page.tab.locator("#heat-time details summary").click()
    assert "Most in a cell" in page.text("#heat-time table")
    rows = page.tab.locator("#bars [role=row]")
    labels = [row.get_attribute("aria-label") or "" for row in rows.all()]
    assert labels[0].startswith("Critical path") and all("read," in label for label in labels[1:])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(show: Any, scheme: str) -> None:
    """WCAG 2.2, 1.4.3 and 1.4.11: 4.5 for text, 3 for what is drawn."""
    page = show(scheme=scheme)
    drawn = ["read", "write", "metadata", "s-other", *(f"s{i}" for i in range(10))]
    names = ["paper", "panel", "raised", "ink", "soft", "accent", "warn", "warn-paper", "bad", "bad-paper", *drawn]
    values = "names => names.map(n => getComputedStyle(document.documentElement).getPropertyValue(`--${n}`).trim())"
    colours = dict(zip(names, page.tab.evaluate(values, names), strict=True))
    for ground in ("paper", "panel", "raised"):
        for name in ("ink", "soft", "accent"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in ("warn", "bad"):
        assert contrast(colours[name], colours[f"{name}-paper"]) >= 4.5, name
    for name in drawn:
        assert contrast(colours[name], colours["raised"]) >= 3, name


def contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours "#rgb" or "#rrggbb", as WCAG defines it."""

    def luminance(text: str) -> float:
        digits = "".join(c * (2 if len(text) == 4 else 1) for c in text[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)
