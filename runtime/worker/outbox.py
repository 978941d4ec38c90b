"""The outbox of a step: what a worker has for its peers, in one envelope for each."""

from collections.abc import Mapping

from tidewheel.progress import ProgressBatch
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.flow_control import Credit
from tidewheel.runtime.worker.message import Message
from tidewheel.transport.pickling import pickled_size

_MEASURED_EVERY = 16
_NONE: Mapping[int, SubstreamNews] = {}


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
        self,
        progress: Mapping[int, ProgressBatch],
        credit: Mapping[int, Credit],
        substreams: Mapping[int, SubstreamNews] = _NONE,
        heard: int = 0,
    ) -> list[tuple[int, Envelope]]:
        """Return an envelope for each peer for which there is anything, as (worker number, envelope).

        ``heard`` is how much the sender has heard of substreams.
        """
        if progress:
            self._count(next(iter(progress.values())), len(progress))
        return [
            (
                peer,
                Envelope(
                    self._worker,
                    self._incarnation,
                    self._next_sequence(peer),
                    messages,
                    progress.get(peer, []),
                    credit=credit.get(peer),
                    substreams=substreams.get(peer),
                    heard=heard,
                ),
            )
            for peer, messages in enumerate(self._messages)
            if messages or peer in progress or peer in credit or peer in substreams
        ]

    def _next_sequence(self, peer: int) -> int:
        """Return the number of the envelope that takes along all messages for a peer."""
        self._messages[peer] = []
        sequence = self._sequences[peer]
        self._sequences[peer] = sequence + 1
        return sequence

    def _count(self, batch: ProgressBatch, receivers: int) -> None:
        """Count a batch that several peers get."""
        if self._batches % _MEASURED_EVERY == 0:
            self._bytes_a_change = pickled_size(batch) / len(batch)
        self._batches += 1
        self.progress_bytes += round(self._bytes_a_change * len(batch)) * receivers
