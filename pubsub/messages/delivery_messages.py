"""The messages between pubends, relays and subends. Any may be lost, doubled, late or out of order.

Knowledge goes downstream; nacks (questions for ticks) and acks (acknowledgements) go upstream. Repeated messages are
harmless.

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
"""The prefix of the names of children that are relays."""

MOST_REPEATED_RANGES: Final = 100
"""The largest number of ranges of an acknowledgement that is repeated."""

MOST_ANSWERED: Final = 512
"""The largest number of messages in one answer, which take a few ms to read and send; the child asks for more."""

MOST_ANSWERED_BYTES: Final = 1024 * 1024
"""The approximate size limit of one answer; it may contain a single larger message."""

JOINED_BYTES: Final = 64 * 1024
"""A message of at least this size is sent alone, or ends a joined message: joining more messages to it saves little."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A number, at least 0; decoders check this."""

Tick: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=FOREVER)]
"""A tick, or the end of a range; decoders check this."""

Ranges: TypeAlias = tuple[TickRange, ...]
"""Ticks, as ranges in order."""

CheckedRanges: TypeAlias = tuple[tuple[Tick, Tick], ...]
"""Ranges checked by decoders; not for signatures of actors, which Ray pickles."""


class KnowledgeMessage(msgspec.Struct, frozen=True):
    """New knowledge of some ticks of a pubend.

    Attributes:
        data: the D ticks, in order, with their messages.
        more: whether this answer to a nack is cut short; the child asks again.
        lost_end: messages before this tick are forgotten; a reader that has not received them has lost them.
        union: the digest of the union of filters that the child, a relay, has requested; 0 for any other child.
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
        """The first tick that the message covers; 0 if it covers none."""
        final, data = self.final, self.data
        if not final:
            return data[0][0] if data else 0
        return min(final[0][0], data[0][0]) if data else final[0][0]

    @property
    def end(self) -> int:
        """The tick after the last tick that the message covers; 0 if it covers none."""
        final = self.final[-1][1] if self.final else 0
        return max(final, self.data[-1][0] + 1) if self.data else final


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="N"):
    """The ticks that a child asks for.

    Attributes:
        ranges: the last range may have no end.
        room_bytes: the approximate room of the child, in bytes; the answer has at least one message.
    """

    pubend: Number
    ranges: CheckedRanges
    room_bytes: int


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="A"):
    """The ticks that subscriptions no longer need: for each subscription, the latest state of its acknowledgements.

    Attributes:
        acks: the acknowledged ticks, by reader id; an entry without ticks only says that the reader is alive.
        everywhere: for a topic with several pubends, the acknowledged ticks at each pubend, by reader id.
        may_consolidate: whether a relay may acknowledge for these readers together with others.
    """

    pubend: Number
    acks: dict[str, CheckedRanges]
    everywhere: dict[str, tuple[CheckedRanges, ...]] = {}
    may_consolidate: bool = False


class ConsolidatedAck(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """The ticks that no reader in a relay's set needs; see `consolidation.py`.

    Attributes:
        end: the readers have acknowledged all ticks before this one.
        readers: the readers that have come (True) or gone (False) since the last acknowledgement.
    """

    pubend: Number
    end: Tick
    digest: Number
    progress: Number
    readers: dict[str, bool] = {}
    is_all: bool = False


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """The answer to acknowledgements of an unknown reader, which may then subscribe again. Other readers ignore it.

    Attributes:
        reader: the reader's id; empty if a parent does not know a relay's readers, and the relay must name them.
    """

    pubend: Number
    reader: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer of a pubend to a subscribing reader: where its subscription begins or continues.

    Attributes:
        told_end: the first tick that is not known yet.
        frontiers: both frontiers at its first unacknowledged tick.
        first_frontiers: both frontiers where the subscription first began. They determine which epochs it receives
            completely.
        lost_end: if not 0, messages before this tick are lost, and the subscription continues after them. It had no
            reader for too long, or wants to begin earlier. Every new reader of a durable subscription gets this value,
            until a reader acknowledges a tick or leaves.
        everywhere: the known acknowledged ticks at each pubend of the topic.
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
    """Return a child's acknowledgements for repetition: entries with many ranges only say that the reader is alive."""
    ranges, everywhere = ack.acks[child], ack.everywhere.get(child, ())
    if sum(map(len, everywhere), len(ranges)) > MOST_REPEATED_RANGES:
        return Ack(ack.pubend, {child: ()})
    return Ack(ack.pubend, {child: ranges}, {child: everywhere} if everywhere else {})


def joined(told: Iterable[Downstream]) -> Iterator[Downstream]:
    """Join consecutive knowledge messages that are not answers; yield them and all other messages in order.

    Complexity: O(messages).

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
    if len(run) < 2:
        return run
    final = chain.from_iterable(message.final for message in run)
    data = chain.from_iterable(message.data for message in run)
    return [replace(run[0], final=tuple(final), data=tuple(data))]
