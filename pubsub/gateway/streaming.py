"""The common part of both streams for browsers: send a feed until it ends or the client leaves."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from tidewheel.pubsub.gateway.clients import STOPPED
from tidewheel.pubsub.gateway.live_message import LiveMessage, error_message
from tidewheel.pubsub.gateway.topic_feed import TopicFeed


async def until_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until the first is done, cancel the others, and raise the error of the first."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def items(feed: TopicFeed[bytes], keep_alive_s: float | None = None) -> AsyncGenerator[bytes | None, None]:
    """Yield the items of a feed, and None after each ``keep_alive_s`` seconds without an item, if given."""
    while True:
        reading = asyncio.wrap_future(feed.next())
        try:
            while not (await asyncio.wait([reading], timeout=keep_alive_s))[0]:
                yield None
            item = reading.result()
        finally:
            reading.cancel()
        if item is None:
            return
        yield item


def stopped_message(feed: TopicFeed[bytes]) -> LiveMessage | None:
    """Return the message that ends a stream which the gateway stopped; None if the stream ended by itself."""
    return error_message(STOPPED) if feed.is_closed else None
