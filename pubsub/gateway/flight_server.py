"""Arrow Flight: a topic is a stream that goes on for as long as the topic does, one record batch an epoch.

A flight is asked for by the topic's name, as a path of one part, or by a command in JSON, and read with the ticket that
this gives, which is the same JSON. Whatever goes wrong is a `pyarrow.flight.FlightError`: any other exception would
show the client where this code lies.
"""

import logging
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from tidewheel.progress import TidewheelError
from tidewheel.pubsub import topics
from tidewheel.pubsub.gateway.clients import STOPPED, Clients
from tidewheel.pubsub.gateway.epoch_tables import TimedBatch, timed_batches
from tidewheel.pubsub.gateway.errors import BadRequest, GatewayError
from tidewheel.pubsub.gateway.listening import Address, cut_connections
from tidewheel.pubsub.gateway.token import is_token
from tidewheel.pubsub.gateway.topic_feed import TopicFeed
from tidewheel.pubsub.gateway.topic_request import TopicRequest, check_exists

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY_S = 0.25
_GRACE_S = 2.0
_FAREWELL_S = 0.1
_STOPS_WITHIN_S = 1.5
_HOW = "send the header 'authorization: Bearer TOKEN' with the token that the gateway showed when it started"


class TokenFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc,unused-ignore]
    """Looks at the token of every call before anything else does.

    Args:
        token: what has to be shown.
    """

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        """Raise FlightUnauthenticatedError unless the call shows the token and nothing else."""
        shown = [str(value) for name, values in headers.items() if name.lower() == "authorization" for value in values]
        if not shown:
            raise flight.FlightUnauthenticatedError(f"there is no token: {_HOW}")
        for header in shown:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or not is_token(token.strip(), self._token):
                raise flight.FlightUnauthenticatedError(f"the token is wrong: {_HOW}")


class FlightServer:
    """The server; it listens from the start.

    Args:
        address: where.
        port: which, 0 for any.
        token: what clients have to show, None for nothing.
        clients: where those who read are counted.

    Raises:
        GatewayError: it cannot listen there.
    """

    def __init__(self, address: Address, port: int, token: str | None, clients: Clients) -> None:
        middleware = {} if token is None else {"token": TokenFactory(token)}
        try:
            self._server = _Flights(clients, address.url("grpc", port), middleware)
        except (pa.ArrowException, OSError) as error:
            raise GatewayError(f"Arrow Flight cannot listen at {address.ip}, port {port}: {error}") from error
        self.port = int(self._server.port)
        """Where it is."""

    def stop(self) -> None:
        """Stop listening, let what is under way end, and cut off after a while whoever takes nothing of it.

        The feeds of all streams have to be closed.
        """
        are_over = self._server.streams.wait_until_none(_GRACE_S)
        thread = threading.Thread(target=self._server.shutdown, name="tidewheel-gateway-flight-end", daemon=True)
        thread.start()
        thread.join(_STOPS_WITHIN_S if are_over else _FAREWELL_S)
        if thread.is_alive():
            cut_connections(self.port)
            thread.join(_STOPS_WITHIN_S)
        if thread.is_alive():
            self._leave_to_the_end_of_the_process()

    def _leave_to_the_end_of_the_process(self) -> None:
        """Keep pyarrow from waiting, when the process ends, for a call that hangs."""
        for reference in weakref.getweakrefs(self._server):
            if isinstance(reference.__callback__, weakref.finalize):
                reference.__callback__.atexit = False


class _Flights(flight.FlightServerBase):  # type: ignore[misc,unused-ignore]
    """Answers calls, each on a thread of gRPC's."""

    def __init__(self, clients: Clients, location: str, middleware: dict[str, Any]) -> None:
        super().__init__(location, middleware=middleware)
        self._clients = clients
        self.streams = _Streams()

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Return a flight for each topic that there is."""
        with _flight_errors():
            names = [topic.name for topic in topics()]
        return iter([_info(TopicRequest(name), flight.FlightDescriptor.for_path(name)) for name in names])

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Return the flight of a topic."""
        with _flight_errors():
            request = _request(descriptor)
            check_exists(request.topic)
        return _info(request, descriptor)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Refuse: nobody knows it before the first epoch has come."""
        raise flight.FlightServerError("the schema of a topic is that of the first epoch to come: read it with do_get")

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Return the stream of a topic, as soon as there is an epoch to tell the schema by."""
        with _flight_errors():
            request = TopicRequest.from_command(ticket.ticket)
            feed = self._clients.admit(request, partial(timed_batches, max_epoch_bytes=self._clients.max_epoch_bytes))
        batches = _live(context, feed, self.streams)
        return flight.GeneratorStream(next(batches), batches)


class _Streams:
    """Counts the streams under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count one while the block runs."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def wait_until_none(self, timeout_s: float) -> bool:
        """Wait until there is none, and then a moment for its end to go out; return False if there still is one."""
        with self._changed:
            are_over = self._changed.wait_for(lambda: not self._count, timeout_s)
            self._changed.wait(_FAREWELL_S)
            return are_over

    def _add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()


def _live(context: Any, feed: "TopicFeed[TimedBatch]", streams: _Streams) -> Iterator[Any]:
    """Yield the schema, then each batch with the time of its epoch.

    It is begun before the stream is made of it, so that it is closed however the stream ends.
    """
    with streams.one_more(), closing(feed):
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
    """Wait for a result, for as long as the client does."""
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
    # An endpoint without a place is this very server, by whatever name and way the client came to it.
    return flight.FlightInfo(None, descriptor, [flight.FlightEndpoint(flight.Ticket(ticket), [])])


@contextmanager
def _flight_errors() -> Iterator[None]:
    """Turn what goes wrong into what Flight knows."""
    try:
        yield
    except flight.FlightError:
        raise
    except TidewheelError as error:
        raise flight.FlightServerError(str(error)) from error
    except Exception as error:
        _LOG.exception("a Flight call failed")
        raise flight.FlightServerError("the gateway failed; its log says how") from error
