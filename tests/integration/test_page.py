"""The page in a browser: it draws, answers keys and clicks, says nothing on the console, loads nothing, runs no name.

Headless Chromium opens the page and dumps the document after its script has run. A probe, added to the page as one more
script that its policy is told of, does what a person would do and writes down what happened.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tailrace.analyzer import report, summary

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from flowcase import MS, Story

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

NAMES = (
    "<script>alert(1)</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"'&amp;<!--",
    "javascript:alert(1)",
    "\u202eevil\u2028\x1b[31m",
)

PROBE = """
const out = {errors: window.probeErrors, title: document.title};
const all = q => [...document.querySelectorAll(q)];
const press = (e, key) => e.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
out.ready = document.documentElement.dataset.ready;
out.nodes = all("#sankey .node").length;
out.ribbons = all("#sankey .ribbon").length;
out.stubs = all("#sankey .stub").length;
out.bars = all("#bars .task").length;
const attributes = all("#sankey svg *, #bars svg *").flatMap(e => [...e.attributes]);
out.finite = attributes.every(a => !/NaN|undefined|Infinity/.test(a.value));
const figure = document.querySelector("#sankey svg");
const height = +figure.getAttribute("height"), boxes = q => all(q).map(e => e.getBBox());
out.inside = boxes("#sankey .node, #sankey .stub").every(b => b.y >= 0 && b.y + b.height <= height);
const bars = boxes("#sankey .node"), before = (a, b) => a.x + a.width <= b.x || a.y + a.height <= b.y;
out.apart = bars.every((a, i) => bars.slice(i + 1).every(b => before(a, b) || before(b, a)));
const parts = all("#sankey .node, #sankey .ribbon, #sankey .stub");
out.focusable = parts.every(e => e.tabIndex === 0 && e.getAttribute("aria-label"));
press(document.querySelector("#sankey .node"), "Enter");
out.stage = document.getElementById("details").textContent;
document.querySelector("#sankey .ribbon").dispatchEvent(new MouseEvent("click", {bubbles: true}));
out.flow = document.getElementById("details").textContent;
press(document.body, "Escape");
out.cleared = document.getElementById("details").textContent;
press(document.querySelector("#bars svg"), "ArrowRight");
out.tip = document.getElementById("tip").textContent;
const search = document.getElementById("search");
const only = document.getElementById("tasks-only");
only.click();
out.only = all("#bars .task").length;
search.value = "MIDDLE-1";
search.dispatchEvent(new Event("input"));
out.found = all("#file-table tbody tr").map(r => r.cells[0].textContent);
const sort = document.querySelector("#stage-table th.num button");
sort.click();
out.sorted = all("#stage-table tbody tr").map(r => +r.cells[1].textContent);
out.tags = all("main *").map(e => e.localName).filter(n => ["script", "img", "iframe"].includes(n));
out.text = document.body.innerText;
out.loaded = performance.getEntriesByType("resource").length;
out.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
const result = document.createElement("pre");
result.id = "probe";
result.textContent = JSON.stringify(out);
document.body.append(result);
"""
CATCH = (
    "window.probeErrors = []; addEventListener('error', e => probeErrors.push(String(e.message)));"
    "addEventListener('securitypolicyviolation', e => probeErrors.push(e.violatedDirective + e.blockedURI));"
)


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


def browse(page: Path, *options: str) -> tuple[str, str]:
    """The document after its scripts ran, and what the browser wrote on stderr."""
    assert BROWSER is not None
    profile = page.parent / "profile"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    command += [
        f"--user-data-dir={profile}",
        "--window-size=1300,900",
        "--virtual-time-budget=5000",
        *options,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return done.stdout.decode(), done.stderr.decode(errors="replace")


def probed(data: dict[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """What the probe saw on the page of `data`, and the browser's console."""
    text = report.html(data)
    for script in (CATCH, PROBE):
        text = text.replace("script-src '", f"script-src '{report.digest(script)}' '", 1)
    text = text.replace("<title>", f"<script>{CATCH}</script><title>", 1).replace(
        "</body>", f"<script>{PROBE}</script></body>", 1
    )
    page = directory / "page.html"
    page.write_text(text, encoding="utf-8")
    document, errors = browse(page, "--dump-dom")
    found = re.search('<pre id="probe">(.*?)</pre>', document, re.S)
    assert found, f"the probe did not run:\n{errors}"
    return json.loads(html.unescape(found[1])), errors


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    return probed(summary.collect(story().run(2)), tmp_path_factory.mktemp("page"))


def test_it_draws_everything_inside_the_figure(seen: tuple[dict[str, Any], str]) -> None:
    out, _ = seen
    assert out["ready"] == "yes"
    assert (out["nodes"], out["ribbons"]) == (4, 3), "a process that no stage claims has no flows"
    assert out["stubs"] == 3, "inputs of the first stage, results of the first and the second"
    assert (out["bars"], out["only"]) == (9, 8)
    assert out["finite"] and out["inside"] and out["apart"]
    assert not out["wide"], "the page does not scroll sideways"


def test_no_errors_and_nothing_loaded(seen: tuple[dict[str, Any], str]) -> None:
    out, console = seen
    assert out["errors"] == []
    assert out["loaded"] == 0
    assert "CONSOLE" not in console


def test_names_stay_names(seen: tuple[dict[str, Any], str]) -> None:
    out, _ = seen
    assert out["title"] != "owned"
    assert out["tags"] == []
    for name in (NAMES[0], NAMES[2]):
        assert name in out["text"]


def test_keys_and_clicks(seen: tuple[dict[str, Any], str]) -> None:
    out, _ = seen
    assert out["focusable"]
    assert out["stage"].startswith("first") and "Files written" in out["stage"]
    assert "→" in out["flow"] and "/mid/MIDDLE-" in out["flow"]
    assert out["cleared"] == ""
    assert "read" in out["tip"]


def test_search_and_sort(seen: tuple[dict[str, Any], str]) -> None:
    out, _ = seen
    assert out["found"] == ["/mid/MIDDLE-1"]
    assert out["sorted"] == sorted(out["sorted"], reverse=True)


def test_an_empty_run_has_a_page_too(tmp_path: Path) -> None:
    out, console = probed_empty(tmp_path)
    assert out == {"ready": True, "errors": False}, console


def probed_empty(directory: Path) -> tuple[dict[str, bool], str]:
    page = directory / "empty.html"
    page.write_text(report.html(summary.collect(Story().run())), encoding="utf-8")
    document, console = browse(page, "--dump-dom")
    return {"ready": 'data-ready="yes"' in document, "errors": "CONSOLE" in console}, console
