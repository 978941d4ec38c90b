"""Machines with one thing wrong each, to see that the simulation notices."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from tests.kit.simulation.injection import Injection, replaced
from tests.simulation.delivery.kinds import Kinds
from tidewheel.pubsub.exactly_once.asked import Asked
from tidewheel.pubsub.exactly_once.consolidation import Consolidation
from tidewheel.pubsub.exactly_once.fanout import Fanout, Outgoing
from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.relay import Relay
from tidewheel.pubsub.exactly_once.subend import Delivered, Subend, _Incoming
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.exactly_once.tick_clock import TickClock
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, ConsolidatedAck, KnowledgeMessage, Nack, Upstream
from tidewheel.pubsub.messages.filters import Filter
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet

# ---------------------------------------------------------------------- pubends


class TellsBeforeTheSync(Pubend):
    """Tells messages that are written and not durable."""

    def be_silent(self, now: int, ahead: int = 0) -> list[Outgoing]:
        """Tell more than there is to tell."""
        told = self.logged(self._pending[-1][0]) if self._pending else []
        return told + super().be_silent(now, ahead)


class UsesTicksAgain(Pubend):
    """Forgets after a restart what it said was silent."""

    def __init__(self, *arguments: Any, next_tick: int = 0, **options: Any) -> None:
        super().__init__(*arguments, next_tick=next_tick, **options)
        self._next_tick = 0
        self._clock = TickClock(0)


class IgnoresReservations(Pubend):
    """Tells silence that nobody will know of after a restart, and so put messages there."""

    def reserve(self, now: int, ahead: int) -> int | None:
        """Reserve nothing."""
        self.reserved(self._clock.at(now) + ahead)
        return None


class AnswersFromMemoryOnly(Pubend):
    """Says that what it has not in memory was silent."""

    def _read(self, first: int, end: int, room: int, most: int) -> tuple[list[tuple[int, Any]], int, bool]:
        if first < self._cached_from:
            return [], min(end, self._cached_from), False
        return super()._read(first, end, room, most)


class RefusesLargeMessages(Pubend):
    """Sends nothing for which there is no room, not even alone."""

    def nack(self, child: str, nack: Nack) -> list[Outgoing]:
        """Leave out what is too large."""
        told = super().nack(child, nack)
        sizes = [len(payload) for _, one in told if isinstance(one, KnowledgeMessage) for _, payload in one.data]
        return told if sum(sizes) <= nack.room_bytes else []


class TakesForeignTicks(Pubend):
    """Puts messages on any tick, also of other pubends."""

    def assign(self, messages: Iterable[Any], now: int) -> list[tuple[int, Any]]:
        """Round ticks so that pubends meet."""
        self._number, number = 0, self._number
        try:
            return super().assign(messages, now // 50_000 * 50_000)
        finally:
            self._number = number


class GoesByItsClock(Pubend):
    """Promises no silence behind what its clock shows, whoever waits for it."""

    def nack(self, child: str, nack: Nack) -> list[Outgoing]:
        """Answer what has been told."""
        known = TickSet(nack.ranges)
        if known.end < FOREVER:
            known.remove(self.told_end, FOREVER)
        return super().nack(child, Nack(nack.pubend, known.ranges(), nack.room_bytes))


class BreaksPromises(Pubend):
    """Puts messages where it has promised silence."""

    def assign(self, messages: Iterable[Any], now: int) -> list[tuple[int, Any]]:
        """Forget what was promised."""
        self._next_tick = self.message_end if not self._pending else self._next_tick
        self._clock = TickClock(0)
        return super().assign(messages, now)


# ---------------------------------------------------------------------- subscriptions


class _TellsNoLoss(Fanout):
    @property
    def lost_end(self) -> int:
        return 0

    @lost_end.setter
    def lost_end(self, tick: int) -> None:
        pass


class ForgetsEarly(Subscriptions):
    """Has forgotten what one subscription has acknowledged, whatever others need."""

    @property
    def needed_from(self) -> int | None:
        """Need too little."""
        self._pubend.fanout.__class__ = _TellsNoLoss
        return max((known.acknowledged.prefix_end for known in self.known.values()), default=None)


class BeginsAnew(Subscriptions):
    """Lets who comes back begin with what is told next, whatever he has yet to have."""

    def subscribe(self, name: str, *arguments: Any, **options: Any) -> Begun:
        """Forget who was there."""
        self.end(name)
        return super().subscribe(name, *arguments, **options)


class TakesAcksOfWhoHasGone(Subscriptions):
    """Takes what an earlier reader of a subscription says, which is not what the present one has had."""

    def name_of(self, reader: str) -> str | None:
        """Take it for anybody's."""
        name = reader.partition(",")[0]
        return name if name in self.known else None


# ---------------------------------------------------------------------- relays


class _FinalWhenForgotten(KnowledgeStream[Any]):
    def forget_oldest_data(self, max_bytes: int) -> None:
        known = TickSet(self.known)
        super().forget_oldest_data(max_bytes)
        for first, end in known.difference(self.known):
            self.accumulate_final(first, end)


class MakesFinalWhatItForgets(Relay):
    """Says of messages that it has no more room for that nobody needs them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for line in self._lines:
            line.stream = _FinalWhenForgotten()


class _AsksOnce(Asked):
    def ask(self, ticks: TickSet, now_s: float) -> TickSet:
        return super().ask(ticks, min(now_s, 1e-9))


class LosesNacks(Relay):
    """Takes an answer for granted, however long it does not come."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for line in self._lines:
            line.asked = _AsksOnce()


class ForgetsWhoAsked(Relay):
    """Does not pass on answers to nacks."""

    def receive(self, message: Any, now_s: float) -> list[Outgoing]:
        """Forget what children wanted."""
        for line in self._lines:
            line._wanted.clear()
        return super().receive(message, now_s)


