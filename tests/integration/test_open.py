"""`tailrace open`: what it serves, to whom it doesn't, and the page in a browser."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.browser_page import BROWSER, NO_BROWSER, browser
from support.flowcase import Story
from support.story_run import on_disk

__all__ = ["browser"]
LIMIT_S = 300


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The command, and the addresses that it printed."""
    story = Story()
    story.write("/d/a", stage="make", task="m1", pid=1)
    story.read("/d/a", stage="use", task="u1", pid=2)
    folder = tmp_path_factory.mktemp("open")
    run = on_disk(story.run(), folder / "run")
    # Tests that run in the background ignore SIGINT.
    command = [
        "env",
        "--default-signal=INT",
        sys.executable,
        "-m",
        "tailrace.cli.main",
        "open",
        str(run.path),
        "--no-browser",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(2)]
    try:
        yield process, dict(line.split(": ", 1) for line in lines)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def asked(
    address: str, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; the path goes out as it is."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
    connection.putrequest(method, path, skip_host="Host" in (headers or {}))
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_the_page_and_the_timeline_are_served(served: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    _, addresses = served
    page = urlsplit(addresses["page"])
    assert page.hostname == "127.0.0.1"
    status, headers, body = asked(addresses["page"], page.path)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<html" in body
    assert "Access-Control-Allow-Origin" not in headers
    status, headers, body = asked(addresses["page"], page.path.replace("report.html", "timeline.json.gz"))
    events = json.loads(gzip.decompress(body))["traceEvents"]
    assert {event["args"]["stage"] for event in events if event.get("cat") == "task"} == {"make", "use"}
    status, headers, body = asked(addresses["page"], page.path, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_only_perfetto_may_read_it_from_another_page(served: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    _, addresses = served
    path = urlsplit(addresses["page"]).path
    for origin, allowed in (("https://ui.perfetto.dev", True), ("https://evil.example", False), ("null", False)):
        _, headers, _ = asked(addresses["page"], path, {"Origin": origin})
        assert headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)


def test_nothing_else_is_served(served: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    _, addresses = served
    path = urlsplit(addresses["page"]).path
    token = path.split("/")[1]
    for wrong in (
        "/",
        "/report.html",
        f"/{token}",
        f"/{token}/",
        f"/{token[:-1]}/report.html",
        f"/{token}x/report.html",
        f"/{token}/../report.html",
        f"/{token}/../../etc/passwd",
        f"/{token}/%2e%2e/%2e%2e/etc/passwd",
        f"/{token}//etc/passwd",
        f"/{token}/./report.html",
        "/%C3%A9/report.html",
        f"/{token}/report.html%00",
    ):
        assert asked(addresses["page"], wrong)[0] == 404, wrong
    # A name of another site that resolves to this address.
    assert asked(addresses["page"], path, {"Host": "evil.example"})[0] == 404
    assert asked(addresses["page"], path, method="POST")[0] == 501


def test_what_is_no_address_and_a_browser_that_goes_are_not_said(
    served: tuple[subprocess.Popen[str], dict[str, str]],
) -> None:
    _, addresses = served
    page = urlsplit(addresses["page"])
    with socket.create_connection((page.hostname, page.port), timeout=LIMIT_S) as connection:
        connection.sendall(f"GET http://[/x HTTP/1.1\r\nHost: {page.netloc}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 404 ")
    with socket.create_connection((page.hostname, page.port), timeout=LIMIT_S) as connection:
        connection.sendall(f"GET {page.path} HTTP/1.1\r\nHost: {page.netloc}\r\n\r\n".encode())
        connection.recv(1)
        # Its end is a reset, also where all was sent.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # test_ctrl_c_ends_it_and_leaves_nothing reads what was said.


def test_it_listens_on_this_machine_only(served: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    process, addresses = served
    port = urlsplit(addresses["page"]).port
    table = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
    listening = [row.split()[1] for row in table if row.split()[3] == "0A" and row.split()[1].endswith(f":{port:04X}")]
    local = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
    assert listening == [f"{local}:{port:04X}"]


@NO_BROWSER
def test_a_browser_shows_the_page_and_hands_the_timeline_over(
    served: tuple[subprocess.Popen[str], dict[str, str]], browser: object
) -> None:
    _, addresses = served
    context = browser.new_context()  # type: ignore[attr-defined]
    # Perfetto's page is not reachable in a test: another one in its place answers as it does.
    context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(
            content_type="text/html",
            body="""<script>addEventListener("message", e => {
              if (e.data === "PING") e.source.postMessage("PONG", e.origin);
              else if (e.data.perfetto) document.title = "got " + e.data.perfetto.buffer.byteLength;
            })</script>""",
        ),
    )
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(addresses["page"], timeout=LIMIT_S * 1000)
    tab.wait_for_selector("#sankey .node", timeout=LIMIT_S * 1000)
    tab.goto(addresses["timeline"], timeout=LIMIT_S * 1000)
    with context.expect_page(timeout=LIMIT_S * 1000) as opened:
        tab.click("#open")
    opened.value.wait_for_function("document.title.startsWith('got ')", timeout=LIMIT_S * 1000)
    path = urlsplit(addresses["timeline"]).path.replace("timeline.html", "timeline.json.gz")
    assert opened.value.title() == f"got {len(asked(addresses['timeline'], path)[2])}"
    assert errors == []
    assert BROWSER is not None
    context.close()


def test_ctrl_c_ends_it_and_leaves_nothing(served: tuple[subprocess.Popen[str], dict[str, str]]) -> None:
    process, _ = served
    folders = [Path(entry) for entry in _open_folders(process)]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said.splitlines()[0] == "Ctrl-C ends it."
    assert "Exception" not in said
    assert not any(folder.exists() for folder in folders)
    assert folders


def _open_folders(process: subprocess.Popen[str]) -> list[str]:
    """The temporary folders of the command."""
    environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    folder = next(os.fsdecode(one.split(b"=", 1)[1]) for one in environment if one.startswith(b"TMPDIR="))
    return [str(path) for path in Path(folder).glob("tailrace-*")]
