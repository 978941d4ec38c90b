"""A gateway on real sockets, before topics of this process, and clients that know nothing of tidewheel."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from pyarrow import flight
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

from tests.kit.pubsub.local_job import LocalJob
from tests.waiting import WITHIN_S, eventually
from tidewheel.console import LivePage
from tidewheel.gateway import Gateway, GatewayConfig
from tidewheel.pubsub.publications.publication import RunningPublication


class Access(Protocol):
    """What a client needs to know of a gateway, wherever it runs."""

    @property
    def url(self) -> str: ...

    @property
    def flight_url(self) -> str: ...

    @property
    def token(self) -> str | None: ...


@contextmanager
def served(**settings: Any) -> Iterator[Gateway]:
    """Run a gateway at ports that are free."""
    with Gateway(GatewayConfig(port=0, flight_port=0, **settings), [LivePage()]) as gateway:
        yield gateway


@contextmanager
def published(topic: str, workers: int = 1, capacity_bytes: int = 1 << 20) -> Iterator[RunningPublication]:
    """Publish a topic of this process, whose job runs by itself."""
    running = LocalJob(workers=workers, runs_by_itself=True).publish(topic, capacity_bytes)
    try:
        yield running
    finally:
        running.finish("the test is over", 0)


def connected(gateway: Gateway, count: int) -> bool:
    """Wait until so many clients read."""
    return eventually(lambda: gateway.clients == count)


def nobody_reads(running: RunningPublication) -> bool:
    """Wait until no subscriber of a topic of this process is left."""
    publishers = vars(running)["_publishers"]
    return eventually(lambda: not any(publisher.publisher.subscribers for publisher in publishers))


def path_of(topic: str, what: str = "events", query: str = "") -> str:
    """Return the path of a topic."""
    return f"/topics/{quote(topic, safe='')}/{what}{'?' if query else ''}{query}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        """What it says, in JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The text of an error."""
        return str(self.content["message"])


@contextmanager
def requested(gateway: Access, path: str, method: str = "GET", **headers: str) -> Iterator[http.client.HTTPResponse]:
    """Make a request with the token, unless a header says otherwise; underscores are hyphens."""
    given = {name.replace("_", "-").title(): value for name, value in headers.items()}
    if gateway.token is not None and "Authorization" not in given:
        given["Authorization"] = f"Bearer {gateway.token}"
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=WITHIN_S)
    connection.request(method, path, headers={name: value for name, value in given.items() if value})
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


def ask(gateway: Access, path: str, method: str = "GET", **headers: str) -> Answer:
    """Make a request and read all of the answer."""
    with requested(gateway, path, method, **headers) as response:
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def read_event(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Read the next event of a stream, comments left out; its data is decoded."""
    found: dict[str, Any] = {}
    while line := response.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = json.loads(value) if name == "data" else value
        elif found:
            return found
    return found


def read_events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Read events until the stream ends."""
    while event := read_event(response):
        yield event


@contextmanager
def socket_to(gateway: Access, path: str, **options: Any) -> Iterator[ClientConnection]:
    """Open a WebSocket with the token in a header, unless subprotocols are given."""
    if "subprotocols" not in options and gateway.token is not None:
        options.setdefault("additional_headers", {"Authorization": f"Bearer {gateway.token}"})
    with open_socket(
        gateway.url.replace("http", "ws", 1) + path, open_timeout=WITHIN_S, close_timeout=1, **options
    ) as found:
        yield found


def received(found: ClientConnection) -> dict[str, Any]:
    """Receive one object."""
    content = json.loads(found.recv(timeout=WITHIN_S))
    assert isinstance(content, dict)
    return content


@contextmanager
def flights_of(gateway: Access, **options: Any) -> Iterator[flight.FlightClient]:
    """Connect a client of Arrow Flight."""
    with flight.connect(gateway.flight_url, **options) as client:
        yield client


def options_of(token: str | None, timeout_s: float = WITHIN_S) -> flight.FlightCallOptions:
    """Return what a Flight call shows."""
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return flight.FlightCallOptions(headers=headers, timeout=timeout_s)


@contextmanager
def idle_reader(gateway: Gateway, path: str) -> Iterator[socket.socket]:
    """Ask for a stream over a connection that keeps as little as it can of what nobody reads."""
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        found.settimeout(WITHIN_S)
        found.connect(("127.0.0.1", urlsplit(gateway.url).port))
        found.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {gateway.token}\r\n\r\n".encode()
        )
        yield found
