"""The state of a durable subscription that must survive a restart, in the log of a partition."""

import msgspec

from tidewheel.pubsub.messages.delivery_messages import Ranges


class Standing(msgspec.Struct, frozen=True):
    """The state of one durable subscription.

    Attributes:
        first: both frontiers where the subscription first began, pickled.
        lost_end: if not 0, unacknowledged messages before this tick are lost, and the reader may not know.
        is_abandoned: True if it keeps no messages any more, since it had no reader for too long.
        everywhere: the acknowledged ticks at each pubend of the topic that this pubend knows of.
    """

    ranges: Ranges
    reader: str | None
    first: bytes
    lost_end: int = 0
    is_abandoned: bool = False
    everywhere: tuple[Ranges, ...] = ()


class Cursor(msgspec.Struct, frozen=True):
    """The log entry of a durable subscription.

    Attributes:
        standing: None once the subscription has ended.
    """

    name: str
    standing: Standing | None
