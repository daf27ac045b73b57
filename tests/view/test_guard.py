"""80 path tricks, 20 foreign hosts, 6 methods, 200 slow sockets: none through, and it still answers."""

import socket
import sys
import time

import pytest

from unsee.view import guard
from view.asking import received, status

UPS = ["..", "%2e%2e", "%2E%2e", ".%2e", "%252e%252e", "%25252e%25252e", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae"]
UPS += ["..;", "..%00", "....", "..%01", "%uff0e%uff0e", "%u002e%u002e", "\u2025".encode().decode("latin-1")]
BARS = ["/", "%2f", "%252f", "%5c", "\\", "%c0%af", "//", "/./"]
TRICKS = [bar.join([up] * 6 + ["etc", "passwd"]) for up in UPS[:12] for bar in BARS[:6]]
TRICKS += [f"{up}/{up}/{up}/etc/passwd" for up in UPS[12:14]]
TRICKS += [
    "/etc/passwd",
    "///etc/passwd",
    "%2fetc%2fpasswd",
    "file:///etc/passwd",
    "C:/windows/win.ini",
    "run.json",
    "tiles/run.json",
    "tiles%2frun.json",
    "style.css/../../run.json",
    "style.css%00.html",
    "STYLE.CSS",
    "run/",
    "run/tiles",
    "run/tiles/report",
    "run/..%2f..%2fetc/report",
    "run/%00/report",
    "run//report",
    "view.js/",
    "htmx.min.js",
    "server.py",
    "style.css?/../../etc/passwd#".replace("?", "%3f").replace("#", "%23"),
    "~root/.ssh/id_rsa",
    "proc/self/environ",
    "A" * 9000,
]
HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:{port}0",
    "127.0.0.1:0{port}",
    "127.0.0.1.evil.example:{port}",
    "evil.127.0.0.1:{port}",
    "localhost.evil.example:{port}",
    "localhost.:{port}",
    "127.0.0.2:{port}",
    "0.0.0.0:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "0x7f000001:{port}",
    "[::]:{port}",
    "::1:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "127.0.0.1:{port}@evil.example",
    "evil.example, 127.0.0.1:{port}",
    "",
    "user@127.0.0.1:{port}",
]
METHODS = ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(guard, "PATIENCE", 1.0)


def test_no_path_trick_comes_through(served):
    """None is answered with anything, and none of them opens a file."""
    assert len(TRICKS) == len(set(TRICKS)) >= 80
    assert served.ask("/").status == 200
    opened = []
    watching = True

    def watch(event, arguments):
        if watching and event in ("open", "os.listdir", "os.scandir"):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    try:
        for trick in TRICKS:
            for path in (f"/{trick}", f"{served.viewer.base}/{trick}", f"{served.viewer.base}/run/{trick}"):
                line = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
                answer = served.raw(f"{line}Connection: close\r\n\r\n".encode("latin-1"))
                assert status(answer) in (400, 404), (path, answer[:100])
                assert b"root:" not in answer
                assert b"inputs" not in answer
    finally:
        watching = False
    # What it reads by itself now and then: the folder that it serves, and its own templates.
    known = (str(served.viewer.shelf.folder), str(guard.__file__.rsplit("/", 2)[0]))
    assert [path for path in opened if not path.startswith(known)] == []


@pytest.mark.parametrize("host", HOSTS)
def test_no_other_host_is_answered(served, host):
    assert len(set(HOSTS)) >= 20
    text = host.format(port=served.port)
    for path in ("/", f"/run/{served.id('tiles')}/report", "/style.css"):
        answer = served.ask(path, Host=text)
        assert answer.status == 400
        assert b"<" not in answer.body


