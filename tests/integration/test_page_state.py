"""The page's addresses, tables and panels: each state has a URL, tables are copied, tasks and files tell theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

from support.browser_page import NAMES, NO_BROWSER, Opened, browser, pages, show
from support.flowcase import MS, T0_NS, FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.report import html

__all__ = ["browser", "pages", "show"]
pytestmark = NO_BROWSER
READERS = 8
BAD = "=use-3"


def survey() -> FakeRun:
    """make-0 writes a file that eight tasks read, each of which writes a result and a log. One of them fails; its name
    is a formula for a spreadsheet. make-0 reads at random offsets."""
    s, shared = Story(), "/mid/shared"
    for i in range(40):
        s.read("/in/0", (i * 7919 % 97) * 4096, 512, stage="make", task="make-0", pid=10)
    s.write(shared, 0, 1_000_000, stage="make", task="make-0", pid=10, dur=5 * MS)
    ends = [{"stage": "make", "task": "make-0", "status": "done", "tries": 1, "error": None}]
    for i in range(READERS):
        task = BAD if i == 3 else f"use-{i}"
        who = {"stage": "use", "task": task, "pid": 20 + i}
        s.read(shared, 0, 1_000_000 - i, **who)
        s.write(f"/out/{i}.dat", 0, 100, **who)
        s.write(f"/out/{i}.err", 0, 20, **who)
        bad = i == 3
        error = f"ValueError: {NAMES[0]}" if bad else None
        ends.append(
            {"stage": "use", "task": task, "status": "failed" if bad else "done", "tries": 1 + bad, "error": error}
        )
    s.read("/out/3.dat", stage="use", task="use-0", pid=20)
    times: dict[str, Any] = {"workflow": "w", "name": None, "parent": None, "cores": 4}
    times |= {"t_submit_ns": T0_NS, "t_launch_ns": T0_NS + MS}
    times["annotations"] = {"requested": {"memory_bytes": 8 << 20, "time_s": 10, "queue": "long"}}
    tasks = pd.DataFrame([{**times, "t_end_ns": T0_NS + 900 * MS, **end} for end in ends])
    rows = [
        {
            "host": "n1",
            "pid": 20 + i,
            "exe": "/bin/use",
            "argv": ["/bin/use", NAMES[0], f"--part={i}"],
            "exit": int(i == 3),
        }
        for i in range(READERS)
    ]
    known = {"start": "", "ppid": 1, "signal": None, "t0_ns": T0_NS, "t1_ns": T0_NS + 50 * MS, "maxrss_kib": 2048}
    table = pd.DataFrame([{**known, "utime_ns": 5 * MS, "stime_ns": MS, **row} for row in rows])
    return s.run(2, declared_tasks=tasks, processes=table)


@pytest.fixture(scope="module")
def surveyed(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """One tab for all tests of this file; each goes to the address that it needs."""
    path: Path = tmp_path_factory.mktemp("survey") / "survey.html"
    path.write_text(html.page_text(summary.collect(survey())), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1300, "height": 900}, reduced_motion="reduce")
    out = Opened(context.new_page())
    out.tab.on("pageerror", lambda error: out.errors.append(str(error)))
    out.tab.on("console", lambda message: out.errors.append(message.text))
    out.tab.goto(path.as_uri())
    out.tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    yield out
    context.close()


def go(page: Opened, where: str, fresh: bool = True) -> None:
    """The page at an address; fresh: loaded anew, as from a link in a mail."""
    address = page.tab.url.split("#")[0] + where
    page.tab.goto(address)
    if fresh:
        page.tab.reload()
    page.tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)


def facts(page: Opened) -> str:
    return " ".join(page.panel().split())


def test_a_state_has_an_address_that_brings_it_back(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, "")
    tab.locator("#search").fill("out 3")
    tab.locator("#kind").select_option("all")
    tab.locator("#stage-table th button", has_text="Processes").click()
    tab.locator("#bars .tree-name", has_text="use").first.click()
    tab.locator("#metric-calls").dispatch_event("click")
    tab.locator("#summary summary").click()
    tab.locator("#file-table button", has_text="/out/3.dat").click()
    title, address = page.text("#panel-title"), tab.evaluate("location.hash")
    go(page, address)

    def shown() -> list[Any]:
        return [
            page.text("#panel-title"),
            tab.locator("#search").input_value(),
            tab.locator("#kind").input_value(),
            tab.locator('#stage-table th[aria-sort="descending"]').inner_text().split()[0],
            tab.locator('#bars [aria-expanded="true"]').count(),
            tab.locator("#metric-calls").is_checked(),
            tab.locator("#summary").get_attribute("open") is not None,
        ]

    assert shown() == [title, "out 3", "all", "Processes", 1, True, True], address
    tab.locator("#panel .list button", has_text=BAD).first.click()
    assert page.text("#panel-title") == BAD
    tab.go_back()
    tab.locator("#panel-title", has_text="/out/3.dat").wait_for()
    assert shown()[1:3] == ["out 3", "all"], "a step back keeps the filters"
    tab.keyboard.press("Escape")
    assert tab.locator("#panel").is_hidden() and "panel=" not in tab.evaluate("location.hash")
    tab.go_back()
    tab.locator("#panel-title", has_text="/out/3.dat").wait_for()
    tab.locator("nav a", has_text="Stages").click()
    assert tab.evaluate("location.hash").startswith("#stages&") and tab.locator("#panel").is_visible()
    assert page.errors == []


@pytest.mark.parametrize(
    "where",
    [
        "#panel=task:<img src=x onerror=alert(1)>&find=%E0%A4%A&rows=__proto__&constructor=1",
        "#sort=x.y.z,stage-table.99.up&range=a-b&metric=constructor&access=toString&panel=constructor:1&kind=no",
        "#<script>alert(1)</script>&panel=file:" + quote(NAMES[2]),
        "#panel=cell:99.99&panel=stage:nowhere&range=1-1e999&open=x",
    ],
)
def test_an_address_is_only_looked_up(surveyed: Opened, where: str) -> None:
    go(surveyed, where)
    assert surveyed.tab.locator("#bars [role=row]").count() >= 3 and surveyed.tab.locator("#panel").is_hidden()
    assert surveyed.errors == []


def test_tables_are_copied_as_numbers_and_text(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, "")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy as TSV: Files by bytes moved").click()
    tab.locator("#file-table [role=status]", has_text="copied").wait_for()
    head, *rows = (line.split("\t") for line in tab.evaluate("navigator.clipboard.readText()").rstrip("\n").split("\n"))
    assert head[:3] == ["File", "Read (bytes)", "Written (bytes)"] and all(len(row) == len(head) for row in rows)
    amounts = {row[0]: row[1:3] for row in rows}
    assert amounts["/mid/shared"] == [str(sum(1_000_000 - i for i in range(READERS))), "1000000"]
    assert len(rows) == 2 + 2 * READERS
    tab.get_by_role("button", name="Copy as TSV: Tasks that did not simply succeed").click()
    tab.locator("#outcome-table [role=status]", has_text="copied").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert f"\n'{BAD}\tuse\tfailed\t2\tValueError: {NAMES[0]}\t" in copied, "a formula stays text"


def test_a_task_tells_its_story(surveyed: Opened) -> None:
    page = surveyed
    go(page, f"#panel=task:{BAD}")
    said = facts(page)
    assert f"Error ValueError: {NAMES[0]}" in said and "Outcome failed Tries 2" in said
    assert "'<script>alert(1)</script>' --part=3" in said and "exit code 1" in said and "2.00 MiB" in said
    used = (
        "Cores used 3.00 of 4 requested Memory, largest process 2.00 MiB of 8.00 MiB requested Time 2.00 ms of 10.0 s"
    )
    assert used in said, "6 ms of processor time in 2 ms"
    rows = [row.split("\t") for row in page.tab.locator("#request-table tbody tr").all_inner_texts()]
    (used_stage,) = [row[1:] for row in rows if row[0] == "use"]
    assert used_stage[:2] + used_stage[3:6] == [str(READERS), "4", "8.00 MiB", "2.00 MiB", "10.0 s"]
    assert "Logs /out/3.err" in said and f"tailrace task /runs/story {BAD}" in said
    go(page, f"#panel=task:use-{READERS - 1}", fresh=False)
    assert "Files it read, bytes by it /mid/shared" in facts(page), "of eight readers each has the file"
    assert page.errors == []


def test_a_file_tells_its_history(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, f"#panel=file:{quote('/mid/shared')}")
    said = facts(page)
    assert "Made from, by what its writers read /in/0 20.0 KiB by make-0" in said
    assert "Used for, by what its readers wrote /out/" in said and "consecutive" in said
    tab.locator("#panel .list button", has_text="/in/0").click()
    assert "random" in page.panel()
    go(page, f"#panel=file:{quote('/out/3.dat')}", fresh=False)
    assert f"Written by a task that did not succeed: {BAD}" in facts(page)


def test_a_failure_is_marked_in_every_view(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, "#panel=stage:use")
    assert "1 failed" in tab.locator("#sankey svg").text_content()
    for view in ("#bars", "#heat-time", "#stage-table", "#wait-table", "#panel"):
        assert "failed" in page.text(view), view
    assert "its writer failed" in page.text("#file-table")


def test_kinds_of_access_and_rates(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, "#access=calls&metric=calls")
    rows = [row.split("\t") for row in tab.locator("#access-matrix tr").all_inner_texts()]
    head = [cell.strip() for cell in rows[0]]
    make = next(row for row in rows if row[0].startswith("make reads"))
    assert make[head.index("random")] == "40" and make[head.index("a call")] == "512 B"
    assert "calls/s" in page.text("#rates-hint") and tab.locator("#rates path.rate").count() == 2
    go(page, "#metric=wrote", fresh=False)
    assert "MiB/s" in page.text("#rates-hint")


def too_wide(tab: Any) -> list[str]:
    """What is wider than its box: a browser makes all of a printed page smaller for it, and cuts off what is left."""
    found: list[str] = tab.evaluate("""() => [...document.querySelectorAll("main table, .figure svg")].filter(part => {
      const box = part.parentElement.getBoundingClientRect();
      return box.width && part.getBoundingClientRect().right > box.right + 1;
    }).map(part => part.getAttribute("aria-label") || part.tagName)""")
    return found


def test_a_wide_page_fits_on_paper(show: Any) -> None:
    page = show("long")
    page.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert too_wide(page.tab) == []
    page.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert (
        page.tab.evaluate("[...document.querySelectorAll('main *')].filter(one => one.style && one.style.zoom).length")
        == 0
    )


def test_paper_and_motion(surveyed: Opened) -> None:
    page, tab = surveyed, surveyed.tab
    go(page, "")
    assert tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    tab.emulate_media(color_scheme="dark")
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
    dark = tab.evaluate(colour)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(colour) != dark, "light on paper"
    assert tab.evaluate("document.querySelector('#bars').offsetWidth") <= 700
    assert too_wide(tab) == []
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate(colour) == dark
    assert len(tab.pdf(format="A4")) > 10_000
    tab.emulate_media(color_scheme="light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(surveyed: Opened, scheme: str) -> None:
    """axe-core's rules for WCAG 2.2 AA and its best practices: as it opens, with all of it open, and with a panel."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="pip install axe-playwright-python")
    page, tab = surveyed, surveyed.tab
    tab.emulate_media(color_scheme=scheme)
    kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    for where in ("", "#rows=s1,s0&open=summary,flows,kinds,agree-part&findings=all", f"#panel=task:{quote(BAD)}"):
        go(page, where)
        tab.evaluate(axe.AXE_SCRIPT)
        found = tab.evaluate("kinds => axe.run(document, {runOnly: kinds})", kinds)["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], (scheme, where)
    tab.emulate_media(color_scheme="light")
