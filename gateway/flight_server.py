"""The Arrow Flight server of the gateway: a topic is a stream of record batches, one for each epoch, until its end.

A client asks for a flight by the topic's name, as a path with one part, or by a JSON command. It reads the flight with
the ticket in the answer, which is the same JSON. Every error is a `pyarrow.flight.FlightError`; other errors would show
source paths to the client.

A gRPC thread waits only for its client. Calls that may hang run on other threads, and end when the client leaves. So
neither the server nor the process waits for such calls.
"""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from tidewheel.gateway.access import Access, tokens_in
from tidewheel.gateway.clients import STOPPED, Clients, TopicFeed, asked
from tidewheel.gateway.epoch_tables import TimedBatch, timed_batches
from tidewheel.gateway.errors import BadRequest, GatewayError
from tidewheel.gateway.forwarder import Forwarder
from tidewheel.gateway.gateway_config import IpAddress, listen
from tidewheel.gateway.topic_request import TopicRequest, check_exists
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.topics import topics

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY_S = 0.25
_GRACE_S = 2.0
_FAREWELL_S = 0.1
"""The seconds that the last messages have to pass the forwarder."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every client that speaks HTTP/2."""
_STOPS_WITHIN_S = 1.5


class TokenFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc,unused-ignore]
    """Checks the token of every call before anything else runs."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        """Raise FlightUnauthenticatedError unless the call sends exactly the token."""
        shown = [str(value) for name, values in headers.items() if name.lower() == "authorization" for value in values]
        refusal = self._access.token_refusal(tokens_in(shown))
        if refusal is not None:
            raise flight.FlightUnauthenticatedError(refusal.message)


class FlightServer:
    """The server; it listens as soon as it is created.

    Arrow Flight listens at a Unix socket in a private folder, behind a `Forwarder`.

    Args:
        stall_s: the seconds without an acknowledgement after which a connection breaks.

    Raises:
        GatewayError: the port is taken, or this machine does not have the address.
    """

    def __init__(self, address: IpAddress, port: int, access: Access, clients: Clients, stall_s: float) -> None:
        listener = listen(address, port, stall_s, "--flight-port")
        self.port = int(listener.getsockname()[1])
        """The port on which the server listens."""
        self._folder = TemporaryDirectory(prefix="tidewheel-")
        path = str(Path(self._folder.name, "flight"))
        try:
            self._server = _Flights(clients, f"grpc+unix://{path}", TokenFactory(access))
        except (pa.ArrowException, OSError) as error:
            listener.close()
            self._folder.cleanup()
            raise GatewayError(f"Arrow Flight cannot listen at the Unix socket {path}: {error}") from error
        self._forwarder = Forwarder(listener, path, _PREFACE, "tidewheel-gateway-flight")

    def stop(self) -> None:
        """Stop listening, let running calls end, and break the connections of clients that do not read.

        Before, close the feeds of all streams, so that the streams end.
        """
        self._forwarder.close_listener()
        ending = threading.Thread(target=self._server.shutdown, name="tidewheel-gateway-flight-end", daemon=True)
        ending.start()
        ending.join(_GRACE_S)
        time.sleep(_FAREWELL_S)
        self._forwarder.stop()  # this cancels calls that still run
        ending.join(_STOPS_WITHIN_S)
        self._folder.cleanup()


class _Flights(flight.FlightServerBase):  # type: ignore[misc,unused-ignore]
    """Answers calls, each on a thread of gRPC."""

    def __init__(self, clients: Clients, location: str, factory: TokenFactory) -> None:
        super().__init__(location, middleware={"token": factory})
        self._clients = clients

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        with _flight_errors():
            names = [topic.name for topic in _result(context, asked(topics))]
        return iter([_info(TopicRequest(name), flight.FlightDescriptor.for_path(name)) for name in names])

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        with _flight_errors():
            request = _request(descriptor)
            _result(context, asked(partial(check_exists, request.topic)))
        return _info(request, descriptor)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        raise flight.FlightServerError("the schema of a topic is that of the first epoch to come: read it with do_get")

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _flight_errors():
            request = TopicRequest.from_command(ticket.ticket)
            read = partial(timed_batches, max_epoch_bytes=self._clients.max_epoch_bytes)
            feed = self._clients.admit(request.subscribe, read)
        batches = _live(context, feed)
        return flight.GeneratorStream(next(batches), batches)


def _live(context: Any, feed: "TopicFeed[TimedBatch]") -> Iterator[Any]:
    with closing(feed):
        with _flight_errors():
            _result(context, feed.opened)
        found = _next(context, feed)
        yield pa.schema([]) if found is None else found.batch.schema
        while found is not None:
            yield found.batch, found.time
            found = _next(context, feed)


def _next(context: Any, feed: "TopicFeed[TimedBatch]") -> TimedBatch | None:
    with _flight_errors():
        found = _result(context, feed.next())
        if found is None and feed.is_closed:
            raise flight.FlightUnavailableError(STOPPED)
    return found


def _result(context: Any, future: "Future[T]") -> T:
    while True:
        try:
            return future.result(_LOOK_EVERY_S)
        except TimeoutError:
            if future.done():
                return future.result()
            if context.is_cancelled():
                raise flight.FlightCancelledError("the client has left") from None


def _request(descriptor: Any) -> TopicRequest:
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return TopicRequest.from_command(descriptor.command)
    path = descriptor.path or []
    if len(path) != 1:
        raise BadRequest(f"a descriptor's path is the name of one topic, not {path!r}")
    try:
        return TopicRequest(path[0].decode())
    except UnicodeDecodeError as error:
        raise BadRequest(f"a descriptor's path is the name of a topic in UTF-8, not {path[0]!r}") from error


def _info(request: TopicRequest, descriptor: Any) -> Any:
    ticket = descriptor.command if descriptor.descriptor_type == flight.DescriptorType.CMD else request.command()
    # An endpoint without a location is this server, at the address to which the client has connected.
    return flight.FlightInfo(None, descriptor, [flight.FlightEndpoint(flight.Ticket(ticket), [])])


@contextmanager
def _flight_errors() -> Iterator[None]:
    try:
        yield
    except flight.FlightError:
        raise
    except TidewheelError as error:
        raise flight.FlightServerError(str(error)) from error
    except Exception as error:
        _LOG.exception("a Flight call failed")
        raise flight.FlightServerError("the gateway failed; its log says how") from error
