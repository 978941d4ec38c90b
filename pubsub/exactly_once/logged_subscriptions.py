"""The subscriptions of a pubend with a log: the beginning of each, and the logged state of the durable ones.

=============  ======================  ==============================  =============================================
name           ``again``               its reader                      outcome
=============  ======================  ==============================  =============================================
known          no                      any                             continues; this reader has it from now on
known          yes                     this reader                     continues
known          yes                     another reader                  refused: the other reader has taken over
unknown        no                                                      begins
unknown        yes, durable                                            refused: it was ended
unknown        yes, not durable                                        continues at the position of its reader
abandoned      either                                                  continues if it missed nothing, else begins
=============  ======================  ==============================  =============================================

No I/O: methods return the entries to log, and the caller reports the logged ones.
"""

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.messages import Ack, Begun, Ranges
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.subscriptions import merged
from tidewheel.pubsub.exactly_once.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot
from tidewheel.pubsub.publishers.partition_log import Cursor, Standing


@dataclass(slots=True)
class _Terms:
    """The state of a subscription, except its acknowledgements."""

    first: InitialFrontierSnapshot
    is_durable: bool
    lost_end: int


class _Place(NamedTuple):
    """The beginning of an unknown subscription; ``first`` is its first beginning, if that is elsewhere."""

    acknowledged: Ranges
    lost_end: int
    first: InitialFrontierSnapshot | None = None


