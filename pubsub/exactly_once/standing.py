"""The state of a durable subscription that has to be known after a restart, as the log of a partition keeps it."""

import msgspec

from tidewheel.pubsub.messages.delivery_messages import Ranges


class Standing(msgspec.Struct, frozen=True):
    """What has to be known of a durable subscription after a restart.

    Attributes:
        ranges: the ticks that it has acknowledged.
        reader: the id of who has it; None if nobody has.
        first: both frontiers where it first began, pickled.
        lost_end: messages before this tick are gone that it had not acknowledged, and its reader may not know; or 0.
        is_abandoned: whether nobody had it for so long that it holds nothing any more.
        everywhere: the ticks that it has acknowledged at each pubend of the topic, as far as this one was told.
    """

    ranges: Ranges
    reader: str | None
    first: bytes
    lost_end: int = 0
    is_abandoned: bool = False
    everywhere: tuple[Ranges, ...] = ()


class Cursor(msgspec.Struct, frozen=True):
    """Where a durable subscription is.

    Attributes:
        name: of the subscription.
        standing: what there is to know of it; None once it has ended.
    """

    name: str
    standing: Standing | None
