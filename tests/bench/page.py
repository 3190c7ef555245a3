"""How large the page of a run is and how quickly it answers: runs of many tasks, opened in Chromium.

    PYTHONPATH=tests python tests/bench/page.py [--tasks N ...] [--workflows N] [--json FILE] [--keep DIR]

    replay.py writes a run -> tailrace report --html -> Playwright opens it, clicks, types -> table

Times in the browser are from the event to the frame after the next one, when what changed has been drawn; the least of
ROUNDS. The time to the first drawing is from the start of the navigation to the page's own "ready".
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import replay
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

ROUNDS = 5
FILES_PER_TASK = 2
MIB = 1 << 20

DRAWN = """async ([selector, type, value]) => {
  const element = document.querySelector(selector), frame = () => new Promise(requestAnimationFrame);
  await frame();
  const begin = performance.now();
  if (type === "click") element.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  else if (type === "key") element.dispatchEvent(new KeyboardEvent("keydown", {key: value, bubbles: true}));
  else { element.value = value; element.dispatchEvent(new Event("input", {bubbles: true})); }
  await frame();
  await frame();
  return performance.now() - begin;
}"""
STEPS = {
    # what is done -> (element, kind of event, value), and what takes it back
    "choose a stage": (("#sankey .node", "click", ""), ("#panel button", "click", "")),
    "open a stage's tasks": (
        ("#bars [aria-expanded]", "key", "ArrowRight"),
        ("#bars [aria-expanded]", "key", "ArrowLeft"),
    ),
    "zoom in": (('[aria-label="Zoom in"]', "click", ""), ('[aria-label="All of the range"]', "click", "")),
    "search a file": (("#search", "input", "17"), ("#search", "input", "")),
    "show writes in the maps": (("#metric-wrote", "click", ""), ("#metric-read", "click", "")),
}


def report(run: Path, page: Path) -> dict[str, float]:
    """Seconds that `tailrace report --html` takes, and the bytes it writes."""
    begin = time.perf_counter()
    subprocess.run(["tailrace", "report", str(run), "--html", str(page)], check=True, capture_output=True)
    return {"report_s": time.perf_counter() - begin, "page_mib": page.stat().st_size / MIB}


def opened(page: Path) -> dict[str, float]:
    """Milliseconds to the first drawing, and of each of `STEPS`; the JavaScript heap in MiB."""
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--enable-precise-memory-info"])
        out: dict[str, float] = {"first drawing": min(_first(browser, page) for _ in range(ROUNDS))}
        tab = _tab(browser, page)
        for name, (act, back) in STEPS.items():
            times = []
            for _ in range(ROUNDS):
                times.append(float(tab.evaluate(DRAWN, list(act))))
                tab.evaluate(DRAWN, list(back))
            out[name] = min(times)
        out["heap_mib"] = tab.evaluate("performance.memory.usedJSHeapSize") / MIB
        browser.close()
    return out


def _tab(browser: Any, page: Path) -> Page:
    tab: Page = browser.new_page(viewport={"width": 1440, "height": 900})
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]", timeout=120_000)
    return tab


def _first(browser: Any, page: Path) -> float:
    tab = _tab(browser, page)
    took = float(tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
    tab.close()
    return took


def measure(tasks: int, workflows: int, folder: Path) -> dict[str, float]:
    each = max(tasks // workflows, 8)
    run = folder / f"run-{tasks}-{workflows}"
    written = replay.write_many(run, [replay.montage(each)], tasks, FILES_PER_TASK * tasks)
    page = folder / f"page-{tasks}-{workflows}.html"
    return {"files": written["files"], **report(run, page), **opened(page)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the report page at the size of a campaign.")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--workflows", type=int, default=1, help="copies of the workflow that make up a run")
    parser.add_argument("--keep", type=Path, help="write runs and pages there, and keep them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    results: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-page-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for tasks in options.tasks:
            results[tasks] = measure(tasks, options.workflows, folder)
    table = Table(title="the page, by tasks of the run (steps in ms)", title_justify="left")
    table.add_column("")
    for tasks in results:
        table.add_column(f"{tasks:,}", justify="right")
    for name in next(iter(results.values())):
        table.add_row(name, *(f"{numbers[name]:,.1f}" for numbers in results.values()))
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
