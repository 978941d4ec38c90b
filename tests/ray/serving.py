"""``tidewheel serve`` in a process of its own, and clients of it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import flight
from websockets.sync.client import connect as open_socket
from websockets.typing import Subprotocol

from tests.ray.driver_process import DriverProcess

_DEADLINE_S = 60.0
_PORTS = ("--port", "0", "--flight-port", "0")


@dataclass(frozen=True, slots=True)
class Serving:
    """``tidewheel serve`` as it runs: its process, and what it has shown."""

    process: DriverProcess
    url: str
    page_url: str
    flight_url: str
    token: str

    @property
    def authorization(self) -> dict[str, str]:
        """The header that shows the token."""
        return {"Authorization": f"Bearer {self.token}"}

    def request(self, path: str, headers: dict[str, str] | None = None) -> Any:
        """Begin a request; the answer is read from what this returns."""
        asked = urllib.request.Request(self.url + path, headers=self.authorization if headers is None else headers)
        return urllib.request.urlopen(asked, timeout=_DEADLINE_S)

    def post(self, path: str, body: str, **headers: str) -> int:
        """Make a POST; return the status."""
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        asked = urllib.request.Request(self.url + path, body.encode(), {**self.authorization, **named})
        try:
            with urllib.request.urlopen(asked, timeout=_DEADLINE_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def refusal(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """Make a request that is refused; return the status and what is told."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.request(path, headers)
        with caught.value as error:
            return error.code, json.load(error)

    def socket(self, topic: str) -> Any:
        """Open a WebSocket as a browser does."""
        place = self.url.replace("http", "ws", 1) + f"/topics/{quote(topic, safe='')}/socket"
        offered = [Subprotocol("tidewheel"), Subprotocol(f"bearer.{self.token}")]
        return open_socket(place, subprotocols=offered, open_timeout=_DEADLINE_S)

    def batches(self, topic: str, *where: str) -> list[tuple[int, list[dict[str, Any]]]]:
        """Read a topic over Arrow Flight to its end."""
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {self.token}".encode())])
        with flight.connect(self.flight_url) as client:
            ticket = flight.Ticket(json.dumps({"topic": topic, "where": where}))
            return [
                (json.loads(chunk.app_metadata.to_pybytes()), chunk.data.to_pylist())
                for chunk in client.do_get(ticket, options)
            ]


@contextmanager
def serving(address: str, *arguments: str) -> Iterator[Serving]:
    """Run it at ports that are free."""
    with DriverProcess(address, "tidewheel", "serve", *arguments, *_PORTS) as process:
        shown: dict[str, str] = {}
        for line in process.lines():
            name, _, value = line.partition(" ")
            shown[name] = value.strip()
            if name == "token":
                url = shown["topics"].removesuffix("/topics")
                yield Serving(process, url, shown["page"], shown["flight"], shown["token"])
                return
        raise AssertionError(f"it ended: {process.ended()}")
