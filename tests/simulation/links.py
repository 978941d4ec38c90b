"""The links of a simulated cluster: from each sender to each receiver, first in, first out, as slow as one likes."""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from tidewheel.runtime.messages.envelope import Envelope

Link: TypeAlias = tuple[int, int]
"""(sender, receiver); the driver is `DRIVER`."""


class Links:
    """Envelopes in flight."""

    def __init__(self) -> None:
        self._in_flight: dict[Link, deque[Envelope]] = {}

    def post(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Put an envelope on its way."""
        self._in_flight.setdefault((sender, receiver), deque()).append(envelope)

    def take(self, sender: int, receiver: int) -> Envelope | None:
        """Return the oldest envelope on a link, None if there is none."""
        waiting = self._in_flight.get((sender, receiver))
        return waiting.popleft() if waiting else None

    def waiting(self) -> list[Link]:
        """Return the links that have something to deliver."""
        return [link for link, envelopes in self._in_flight.items() if envelopes]

    def size(self, link: Link) -> int:
        """Return how many envelopes are on a link."""
        return len(self._in_flight.get(link, ()))

    def on(self, sender: int, receiver: int) -> Sequence[Envelope]:
        """Return the envelopes on a link."""
        return tuple(self._in_flight.get((sender, receiver), ()))