def test_the_hosts_of_this_machine_are(served):
    for name in ("127.0.0.1", "localhost", "LocalHost", "[::1]"):
        assert served.ask("/", Host=f"{name}:{served.port}").status == 200
    bare = served.raw(f"GET {served.viewer.base}/ HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
    assert status(bare) == 400
    both = f"GET {served.viewer.base}/ HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nHost: evil\r\n"
    both += "Connection: close\r\n\r\n"
    assert status(served.raw(both.encode())) == 400


@pytest.mark.parametrize("method", METHODS)
def test_no_other_method_is_answered(served, method):
    for path in ("/", f"/run/{served.id('tiles')}/answers"):
        answer = served.ask(path, method)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD, POST"


def test_post_is_for_the_viewers_own_pages(served):
    path = f"/run/{served.id('tiles')}/answers"
    good = f"http://127.0.0.1:{served.port}"
    assert served.ask(path, "POST", b"picture=s0", Origin=good, Sec_Fetch_Site="same-origin").status == 200
    for headers in (
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": f"https://127.0.0.1:{served.port}"},
        {"Origin": f"{good}.evil.example"},
        {"Origin": good, "Sec_Fetch_Site": "cross-site"},
        {"Origin": good, "Sec_Fetch_Site": "same-site"},
        {"Origin": good, "Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "same-origin"},
    ):
        assert served.ask(path, "POST", b"picture=s0", **headers).status == 403, headers
    assert served.post("/").status == 405
    assert served.ask(path).status == 405


def test_other_sites_may_link_here_and_not_hold_it(served):
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert served.ask("/", **link).status == 200
    for more in ({"Sec_Fetch_Dest": "iframe"}, {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}):
        assert served.ask("/", **{**link, **more}).status == 403
    assert served.ask("/", **{**link, "Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"}).status == 403


def test_without_the_secret_there_is_nothing(served):
    for path in (
        "/",
        "",
        "/index.html",
        "/run",
        f"/{'x' * 22}/",
        f"/{served.viewer.base[1:-1]}/",
        "/style.css",
    ):
        answer = served.ask(path or "/", whole=True)
        assert answer.status == 404
        assert "unsee view" in answer.text
        assert served.viewer.base[1:] not in answer.text


def test_every_answer_says_what_a_browser_may_do(served):
    id = served.id("tiles")
    for path in (
        "/",
        f"/run/{id}",
        f"/run/{id}/try",
        f"/run/{id}/report",
        "/style.css",
        "/nothing",
        "/htmx.js",
    ):
        headers = served.ask(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe-eval" not in policy
        assert "http" not in policy
        assert {"set-cookie", "server", "access-control-allow-origin"}.isdisjoint(headers)
        if path.endswith("/report"):
            assert "script-src" not in policy
            assert policy.endswith("sandbox")
        else:
            assert "unsafe-inline" not in policy
    assert served.ask("/", Host="evil").headers["content-security-policy"].startswith("default-src 'none'")


def test_a_head_has_no_body(served):
    answer = served.ask("/", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 1000


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=range(9),
)
def test_bytes_that_are_no_request_end_in_a_refusal(served, impatient, sent):
    assert status(served.raw(sent)) in (0, 400, 404, 431)
    assert served.ask("/").status == 200


def test_a_body_has_a_limit_whether_it_says_so_or_not(served):
    path, origin = f"/run/{served.id('tiles')}/answers", f"http://127.0.0.1:{served.port}"
    assert served.post(path, b"x" * 3000).status == 422
    head = (
        f"POST {served.viewer.base}{path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nOrigin: {origin}\r\n"
        "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunks = b"".join(b"100\r\n" + b"x" * 256 + b"\r\n" for _ in range(20)) + b"0\r\n\r\n"
    assert status(served.raw(head.encode() + chunks)) == 422


def slow_sockets(port, count, start=b"GET / HT"):
    found = []
    for _ in range(count):
        found.append(socket.create_connection(("127.0.0.1", port)))
        found[-1].sendall(start)
    return found


def test_200_slow_sockets_and_it_still_answers_within_a_second(served, impatient):
    served.ask("/")
    body = (
        f"POST {served.viewer.base}/run/{served.id('tiles')}/answers HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{served.port}\r\nOrigin: http://127.0.0.1:{served.port}\r\n"
        "Content-Length: 1000\r\n\r\npic"
    )
    slow = slow_sockets(served.port, 100) + slow_sockets(served.port, 50, b"")
    slow += slow_sockets(served.port, 50, body.encode())
    try:
        times = []
        for _ in range(5):
            start = time.monotonic()
            assert served.ask("/").status == 200
            times.append(time.monotonic() - start)
        assert max(times) < 1.0, times
        # And nobody is waited for without end; while the models are opened, some are told to come again.
        for connection in slow:
            connection.settimeout(10)
            answer = b"".join(iter(lambda c=connection: received(c), b""))
            assert status(answer) in (0, 422, 503)
    finally:
        for connection in slow:
            connection.close()


def test_of_too_many_connections_the_longest_waiting_makes_room(served, monkeypatch):
    monkeypatch.setattr(guard, "MOST_CONNECTIONS", 20)
    slow = slow_sockets(served.port, 30)
    try:
        assert served.ask("/").status == 200
        slow[0].settimeout(5)
        assert received(slow[0]) == b""
        assert served.ask("/").status == 200
    finally:
        for connection in slow:
            connection.close()


def test_port_80_needs_no_number():
    hosts = guard.Guard(lambda *_: None, 80, "x").hosts
    assert {"127.0.0.1", "localhost", "127.0.0.1:80"} < hosts
