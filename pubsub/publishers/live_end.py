"""The end of a partition without a log, at its publisher: known when it has everything, and told when it is final."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.topic_end import ALL_READ_WITHIN_S, PartitionEnd
from tidewheel.pubsub.publishers.partition import WorkerLink
from tidewheel.transport.change_signal import ChangeSignal


class LiveEnd:
    """The two phases of the end of one partition; see `TopicEnd`.

    Args:
        publisher: the core of the partition.
        changed: is notified of everything that others may wait for.
        workers: returns the connections of the worker.
        lease_s: subscribers of a publisher that has died are waited for so long, in seconds.
    """

    def __init__(
        self, publisher: Publisher, changed: ChangeSignal, workers: Callable[[], Sequence[WorkerLink]], lease_s: float
    ) -> None:
        self._publisher = publisher
        self._changed = changed
        self._workers = workers
        self._lease_s = lease_s

    async def known(self, generation: int, timeout_s: float, but_for: str | None) -> PartitionEnd | None:
        """Wait until the publisher has everything, and a moment until all subscribers have it; return the known end.

        The worker is told before that, as it waits for it. Subscribers of the process ``but_for`` are not waited for.
        Returns None if the publisher has not everything in time. What it has of an earlier generation is void.
        """
        publisher = self._publisher

        def is_known() -> bool:
            return publisher.has_everything and publisher.known_end.generation >= generation

        if await self._changed.wait_until(is_known, timeout_s):
            for worker in self._workers():
                worker.settle()
                worker.tell()
            await self._changed.wait_until(lambda: publisher.is_drained_but_for(but_for), ALL_READ_WITHIN_S)
        return publisher.known_end if is_known() else None

    def expect(self, readers: Iterable[str]) -> list[str]:
        """Wait for subscribers of a publisher that has died, if this is in its place; return those that there are."""
        publisher = self._publisher
        if not publisher.has_begun:
            publisher.missing = {*readers} - {*publisher.queues}
            loop = asyncio.get_running_loop()
            loop.call_later(self._lease_s, publisher.forget)
            loop.call_later(self._lease_s, self._changed.notify)
        return [name for name, queue in publisher.queues.items() if not queue.is_closed]

    def tell(self, known: PartitionEnd) -> None:
        """Tell the subscribers the end, also those of a publisher that has died, as they come. Idempotent."""
        self.expect(known.readers)
        self._publisher.end(known)
