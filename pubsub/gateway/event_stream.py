"""Server-Sent Events: an HTTP response that goes on for as long as the topic does.

Source: the HTML standard, section "Server-sent events".
"""

from contextlib import aclosing

from starlette.types import Receive, Scope, Send

from tidewheel.pubsub.gateway.answers import HEADERS, unexpected
from tidewheel.pubsub.gateway.live_message import error_message
from tidewheel.pubsub.gateway.streaming import items, stopped_message, until_first
from tidewheel.pubsub.gateway.topic_feed import TopicFeed

MEDIA_TYPE = "text/event-stream"

_KEEP_ALIVE = b": the topic lives\n\n"


class EventStream:
    """The response to one client; it is an ASGI application.

    Args:
        feed: connected to the topic; it is closed when the response ends, however it does.
        keep_alive_s: how long nothing may be sent, in seconds, before a comment is.
    """

    def __init__(self, feed: TopicFeed[bytes], keep_alive_s: float) -> None:
        self._feed = feed
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the topic ends or the client leaves."""
        try:
            await until_first(self._send_all(send), _left(receive))
        finally:
            self._feed.close()

    async def _send_all(self, send: Send) -> None:
        headers = {**HEADERS, "Content-Type": MEDIA_TYPE, "X-Accel-Buffering": "no"}
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        await _part(send, _KEEP_ALIVE)  # so that the client's side opens at once
        try:
            async with aclosing(items(self._feed, self._keep_alive_s)) as found:
                async for item in found:
                    await _part(send, _KEEP_ALIVE if item is None else item)
            last = stopped_message(self._feed)
        except Exception as error:  # noqa: BLE001  the client is told, and the log has it
            last = error_message(unexpected(error))
        if last is not None:
            await _part(send, last.as_event())
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
