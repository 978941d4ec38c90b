"""What a worker's step has for its peers, put together in one envelope for each."""

from collections.abc import Mapping

from tidewheel.progress import ProgressBatch
from tidewheel.runtime.envelope import Envelope, Message
from tidewheel.runtime.flow_control import Credit
from tidewheel.runtime.pickling import pickled_size

_MEASURED_EVERY = 16


class Outbox:
    """Numbers envelopes from 0 for each peer.

    Args:
        worker: the number of the sender.
        workers: how many workers there are.
        incarnation: of the sender.

    Attributes:
        progress_bytes: about how large all batches of progress together are when pickled: one in sixteen is measured.
    """

    def __init__(self, worker: int, workers: int, incarnation: int) -> None:
        self._worker = worker
        self._incarnation = incarnation
        self._sequences = [0] * workers
        self._messages: list[list[Message]] = [[] for _ in range(workers)]
        self._batches = 0
        self._bytes_a_change = 0.0
        self.progress_bytes = 0

    def put(self, peer: int, message: Message) -> None:
        """Add a message to the next envelope for a peer."""
        self._messages[peer].append(message)

    def envelopes(
        self, progress: Mapping[int, ProgressBatch], credit: Mapping[int, Credit]
    ) -> list[tuple[int, Envelope]]:
        """Return an envelope for each peer for which there is anything, as (worker number, envelope)."""
        if progress:
            self._count(next(iter(progress.values())), len(progress))
        return [
            (peer, self._envelope(peer, messages, progress.get(peer, []), credit.get(peer)))
            for peer, messages in enumerate(self._messages)
            if messages or peer in progress or peer in credit
        ]

    def _envelope(self, peer: int, messages: list[Message], progress: ProgressBatch, credit: Credit | None) -> Envelope:
        self._messages[peer] = []
        sequence = self._sequences[peer]
        self._sequences[peer] = sequence + 1
        return Envelope(self._worker, self._incarnation, sequence, messages, progress, credit=credit)

    def _count(self, batch: ProgressBatch, receivers: int) -> None:
        """Count a batch that several peers get."""
        if self._batches % _MEASURED_EVERY == 0:
            self._bytes_a_change = pickled_size(batch) / len(batch)
        self._batches += 1
        self.progress_bytes += round(self._bytes_a_change * len(batch)) * receivers
