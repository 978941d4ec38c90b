"""Topics over WebSockets, on real sockets."""

import json
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.kit.gateway.served import connected, path_of, published, received, requested, served, socket_to
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S

TOKEN = "correct-horse-battery-staple"


def test_epochs_come_as_objects_and_then_the_end() -> None:
    """The connection is closed after it, and nothing is left."""
    with published("sockets/a", workers=2) as running, served() as gateway:
        with socket_to(gateway, path_of("sockets/a", "socket", "where=record%3E1")) as found:
            running.wait_for_subscribers(1, WITHIN_S)
            send_epoch(running, 0, [1, 2], [3])
            assert received(found) == {"type": "epoch", "time": 0, "records": [2, 3]}
            send_end(running, 1)
            assert received(found) == {"type": "end"}
            with pytest.raises(ConnectionClosed) as closed:
                found.recv(WITHIN_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000
        assert connected(gateway, 0)


def test_a_browser_shows_its_token_as_a_subprotocol() -> None:
    """It is not sent back: what is spoken is tidewheel."""
    with (
        published("sockets/b") as running,
        served(token=TOKEN) as gateway,
        socket_to(gateway, path_of("sockets/b", "socket"), subprotocols=["tidewheel", f"bearer.{TOKEN}"]) as found,
    ):
        assert found.subprotocol == "tidewheel"
        assert found.response is not None
        assert TOKEN not in str(found.response.headers)
        send_end(running, 0)
        assert received(found) == {"type": "end"}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"subprotocols": ["tidewheel"]}, 401),
        ({"subprotocols": ["tidewheel", "bearer.wrong"]}, 401),
        ({"additional_headers": {"Authorization": "Bearer wrong"}}, 401),
        ({"origin": "http://evil.example"}, 403),
    ],
    ids=["none", "wrong", "wrong header", "origin"],
)
def test_who_may_not_ask_is_not_let_in(options: dict[str, object], status: int) -> None:
    """The answer comes over HTTP, before there is a WebSocket."""
    with published("sockets/c"), served(token=TOKEN) as gateway:
        with pytest.raises(InvalidStatus) as caught, socket_to(gateway, path_of("sockets/c", "socket"), **options):
            pass
        assert caught.value.response.status_code == status
        assert "message" in json.loads(caught.value.response.body or b"{}")
        assert gateway.clients == 0


def test_a_page_whose_name_was_made_to_point_here_is_not_let_in() -> None:
    """DNS rebinding, though it has the token."""
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13"}
    with published("sockets/i"), served(token=TOKEN) as gateway:
        for host, status in (("evil.example", 403), ("localhost", 101)):
            key = {"sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
            with requested(gateway, path_of("sockets/i", "socket"), host=host, **upgrade, **key) as response:
                assert response.status == status


def test_a_token_in_the_query_is_not_looked_at() -> None:
    """A WebSocket has a better place for it."""
    with (
        published("sockets/d"),
        served(token=TOKEN) as gateway,
        pytest.raises(InvalidStatus) as caught,
        socket_to(gateway, path_of("sockets/d", "socket", f"token={TOKEN}"), subprotocols=["tidewheel"]),
    ):
        pass
    assert caught.value.response.status_code == 401


@pytest.mark.parametrize(
    ("topic", "query", "code", "says"),
    [
        ("sockets/nowhere", "", 4404, "nobody publishes topic 'sockets/nowhere'"),
        ("sockets/e", "where=n", 4400, "where='n' is no condition"),
        ("sockets/e", "slow=block", 4400, "slow is one of disconnect, drop_epochs"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_inside(topic: str, query: str, code: int, says: str) -> None:
    """Since a browser shows its page nothing of a refusal."""
    with published("sockets/e"), served() as gateway, socket_to(gateway, path_of(topic, "socket", query)) as found:
        error = received(found)
        assert error["type"] == "error"
        assert says in error["message"]
        with pytest.raises(ConnectionClosed) as closed:
            found.recv(WITHIN_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
        assert connected(gateway, 0)


def test_a_client_that_leaves_ends_its_subscription_at_once() -> None:
    """By closing, or by breaking off; nobody else notices."""
    with (
        published("sockets/f") as running,
        served() as gateway,
        socket_to(gateway, path_of("sockets/f", "socket")) as other,
    ):
        with socket_to(gateway, path_of("sockets/f", "socket")):
            running.wait_for_subscribers(2, WITHIN_S)
        assert connected(gateway, 1)
        with socket_to(gateway, path_of("sockets/f", "socket")) as broken:
            running.wait_for_subscribers(2, WITHIN_S)
            broken.socket.shutdown(socket.SHUT_RDWR)
            assert connected(gateway, 1)
        send_epoch(running, 0, [1])
        assert received(other)["time"] == 0


def test_what_a_client_sends_is_ignored() -> None:
    """Text, bytes, and a lot of it; but one message that is too long ends the connection."""
    with published("sockets/g") as running, served() as gateway:
        with socket_to(gateway, path_of("sockets/g", "socket")) as found:
            running.wait_for_subscribers(1, WITHIN_S)
            for _ in range(100):
                found.send("DROP TABLE")
                found.send(b"\xff" * 1000)
            send_epoch(running, 0, [1])
            assert received(found)["time"] == 0
            found.send(b"\0" * 1_000_000)
            with pytest.raises(ConnectionClosed):
                found.recv(WITHIN_S)
        assert connected(gateway, 0)


def test_a_topic_that_fails_is_an_error() -> None:
    """The last object, before the connection is closed as it should be."""
    with (
        published("sockets/h") as running,
        served() as gateway,
        socket_to(gateway, path_of("sockets/h", "socket")) as found,
    ):
        running.wait_for_subscribers(1, WITHIN_S)
        running.finish("operator 'parse' failed", 0)
        error = received(found)
        assert (error["type"], "operator 'parse' failed" in error["message"]) == ("error", True)
        with pytest.raises(ConnectionClosed) as closed:
            found.recv(WITHIN_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
