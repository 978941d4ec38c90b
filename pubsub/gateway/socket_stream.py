"""WebSockets: one JSON object a message. The gateway ignores what a client sends.

The guard refuses a WebSocket without a valid token over HTTP. Every other error is an object of type ``error`` on the
open WebSocket, and then a close code: a browser shows its page nothing of a refusal over HTTP.
"""

import asyncio
from contextlib import aclosing

from starlette.websockets import WebSocket, WebSocketDisconnect

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.gateway.access import SUBPROTOCOL
from tidewheel.pubsub.gateway.answers import content_of, status_of, unexpected
from tidewheel.pubsub.gateway.clients import Clients
from tidewheel.pubsub.gateway.live_message import LiveMessage, error_message, reader
from tidewheel.pubsub.gateway.streaming import items, stopped_message, until_first
from tidewheel.pubsub.gateway.topic_feed import TopicFeed
from tidewheel.pubsub.gateway.topic_request import TopicRequest

DONE = 1000
"""The close code after an ``end``, or an ``error`` of the topic."""

GOING_AWAY = 1001
"""The close code when the gateway stops."""

FAILED = 1011
"""The close code when the gateway itself fails."""

REFUSED = 4000
"""The close code of a refusal is this plus the HTTP status of the same error: 4400, 4404, 4503."""


class SocketStream:
    """Serves one client.

    Args:
        socket: the connection of the client, not accepted yet.
        clients: all clients of the gateway.
    """

    def __init__(self, socket: WebSocket, clients: Clients) -> None:
        self._socket = socket
        self._clients = clients

    async def serve(self) -> None:
        """Send messages until the topic ends or the client leaves."""
        offered = self._socket.scope.get("subprotocols", ())
        await self._socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        try:
            await until_first(self._serve(), self._left())
        except WebSocketDisconnect:
            return

    async def _serve(self) -> None:
        try:
            parameters = self._socket.query_params.multi_items()
            request = TopicRequest.from_query(self._socket.path_params["topic"], parameters)
            feed = self._clients.admit(request, reader(request, self._clients.max_epoch_bytes, as_events=False))
        except TidewheelError as error:
            await self._refuse(error)
            return
        try:
            await self._send_all(feed)
        finally:
            feed.close()

    async def _send_all(self, feed: TopicFeed[bytes]) -> None:
        try:
            await asyncio.wrap_future(feed.opened)
        except TidewheelError as error:
            await self._refuse(error)
            return
        try:
            async with aclosing(items(feed)) as found:
                async for item in found:
                    if item is not None:
                        await self._socket.send_text(item.decode())
            last, code = stopped_message(feed), GOING_AWAY
        except WebSocketDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  the error goes to the client and to the log
            last, code = error_message(unexpected(error)), FAILED
        await self._close(last, DONE if last is None else code)

    async def _refuse(self, error: Exception) -> None:
        await self._close(LiveMessage("error", content_of(error)), REFUSED + status_of(error))

    async def _close(self, last: LiveMessage | None, code: int) -> None:
        if last is not None:
            await self._socket.send_text(last.as_object().decode())
        await self._socket.close(code)

    async def _left(self) -> None:
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            pass