class LoggedSubscriptions:
    """The subscriptions of one pubend.

    Args:
        pubend: the pubend, which keeps their acknowledgements.
        standings: their logged states.
        where: the name of the topic and partition, for messages.
    """

    def __init__(self, pubend: Pubend, standings: Mapping[str, Standing], where: str) -> None:
        self._pubend = pubend
        self._core = pubend.subscriptions
        self._where = where
        self._terms: dict[str, _Terms] = {}
        self._abandoned: dict[str, Standing] = {}
        self._noted = dict(standings)
        self._on_disk = dict(standings)
        self._moved: set[str] = set()
        self._must_note: set[str] = set()
        self._everywhere: dict[str, tuple[Ranges, ...]] = {}
        for name, standing in standings.items():
            if standing.is_abandoned:
                self._abandoned[name] = standing
            else:
                self._core.restore(name, standing.ranges, standing.reader)
                self._terms[name] = _Terms(_unpickled(standing.first), True, standing.lost_end)
                self._everywhere[name] = standing.everywhere

    # ------------------------------------------------------------------ who comes and goes

    def subscribe(
        self,
        name: str,
        reader: str,
        start: int | None,
        frontiers_at: Callable[[int], InitialFrontierSnapshot],
        *,
        durable: bool,
        again: bool,
        acknowledged: Ranges = (),
    ) -> Begun:
        """Begin a subscription, or continue the one of that name, and assign it to a reader.

        Args:
            name: the name of the subscription.
            reader: the id of its reader.
            start: the first wanted tick of a new subscription; None for the tick that is told next. For a returning
                reader, the first tick that it has not acknowledged.
            frontiers_at: returns both frontiers before a tick that is not forgotten.
            durable: whether to keep it over restarts; `due` returns the entries to log for that.
            again: whether this reader had it already.
            acknowledged: the acknowledged ticks that a returning reader knows.

        Raises:
            DeliveryError: the reader had the subscription, and cannot have it back.
        """
        self._check(name, reader, durable=durable, again=again)
        if again and self._core.acknowledge(name, acknowledged):
            self._moved.add(name)
        terms = self._terms.get(name)
        if terms is None:
            place = self._place(name, start, again=again)
        else:
            place = _Place(self._core.acknowledged(name), terms.lost_end, terms.first)
        frontiers = frontiers_at(max(prefix_end(place.acknowledged), self._pubend.first_tick))
        if terms is None:
            terms = self._terms[name] = _Terms(place.first or frontiers, False, place.lost_end)
            self._abandoned.pop(name, None)
            self._core.restore(name, place.acknowledged)
        terms.is_durable = terms.is_durable or durable
        self._core.give(name, reader)
        self._must_note.add(name)
        everywhere = self._everywhere.get(name, ())
        return Begun(place.acknowledged, self._pubend.told_end, frontiers, terms.first, terms.lost_end, everywhere)

    def _check(self, name: str, reader: str, *, durable: bool, again: bool) -> None:
        if self._core.name_of(reader) not in (None, name):
            raise DeliveryError(f"{self._where}: reader {reader!r} has subscription {self._core.name_of(reader)!r}")
        if not again:
            return
        if name in self._core:
            if self._core.reader_of(name) != reader:
                raise DeliveryError(
                    f"{self._where}: another reader has taken subscription {name!r} over, and this one gets nothing "
                    "more. A subscription has one reader at a time: subscribe under another name to read beside it"
                )
        elif durable and name not in self._abandoned:
            raise DeliveryError(
                f"{self._where}: subscription {name!r} has been ended, or the log was removed that knew of it. "
                "Subscribe anew"
            )

    def _place(self, name: str, start: int | None, *, again: bool) -> _Place:
        pubend, abandoned = self._pubend, self._abandoned.get(name)
        if abandoned is not None and pubend.lost_end <= prefix_end(abandoned.ranges):
            return _Place(abandoned.ranges, abandoned.lost_end, _unpickled(abandoned.first))
        # A returning reader that does not state its position may need every message.
        begin = (0 if again else pubend.told_end) if start is None else start
        tick = max(begin, pubend.first_tick)
        has_lost = (start or FOREVER) < pubend.lost_end or (abandoned is not None and not (again and start))
        return _Place(((0, tick),) if tick else (), pubend.lost_end if has_lost else 0)

    def leave(self, reader: str, acknowledged: Ranges, everywhere: tuple[Ranges, ...] = ()) -> str | None:
        """Receive the last message of a leaving reader; return its subscription if that is durable, and so stays.

        Until another reader takes over, late acknowledgements of this reader count.
        """
        name = self._core.name_of(reader)
        if name is None:
            return None
        self._core.acknowledge(name, acknowledged)
        self._learn(name, everywhere)
        if not self._terms[name].is_durable:
            self.end(name)
            return None
        self._terms[name].lost_end = 0
        self._must_note.add(name)
        return name

    def end(self, name: str) -> None:
        """End a subscription, durable, abandoned or not; do nothing if it is unknown."""
        self._core.end(name)
        self._terms.pop(name, None)
        self._abandoned.pop(name, None)
        self._everywhere.pop(name, None)
        self._must_note.add(name)

    def _learn(self, name: str, everywhere: tuple[Ranges, ...]) -> None:
        """Record the ticks that are acknowledged at other pubends."""
        if everywhere:
            self._everywhere[name] = merged(self._everywhere.get(name, ()), everywhere)

    def abandon(self, name: str) -> None:
        """Stop keeping messages for a durable subscription, but remember its position."""
        standing = replace(self._standing(name), reader=None, is_abandoned=True)
        self.end(name)
        self._abandoned[name] = standing

    def ack(self, ack: Ack) -> list[str]:
        """Receive acknowledgements; return the unknown readers."""
        self._moved.update(self._pubend.ack(ack))
        strangers = []
        for reader in ack.acks:
            name = self._core.name_of(reader)
            if name is None:
                strangers.append(reader)
            elif self._terms[name].lost_end:
                self._terms[name].lost_end = 0  # its reader continues, so it was told
                self._must_note.add(name)
            if name is not None:
                self._learn(name, ack.everywhere.get(reader, ()))
        return strangers

    # ------------------------------------------------------------------ the log

    @property
    def is_due(self) -> bool:
        """Whether entries may be `due`."""
        return bool(self._moved or self._must_note)

    def due(self) -> list[Cursor]:
        """Return the entries to log now: required ones, and acknowledgements of messages, but not of silence alone.

        The caller logs them before entries that are returned later.
        """
        moved = [name for name in self._moved - self._must_note if self._has_moved(name)]
        due = [cursor for name in [*self._must_note, *moved] if (cursor := self._note(name)) is not None]
        self._moved.clear()
        self._must_note.clear()
        return due

    def _has_moved(self, name: str) -> bool:
        noted = self._noted.get(name)
        return noted is not None and prefix_end(noted.ranges) < self._pubend.message_end

    def _note(self, name: str) -> Cursor | None:
        """Record the state of a subscription and return its entry to log; None if none is needed."""
        standing = self._standing(name) if self.is_durable(name) else self._abandoned.get(name)
        if standing == self._noted.get(name):
            return None
        if standing is None:
            del self._noted[name]
        else:
            self._noted[name] = standing
        return Cursor(name, standing)

    def _standing(self, name: str) -> Standing:
        terms = self._terms[name]
        first = pickle.dumps((terms.first.lower, terms.first.upper), 5)
        everywhere = self._everywhere.get(name, ())
        return Standing(
            self._core.acknowledged(name), self._core.reader_of(name), first, terms.lost_end, everywhere=everywhere
        )

    def logged(self, cursors: Iterable[Cursor]) -> None:
        """Record that an entry is durable."""
        for name, standing in ((cursor.name, cursor.standing) for cursor in cursors):
            if standing is None:
                self._on_disk.pop(name, None)
            else:
                self._on_disk[name] = standing

    @property
    def needed_from(self) -> int:
        """The first tick whose messages would be needed after a restart, by the durable entries."""
        ends = (prefix_end(standing.ranges) for standing in self._on_disk.values() if not standing.is_abandoned)
        return min((end for end in ends if end < self._pubend.message_end), default=FOREVER)

    @property
    def noted(self) -> dict[str, Standing]:
        """The latest entries of durable subscriptions, by name."""
        return dict(self._noted)

    # ------------------------------------------------------------------ questions

    def is_durable(self, name: str) -> bool:
        """Tell whether a durable subscription of that name exists and is not abandoned."""
        return name in self._terms and self._terms[name].is_durable

    @property
    def durable_names(self) -> list[str]:
        """The durable subscriptions, including abandoned ones."""
        return [*filter(self.is_durable, self._terms), *self._abandoned]

    def is_logged(self, name: str) -> bool:
        """Tell whether all entries of a subscription are durable."""
        return name not in self._must_note and self._noted.get(name) == self._on_disk.get(name)


def _unpickled(first: bytes) -> InitialFrontierSnapshot:
    lower, upper = pickle.loads(first)  # noqa: S301 - from a file of this user
    return InitialFrontierSnapshot(lower, upper)


def prefix_end(ranges: Ranges) -> int:
    """Return the first tick outside some ordered ranges."""
    return ranges[0][1] if ranges and ranges[0][0] == 0 else 0
