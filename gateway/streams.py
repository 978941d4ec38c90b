"""Topics as streams for browsers, by Server-Sent Events and by WebSocket, until the topic ends or the client leaves.

A WebSocket carries one JSON object per message; the gateway ignores messages from clients. If a WebSocket has no valid
token, the guard refuses it over HTTP. The gateway sends any other error as an object of type ``error`` on the open
WebSocket, followed by a close code, since a browser hides HTTP refusals from its page.

Source: the HTML standard, section "Server-sent events".
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, closing, nullcontext, suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidewheel.gateway.access import SUBPROTOCOL
from tidewheel.gateway.answers import HEADERS, content_of, status_of, unexpected
from tidewheel.gateway.clients import STOPPED, Clients, TopicFeed
from tidewheel.gateway.live_message import LiveMessage, encoded, error_message, live_messages
from tidewheel.gateway.topic_request import TopicRequest
from tidewheel.progress import TidewheelError

EVENT_STREAM = "text/event-stream"
"""The media type of Server-Sent Events."""

DONE = 1000
"""The close code of a WebSocket after an ``end``, or an ``error`` of the topic."""

GOING_AWAY = 1001
"""The close code when the gateway stops."""

TOO_LARGE = 1009
"""The close code after a client's message that is too long."""

FAILED = 1011
"""The close code when the gateway itself fails."""

REFUSED = 4000
"""The close code of a refusal is this plus the HTTP status of the same error: 4400, 4404, 4503."""

_LARGEST_MESSAGE = 64 * 1024
"""The longest message that a client may send, in bytes or characters; all are ignored."""

_KEEP_ALIVE = b": the topic lives\n\n"


async def open_feed(clients: Clients, request: TopicRequest, *, as_events: bool) -> TopicFeed[bytes]:
    feed = clients.admit(
        request.subscribe,
        lambda domain, events: encoded(
            live_messages(domain, events, clients.max_epoch_bytes, whole=request.whole), as_events=as_events
        ),
    )
    try:
        await asyncio.wrap_future(feed.opened)
    except BaseException:
        feed.close()
        raise
    return feed


class EventStream(StreamingResponse):
    """The response to one client, until its events end or the client leaves.

    Args:
        feed: the feed from which the events are made, if there is one; the stream closes it at the end of the response.
    """

    def __init__(self, events: AsyncGenerator[bytes, None], feed: TopicFeed[bytes] | None = None) -> None:
        self._feed = feed
        self._events = events
        super().__init__(self._events, headers={**HEADERS, "Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with closing(self._feed) if self._feed is not None else nullcontext():
            async with aclosing(self._events):
                await super().__call__(scope, receive, send)


async def topic_events(feed: TopicFeed[bytes], keep_alive_s: float) -> AsyncGenerator[bytes, None]:
    """Yield the events of a topic; after ``keep_alive_s`` seconds without an event, yield a comment."""
    yield _KEEP_ALIVE  # the client sees an open stream at once
    async with aclosing(_items(feed, keep_alive_s)) as items:
        async for item in items:
            yield item.as_event() if isinstance(item, LiveMessage) else item or _KEEP_ALIVE


async def serve_socket(socket: WebSocket, clients: Clients) -> None:
    offered = socket.scope.get("subprotocols", ())
    await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    with suppress(WebSocketDisconnect):
        await _until_first(_serve(socket, clients), _left(socket))


async def _serve(socket: WebSocket, clients: Clients) -> None:
    try:
        request = TopicRequest.from_query(socket.path_params["topic"], socket.query_params.multi_items())
        feed = await open_feed(clients, request, as_events=False)
    except TidewheelError as error:
        await _close(socket, LiveMessage("error", content_of(error)), REFUSED + status_of(error))
        return
    with closing(feed):
        async with aclosing(_items(feed)) as items:
            async for item in items:
                if isinstance(item, LiveMessage):
                    await _close(socket, item, GOING_AWAY if feed.is_closed else FAILED)
                    return
                await socket.send_text(item.decode())
        await socket.close(DONE)


async def _close(socket: WebSocket, last: LiveMessage, code: int) -> None:
    await socket.send_text(last.as_object().decode())
    await socket.close(code)


async def _left(socket: WebSocket) -> None:
    """Ignore a client's messages until it leaves; end the connection after a message that is too long."""
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        if len(message.get("text") or message.get("bytes") or "") > _LARGEST_MESSAGE:
            await socket.close(TOO_LARGE)
            return


async def _until_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _items(
    feed: TopicFeed[bytes], keep_alive_s: float | None = None
) -> AsyncGenerator[bytes | LiveMessage, None]:
    try:
        while True:
            reading = asyncio.wrap_future(feed.next())
            try:
                while not (await asyncio.wait([reading], timeout=keep_alive_s))[0]:
                    yield b""
                item = reading.result()
            finally:
                reading.cancel()
            if item is None:
                break
            yield item
    except Exception as error:  # noqa: BLE001  the error goes to the client and to the log
        yield error_message(unexpected(error))
        return
    if feed.is_closed:
        yield error_message(STOPPED)
