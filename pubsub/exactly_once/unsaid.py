"""The messages of a relay or subend to its parent that wait to be sent, in short form.

The newest acknowledgements of a subscription include all earlier ones, and nacks of one pubend become one nack.
"""

from typing import Final

from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.exactly_once.messages import Ack, Nack
from tidewheel.pubsub.exactly_once.tick_set import TickSet

MOST_NACKED_RANGES: Final = 10_000
"""If the waiting nacks have more ranges together, only the newest stays; the child repeats the others."""


class Unsaid:
    """The messages that wait; false if there are none."""

    def __init__(self) -> None:
        self._join: Join | None = None
        self._nacks: dict[int, Nack] = {}
        self._acks: dict[int, Ack] = {}

    def __bool__(self) -> bool:
        return bool(self._join or self._nacks or self._acks)

    def add(self, message: ChildMessage) -> None:
        """Add a message, and drop the waiting messages that it makes superfluous."""
        match message:
            case Join():
                self._join = message
            case Nack(pubend, ranges, room_bytes):
                ticks = TickSet(ranges)
                if pubend in self._nacks:
                    ticks.update(self._nacks[pubend].ranges)
                is_short = len(ticks) <= MOST_NACKED_RANGES
                self._nacks[pubend] = Nack(pubend, ticks.ranges(), room_bytes) if is_short else message
            case Ack(pubend, acks, everywhere):
                before = self._acks.get(pubend, Ack(pubend, {}))
                self._acks[pubend] = Ack(pubend, before.acks | acks, before.everywhere | everywhere)

    def take(self) -> list[ChildMessage]:
        """Return and remove all messages; a `Join` comes first."""
        said: list[ChildMessage] = [] if self._join is None else [self._join]
        said += self._nacks.values()
        said += self._acks.values()
        self._join, self._nacks, self._acks = None, {}, {}
        return said
