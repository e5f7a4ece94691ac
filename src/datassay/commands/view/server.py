"""The server of a review: this machine only, one secret, a fixed list of addresses.

No path of the file system comes from a request: samples are named by their place. Every request
needs the token that the printed address holds, and the name that we were called by; what changes
something must come from our own page.
"""

import hmac
import html
import json
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from datassay.commands.command import PAGE
from datassay.commands.view.finish import DONE, Finish
from datassay.commands.view.session import Refused, Session, require
from datassay.data.source import reading
from datassay.errors import DataError, DatassayError, SettingError

HOME = "127.0.0.1"
LARGEST_POST = 1_000_000  # bytes
MOST_AT_ONCE = 100
MOST_OPEN = 50  # connections, each of which holds a thread; a browser has six
TOKEN = "X-Datassay-Token"
POLICY = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")([^"]*)(">)')
MODE = 'id="reviewing" data-asks="2" data-mode="page"'  # what its script asks of a server
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class ServedPage:
    """The page of a run that a server serves."""

    def __init__(self, text: str, name: str, mode: str = "server"):
        match = POLICY.search(text)
        if match is None or text.count(MODE) != 1:
            raise DataError(
                f"{name} must be a page with a review of this version; it has none. Run again."
            )
        policy = f"{html.unescape(match[2])}; connect-src 'self'"
        self.policy = f"{policy}; frame-ancestors 'none'"
        text = text.replace(MODE, MODE.replace("page", mode))
        head = f"{match[1]}{html.escape(policy)}{match[3]}"
        self.body = text.replace(match[0], head, 1).encode()


class ReviewServer(ThreadingHTTPServer):
    """A server of one review, until it is closed."""

    daemon_threads = True
    allow_reuse_address = hasattr(socket, "AF_UNIX")  # elsewhere it lets two servers share a port

    def __init__(self, session: Session, page: ServedPage, port: int, finish: Finish):
        if not 0 <= port < 65536:
            raise SettingError(f"port must lie in 0 ... 65535; got {port}. Leave it out.")
        self.finish = finish  # before what may fail, and then closes
        try:
            super().__init__((HOME, port), Handler)
        except OSError as error:
            raise SettingError(
                f"port must be free on {HOME}; {port} is not: {error.strerror or error}. Leave "
                "--port out, or choose another."
            ) from error
        self.session = session
        self.page = page
        self.token = secrets.token_urlsafe(32)
        self.hosts = {f"{name}:{self.server_port}" for name in (HOME, "localhost")}

    def server_close(self) -> None:
        """Close the server, and end what it has running."""
        self.finish.stop()
        super().server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a new thread; close the connection if there are too many already."""
        if threading.active_count() > MOST_OPEN:
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    @property
    def url(self) -> str:
        """The address of the page; whoever knows it can read the samples and decide."""
        return f"http://{HOME}:{self.server_port}/?token={self.token}#review"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that goes away in the middle of an answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """The handler of the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "datassay"
    sys_version = ""
    timeout = 10  # seconds without a request
    server: ReviewServer  # pyrefly: ignore[bad-override-mutable-attribute] (serves no other)

    def do_GET(self) -> None:
        """Send the page, samples, or what is left to review."""
        session = self.server.session
        self._send_answer({
            "/": lambda: self.server.page,
            "/after": self._after_page,
            "/api/samples": session.samples,
            "/api/news": lambda: session.changes_since(self._read_version()),
            "/api/finish": lambda: self._finish_commands() | self.server.finish.state(),
            "/api/pictures": lambda: session.pictures(self._read_rows()),
            "/api/details": lambda: session.details(self._read_rows()),
            "/api/remaining": session.remaining,
        })  # fmt: skip

    def do_POST(self) -> None:
        """Store decisions, or carry them out and measure what that gained."""
        self._send_answer({
            "/api/decisions": lambda: self.server.session.change(
                self._read_message().get("changes")
            ),
            "/api/finish": lambda: self.server.finish.start(
                majority=self._read_message().get("majority") is True
            ),
        })

    def _send_answer(self, routes: dict[str, Callable[[], Any]]) -> None:
        """Send the result of the route that the address names, or why there is none."""
        try:
            self._check_sender()
            path = self._address.path
            require(path in routes, 404, "There is no such address.")
            result = routes[path]()
        except Refused as refused:
            return self._refuse(refused.status, str(refused))
        except DatassayError as error:  # a file of an image is gone
            return self._refuse(500, str(error))
        if isinstance(result, ServedPage):
            return self._send(200, result.body, "text/html; charset=utf-8", result.policy)
        self._send_json(200, result)

    def _check_sender(self) -> None:
        """Raise unless the request is for us, from our page, and holds the token."""
        heads = self.headers
        is_host = heads.get_all("Host", []) in [[host] for host in self.server.hosts]
        require(is_host, 403, "Host must be the one that datassay view printed.")
        origin = heads.get("Origin")
        is_from_page = origin is None or origin.removeprefix("http://") in self.server.hosts
        if self.command == "POST":
            is_from_page &= heads.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        require(is_from_page, 403, "Requests must come from the page itself.")
        token = heads.get(TOKEN, "")
        if self._address.path in {"/", "/after"} and self.command == "GET":
            token = self._query("token")
        is_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        require(is_token, 403, "Open the whole address that datassay view printed.")

    @property
    def _address(self) -> SplitResult:
        try:
            return urlsplit(self.path)
        except ValueError as error:
            raise Refused(404, "There is no such address.") from error

    def _query(self, name: str) -> str:
        """Return a parameter of the address; "" unless it is given once."""
        try:
            values = parse_qs(self._address.query, max_num_fields=10).get(name, [""])
        except ValueError:
            return ""
        if len(values) == 1:
            return values[0]
        return ""

    def _read_rows(self) -> list[int]:
        """Return the row numbers that the address asks about."""
        text = self._query("at")
        require(re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text), 404, "at must hold row numbers.")
        rows = [int(number) for number in text.split(",")]
        require(len(rows) <= MOST_AT_ONCE, 400, f"at may hold {MOST_AT_ONCE} positions.")
        return rows

    def _read_version(self) -> int:
        text = self._query("since")
        require(re.fullmatch(r"[0-9]{1,18}", text), 404, "since must be a version.")
        return int(text)

    def _after_page(self) -> ServedPage:
        """Return the page of the corrected data, whose own review the browser keeps."""
        path = self.server.finish.after / PAGE
        require(self.server.finish.state()["state"] == DONE, 404, "Nothing was measured yet.")
        with reading(path):
            return ServedPage(path.read_text(encoding="utf-8"), str(path), "page")

    def _finish_commands(self) -> dict[str, Any]:
        finish = self.server.finish
        return {"commands": finish.lines(), "majority": finish.lines(majority=True)}

    def _read_message(self) -> dict[str, Any]:
        """Read what was sent, a JSON object; {} for another value."""
        is_json = self.headers.get_content_type() == "application/json"
        require(is_json, 415, "A message must be application/json.")
        length = self.headers.get("Content-Length", "")
        require(re.fullmatch(r"[0-9]{1,18}", length), 411, "Content-Length must be given.")
        require(int(length) <= LARGEST_POST, 413, f"A message may have {LARGEST_POST:,} bytes.")
        try:
            message = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise Refused(400, "The message must be JSON.") from error
        if isinstance(message, dict):
            return message
        return {}

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # what was sent with the request may not have been read
        self._send_json(status, {"error": why})

    def _send_json(self, status: int, value: Any) -> None:
        body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
        self._send(status, body, "application/json", NOTHING)

    def _send(self, status: int, body: bytes, kind: str, policy: str) -> None:
        """Send a body of a content type, with our headers and a content security policy."""
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body))}
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in {**HEADERS, **headers, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send what the base class refuses, such as another method, in our words and headers."""
        self._refuse(code, message or "This cannot be answered.")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are nobody's business, and the terminal stays quiet."""
