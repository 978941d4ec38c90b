"""The WebSocket of an inbox that stays full: seldom tried, and left when its client leaves."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from tests.waiting import WITHIN_S
from tidewheel.gateway.errors import GatewayError, InputFull
from tidewheel.gateway.ingest_routes import ingest_routes
from tidewheel.runtime.inputs.door import Posting


class Refusing:
    """The ingest, and the lanes, of an inbox that raises an error for each posting."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tries = 0
        self.tried = threading.Event()

    def lanes(self, job: str, name: str) -> "Refusing":
        return self

    def submit(self, posting: Posting, until_s: float) -> "Future[Any]":
        self.tries += 1
        self.tried.set()
        refused: Future[Any] = Future()
        refused.set_exception(self.error)
        return refused


async def converse(ingest: Any, *messages: dict[str, Any], leaves_after_s: float) -> list[Any]:
    """Send messages, and leave some time after the first was tried; return what the route sends."""
    told: list[Any] = []
    left = [{"type": "websocket.connect"}, *messages]

    async def receive() -> Any:
        if left:
            return left.pop(0)
        await asyncio.to_thread(ingest.tried.wait, WITHIN_S)
        await asyncio.sleep(leaves_after_s)
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Any) -> None:
        told.append(message)

    [_, route] = ingest_routes(ingest)
    assert isinstance(route, WebSocketRoute)
    scope = {"type": "websocket", "path": "/", "headers": [], "path_params": {"job": "fraud", "input": "payments"}}
    async with asyncio.timeout(WITHIN_S):
        await route.endpoint(WebSocket(scope, receive, send))
    return told


TEXT = {"type": "websocket.receive", "text": "1"}


def test_a_client_that_leaves_a_full_inbox_is_let_go() -> None:
    """Its message is not tried any more, and it was tried seldom."""
    ingest = Refusing(InputFull("it is full"))
    told = asyncio.run(converse(ingest, TEXT, leaves_after_s=1.0))
    assert [message["type"] for message in told] == ["websocket.accept"]
    assert 2 <= ingest.tries < 8


def test_other_errors_close_the_socket_with_their_status() -> None:
    """Also a worker that does not answer in time: the client may try again."""
    told = asyncio.run(converse(Refusing(GatewayError("worker 0 has not answered")), TEXT, leaves_after_s=0))
    assert [message["type"] for message in told] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert told[-1]["code"] == 4503