class _OfTheFastest(Consolidation):
    def take(self) -> list[ConsolidatedAck]:
        ends = [child.end for child in self._children.values() if child.names]
        return [replace(ack, end=max(ends, default=0)) for ack in super().take()]


class AcknowledgesForAll(Relay):
    """Takes the acknowledgement of one child for that of all."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for line in self._lines:
            line.readers.__class__ = _OfTheFastest

    def ack(self, child: str, ack: Ack | ConsolidatedAck) -> list[Outgoing]:
        """Say it for every subscription that has ever said anything by its name."""
        told = super().ack(child, ack)
        line = self._lines[ack.pubend]
        everything = TickSet(part for ticks in line._acks.values() for part in ticks)
        names = self.__dict__.setdefault("_names", set())
        names.update(line._acks)
        for name in names if everything else ():
            line._acks[name] = TickSet(everything)
        return told


class _OfTheFirstNames(Consolidation):
    def name_all(self) -> None:
        pass


class NamesReadersOnce(Relay):
    """Does not name its readers again to a parent that does not know them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for line in self._lines:
            line.readers.__class__ = _OfTheFirstNames


class ForgetsToCountWhoLeft(Relay):
    """Counts readers that have gone to another parent."""

    def leave(self, child: str) -> None:
        """Forget the child, but not its readers."""
        for line in self._lines:
            line.fanout.leave(child)


class TakesFilteredForSilent(Relay):
    """Takes what was filtered out for others for silence, and answers a new child with it."""

    def _want_others(self) -> None:
        pass


class ForgetsAFilter(Relay):
    """Does not ask for what a child wants that comes later."""

    def join(self, child: str, where: Filter | None = None, *, awaits_silence: bool = True) -> None:
        """Tell the parent nothing of it."""
        union = self.wanted.union
        super().join(child, where, awaits_silence=awaits_silence)
        if self.wanted.union != union:
            self.wanted.union, self.wanted.is_due = union, False


class TakesAnyUnion(Relay):
    """Believes that all knowledge is of the present union."""

    def receive(self, message: Any, now_s: float) -> list[Outgoing]:
        """Read nothing of the union."""
        if isinstance(message, KnowledgeMessage):
            message = replace(message, union=self.wanted.digest)
        return super().receive(message, now_s)


def _loses_for_good(line: Any, lost_end: int) -> None:
    line.fanout.lost_end = max(line.fanout.lost_end, lost_end)


class KeepsLosses(Relay):
    """Takes for lost what an earlier life of a pubend had forgotten, though the next one has it again."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for line in self._lines:
            line._know_loss = partial(_loses_for_good, line)  # type: ignore[method-assign]


# ---------------------------------------------------------------------- subends


class MergesEarly(Subend):
    """Takes for silent what it knows nothing of, when it merges."""

    def take(self) -> list[Delivered]:
        """Deliver up to the latest horizon."""
        together = [one for incoming in self._incoming.values() for one in incoming.take(incoming.horizon)]
        return sorted(together, key=lambda one: one.tick)


class SkipsGaps(Subend):
    """Delivers what has come, whatever is missing before it."""

    def take(self) -> list[Delivered]:
        """Deliver up to the end of what is known."""
        return [one for incoming in self._incoming.values() for one in incoming.take(incoming.stream.known.end)]


class AcknowledgesWhatComes(Subend):
    """Acknowledges what it has received, though it has not delivered it."""

    def receive(self, message: KnowledgeMessage, now_s: float) -> None:
        """Acknowledge early."""
        super().receive(message, now_s)
        incoming = self._incoming[message.pubend]
        incoming.acknowledged.update((tick, tick + 1) for tick, _ in message.data)


class AcknowledgesWhatIsTaken(Subend):
    """Acknowledges what the reader has taken, who may yet fail at it."""

    def take(self) -> list[Delivered]:
        """Acknowledge in his name."""
        delivered = super().take()
        for one in delivered:
            self.acknowledge(one.pubend, one.tick)
        return delivered


class _ForgetsAcknowledgements(_Incoming):
    def learn(self, message: KnowledgeMessage, now_s: float) -> None:
        self.acknowledged, acknowledged = TickSet(), self.acknowledged
        super().learn(message, now_s)
        self.acknowledged = acknowledged


class DeliversAgain(Subend):
    """Has what it acknowledged in an earlier life again, where it had no room for it."""

    def __init__(self, name: str, starts: Mapping[int, Begun], *arguments: Any, **options: Any) -> None:
        super().__init__(name, starts, *arguments, **options)
        for incoming in self._incoming.values():
            incoming.__class__ = _ForgetsAcknowledgements


class NeverAsks(Subend):
    """Waits for what was lost."""

    def ask(self, now_s: float) -> list[Upstream]:
        """Ask for nothing."""
        return []


class _WantsNothing(_Incoming):
    def want(self, end: int, now_s: float) -> None:
        pass


class WaitsForClocks(Subend):
    """Asks for no silence that a message of another pubend waits for."""

    def __init__(self, name: str, starts: Mapping[int, Begun], *arguments: Any, **options: Any) -> None:
        super().__init__(name, starts, *arguments, **options)
        for incoming in self._incoming.values():
            incoming.__class__ = _WantsNothing


class KeepsEverything(Subend):
    """Has room for all."""

    def __init__(self, *arguments: Any, room_bytes: int = 0, **options: Any) -> None:
        super().__init__(*arguments, room_bytes=1 << 40, **options)


def machine(kind: type) -> Callable[[], Injection]:
    """Return what puts a wrong machine in the place of the right one, its base."""
    part = kind.__mro__[1].__name__.lower()
    return lambda: replaced(Kinds, part, lambda _: kind)
