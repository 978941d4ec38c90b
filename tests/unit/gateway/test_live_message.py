"""Messages to browsers about a topic."""

from typing import Any

from tests.kit.gateway.served import published
from tests.kit.pubsub.local_job import send_end, send_epoch
from tidewheel.gateway.live_message import LiveMessage, encoded, error_message, live_messages
from tidewheel.gateway.topic_request import TopicRequest
from tidewheel.progress import Antichain
from tidewheel.pubsub.messages.events import Batch, RolledBack, SubstreamsEnded
from tidewheel.pubsub.publications.publication import RunningPublication


def told(running: RunningPublication, request: TopicRequest) -> list[tuple[str, dict[str, Any]]]:
    """Publish two epochs of two workers, and the end; return what that tells."""
    with request.subscribe() as subscription:
        send_epoch(running, 0, [1], [2])
        send_epoch(running, 1, [3], [])
        send_end(running, 2)
        return [
            (message.kind, message.content)
            for message in live_messages(subscription.domain, subscription, whole=request.whole)
        ]


def test_whole_epochs_come_once_they_are_complete() -> None:
    """And then the end, which is the last."""
    with published("live/whole", workers=2) as running:
        assert told(running, TopicRequest("live/whole")) == [
            ("epoch", {"time": 0, "records": [1, 2]}),
            ("epoch", {"time": 1, "records": [3]}),
            ("end", {}),
        ]


def test_batches_come_as_they_are_with_the_frontier_beside() -> None:
    """So that who reads them can tell when an epoch is complete."""
    with published("live/batches", workers=2) as running:
        found = told(running, TopicRequest("live/batches", whole=False))
    assert found[0] == ("frontier", {"frontier": [0]})
    assert [content["records"] for kind, content in found if kind == "batch"] == [[1], [3], [2]]
    assert found[-2:] == [("frontier", {"frontier": []}), ("end", {})]


def test_a_client_can_tell_which_batches_are_void() -> None:
    """By partitions, numbers and times: the same ones as `RolledBack.voids` says."""
    with published("live/void", workers=2) as running:
        request = TopicRequest("live/void", whole=False)
        with request.subscribe() as subscription:
            send_epoch(running, 0, [1], [2])
            running.handles[1].data(1, [3])
            running.handles[1].ends(1, ["a"])
            send_epoch(running, 1, [4], [5])
            send_end(running, 2)
            events = list(subscription)
    back = RolledBack(1, 2, Antichain(subscription.domain, [1]))
    *told, last = live_messages(subscription.domain, iter([*events[:-1], back]), whole=False)
    placed = [(message.kind, message.content) for message in told if message.kind in ("batch", "ended")]
    assert sorted(placed, key=lambda message: (message[1]["partition"], message[1]["number"])) == [
        ("batch", {"time": 0, "records": [1], "partition": 0, "number": 1}),
        ("batch", {"time": 1, "records": [4], "partition": 0, "number": 3}),
        ("batch", {"time": 0, "records": [2], "partition": 1, "number": 1}),
        ("batch", {"time": 1, "records": [3], "partition": 1, "number": 3}),
        ("ended", {"time": 1, "ended": ("a",), "partition": 1, "number": 4}),
        ("batch", {"time": 1, "records": [5], "partition": 1, "number": 5}),
    ]
    assert last.as_object() == b'{"type":"rolled_back","partition":1,"number":2,"frontier":[1]}'
    void = [
        content
        for _, content in placed
        if content["partition"] == last.content["partition"]
        and content["number"] > last.content["number"]
        and any(time <= content["time"] for time in last.content["frontier"])
    ]
    voided = [one for one in events if isinstance(one, Batch | SubstreamsEnded) and back.voids(one)]
    assert [content["number"] for content in void] == [one.number for one in voided] == [3, 4, 5]


def test_ends_of_substreams_come_with_their_epoch() -> None:
    """As JSON has keys; an epoch may have nothing else."""
    with published("live/ended") as running:
        request = TopicRequest("live/ended")
        with request.subscribe() as subscription:
            send_epoch(running, 0, [1])
            running.handles[0].ends(1, ["a", ("b", 2)])
            send_end(running, 1)
            found = list(live_messages(subscription.domain, subscription, whole=request.whole))
    assert [message.as_object() for message in found] == [
        b'{"type":"epoch","time":0,"records":[1]}',
        b'{"type":"epoch","time":1,"records":[],"ended":["a",["b",2]]}',
        b'{"type":"end"}',
    ]


def test_ends_of_substreams_come_between_batches() -> None:
    """Where these come as they are."""
    with published("live/ended batches") as running:
        request = TopicRequest("live/ended batches", whole=False)
        with request.subscribe() as subscription:
            running.handles[0].ends(0, ["a"])
            send_end(running, 0)
            found = list(live_messages(subscription.domain, subscription, whole=request.whole))
    assert [(message.kind, message.content) for message in found if message.kind == "ended"] == [
        ("ended", {"time": 0, "ended": ("a",), "partition": 0, "number": 1})
    ]


def test_epochs_that_were_dropped_are_told() -> None:
    """A client that falls behind, and asked for that, knows what it missed."""
    with published("live/dropped", capacity_bytes=4096) as running:
        request = TopicRequest("live/dropped", slow="drop_epochs")
        with request.subscribe() as subscription:
            for time in range(20):
                send_epoch(running, time, ["x" * 1000])
            send_end(running, 20)
            found = list(live_messages(subscription.domain, subscription, whole=request.whole))
    dropped = [time for message in found if message.kind == "dropped" for time in message.content["times"]]
    epochs = [message.content["time"] for message in found if message.kind == "epoch"]
    assert dropped
    assert sorted(dropped + epochs) == list(range(20))
    assert found[-1].kind == "end"


def test_an_error_of_the_topic_is_the_last_message() -> None:
    """It comes after what came before it."""
    with published("live/failed") as running:
        request = TopicRequest("live/failed")
        with request.subscribe() as subscription:
            send_epoch(running, 0, [1])
            running.finish("the disk is full", 0)
            found = list(live_messages(subscription.domain, subscription, whole=request.whole))
    assert [message.kind for message in found] == ["epoch", "error"]
    assert "the disk is full" in found[-1].content["message"]


def test_a_message_is_an_event_or_an_object() -> None:
    """An event has the time as its id, and the end has one by which it is known."""
    assert LiveMessage("end").as_event() == b"event: end\nid: end\ndata: {}\n\n"
    assert LiveMessage("end").as_object() == b'{"type":"end"}'
    assert LiveMessage("epoch", {"time": (0, "a\nb"), "records": []}).as_event() == (
        b'event: epoch\nid: [0,"a\\nb"]\ndata: {"time":[0,"a\\nb"],"records":[]}\n\n'
    )
    assert error_message("no\nid: 7").as_event() == b'event: error\ndata: {"message":"no\\nid: 7"}\n\n'


def test_what_has_no_form_ends_the_stream_with_an_error() -> None:
    """Which says where it was and what to do."""
    messages = [LiveMessage("epoch", {"time": n, "records": [record]}) for n, record in enumerate(["a", "\ud800", "b"])]
    first, last = encoded(iter(messages), as_events=False)
    assert first == b'{"type":"epoch","time":0,"records":["a"]}'
    assert b"the epoch of time 1: it cannot be shown as JSON (UnicodeEncodeError" in last
    assert b"map what is published to plain values" in last
