"""The state of a durable subscription that a restart needs, in the log of a partition."""

import msgspec

from tidewheel.pubsub.messages.delivery_messages import Ranges


class Standing(msgspec.Struct, frozen=True):
    """The state of one durable subscription.

    Attributes:
        first: both frontiers where it first began, pickled.
        lost_end: unacknowledged messages before this tick are gone, which its reader may not know; or 0.
        is_abandoned: whether it no longer holds messages, as it had no reader for too long.
        everywhere: the acknowledged ticks at each pubend of the topic, as far as this one knows.
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
        standing: None once it has ended.
    """

    name: str
    standing: Standing | None
