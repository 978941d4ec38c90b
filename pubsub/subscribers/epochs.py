"""Iterating over the whole epochs of a subscription."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from tidewheel.pubsub.messages.events import Epoch

if TYPE_CHECKING:
    from tidewheel.pubsub.subscribers.subscription import Subscription


class Epochs(Iterator[Epoch], AsyncIterator[Epoch]):
    """The whole epochs of a subscription, one after the other.

    Args:
        subscription: where they come from.
        timeout: how long to wait for each, in seconds; None for as long as the topic lives.
    """

    def __init__(self, subscription: "Subscription", timeout: float | None) -> None:
        self._subscription = subscription
        self._timeout = timeout

    def __next__(self) -> Epoch:
        epoch = self._subscription._next_epoch(self._timeout)
        if epoch is None:
            raise StopIteration
        return epoch

    async def __anext__(self) -> Epoch:
        epoch = await self._subscription._next_epoch_async(self._timeout)
        if epoch is None:
            raise StopAsyncIteration
        return epoch
