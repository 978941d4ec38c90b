"""The answers of the gateway over HTTP, on real sockets."""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import tidewheel as tw
from tests.kit.gateway.served import (
    Answer,
    ask,
    path_of,
    published,
    read_event,
    received,
    requested,
    served,
    socket_to,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S
from tidewheel.gateway import Gateway

TOPIC = "http/a topic"
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway with a token, before one topic that goes on."""
    with published(TOPIC), served(token=TOKEN, origins=frozenset({"http://localhost:3000"})) as running:
        yield running


def is_refusal(answer: Answer, status: int, says: str) -> bool:
    """Tell whether an answer is a refusal in JSON that no cache keeps, and that shows no token."""
    return (
        answer.status == status
        and says in answer.message
        and answer.headers["content-type"] == "application/json"
        and answer.headers["cache-control"] == "no-store"
        and TOKEN not in answer.message
    )


def test_topics_are_listed(gateway: Gateway) -> None:
    """With what is known of each."""
    answer = ask(gateway, "/topics")
    assert answer.status == 200
    (found,) = [topic for topic in answer.content if topic["name"] == TOPIC]
    assert (found["job"], found["partitions"]) == ("job", 1)


@pytest.mark.parametrize("path", ["/topics", path_of(TOPIC), "/jobs", "/nowhere", path_of("http/nowhere")])
def test_without_the_token_there_is_nothing(gateway: Gateway, path: str) -> None:
    """Not even whether there is such a page, or topic."""
    for authorization in ("", "Bearer wrong", f"Basic {TOKEN}"):
        answer = ask(gateway, path, authorization=authorization)
        assert is_refusal(answer, 401, "there is no token" if not authorization else "the token is wrong")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert gateway.clients == 0


def test_a_token_in_the_query_opens_event_streams_only(gateway: Gateway) -> None:
    """Where a browser can show it in no other way."""
    with requested(gateway, path_of(TOPIC, query=f"token={TOKEN}"), authorization="") as response:
        assert response.status == 200
    assert is_refusal(ask(gateway, f"/topics?token={TOKEN}", authorization=""), 401, "there is no token")
    assert is_refusal(ask(gateway, path_of(TOPIC, query="token=wrong"), authorization=""), 401, "wrong")
    assert is_refusal(ask(gateway, path_of(TOPIC, query="token=wrong")), 401, "wrong")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "localhost.evil.example"])
def test_a_page_whose_name_was_made_to_point_here_gets_nothing(gateway: Gateway, host: str) -> None:
    """DNS rebinding, token or not."""
    assert is_refusal(ask(gateway, "/topics", host=host), 403, "this gateway is not")
    with served(token=None) as bare:
        assert is_refusal(ask(bare, "/topics", host=host), 403, "this gateway is not")
        assert ask(bare, "/topics", host="localhost:1").status == 200


def test_pages_of_other_origins_get_nothing(gateway: Gateway) -> None:
    """Also where no token is asked for, and also if they do not say who they are."""
    assert is_refusal(ask(gateway, "/topics", origin="http://evil.example"), 403, "pages of http://evil.example")
    with served(token=None) as bare:
        assert is_refusal(ask(bare, "/topics", origin="http://evil.example"), 403, "pages of http://evil.example")
        assert is_refusal(ask(bare, path_of(TOPIC), sec_fetch_site="cross-site"), 403, "other sites")
        assert bare.clients == 0


def test_pages_of_an_origin_that_was_allowed_may_ask(gateway: Gateway) -> None:
    """A browser asks before it sends a token, and shows the page only what names its origin."""
    origin = "http://localhost:3000"
    asked = {"access_control_request_method": "GET", "access_control_request_headers": "authorization"}
    before = ask(gateway, "/topics", "OPTIONS", origin=origin, authorization="", **asked)
    assert before.status == 200
    assert before.headers["access-control-allow-origin"] == origin
    assert "authorization" in before.headers["access-control-allow-headers"].lower()
    assert ask(gateway, "/topics", origin=origin).headers["access-control-allow-origin"] == origin
    refused = ask(gateway, "/topics", origin=origin, authorization="")
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, origin)
    assert is_refusal(
        ask(gateway, "/topics", "OPTIONS", origin="http://localhost:3001", authorization="", **asked), 403, "may not"
    )


def test_an_unknown_topic_is_told_with_those_that_there_are(gateway: Gateway) -> None:
    """So that a slip of the pen is seen at once."""
    answer = ask(gateway, path_of("http/a tpoic"))
    assert is_refusal(answer, 404, "nobody publishes topic 'http/a tpoic'")
    assert TOPIC in answer.content["topics"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("where=n", "where='n' is no condition"),
        ("where=__import__('os')", "is no condition"),
        ("were=n>1", "there is no parameter 'were'"),
        ("epochs=1", "epochs is true or false"),
        ("slow=block", "slow is one of disconnect, drop_epochs"),
    ],
    ids=range(5),
)
def test_a_bad_request_says_what_is_wrong(gateway: Gateway, query: str, says: str) -> None:
    """And takes nobody's place."""
    assert is_refusal(ask(gateway, path_of(TOPIC, query=query)), 400, says)
    assert gateway.clients == 0


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/page/nowhere.js", "GET", 404),
        ("/topics/", "GET", 404),
        ("/topics//events", "GET", 404),
        ("/topics/a", "GET", 404),
        (path_of(TOPIC, "socket"), "GET", 404),
        ("/topics", "POST", 405),
        (path_of(TOPIC), "DELETE", 405),
        ("/../etc/passwd", "GET", 404),
    ],
)
def test_what_is_not_there_says_what_is(gateway: Gateway, path: str, method: str, status: int) -> None:
    """In JSON, like every error."""
    assert is_refusal(ask(gateway, path, method), status, "there are GET /, /jobs, /topics, /topics/NAME/events and")


