"""Topics as Server-Sent Events, on real sockets."""

import pytest

from tests.kit.gateway.served import (
    ask,
    connected,
    path_of,
    published,
    read_event,
    read_events,
    requested,
    served,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S


def test_epochs_come_whole_as_they_happen() -> None:
    """Each with its time as the id; then the end, and the response ends, too."""
    with (
        published("events/a", workers=2) as running,
        served() as gateway,
        requested(gateway, path_of("events/a")) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        send_epoch(running, 0, [1], ["x"])
        assert read_event(response) == {"event": "epoch", "id": "0", "data": {"time": 0, "records": [1, "x"]}}
        send_epoch(running, 1, [], [None])
        assert read_event(response) == {"event": "epoch", "id": "1", "data": {"time": 1, "records": [None]}}
        send_end(running, 2)
        assert list(read_events(response)) == [{"event": "end", "id": "end", "data": {}}]
        assert connected(gateway, 0)


def test_batches_come_as_they_happen() -> None:
    """With the frontier beside."""
    with (
        published("events/b") as running,
        served() as gateway,
        requested(gateway, path_of("events/b", query="epochs=false")) as response,
    ):
        running.handles[0].data(0, ["early"])
        running.handles[0].flush()
        assert read_event(response) == {"event": "frontier", "data": {"frontier": [0]}}
        batch = {"time": 0, "records": ["early"], "partition": 0, "number": 1}
        assert read_event(response) == {"event": "batch", "data": batch}
        send_end(running, 0)
        assert [event["event"] for event in read_events(response)] == ["frontier", "end"]


def test_a_filter_is_applied_where_records_are_published() -> None:
    """All conditions have to be met; epochs without any record that does so do not come."""
    query = "where=n%3E1&where=city==New+York"
    with (
        published("events/c") as running,
        served() as gateway,
        requested(gateway, path_of("events/c", query=query)) as response,
    ):
        send_epoch(running, 0, [{"n": 1, "city": "New York"}])
        send_epoch(running, 1, [{"n": 2, "city": "New York"}, {"n": 3, "city": "Rome"}])
        send_end(running, 2)
        first, last = read_events(response)
    assert first["data"] == {"time": 1, "records": [{"n": 2, "city": "New York"}]}
    assert last["event"] == "end"


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("m>1", "there is no field 'm', but ['n']"),
        ("n==a", "'n' is a number here, and 'a' is a text"),
    ],
)
def test_a_filter_that_does_not_go_with_the_records_is_one_error_for_one_client(condition: str, says: str) -> None:
    """Nobody else notices."""
    with (
        published("events/d") as running,
        served() as gateway,
        requested(gateway, path_of("events/d")) as other,
        requested(gateway, path_of("events/d", query=f"where={condition}".replace(">", "%3E"))) as response,
    ):
        send_epoch(running, 0, [{"n": 1}])
        (error,) = read_events(response)
        assert error["event"] == "error"
        assert says in error["data"]["message"]
        assert connected(gateway, 1)
        send_epoch(running, 1, [{"n": 2}])
        assert [read_event(other)["id"] for _ in range(2)] == ["0", "1"]


def test_a_topic_that_fails_is_an_error() -> None:
    """With what the publisher said."""
    with (
        published("events/e") as running,
        served() as gateway,
        requested(gateway, path_of("events/e")) as response,
    ):
        running.finish("operator 'parse' failed", 0)
        (error,) = read_events(response)
    assert error["event"] == "error"
    assert "operator 'parse' failed" in error["data"]["message"]


def test_a_stream_that_is_silent_shows_that_it_lives() -> None:
    """By comments, which browsers leave out."""
    with (
        published("events/f"),
        served(keep_alive_s=0.05) as gateway,
        requested(gateway, path_of("events/f")) as response,
    ):
        assert [response.readline() for _ in range(6)] == [b": the topic lives\n", b"\n"] * 3


def test_who_comes_back_after_the_end_is_told_to_stay_away() -> None:
    """A browser that is not told comes back every three seconds, for ever."""
    with published("events/g"), served() as gateway:
        assert ask(gateway, path_of("events/g"), last_event_id="end").status == 204
        with requested(gateway, path_of("events/g"), last_event_id="7") as response:
            assert response.status == 200


def test_a_client_that_leaves_ends_its_subscription_at_once() -> None:
    """Though the topic is silent; nobody else notices."""
    with (
        published("events/h") as running,
        served() as gateway,
        requested(gateway, path_of("events/h")) as other,
    ):
        with requested(gateway, path_of("events/h")):
            running.wait_for_subscribers(2, WITHIN_S)
            assert gateway.clients == 2
        assert connected(gateway, 1)
        send_epoch(running, 0, [1])
        assert read_event(other)["id"] == "0"


def test_what_has_no_form_is_an_error_for_who_reads_it() -> None:
    """And the topic goes on."""
    with (
        published("events/i") as running,
        served() as gateway,
        requested(gateway, path_of("events/i")) as response,
    ):
        send_epoch(running, 0, [{"n": "\ud800"}])
        (error,) = read_events(response)
        assert "the epoch of time 0: it cannot be shown as JSON" in error["data"]["message"]
        send_epoch(running, 1, ["fine"])
        with requested(gateway, path_of("events/i")) as again:
            send_end(running, 2)
            assert [event["event"] for event in read_events(again)] == ["end"]


def test_what_nobody_expected_is_told_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets no traceback, the log gets one, and neither gets the token."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tidewheel.gateway.live_message._told", broken)
    with (
        published("events/j") as running,
        served() as gateway,
        requested(gateway, path_of("events/j", query=f"token={gateway.token}")) as response,
    ):
        send_epoch(running, 0, [1])
        assert list(read_events(response)) == [
            {"event": "error", "data": {"message": "the gateway failed; its log says how"}}
        ]
    assert "ZeroDivisionError: a bug" in caplog.text
    assert str(gateway.token) not in caplog.text
