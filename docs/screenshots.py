"""Makes the pictures of the documentation in this folder, from real runs.

    python docs/screenshots.py [--folder DIR] [--demo | --ensemble]

Runs the HMMER workflow (workflows/hmmer; hmmer and hmmer-examples from apt) traced, writes its page as a user would,
and takes pictures of it in headless Chromium with Playwright. With --demo it is the terminal report of `tailrace demo`,
as an SVG, which needs no browser; with --ensemble the page of the campaign under Flux (workflows/ensemble). Commands
run in DIR, so that no other path gets into a picture.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import tailrace
from tailrace.analyzer import summary
from tailrace.analyzer.report import terminal

DOCS = Path(__file__).parent
WORKFLOWS = DOCS.parent / "workflows"
WIDTH = 1300
COLUMNS = 80
LINES = 58
"""What the picture of the demonstration has of its report: facts, findings and stages fit."""
THEME = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (154, 103, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (110, 119, 129),
    ],
)
"""Dark text on white, readable in a browser's light and dark mode."""


def make_page(folder: Path) -> Path:
    """Runs the workflow in `folder`, and returns its page."""
    shutil.copytree(WORKFLOWS, folder / "workflows", dirs_exist_ok=True)
    subprocess.run(["python3", "workflows/hmmer/workflow.py", "hmmer-run"], cwd=folder, check=True)
    subprocess.run(["tailrace", "report", "hmmer-run/run", "--html", "report.html"], cwd=folder, check=True)
    return folder / "report.html"


def picture_demo(folder: Path) -> None:
    """Runs the demonstration in `folder` and draws the first lines of its report."""
    subprocess.run(["tailrace", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    os.chdir(folder)
    # The report as a terminal shows it, colours included, is drawn again up to the last stage.
    colours = io.StringIO()
    shown = Console(file=colours, width=COLUMNS, force_terminal=True, color_system="standard")
    terminal.show(summary.collect(tailrace.open("tailrace-demo/run")), shown)
    lines = colours.getvalue().splitlines()[:LINES]
    last = max(number for number, line in enumerate(lines) if not line.strip())
    drawing = Console(file=io.StringIO(), width=COLUMNS, record=True, force_terminal=True, color_system="standard")
    for line in lines[:last]:
        drawing.print(Text.from_ansi(line), soft_wrap=True)
    svg = drawing.export_svg(title="tailrace demo", theme=THEME, unique_id="demo")
    # The picture loads nothing: a browser's own monospace font instead of a web font.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    (DOCS / "demo-report.svg").write_text(
        re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).rstrip("\n") + "\n", encoding="utf-8"
    )


def make_ensemble_page(folder: Path) -> Path:
    """Runs the campaign in `folder`, and returns its page. Flux must be on PATH, and tailrace."""
    run = WORKFLOWS / "ensemble" / "run.sh"
    subprocess.run([run, "ensemble-run"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["tailrace", "report", "ensemble-run/run", "--html", "report.html"], cwd=folder, check=True)
    return folder / "report.html"


def photograph_ensemble(page: Path) -> None:
    """The head of the page down to the timeline, and the states of the files that are written in a loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=_browser(), args=["--no-sandbox"])
        tab = _open(browser, page, WIDTH, 1180, "light")
        bottom = tab.evaluate("document.getElementById('heat').offsetTop")
        _open(browser, page, WIDTH, int(bottom), "light").screenshot(path=DOCS / "ensemble-report.png")
        tall = _open(browser, page, WIDTH, int(tab.evaluate("document.documentElement.scrollHeight")), "light")
        top = tall.evaluate("document.getElementById('histories').offsetTop")
        end = tall.evaluate("document.getElementById('history-table').offsetTop")
        tall.screenshot(
            path=DOCS / "ensemble-loop.png", clip={"x": 0, "y": top - 20, "width": WIDTH, "height": end - top + 20}
        )
        browser.close()


def photograph(page: Path) -> None:
    """One picture a part of the page: head, timeline, panel and heat maps (both dark), a phone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=_browser(), args=["--no-sandbox"])
        wide = _open(browser, page, WIDTH, 1180, "light")
        wide.screenshot(path=DOCS / "hmmer-report.png")
        wide.locator("#timeline").scroll_into_view_if_needed()
        wide.evaluate("scrollTo(0, document.getElementById('timeline').offsetTop - 60)")
        wide.locator("#bars [aria-expanded] .tree-name", has_text="search").click()
        wide.locator("#bars .tree-strip canvas").last.hover()
        wide.screenshot(path=DOCS / "page-timeline.png")
        dark = _open(browser, page, WIDTH, 1000, "dark")
        dark.evaluate("scrollTo(0, document.getElementById('dataflow').offsetTop - 60)")
        dark.locator("#sankey .node").nth(3).click()
        dark.screenshot(path=DOCS / "page-panel.png")
        dark.keyboard.press("Escape")
        dark.evaluate("scrollTo(0, document.getElementById('heat').offsetTop - 60)")
        dark.screenshot(path=DOCS / "page-heat.png")
        _open(browser, page, 390, 844, "light").screenshot(path=DOCS / "page-phone.png")
        browser.close()


def _browser() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


def _open(browser: Any, page: Path, width: int, height: int, scheme: str) -> Any:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    return tab


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the pictures of the documentation.")
    parser.add_argument("--folder", type=Path, help="where the workflow runs (default: a temporary folder)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--demo", action="store_true", help="the terminal report of tailrace demo")
    which.add_argument("--ensemble", action="store_true", help="the campaign under Flux instead of HMMER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if options.demo:
            picture_demo(folder.resolve())
        elif options.ensemble:
            photograph_ensemble(make_ensemble_page(folder.resolve()))
        else:
            photograph(make_page(folder.resolve()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
