"""The iterator over the epochs of a subscription."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from tidewheel.pubsub.messages.events import Epoch

if TYPE_CHECKING:
    from tidewheel.pubsub.subscribers.subscription import Subscription


class Epochs(Iterator[Epoch], AsyncIterator[Epoch]):
    """Yields the complete epochs of a subscription.

    Waits for each at most ``timeout_s`` seconds, or forever for None.
    """

    def __init__(self, subscription: "Subscription", timeout_s: float | None) -> None:
        self._subscription = subscription
        self._timeout = timeout_s

    def __next__(self) -> Epoch:
        topic = self._subscription
        topic._settle()
        topic._read_while(topic._expects_epoch, self._timeout)
        if not topic._complete:
            raise StopIteration
        return topic._give_epoch()

    async def __anext__(self) -> Epoch:
        topic = self._subscription
        topic._settle()
        for left_s in topic._waits(topic._expects_epoch, self._timeout):
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left_s == inf else left_s):
                    await topic._reader.read_async(topic)
        if not topic._complete:
            raise StopAsyncIteration
        return topic._give_epoch()
