"""What looks on as simulated workers are moved."""

from collections.abc import Sequence
from typing import TypeAlias

from tidewheel.runtime.messages.envelope import Envelope

Sent: TypeAlias = Sequence[tuple[int, Envelope]]
"""What a step returns: envelopes, each with its receiver."""


class Watch:
    """Is told of each event before and after it; raises `ViolationError` when a promise is broken."""

    def stepping(self, worker: int) -> None:
        """Look before a worker takes a step."""

    def stepped(self, worker: int, sent: Sent) -> None:
        """Look after a worker has taken a step and its envelopes are on their links."""

    def arriving(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Look before a worker receives an envelope."""

    def arrived(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Look after a worker has received an envelope."""
