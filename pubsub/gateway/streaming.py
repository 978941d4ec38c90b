"""What both streams for browsers do: send what a feed brings until it ends, or the client leaves."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from tidewheel.pubsub.gateway.clients import STOPPED
from tidewheel.pubsub.gateway.live_message import LiveMessage, error_message
from tidewheel.pubsub.gateway.topic_feed import TopicFeed


async def until_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until one of them is done, cancel the others, and raise what the first raised."""
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
    """Yield what a feed brings, and None whenever it brought nothing for ``keep_alive_s`` seconds, if that is given."""
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
    """Return what ends a stream that did not end by itself, None if it did."""
    return error_message(STOPPED) if feed.is_closed else None
