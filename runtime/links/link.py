"""The two ends of a link: who sends envelopes to its peers, and who takes what its peers send."""

from abc import ABC, abstractmethod
from collections import deque
from typing import Literal, TypeAlias

from tidewheel.runtime.worker.envelope import Envelope

LinkName: TypeAlias = Literal["socket", "ray"]
"""The links that there are."""


class Sender(ABC):
    """Sends envelopes to the peers of a worker or of the driver, from one thread at a time.

    It may reorder and repeat, since envelopes are numbered, but must not lose any in silence.
    """

    @abstractmethod
    def send(self, peer: int, envelope: Envelope) -> None:
        """Send an envelope to a peer, by its worker number; never waits for the peer to take it.

        Raises:
            JobError: that peer is known to be gone.
            TypeError, AttributeError, PicklingError: something in the envelope cannot be pickled; nothing was sent.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise JobError if something that was sent is known not to arrive any more; called now and then."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every peer; what has not left yet is lost. Idempotent."""


class Receiver(ABC):
    """Takes what peers send to one worker; `receive` is called from one thread at a time, the rest from any."""

    def __init__(self) -> None:
        self._delivered: deque[Envelope] = deque()

    def deliver(self, envelope: Envelope) -> None:
        """Take an envelope that came by a call; `receive` returns it."""
        self._delivered.append(envelope)
        self.wake()

    @abstractmethod
    def receive(self, timeout_s: float) -> list[Envelope]:
        """Return what has come, each peer's in its order; wait for that or for `wake`, ``timeout_s`` at most.

        Raises:
            ProtocolError: a peer that belongs to the job has sent what cannot be read; the error says why.
        """

    @abstractmethod
    def wake(self) -> None:
        """Have `receive` return now, or the next time at once; from any thread."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing more; while nobody is in `receive`. Idempotent."""

    def _take_delivered(self) -> list[Envelope]:
        delivered = self._delivered
        return [delivered.popleft() for _ in range(len(delivered))]
