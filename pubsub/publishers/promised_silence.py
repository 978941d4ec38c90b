"""The silence that a partition with a log promises; the log has reserved it first, so it stays true after a restart."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.messages.delivery_messages import Nack
from tidewheel.pubsub.publishers.partition_log import reservation_entry
from tidewheel.pubsub.publishers.partition_writer import PartitionWriter

TICKS_A_SECOND: Final = 1_000_000
_RESERVED_AHEAD = 10 * TICKS_A_SECOND
_PROMISED_AHEAD = TICKS_A_SECOND // 5
"""Twice the time between two looks, in ticks, so that an idle partition is always known to be silent."""


@dataclass(eq=False)
class PromisedSilence:
    """Announces the silence of one partition to its children.

    Args:
        reserved: the end of the reserved ticks, which are logged or on the way to the log.
    """

    pubend: Pubend
    writer: PartitionWriter
    tell: Callable[[list[Outgoing]], None]
    now: Callable[[], int]
    reserved: int

    def look(self) -> None:
        """Announce the silence up to now that is reserved; reserve more before it is needed."""
        now = self.now()
        until = self.pubend.reserve(now, _RESERVED_AHEAD) if self.writer.has_room else None
        if until is not None:
            self.reserved = until
            entry = reservation_entry(self.pubend.pass_over(now), until)
            self.writer.write([entry], partial(self._go_on, until))
        self.tell(self.pubend.be_silent(now, _PROMISED_AHEAD))

    def _go_on(self, until: int) -> None:
        self.pubend.reserved(until)
        self.look()

    def answer(self, child: str, nack: Nack) -> None:
        """Answer a child's nack, and promise the silence that it asks for; raise LogCorrupted if the log is damaged."""
        self.tell(self.pubend.nack(child, nack))
        if self.pubend.wanted_end > self.pubend.told_end:
            self.look()
