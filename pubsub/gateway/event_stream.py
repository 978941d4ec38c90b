"""Server-Sent Events: an HTTP response that lasts as long as the topic.

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
    """The response to one client, an ASGI application.

    Args:
        feed: the feed of the topic, connected already. The stream closes it when the response ends for any reason.
        keep_alive_s: the stream sends a comment after so many seconds without an event.
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
        await _part(send, _KEEP_ALIVE)  # the client sees an open stream at once
        try:
            async with aclosing(items(self._feed, self._keep_alive_s)) as found:
                async for item in found:
                    await _part(send, _KEEP_ALIVE if item is None else item)
            last = stopped_message(self._feed)
        except Exception as error:  # noqa: BLE001  the error goes to the client and to the log
            last = error_message(unexpected(error))
        if last is not None:
            await _part(send, last.as_event())
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
