"""The outbox of a worker: it puts the messages and the progress of a step into one envelope for each peer."""

from collections.abc import Mapping

from tidewheel.progress import ProgressBatch
from tidewheel.runtime.messages.credit import Credit
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.messages.news import SubstreamNews
from tidewheel.transport.frames import pickled_size

_MEASURED_EVERY = 16


_MUCH = 256 * 1024
"""About as many bytes as a peer can receive in the time of a step."""


class Outbox:
    """Makes envelopes, and numbers them from 0 for each peer.

    Attributes:
        progress_bytes: about the pickled size of all progress batches. One batch in sixteen is measured.
    """

    def __init__(self, worker: int, workers: int, incarnation: int) -> None:
        self._worker = worker
        self._incarnation = incarnation
        self._sequences = [0] * workers
        self._messages: list[list[Message]] = [[] for _ in range(workers)]
        self._batches = 0
        self._bytes_a_change = 0.0
        self._much = _MUCH * (workers - 1)
        self.progress_bytes = self._waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._waiting_bytes > self._much

    def put(self, peer: int, message: Message) -> None:
        self._messages[peer].append(message)
        self._waiting_bytes += message.size

    def envelopes(
        self,
        progress: Mapping[int, ProgressBatch],
        credit: Mapping[int, Credit],
        substreams: Mapping[int, SubstreamNews],
        heard: int,
        snapshot: int,
        marker: tuple[int, ...] | None,
    ) -> list[tuple[int, Envelope]]:
        if progress:
            self._count(next(iter(progress.values())), len(progress))
        made: list[tuple[int, Envelope]] = []
        self._waiting_bytes = 0
        for peer, messages in enumerate(self._messages):
            has_something = messages or peer in progress or peer in credit or peer in substreams
            if has_something or (marker is not None and peer != self._worker):
                envelope = Envelope(
                    self._worker,
                    self._incarnation,
                    self._sequences[peer],
                    messages,
                    progress.get(peer, []),
                    credit=credit.get(peer),
                    substreams=substreams.get(peer),
                    heard=heard,
                    snapshot=snapshot,
                    marker=marker,
                )
                made.append((peer, envelope))
                self._messages[peer] = []
                self._sequences[peer] += 1
        return made

    def _count(self, batch: ProgressBatch, receivers: int) -> None:
        if self._batches % _MEASURED_EVERY == 0:
            self._bytes_a_change = pickled_size(batch) / len(batch)
        self._batches += 1
        self.progress_bytes += round(self._bytes_a_change * len(batch)) * receivers
