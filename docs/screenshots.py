"""Makes the pictures of the report page in this folder, from real runs.

    python docs/screenshots.py [--folder DIR] [--ensemble]

Runs the HMMER workflow (workflows/hmmer; hmmer and hmmer-examples from apt) traced, writes its page as a user would,
and photographs it in headless Chromium with Playwright. Commands run in DIR, so that no other path gets into a picture.
With --ensemble the same for the campaign under Flux (workflows/ensemble) instead.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
WORKFLOWS = DOCS.parent / "workflows"
WIDTH = 1300


def make_page(folder: Path) -> Path:
    """Runs the workflow in `folder`, and returns its page."""
    shutil.copytree(WORKFLOWS, folder / "workflows", dirs_exist_ok=True)
    subprocess.run(["python3", "workflows/hmmer/workflow.py", "hmmer-run"], cwd=folder, check=True)
    subprocess.run(["tailrace", "report", "hmmer-run/run", "--html", "report.html"], cwd=folder, check=True)
    return folder / "report.html"


def make_ensemble_page(folder: Path) -> Path:
    """Runs the campaign in `folder`, and returns its page. Flux must be on PATH, and tailrace."""
    run = WORKFLOWS / "ensemble" / "run.sh"
    subprocess.run([run, "ensemble-run"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["tailrace", "report", "ensemble-run/run", "--html", "report.html"], cwd=folder, check=True)
    return folder / "report.html"


def photograph_ensemble(page: Path) -> None:
    """The head of the page down to the timeline, and the states of the files that come round."""
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
    """One picture a part of the page: the head in light, in dark on a phone, and what a click leads to."""
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
    parser = argparse.ArgumentParser(description="Makes the pictures of the report page.")
    parser.add_argument("--folder", type=Path, help="where the workflow runs (default: a temporary folder)")
    parser.add_argument("--ensemble", action="store_true", help="the campaign under Flux instead of HMMER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailrace-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if options.ensemble:
            photograph_ensemble(make_ensemble_page(folder.resolve()))
        else:
            photograph(make_page(folder.resolve()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
