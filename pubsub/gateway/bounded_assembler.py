"""Whole epochs, within a bound: a topic whose epochs never end must not fill the memory of all clients' gateway."""

from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub import Batch, Epoch, EpochAssembler, Event, SubstreamsEnded

MAX_EPOCH_BYTES = 256 * 1024 * 1024
"""How much may wait for one client, unless another bound is given."""


class BoundedAssembler:
    """An `EpochAssembler` that gives up where too much waits for its epoch to be complete.

    Args:
        domain: the times of the topic.
        max_bytes: how much may wait, encoded as it was published.
    """

    def __init__(self, domain: TimeDomain, max_bytes: int) -> None:
        self._assembler = EpochAssembler(domain)
        self._max_bytes = max_bytes
        self._bytes = 0

    def receive(self, event: Event) -> list[Epoch]:
        """Take one event of a subscription and return the epochs that it completes.

        Raises:
            TidewheelError: more waits than may.
        """
        if isinstance(event, Batch | SubstreamsEnded):
            self._bytes += _size(event)
            if self._bytes > self._max_bytes:
                raise TidewheelError(
                    f"epochs that are not complete yet have {self._bytes:,} bytes, and the gateway keeps "
                    f"{self._max_bytes:,} for a client: ask for less with where=, or over HTTP for batches as they "
                    "come with epochs=false, or start it with a larger --max-epoch-bytes"
                )
        complete = self._assembler.receive(event)
        for epoch in complete:
            self._bytes -= sum(map(_size, epoch.batches)) + sum(map(_size, epoch.ends))
        return complete


def _size(part: Batch | SubstreamsEnded) -> int:
    return len(part.encoded.payload)
