"""The end of a gateway, and clients that do not take what they asked for."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyarrow import flight
from websockets.exceptions import ConnectionClosed

from tests.behaviour.gateway.test_flight import in_thread, joined, ticket
from tests.kit.gateway.served import (
    ask,
    connected,
    flights_of,
    idle_reader,
    nobody_reads,
    options_of,
    path_of,
    published,
    read_events,
    received,
    requested,
    served,
    socket_to,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import Gateway, GatewayConfig, GatewayError


def own_threads() -> set[str]:
    """The names of the threads of a gateway."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("tidewheel-gateway")}


def open_sockets() -> int:
    """How many sockets this process has."""
    names = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  it is no file that is looked for
        try:
            names.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
        except OSError:
            continue
    return sum(name.startswith("socket:") for name in names)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that a test leaves no thread and no more sockets than there were."""
    before = open_sockets()
    yield
    assert eventually(lambda: not own_threads())
    assert eventually(lambda: open_sockets() <= before)


@pytest.mark.usefixtures("nothing_left")
def test_every_client_is_told_that_the_gateway_ends() -> None:
    """By each protocol, whether it waits for the first epoch or for another."""
    with published("stopping/a") as running, ExitStack() as clients:
        with served() as gateway:
            client = clients.enter_context(flights_of(gateway))
            options = options_of(gateway.token)
            waiting, early = in_thread(lambda: client.do_get(ticket("stopping/a", where=["n>5"]), options))
            reading, late = in_thread(lambda: client.do_get(ticket("stopping/a"), options).read_all())
            events = clients.enter_context(requested(gateway, path_of("stopping/a")))
            objects = clients.enter_context(socket_to(gateway, path_of("stopping/a", "socket")))
            running.wait_for_subscribers(4, WITHIN_S)
            send_epoch(running, 0, [{"n": 1}])
            assert received(objects)["time"] == 0
        *_, last = read_events(events)
        assert (last["event"], last["data"]) == ("error", {"message": "the gateway is being stopped"})
        assert received(objects) == {"type": "error", "message": "the gateway is being stopped"}
        with pytest.raises(ConnectionClosed) as closed:
            objects.recv(WITHIN_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code in {1001, 1012}
        assert joined(waiting)
        assert joined(reading)
        for (error,) in (early, late):
            assert isinstance(error, flight.FlightUnavailableError | flight.FlightServerError)
            assert "the gateway is being stopped" in str(error)
        assert nobody_reads(running)


@pytest.mark.usefixtures("nothing_left")
def test_clients_that_take_nothing_hold_up_no_end() -> None:
    """Over HTTP and over Flight, with more before them than their connections take."""
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
    with published("stopping/b", capacity_bytes=1 << 30) as running, ExitStack() as clients:
        with served() as gateway:
            client = clients.enter_context(flights_of(gateway, generic_options=narrow))
            starting, readers = in_thread(lambda: client.do_get(ticket("stopping/b"), options_of(gateway.token, 60)))
            idle = clients.enter_context(idle_reader(gateway, path_of("stopping/b")))
            assert idle.recv(12) == b"HTTP/1.1 200"
            running.wait_for_subscribers(2, WITHIN_S)
            for time in range(20):
                send_epoch(running, time, pa.table({"n": range(250_000)}))
            assert joined(starting)
            assert readers[0].read_chunk().data.num_rows == 250_000
            assert connected(gateway, 2)
        assert gateway.clients == 0
        assert not own_threads()  # though the client of Flight still holds its end
        readers[0].cancel()
        assert nobody_reads(running)


def test_a_client_that_takes_nothing_for_long_is_cut_off() -> None:
    """Its place is free; a client that reads slowly keeps its own."""
    with (
        published("stopping/c", capacity_bytes=1 << 30) as running,
        served(stall_s=1.0) as gateway,
        idle_reader(gateway, path_of("stopping/c")) as idle,
        idle_reader(gateway, path_of("stopping/c")) as slow,
    ):
        running.wait_for_subscribers(2, WITHIN_S)
        for time in range(20):
            send_epoch(running, time, ["x" * 500_000])

        def has_one() -> bool:
            assert slow.recv(20_000)
            return gateway.clients == 1

        assert eventually(has_one)
        assert idle.recv(12) == b"HTTP/1.1 200"


def test_what_a_slow_client_does_not_take_is_dropped_as_it_asked() -> None:
    """Its connection is full, so its subscription is not read, so the publisher does what the policy says."""
    with (
        published("stopping/d", capacity_bytes=4_000_000) as running,
        served() as gateway,
        requested(gateway, path_of("stopping/d", query="slow=drop_epochs")) as dropping,
    ):
        running.wait_for_subscribers(1, WITHIN_S)
        for time in range(100):
            send_epoch(running, time, ["x" * 500_000])
        send_end(running, 100)
        found = list(read_events(dropping))
    dropped = [time for event in found if event["event"] == "dropped" for time in event["data"]["times"]]
    epochs = [event["data"]["time"] for event in found if event["event"] == "epoch"]
    assert dropped
    assert sorted(dropped + epochs) == list(range(100))


def test_a_slow_client_that_asked_for_nothing_else_is_cut_off_with_an_error() -> None:
    """Nobody else notices."""
    with published("stopping/e", capacity_bytes=4_000_000) as running, served() as gateway:
        with requested(gateway, path_of("stopping/e")) as slow:
            running.wait_for_subscribers(1, WITHIN_S)
            for time in range(100):
                send_epoch(running, time, ["x" * 500_000])
            *_, last = read_events(slow)
            assert last["event"] == "error"
            assert "it fell too far behind" in last["data"]["message"]
        send_end(running, 100)
        assert ask(gateway, path_of("stopping/e")).status == 200


@pytest.mark.usefixtures("nothing_left")
def test_a_port_that_is_taken_is_an_error_and_nothing_is_left() -> None:
    """Also one of gRPC, which would share it in silence. Once it is free, the gateway that could not start does."""
    with served() as gateway:
        port, flight_port = (int(url.rpartition(":")[2]) for url in (gateway.url, gateway.flight_url))
        with pytest.raises(GatewayError, match=f"port {port}: .*in use.*--port chooses another, 0 any"):
            Gateway(GatewayConfig(port=port, flight_port=0)).start()
        late = Gateway(GatewayConfig(port=0, flight_port=flight_port))
        with pytest.raises(GatewayError, match=f"port {flight_port}: .*in use.*--flight-port chooses another, 0 any"):
            late.start()
        assert ask(gateway, "/nowhere").status == 404
    with published("stopping/f"), late, requested(late, path_of("stopping/f")):
        assert connected(late, 1)


@pytest.mark.usefixtures("nothing_left")
def test_stopping_again_does_nothing() -> None:
    """Nor does stopping what was never started."""
    gateway = Gateway(GatewayConfig(port=0, flight_port=0))
    gateway.stop()
    gateway.start()
    gateway.stop()
    gateway.stop()
