"""The messages between pubends, relays and subends. Any message may be lost, doubled, late or out of order.

Knowledge goes downstream, nacks and acks go upstream. All three only add to the receiver's knowledge, so a repeated
message does no harm.

Source: seed "Gryphon exactly-once", sections 2.1 and 3.
"""

from typing import Any, Final, TypeAlias

import msgspec

from tidewheel.pubsub.exactly_once.tick_set import TickRange

RELAY_PREFIX: Final = "relay/"
"""The prefix of the names of relays that are children."""

MOST_REPEATED_RANGES: Final = 100
"""An acknowledgement with more ranges is not repeated."""

Ranges: TypeAlias = tuple[TickRange, ...]
"""Ticks, as ranges in order."""


class KnowledgeMessage(msgspec.Struct, frozen=True):
    """New knowledge of some ticks of a pubend.

    Attributes:
        pubend: its number.
        final: the ticks that are F.
        data: the ticks that are D, in order, each with its message.
        more: whether this answer to a nack leaves out messages without room; the child may ask again.
        is_answer: whether this answers the nack of one child, and is not for all children.
        lost_end: messages before this tick are forgotten; a reader that lacks some of them has lost them.
    """

    pubend: int
    final: Ranges
    data: tuple[tuple[int, Any], ...] = ()
    more: bool = False
    is_answer: bool = False
    lost_end: int = 0


class Nack(msgspec.Struct, frozen=True):
    """The ticks that a child is curious about.

    Attributes:
        pubend: the number of the pubend.
        ranges: the ticks; the last range may be open.
        room_bytes: the approximate room of the child; the answer has at least one message.
    """

    pubend: int
    ranges: Ranges
    room_bytes: int


class Ack(msgspec.Struct, frozen=True):
    """The ticks that subscriptions no longer need: for each, the latest state of all its acknowledgements.

    Attributes:
        pubend: the number of the pubend.
        acks: the ticks that are A, by the ids of readers. An entry without ticks says that its reader lives.
        everywhere: the ticks that are A at each pubend of a topic with several pubends, by the ids of readers. Ticks
            that are acknowledged together are in one message, so its receiver knows what other pubends may have missed.
    """

    pubend: int
    acks: dict[str, Ranges]
    everywhere: dict[str, tuple[Ranges, ...]] = {}


class Rejected(msgspec.Struct, frozen=True):
    """The rejection of a child, which receives nothing more.

    Attributes:
        pubend: the number of the rejecting pubend.
        reason: the reason.
    """

    pubend: int
    reason: str


class Stranger(msgspec.Struct, frozen=True):
    """The refusal of acknowledgements: the pubend does not know this reader, or no longer. It may subscribe again.

    Other readers ignore this message.

    Attributes:
        pubend: the number of the refusing pubend.
        reader: the id of the reader.
    """

    pubend: int
    reader: str


Downstream: TypeAlias = KnowledgeMessage | Rejected | Stranger
Upstream: TypeAlias = Nack | Ack


def repeated(child: str, ack: Ack) -> Ack:
    """Return the acknowledgements of a child to repeat; in place of long ones, only that its readers live."""
    ranges, everywhere = ack.acks[child], ack.everywhere.get(child, ())
    if sum(map(len, everywhere), len(ranges)) > MOST_REPEATED_RANGES:
        return Ack(ack.pubend, {child: ()})
    return Ack(ack.pubend, {child: ranges}, {child: everywhere} if everywhere else {})
