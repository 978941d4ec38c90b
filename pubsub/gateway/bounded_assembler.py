"""Whole epochs within a bound, so that a topic whose epochs never end cannot fill the gateway's memory."""

from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub import Batch, Epoch, EpochAssembler, Event, SubstreamsEnded

MAX_EPOCH_BYTES = 256 * 1024 * 1024
"""The default bound for one client."""


class BoundedAssembler:
    """An `EpochAssembler` that fails when incomplete epochs exceed a bound.

    Args:
        domain: the times of the topic.
        max_bytes: the largest size of incomplete epochs, encoded as they were published.
    """

    def __init__(self, domain: TimeDomain, max_bytes: int) -> None:
        self._assembler = EpochAssembler(domain)
        self._max_bytes = max_bytes
        self._bytes = 0

    def receive(self, event: Event) -> list[Epoch]:
        """Receive one event of a subscription and return the epochs that it completes.

        Raises:
            TidewheelError: incomplete epochs exceed the bound.
        """
        if isinstance(event, Batch | SubstreamsEnded):
            self._bytes += _size(event)
            if self._bytes > self._max_bytes:
                raise TidewheelError(
                    f"epochs that are not complete yet have {self._bytes:,} bytes, and the gateway keeps "
                    f"{self._max_bytes:,} for a client. Ask for fewer records with where=, or over HTTP for single "
                    "batches with epochs=false. Or start the gateway with a larger --max-epoch-bytes"
                )
        complete = self._assembler.receive(event)
        for epoch in complete:
            self._bytes -= sum(map(_size, epoch.batches)) + sum(map(_size, epoch.ends))
        return complete


def _size(part: Batch | SubstreamsEnded) -> int:
    return len(part.encoded.payload)
