"""Who may ask the server of a review, and for what: everything else is refused."""

import contextlib
import socket
import threading
import time
from urllib.parse import quote

import pytest

from datassay.act.review.decisions import read_decisions
from datassay.commands.view.server import LARGEST_POST, MOST_OPEN
from helpers.findings import EVIL
from helpers.reviews import ask, served

WHEN = "2026-11-23T09:00:00.000Z"
KEEP = {"row": 3, "decision": "keep", "when": WHEN, "seen": 0.5}


@pytest.fixture
def server(folder):
    with served(folder) as running:
        yield running


def decided(server):
    return server.session.finish()


def test_the_page_opens_by_its_address_and_by_no_other(server):
    status, page, headers = ask(server, f"/?token={server.token}", X_Datassay_Token=None)
    assert status == 200 and 'data-mode="server"' in page
    assert server.token not in page
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "connect-src 'self'; frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"]
    for query in ("", "?token=", "?token=wrong", f"?token={server.token}x", f"?t={server.token}"):
        assert ask(server, f"/{query}")[0] == 403


@pytest.mark.parametrize("path", ["/", "/api/samples", "/api/decisions", "/nothing"])
def test_every_answer_says_what_a_browser_may_not_do(server, path):
    headers = ask(server, path, X_Datassay_Token="wrong")[2]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_only_this_machine_can_connect(server):
    assert server.server_address[0] == "127.0.0.1"
    others = {result[4][0] for result in socket.getaddrinfo(socket.gethostname(), 0)}
    for address in others - {"127.0.0.1", "::1"}:
        with pytest.raises(OSError), socket.create_connection((address, server.server_port), 1):
            pass


# A page that a user visits, a name that an attacker points at 127.0.0.1, a token that is guessed.
STRANGERS = [
    *({"X_Datassay_Token": token} for token in (None, "", "wrong", "Ã©", "a" * 5000)),
    *({"Host": host} for host in ("evil.example", "127.0.0.1", "localhost", "", "127.0.0.1:1")),
    *({"Origin": origin}
      for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://")),
]  # fmt: skip


@pytest.mark.parametrize("headers", STRANGERS)
def test_a_stranger_is_refused(server, headers):
    for path, body in (("/api/samples", None), ("/api/decisions", {"changes": [KEEP]})):
        assert ask(server, path, body, **headers)[0] == 403
    by_address = {"X_Datassay_Token": None} | headers
    if "Origin" not in headers:
        path = "/api/samples" if "Host" not in headers else "/"
        assert ask(server, f"{path}?token={server.token}", **by_address)[0] == 403
    assert decided(server) == 0


def test_a_post_from_another_site_is_refused(server):
    body = {"changes": [KEEP]}
    for site in ("cross-site", "same-site", "none"):
        assert ask(server, "/api/decisions", body, Sec_Fetch_Site=site)[0] == 403
    text = "text/plain"  # what a form of another site may send without asking
    assert ask(server, "/api/decisions", body, Content_Type=text)[0] == 415
    assert decided(server) == 0
    assert ask(server, "/api/samples", Host=f"localhost:{server.server_port}")[0] == 200
    assert ask(server, "/api/decisions", body, Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
     "/index.html", "/summary.json", "/decisions.parquet", "/api/../index.html", "/api/samples/",
     "/api/details?at=../../etc/passwd", "/api/pictures?at=/etc/passwd", "/.datassay.json"],
)  # fmt: skip
def test_no_path_of_the_disk_can_be_asked_for(server, path):
    status, predicted, _ = ask(server, path)
    assert status == 404 and set(predicted) == {"error"}


@pytest.mark.parametrize("index", ["90", "999999999", "-1", "", "1,", "a", "1e3", "0x1", "٣", "1 "])
def test_an_unknown_sample_is_not_found(server, index):
    assert ask(server, f"/api/details?at={quote(index)}")[0] == 404
    assert ask(server, f"/api/pictures?at={quote(index)}")[0] == 404


def test_not_too_many_samples_at_once(server):
    assert ask(server, f"/api/pictures?at={','.join(['1'] * 100)}")[0] == 200
    assert ask(server, f"/api/pictures?at={','.join(['1'] * 101)}")[0] == 400


