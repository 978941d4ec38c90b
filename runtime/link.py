"""What carries envelopes from one worker to the others."""

from typing import Protocol

from tidewheel.runtime.envelope import Envelope


class Link(Protocol):
    """A worker's way to its peers.

    It may reorder and repeat, since envelopes are numbered, but must not lose any in silence.
    """

    def send(self, peer: int, envelope: Envelope) -> None:
        """Send an envelope to a peer, by its worker number. Raises JobError if that peer is known to be gone."""

    def check(self) -> None:
        """Raise JobError if something that was sent is known not to have arrived; called now and then."""
