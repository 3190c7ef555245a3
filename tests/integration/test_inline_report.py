"""The report in a notebook's cell, in a browser: it draws itself in its frame, and can't reach the notebook."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright drives the page: pip install playwright")
from support.browser_page import NO_BROWSER, browser, story  # noqa: F401
from tailrace.analyzer.notebook.inline_report import InlineReport

pytestmark = NO_BROWSER
CAN_REACH = "() => { try { return String(parent.document.title) } catch (error) { return error.name } }"


def test_the_report_draws_itself_in_a_frame_of_its_own(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    notebook = tmp_path / "notebook.html"
    frame = InlineReport(story().run(2))._repr_html_()
    notebook.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title><p>before{frame}", encoding="utf-8")
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text))
    tab.goto(notebook.as_uri())
    (_, page) = tab.frames
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    assert page.evaluate("document.querySelectorAll('svg').length") > 3
    for link in page.query_selector_all("nav a")[:3]:
        link.click()
    assert page.evaluate(CAN_REACH) == "SecurityError"
    assert tab.title() == "notebook" and tab.url == notebook.as_uri() and errors == []
    tab.close()