def test_a_huge_message_is_refused_unread(server):
    body = b" " * (LARGEST_POST + 1)
    with socket.create_connection(("127.0.0.1", server.server_port), 10) as raw:
        head = (
            f"POST /api/decisions HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
            f"X-Datassay-Token: {server.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")
    for length in ("-1", "1e9", "x", ""):
        predicted = ask(server, "/api/decisions", b"{}", Content_Length=length)
        assert predicted[0] == 411


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[]", b"1", b"null", b'{"changes": {}}', b'{"changes": []}',
     b'{"changes": [1]}', b'{"changes": [{}]}', b"[" * 100_000,
     b'{"changes": [{"row": NaN, "decision": "keep"}]}'],
)  # fmt: skip
def test_what_is_no_message_is_refused(server, body):
    status, predicted, _ = ask(server, "/api/decisions", body)
    assert status in {400, 404} and predicted["error"]
    assert decided(server) == 0


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"row": 90}, 404),
        ({"row": -1}, 404),
        ({"row": "3"}, 404),
        ({"row": True}, 404),
        ({"decision": "burn"}, 400),
        ({"decision": ["keep"]}, 400),
        ({"decision": "relabel"}, 400),
        ({"decision": "relabel", "label": "bird"}, 400),
        ({"decision": "relabel", "label": 0}, 400),
        ({"decision": "relabel", "label": ["cat"]}, 400),
        ({"when": "yesterday"}, 400),
        ({"when": 1}, 400),
    ],
)
def test_one_bad_change_changes_nothing(server, change, status):
    good = {**KEEP, "row": 5}
    assert ask(server, "/api/decisions", {"changes": [good, KEEP | change]})[0] == status
    assert decided(server) == 0


def test_an_address_that_is_none_is_refused(server, capfd):
    with socket.create_connection(server.server_address, 60) as connection:
        host = f"127.0.0.1:{server.server_port}"
        connection.sendall(f"GET http://[ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(99).startswith(b"HTTP/1.1 404")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_connections_that_ask_nothing_hold_few_threads(server):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_OPEN + 20):
            stack.enter_context(socket.create_connection(server.server_address, 60))
        assert threading.active_count() <= MOST_OPEN + 1
    until = time.monotonic() + 60
    while ask(server, "/api/samples")[0] != 200:
        assert time.monotonic() < until


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server, method):
    status, _, headers = ask(server, "/api/samples", method=method)
    assert status == 501 and "Access-Control-Allow-Origin" not in headers


def test_what_is_decided_is_in_the_file_at_once(server, folder):
    relabel = {**KEEP, "row": 4, "decision": "relabel", "label": EVIL}
    assert ask(server, "/api/decisions", {"changes": [KEEP, relabel]})[1] == {"count": 2}
    read = read_decisions(folder / "decisions.parquet")
    assert [(one.id, one.decision, one.label) for one in read.decisions] == [
        ("<i>3", "keep", ""),
        ("<i>4", "relabel", EVIL),
    ]
    taken = {"row": 3, "decision": None}
    assert ask(server, "/api/decisions", {"changes": [taken]})[1] == {"count": 1}
    assert [one.id for one in read_decisions(folder / "decisions.parquet").decisions] == ["<i>4"]


def test_what_one_window_decided_is_news_to_another(server):
    assert ask(server, "/api/news?since=0")[1] == {"version": 0, "decisions": []}
    for change in (KEEP, KEEP | {"row": 4}, {"row": 4, "decision": None}):
        assert ask(server, "/api/decisions", {"changes": [change]})[0] == 200
    _, news, _ = ask(server, "/api/news?since=1")
    assert news == {"version": 3, "decisions": [{"row": 4, "decision": None}]}
    (first,) = [one for one in ask(server, "/api/news?since=0")[1]["decisions"] if one["row"] == 3]
    assert first["decision"] == "keep" and first["when"].startswith("2026-11-23T09:00")
    assert ask(server, "/api/news?since=x")[0] == 404


def test_the_end_says_how_to_go_on_and_begins_nothing_without_decisions(server):
    _, state, _ = ask(server, "/api/finish")
    apply, run = state["commands"]
    assert apply.startswith("datassay apply ") and apply.endswith("run-corrected")
    assert run.startswith("datassay run ") and " --before " in run
    assert "--majority" in state["majority"][0] and state["state"] == "idle"
    status, refused, _ = ask(server, "/api/finish", {"majority": False})
    assert (status, refused) == (400, {"error": "Nothing was decided yet."})