def test_a_request_for_the_head_of_a_stream_ends(gateway: Gateway) -> None:
    """It subscribes to nothing."""
    answer = ask(gateway, path_of(TOPIC), "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert gateway.clients == 0


@pytest.mark.parametrize(
    "name",
    ["http b", "http/c/events", "/http/", "http?d=1&e#f", "http%2Fg", "straße ☃", "http\"'", "+", "*"],
)
def test_a_name_may_be_any_text(gateway: Gateway, name: str) -> None:
    """Encoded as a URL's part, by HTTP and over a WebSocket."""
    with published(name) as running:
        send_end(running, 0)
        assert name in [topic["name"] for topic in ask(gateway, "/topics").content]
        assert b"event: end" in ask(gateway, path_of(name)).body
        with socket_to(gateway, path_of(name, "socket")) as found:
            assert received(found) == {"type": "end"}


def test_a_gateway_serves_what_a_local_job_publishes(gateway: Gateway) -> None:
    """Who reads runs the job, as everywhere; while it has nothing to do a client waits for what is sent to it."""
    flow = tw.Dataflow("words")
    words = flow.input("lines", str).flat_map(str.split).count().map(lambda pair: {"word": pair[0], "n": pair[1]})
    words.publish("http/words")
    with (
        tw.run(flow, engine="local") as job,
        requested(gateway, path_of("http/words", query="where=word==be")) as response,
        job.input("lines") as lines,
    ):
        for time, line in enumerate(["to be or not to be", "be"]):
            lines.send([line])
            lines.advance_to(time + 1)
            expected = {"time": time, "records": [{"word": "be", "n": line.count("be")}]}
            assert read_event(response)["data"] == expected
        lines.close()
        assert read_event(response)["event"] == "end"


def test_one_client_more_than_there_may_be_is_told_to_come_later() -> None:
    """Over each protocol; who leaves makes room."""
    with published("http/full") as running, served(max_clients=1) as gateway:
        with requested(gateway, path_of("http/full")) as first:
            assert first.status == 200
            refused = ask(gateway, path_of("http/full"))
            assert is_refusal(refused, 503, "1 clients read from this gateway already")
            assert refused.headers["retry-after"] == "5"
            with socket_to(gateway, path_of("http/full", "socket")) as found:
                assert received(found)["message"] == refused.message
            send_epoch(running, 0, [1])
            assert b"id: 0\n" in [first.readline() for _ in range(6)]
            send_end(running, 1)
            first.read()
        assert ask(gateway, path_of("http/full")).status == 200


def test_who_connects_and_asks_for_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also who asks a letter at a time; but not who reads, or has a WebSocket."""
    monkeypatch.setattr("tidewheel.gateway.web_server._ASKS_WITHIN_S", 0.3)
    with published("http/silent") as running, served() as gateway:
        place = urlsplit(gateway.url)
        with (
            requested(gateway, path_of("http/silent")) as reader,
            socket_to(gateway, path_of("http/silent", "socket")) as found,
            socket.create_connection((place.hostname, place.port), timeout=WITHIN_S) as silent,
            socket.create_connection((place.hostname, place.port), timeout=WITHIN_S) as slow,
        ):
            slow.sendall(b"GET /topics HTTP/1.1\r\nHost: local")
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(1) == b""
            with contextlib.suppress(ConnectionResetError):
                assert slow.recv(1) == b""
            send_epoch(running, 0, [1])
            assert received(found)["time"] == 0
            assert read_event(reader)["id"] == "0"


def test_who_is_refused_keeps_no_connection(gateway: Gateway) -> None:
    """Who is let in does."""
    assert ask(gateway, "/topics", authorization="").headers["connection"] == "close"
    assert ask(gateway, "/topics", host="evil.example").headers["connection"] == "close"
    assert "connection" not in ask(gateway, "/topics").headers
