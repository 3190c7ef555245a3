"""The page in a browser, used as a person would: it draws, answers clicks and keys, finds, loads nothing, runs no name.

Playwright drives the Chromium that the machine has; both are asked for, and without one of them these tests skip.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.browser_page import NAMES, NO_BROWSER, browser, pages, show

__all__ = ["browser", "pages", "show"]
pytestmark = NO_BROWSER


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
    assert page.text("#outcome").startswith(f"Failed. {said}")
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
    assert "Arguments sample <script>alert(1)</script> reads 2000" in facts
    page.tab.get_by_role("button", name="never-0", exact=True).click()
    other = " ".join(page.panel().split())
    assert "Outcome never ran Tries none" in other and "Arguments" not in other
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


def test_a_run_of_which_no_one_told_the_end_says_so(show: Any) -> None:
    page = show()
    assert page.text("#outcome").startswith("End unknown.") and page.tab.locator("#outcomes").is_hidden()


@pytest.mark.parametrize("name", ["story", "failing"])
def test_the_first_screen_of_a_phone_answers(show: Any, name: str) -> None:
    """What happened, where the time went, and the three findings that cost most with what to do."""
    page = show(name, width=390)
    ends = []
    for part in ("#outcome", "#spent .counts", "#findings li:nth-child(3) .advice, #findings li:last-child .advice"):
        box = page.tab.locator(part).first.bounding_box()
        ends.append(box["y"] + box["height"])
    assert ends == sorted(ends) and ends[-1] < 844, ends
    assert page.tab.locator("#findings li:visible").count() <= 3
    # A name of a stage is not broken inside of a word.
    assert page.tab.evaluate("document.querySelector('#stage-table tbody td').offsetWidth") > 100


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
