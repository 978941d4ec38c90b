"""Topics over Arrow Flight, with a real client."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.kit.gateway.served import (
    connected,
    flights_of,
    nobody_reads,
    options_of,
    published,
    served,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import Gateway

TOKEN = "correct-horse-battery-staple"


def ticket(topic: str, **settings: Any) -> flight.Ticket:
    """Return a ticket made by hand."""
    return flight.Ticket(json.dumps({"topic": topic, **settings}))


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Make a call in a thread; the list gets its result, or its error."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001  the test looks at it
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


def joined(thread: threading.Thread) -> bool:
    """Wait for a thread."""
    thread.join(WITHIN_S)
    return not thread.is_alive()


def read_all(gateway: Gateway, wanted: flight.Ticket) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Read a flight to its end: the time and the rows of each batch."""
    with flights_of(gateway) as client:
        reader = client.do_get(wanted, options_of(gateway.token))
        return [(json.loads(chunk.app_metadata.to_pybytes()), chunk.data.to_pylist()) for chunk in reader]


def test_a_topic_is_found_by_its_name_and_read_live() -> None:
    """One batch an epoch, with its time; the stream ends with the topic."""
    with published("flight/a b") as running, served() as gateway, flights_of(gateway) as client:
        options = options_of(gateway.token)
        assert [b"flight/a b"] in [info.descriptor.path for info in client.list_flights(b"", options)]
        info = client.get_flight_info(flight.FlightDescriptor.for_path("flight/a b"), options)
        (endpoint,) = info.endpoints
        thread, readers = in_thread(lambda: client.do_get(endpoint.ticket, options))
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, pa.table({"n": [1, 2]}))
        assert joined(thread)
        (reader,) = readers
        assert reader.schema == pa.schema([("n", pa.int64())])
        first = reader.read_chunk()
        assert (first.app_metadata.to_pybytes(), first.data.to_pydict()) == (b"0", {"n": [1, 2]})
        send_epoch(running, 1, pa.table({"n": [3]}))
        assert reader.read_chunk().data.to_pydict() == {"n": [3]}
        send_end(running, 2)
        with pytest.raises(StopIteration):
            reader.read_chunk()
        assert connected(gateway, 0)


def test_a_ticket_may_ask_for_less() -> None:
    """By the same conditions as over HTTP; rows are dicts where they were published as such."""
    with published("flight/b") as running, served() as gateway:
        thread, found = in_thread(lambda: read_all(gateway, ticket("flight/b", where=["n>1"], slow="drop_epochs")))
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}])
        send_epoch(running, 1, [{"n": 0, "s": "c"}])
        send_epoch(running, 2, [{"n": 3}])
        send_end(running, 3)
        assert joined(thread)
    assert found == [[(0, [{"n": 2, "s": "b"}]), (2, [{"n": 3, "s": None}])]]


def test_a_descriptor_may_be_a_command() -> None:
    """Then the ticket is the command."""
    command = ticket("flight/c", where=["n>1"]).ticket
    with published("flight/c"), served() as gateway, flights_of(gateway) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options_of(gateway.token))
        assert info.endpoints[0].ticket.ticket == command


def test_a_topic_that_ends_before_any_epoch_is_an_empty_table() -> None:
    """There is no schema to be had."""
    with published("flight/d") as running, served() as gateway:
        send_end(running, 0)
        assert read_all(gateway, ticket("flight/d")) == []


@pytest.mark.parametrize("token", [None, "", "wrong-wrong-wrong-wrong"], ids=["none", "empty", "wrong"])
def test_without_the_token_no_call_is_answered(token: str | None) -> None:
    """Whatever the call is."""
    path = flight.FlightDescriptor.for_path("flight/e")
    with published("flight/e"), served(token=TOKEN) as gateway, flights_of(gateway) as client:
        options = options_of(token)
        calls: list[Callable[[], Any]] = [
            lambda: list(client.list_flights(b"", options)),
            lambda: client.get_flight_info(path, options),
            lambda: client.get_schema(path, options),
            lambda: client.do_get(ticket("flight/e"), options),
            lambda: list(client.do_action(flight.Action("stop", b""), options)),
            lambda: list(client.list_actions(options)),
        ]
        for call in calls:
            # The client of pyarrow makes an OSError of this where it lists actions.
            with pytest.raises((flight.FlightUnauthenticatedError, OSError), match="Unauthenticated") as caught:
                call()
            assert TOKEN not in str(caught.value)
        assert gateway.clients == 0


def test_a_token_of_another_scheme_is_none() -> None:
    """The scheme is Bearer."""
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Basic {TOKEN}".encode())], timeout=WITHIN_S)
    with (
        served(token=TOKEN) as gateway,
        flights_of(gateway) as client,
        pytest.raises(flight.FlightUnauthenticatedError, match="the token is wrong"),
    ):
        list(client.list_flights(b"", options))


