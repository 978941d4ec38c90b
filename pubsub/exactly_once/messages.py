"""The messages between pubends, relays and subends. Any may be lost, come twice, late, or in another order.

Knowledge goes downstream, nacks and acks go upstream. All three only ever add to what the other end knows, so telling
something again does no harm.

Source: seed "Gryphon exactly-once", sections 2.1 and 3.
"""

from typing import Any, Final, TypeAlias

import msgspec

from tidewheel.pubsub.exactly_once.tick_set import TickRange

RELAY_PREFIX: Final = "relay/"
"""With this the names of relays begin, where they are children."""

MOST_REPEATED_RANGES: Final = 100
"""An acknowledgement with more ranges is not repeated."""

Ranges: TypeAlias = tuple[TickRange, ...]
"""Ticks, as ranges in order."""


class KnowledgeMessage(msgspec.Struct, frozen=True):
    """What has come to be known of some ticks of a pubend.

    Attributes:
        pubend: its number.
        final: the ticks that are F.
        data: the ticks that are D, in order, each with its message.
        more: whether this answers a nack, and leaves out what there was no room for: one may ask again.
        is_answer: whether this answers a nack, and is not told to everybody.
        lost_end: messages before this tick are forgotten: who has not had all before it may have lost some.
    """

    pubend: int
    final: Ranges
    data: tuple[tuple[int, Any], ...] = ()
    more: bool = False
    is_answer: bool = False
    lost_end: int = 0


class Nack(msgspec.Struct, frozen=True):
    """What somebody downstream is curious about.

    Attributes:
        pubend: its number.
        ranges: the ticks; the last range may be open.
        room_bytes: about how much it has room for now; at least one message is sent.
    """

    pubend: int
    ranges: Ranges
    room_bytes: int


class Ack(msgspec.Struct, frozen=True):
    """What subscriptions need no more: all that each has acknowledged so far, the newest word only.

    Attributes:
        pubend: its number.
        acks: the ticks that are A, by the ids of readers. One without any says that its reader is there.
        everywhere: the ticks that are A at each pubend of the topic, by the ids of readers, where it has several. What
            is acknowledged together is in the same message, so a pubend that has it knows what others may have missed.
    """

    pubend: int
    acks: dict[str, Ranges]
    everywhere: dict[str, tuple[Ranges, ...]] = {}


class Rejected(msgspec.Struct, frozen=True):
    """This child gets nothing more.

    Attributes:
        pubend: who says so.
        reason: why.
    """

    pubend: int
    reason: str


class Stranger(msgspec.Struct, frozen=True):
    """Acknowledgements of this reader are not taken: the pubend does not know it, or no more. It may subscribe again.

    Others who are told this do nothing.

    Attributes:
        pubend: who says so.
        reader: the id of the reader.
    """

    pubend: int
    reader: str


Downstream: TypeAlias = KnowledgeMessage | Rejected | Stranger
Upstream: TypeAlias = Nack | Ack


def repeated(child: str, ack: Ack) -> Ack:
    """Return what to repeat of what a child has said: all of it, or if that is long only that it is there."""
    ranges, everywhere = ack.acks[child], ack.everywhere.get(child, ())
    if sum(map(len, everywhere), len(ranges)) > MOST_REPEATED_RANGES:
        return Ack(ack.pubend, {child: ()})
    return Ack(ack.pubend, {child: ranges}, {child: everywhere} if everywhere else {})
