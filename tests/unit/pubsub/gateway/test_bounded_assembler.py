"""Epochs that do not end fill no memory."""

import collections
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.behaviour.gateway.test_flight import in_thread, joined, ticket
from tests.kit.gateway.served import (
    connected,
    flights_of,
    options_of,
    path_of,
    published,
    read_event,
    read_events,
    requested,
    served,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S
from tidewheel.progress import IntegerDomain, TidewheelError
from tidewheel.pubsub import RunningPublication, subscribe
from tidewheel.pubsub.gateway.bounded_assembler import BoundedAssembler


def send_part(running: RunningPublication, batch: Any) -> None:
    """Publish a batch at time 0, which goes on."""
    running.handles[0].data(0, batch)
    running.handles[0].flush()


def test_ends_of_substreams_count_as_well() -> None:
    """However many keys have ended in an epoch that goes on."""
    with published("bounded/ends") as running, subscribe("bounded/ends") as subscription:
        for _ in range(20):
            running.handles[0].ends(0, ["x" * 1000])
        running.handles[0].flush()
        assembler = BoundedAssembler(IntegerDomain(), 10_000)
        with pytest.raises(TidewheelError, match="not complete yet"):
            collections.deque(map(assembler.receive, subscription), maxlen=0)


def test_what_is_complete_does_not_count() -> None:
    """However much comes, as long as little of it waits."""
    with published("bounded/a") as running, subscribe("bounded/a") as subscription:
        for time in range(20):
            send_epoch(running, time, ["x" * 1000])
        send_end(running, 20)
        assembler = BoundedAssembler(IntegerDomain(), max_bytes=3000)
        assert sum(len(assembler.receive(event)) for event in subscription) == 20


def test_too_much_that_waits_is_an_error() -> None:
    """With how much there was, how much may be, and what to do."""
    with published("bounded/b") as running, subscribe("bounded/b") as subscription:
        for _ in range(3):
            send_part(running, ["x" * 1000])
        assembler = BoundedAssembler(IntegerDomain(), max_bytes=3000)
        with pytest.raises(TidewheelError, match=r"not complete yet have 3,\d+ bytes, and the gateway keeps 3,000"):
            collections.deque(map(assembler.receive, subscription), maxlen=0)


def test_it_is_one_error_for_one_client() -> None:
    """Who reads batches as they come, of the same topic, reads on."""
    with (
        published("bounded/c") as running,
        served(max_epoch_bytes=3000) as gateway,
        requested(gateway, path_of("bounded/c", query="epochs=false")) as other,
        requested(gateway, path_of("bounded/c")) as events,
        flights_of(gateway) as client,
    ):
        flying, errors = in_thread(lambda: client.do_get(ticket("bounded/c"), options_of(gateway.token)))
        running.wait_for_subscribers(3, WITHIN_S)
        for _ in range(3):
            send_part(running, pa.table({"n": ["x" * 1000]}))
        (error,) = read_events(events)
        assert (error["event"], "the gateway keeps 3,000" in error["data"]["message"]) == ("error", True)
        assert joined(flying)
        assert isinstance(errors[0], flight.FlightServerError)
        assert "the gateway keeps 3,000" in str(errors[0])
        assert connected(gateway, 1)
        assert [read_event(other)["event"] for _ in range(4)] == ["frontier", "batch", "batch", "batch"]