def test_without_a_token_that_was_asked_for_all_calls_are_answered() -> None:
    """As over HTTP."""
    with published("flight/f"), served(token=None) as gateway, flights_of(gateway) as client:
        names = [info.descriptor.path[0] for info in client.list_flights(b"", options_of(None))]
    assert b"flight/f" in names


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (ticket("flight/nowhere"), "nobody publishes topic 'flight/nowhere'"),
        (ticket("flight/g", where=["n"]), "where='n' is no condition"),
        (ticket("flight/g", slow="block"), "Invalid enum value 'block'"),
        (flight.Ticket(b"flight/g"), "a ticket is JSON such as"),
    ],
    ids=["unknown", "filter", "slow", "no ticket"],
)
def test_a_ticket_that_is_wrong_is_one_error(wanted: flight.Ticket, says: str) -> None:
    """Which says nothing of the code behind."""
    with published("flight/g"), served() as gateway, flights_of(gateway) as client:
        with pytest.raises(flight.FlightServerError) as caught:
            client.do_get(wanted, options_of(gateway.token))
        assert says in str(caught.value)
        assert "Traceback" not in str(caught.value)
        assert gateway.clients == 0


def test_a_descriptor_that_is_wrong_is_one_error() -> None:
    """Also one for a schema, which nobody knows."""
    with published("flight/h"), served() as gateway, flights_of(gateway) as client:
        options = options_of(gateway.token)
        for descriptor, says in (
            (flight.FlightDescriptor.for_path("flight/nowhere"), "nobody publishes topic"),
            (flight.FlightDescriptor.for_path("flight", "h"), "the name of one topic"),
            (flight.FlightDescriptor.for_command(b"{}"), "missing required field `topic`"),
        ):
            with pytest.raises(flight.FlightServerError, match=says):
                client.get_flight_info(descriptor, options)
        with pytest.raises(pa.ArrowException, match="the first epoch to come"):
            client.get_schema(flight.FlightDescriptor.for_path("flight/h"), options)


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([[1]], "its records are int; Arrow Flight carries tables and dicts"),
        ([[{"n": 1}], [{"n": "a"}]], "the epoch of time 1 is no table like those before it"),
    ],
    ids=["no table", "another schema"],
)
def test_what_is_no_table_is_one_error_for_one_client(batches: list[Any], says: str) -> None:
    """Which says what to do; the topic goes on."""
    with published("flight/i") as running, served() as gateway:
        thread, found = in_thread(lambda: read_all(gateway, ticket("flight/i")))
        running.wait_for_subscribers(1, WITHIN_S)
        for time, batch in enumerate(batches):
            send_epoch(running, time, batch)
        assert joined(thread)
        (error,) = found
        assert isinstance(error, flight.FlightServerError)
        assert says in str(error)
        assert "Traceback" not in str(error)
        assert connected(gateway, 0)
        assert nobody_reads(running)


def test_a_topic_that_fails_is_an_error() -> None:
    """With what the publisher said, also before the first epoch."""
    with published("flight/j") as running, served() as gateway:
        thread, found = in_thread(lambda: read_all(gateway, ticket("flight/j")))
        running.wait_for_subscribers(1, WITHIN_S)
        running.finish("operator 'parse' failed", 0)
        assert joined(thread)
        (error,) = found
        assert isinstance(error, flight.FlightServerError)
        assert "operator 'parse' failed" in str(error)


def test_a_client_that_leaves_before_the_first_epoch_ends_its_subscription() -> None:
    """Its call has a deadline of its own."""
    with published("flight/k") as running, served() as gateway, flights_of(gateway) as client:
        with pytest.raises(flight.FlightTimedOutError):
            client.do_get(ticket("flight/k"), options_of(gateway.token, timeout_s=0.3))
        assert connected(gateway, 0)
        assert nobody_reads(running)


def test_a_client_that_leaves_in_the_middle_ends_its_subscription() -> None:
    """Though the topic is silent."""
    with published("flight/l") as running, served() as gateway, flights_of(gateway) as client:
        thread, readers = in_thread(lambda: client.do_get(ticket("flight/l"), options_of(gateway.token)))
        running.wait_for_subscribers(1, WITHIN_S)
        send_epoch(running, 0, [{"n": 1}])
        assert joined(thread)
        readers[0].read_chunk()
        readers[0].cancel()
        assert connected(gateway, 0)
        assert nobody_reads(running)


def test_one_client_more_than_there_may_be_is_told_to_come_later() -> None:
    """Over Flight as over HTTP."""
    with published("flight/m"), served(max_clients=1) as gateway, flights_of(gateway) as client:
        options = options_of(gateway.token)
        in_thread(lambda: client.do_get(ticket("flight/m"), options))
        assert eventually(lambda: gateway.clients == 1)
        with pytest.raises(flight.FlightServerError, match="1 clients read from this gateway already"):
            client.do_get(ticket("flight/m"), options)
