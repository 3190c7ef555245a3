"""Pages of made runs, and a browser that opens them: fixtures `browser`, `pages` and `show`, for `from ... import`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support import sanitizer

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the page: pip install playwright")
from support.flowcase import MS, T0_NS, FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.report import html

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
NO_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt install chromium")

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
        row: dict[str, Any] = {"workflow": "w", "stage": stage, "task": name, "status": status, "error": error}
        told = {"arguments": {"sample": NAMES[0], "reads": "2000"}} if status == "failed" else None
        row["annotations"] = told
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
