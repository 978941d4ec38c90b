"""The messages between pubends, relays and subends. Any message may be lost, doubled, late or out of order.

Knowledge goes downstream, nacks and acks go upstream. All three only add to the receiver's knowledge, so a repeated
message does no harm.

Source: seed "Gryphon exactly-once", sections 2.1 and 3.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, Rejected

RELAY_PREFIX: Final = "relay/"
"""The prefix of the names of relays that are children."""

MOST_REPEATED_RANGES: Final = 100
"""An acknowledgement with more ranges is not repeated."""

MOST_ANSWERED: Final = 512
"""One answer has at most so many messages, and the child asks for more: to read and send them takes a few ms."""

MOST_ANSWERED_BYTES: Final = 1024 * 1024
"""One answer has about so many bytes at most, or one message."""

JOINED_BYTES: Final = 64 * 1024
"""A message of this size stays alone, or ends a joined one: joining it to more would save nothing noticeable."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A number, at least 0, that a decoder checks."""

Tick: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=FOREVER)]
"""A tick, or the end of a range, that a decoder checks."""

Ranges: TypeAlias = tuple[TickRange, ...]
"""Ticks, as ranges in order."""

CheckedRanges: TypeAlias = tuple[tuple[Tick, Tick], ...]
"""Ranges that a decoder checks; not for signatures of actors, which Ray pickles."""


class KnowledgeMessage(msgspec.Struct, frozen=True):
    """New knowledge of some ticks of a pubend.

    Attributes:
        pubend: its number.
        final: the ticks that are F.
        data: the ticks that are D, in order, each with its message.
        more: whether this answer to a nack is cut short, for lack of room or of time; the child asks again.
        is_answer: whether this answers the nack of one child, and is not for all children.
        lost_end: messages before this tick are forgotten; a reader that lacks some of them has lost them.
        union: the digest of the union of filters that it holds for, if the child is a relay that wants one; else 0.
    """

    pubend: int
    final: CheckedRanges
    data: tuple[tuple[int, Any], ...] = ()
    more: bool = False
    is_answer: bool = False
    lost_end: int = 0
    union: int = 0

    @property
    def begin(self) -> int:
        """The first tick that it covers; 0 if it covers none."""
        final, data = self.final, self.data
        if not final:
            return data[0][0] if data else 0
        return min(final[0][0], data[0][0]) if data else final[0][0]

    @property
    def end(self) -> int:
        """One after the last tick that it covers; 0 if it covers none."""
        final = self.final[-1][1] if self.final else 0
        return max(final, self.data[-1][0] + 1) if self.data else final


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="N"):
    """The ticks that a child is curious about.

    Attributes:
        pubend: the number of the pubend.
        ranges: the ticks; the last range may be open.
        room_bytes: the approximate room of the child; the answer has at least one message, and may have less than there
            is room for.
    """

    pubend: Number
    ranges: CheckedRanges
    room_bytes: int


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="A"):
    """The ticks that subscriptions no longer need: for each, the latest state of all its acknowledgements.

    Attributes:
        pubend: the number of the pubend.
        acks: the ticks that are A, by the ids of readers. An entry without ticks says that its reader lives.
        everywhere: the ticks that are A at each pubend of a topic with several pubends, by the ids of readers. Ticks
            that are acknowledged together are in one message, so its receiver knows what other pubends may have missed.
        may_consolidate: whether a relay may acknowledge for these readers together with its others.
    """

    pubend: Number
    acks: dict[str, CheckedRanges]
    everywhere: dict[str, tuple[CheckedRanges, ...]] = {}
    may_consolidate: bool = False


class ConsolidatedAck(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """The ticks that no reader behind a relay needs any more. `consolidation.py` tells which readers those are.

    Attributes:
        pubend: the number of the pubend.
        end: each of these readers has acknowledged all ticks before this one.
        digest: the digest of the set of these readers.
        progress: a number that changes when any of them acknowledges more.
        readers: the readers that have come (True) or gone (False) since the last acknowledgement.
        is_all: whether ``readers`` names the whole set.
    """

    pubend: Number
    end: Tick
    digest: Number
    progress: Number
    readers: dict[str, bool] = {}
    is_all: bool = False


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """The refusal of acknowledgements: the pubend does not know this reader, or no longer. It may subscribe again.

    Other readers ignore this message.

    Attributes:
        pubend: the number of the refusing pubend.
        reader: the id of the reader. Empty if a parent does not know the readers of a relay: it has to name all.
    """

    pubend: Number
    reader: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer of a pubend to a reader that subscribes: the place where a subscription begins or continues.

    Attributes:
        acknowledged: the ticks that it no longer needs.
        told_end: the end of the known ticks.
        frontiers: both frontiers at its first unacknowledged tick.
        first_frontiers: both frontiers at its first beginning; they tell which epochs it receives from their start.
        lost_end: if not 0, the log no longer keeps messages before this tick that the subscription should receive. It
            had no reader for too long, or wants to begin at an earlier tick. It continues behind the lost messages. A
            durable subscription tells every reader, until a reader that was told acknowledges a tick or leaves.
        everywhere: the ticks that it has acknowledged at each pubend of the topic, as far as this pubend knows.
    """

    acknowledged: CheckedRanges
    told_end: int
    frontiers: InitialFrontierSnapshot
    first_frontiers: InitialFrontierSnapshot
    lost_end: int = 0
    everywhere: tuple[CheckedRanges, ...] = ()


Downstream: TypeAlias = KnowledgeMessage | Rejected | Stranger
Upstream: TypeAlias = Nack | Ack | ConsolidatedAck


def repeated(child: str, ack: Ack) -> Ack:
    """Return the acknowledgements of a child to repeat; in place of long ones, only that its readers live."""
    ranges, everywhere = ack.acks[child], ack.everywhere.get(child, ())
    if sum(map(len, everywhere), len(ranges)) > MOST_REPEATED_RANGES:
        return Ack(ack.pubend, {child: ()})
    return Ack(ack.pubend, {child: ranges}, {child: everywhere} if everywhere else {})


def joined(told: Iterable[Downstream]) -> Iterator[Downstream]:
    """Yield consecutive knowledge messages that are no answers as one message, and all others unchanged, in order.

    Every message costs a relay and its children about as much. Complexity: O(messages).

    >>> told = [KnowledgeMessage(0, ((0, 5),)), KnowledgeMessage(0, ((5, 7),)), KnowledgeMessage(1, ((0, 7),))]
    >>> [(message.pubend, message.final) for message in joined(told)]
    [(0, ((0, 5), (5, 7))), (1, ((0, 7),))]
    """
    run: list[KnowledgeMessage] = []
    size = 0
    for message in told:
        if not isinstance(message, KnowledgeMessage) or message.is_answer or message.more:
            yield from _together(run)
            yield message
            run, size = [], 0
            continue
        last = run[-1] if run else message
        alike = (message.pubend, message.lost_end, message.union) == (last.pubend, last.lost_end, last.union)
        if run and (size >= JOINED_BYTES or not alike or message.begin < last.end):
            yield from _together(run)
            run, size = [], 0
        run.append(message)
        size += sum([len(one.payload) for _, one in message.data])
    yield from _together(run)


def _together(run: list[KnowledgeMessage]) -> list[KnowledgeMessage]:
    """Return one message that says the same as all messages of a run; none for an empty run."""
    if len(run) < 2:
        return run
    final = chain.from_iterable(message.final for message in run)
    data = chain.from_iterable(message.data for message in run)
    return [replace(run[0], final=tuple(final), data=tuple(data))]
