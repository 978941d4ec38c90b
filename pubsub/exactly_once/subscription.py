"""The state of one subscription at a pubend, and functions of ranges of acknowledged ticks."""

from dataclasses import dataclass
from itertools import zip_longest

from tidewheel.pubsub.exactly_once.consolidation import Readers
from tidewheel.pubsub.exactly_once.standing import Standing
from tidewheel.pubsub.messages.delivery_messages import Ranges
from tidewheel.pubsub.messages.tick_set import TickSet


@dataclass(slots=True)
class Subscription:
    """The state of one subscription (see `Standing`) and of its reader.

    Attributes:
        has_left: whether its reader has left. The reader's late acknowledgements count until another reader takes over.
        heard_s: the time of the last message of its reader, or of its relay.
        is_returning: whether a relay has lost its reader, which then has one lease to connect to another parent.
        readers: if the subscription is a relay's, the readers behind the relay.
        progress: a number that changes when a reader behind the relay acknowledges more.
    """

    acknowledged: TickSet
    first: bytes = b""
    reader: str | None = None
    lost_end: int = 0
    everywhere: tuple[Ranges, ...] = ()
    is_durable: bool = False
    has_left: bool = False
    until_s: float = 0.0
    heard_s: float = 0.0
    is_warned: bool = False
    is_returning: bool = False
    readers: Readers | None = None
    progress: int = 0

    def standing(self) -> Standing:
        ranges = self.acknowledged.ranges()
        return Standing(ranges, self.reader, self.first, self.lost_end, everywhere=self.everywhere)

    def acknowledge(self, ranges: Ranges, everywhere: tuple[Ranges, ...]) -> None:
        self.acknowledged.update(ranges)
        self.everywhere = merged(self.everywhere, everywhere)


def merged(one: tuple[Ranges, ...], other: tuple[Ranges, ...]) -> tuple[Ranges, ...]:
    """Return the union of two sets of ticks for each pubend.

    >>> merged((((0, 5),), ()), (((3, 8),), ((1, 2),)))
    (((0, 8),), ((1, 2),))
    """
    return tuple(TickSet((*first, *second)).ranges() for first, second in zip_longest(one, other, fillvalue=()))


def prefix_end(ranges: Ranges) -> int:
    """Return the first tick that is not in the ordered ``ranges``."""
    return ranges[0][1] if ranges and ranges[0][0] == 0 else 0
