"""A folder of answers on localhost, for a browser on this machine: `tailrace open`.

    Page (name -> file) --serve()--> http://127.0.0.1:PORT/TOKEN/name

Any user of the machine can connect to the port, and any page in a browser can make it request the address. So each
address contains a token that nobody can guess, everything else is 404, and only https://ui.perfetto.dev may read
answers from other pages. There are no folders: a request names one of the files that are served, or nothing.

The browser hands the timeline to Perfetto by postMessage. Rejected: a link with its address, since ui.perfetto.dev
would then have to be allowed to read any port of localhost. Other `Host`s are refused (DNS rebinding).
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HOST = "127.0.0.1"
PERFETTO = "https://ui.perfetto.dev"
TYPES = {".html": "text/html; charset=utf-8", ".gz": "application/gzip", ".json": "application/json"}


class Server(ThreadingHTTPServer):
    """Serves files by name on a free port of localhost, below a token."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)
        self.token = secrets.token_urlsafe(24)
        super().__init__((HOST, 0), _Handler)

    @property
    def origin(self) -> str:
        """The server's address."""
        return f"http://{HOST}:{self.server_address[1]}"

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"{self.origin}/{self.token}/{name}"

    def wanted(self, target: str) -> Path | None:
        """The file that a request names."""
        try:
            path = urlsplit(target).path
        except ValueError:
            return None  # no address at all, as in http://[/
        _, _, rest = path.partition("/")
        token, slash, name = rest.partition("/")
        # In constant time, so that the token can't be found letter by letter.
        right = secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        return self.files.get(name) if right and slash else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that took the part that it needed, and went."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = self.server.wanted(self.path) if self._is_local() else None
        try:
            file = None if path is None else path.open("rb")
        except OSError:
            file = None
        if path is None or file is None:
            self._head(HTTPStatus.NOT_FOUND, 0, "text/plain")
            return
        with file:
            size = path.stat().st_size
            self._head(HTTPStatus.OK, size, TYPES.get(path.suffix, "application/octet-stream"))
            if with_body:
                shutil.copyfileobj(file, self.wfile)

    def _is_local(self) -> bool:
        """Whether the request was for this address: a name that another site has pointed to it is refused."""
        return self.headers.get("Host") == f"{HOST}:{self.server.server_address[1]}"

    def _head(self, status: HTTPStatus, size: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if self.headers.get("Origin") == PERFETTO:
            self.send_header("Access-Control-Allow-Origin", PERFETTO)
            self.send_header("Vary", "Origin")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: stderr is for what the user has to know."""
