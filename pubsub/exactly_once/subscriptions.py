"""The subscriptions of a pubend with a log: their acknowledged ticks and readers, and the logged state of durable ones.

Only the newest reader of a subscription counts, since an earlier reader does not know where the newest began.
`Subscriptions.subscribe` decides by the name and the reader:

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

A relay also has a subscription, which stands for all readers whose acknowledgements it consolidates. The pubend itself
keeps messages for such a reader until the relay names the reader. It does so again, for one lease, after the relay
stops naming the reader or is lost.

No I/O: methods return the entries to log, and the caller reports which are logged.

Source: seed "Gryphon exactly-once", section 2.1.1 (consolidation of acknowledgements).
"""

import pickle
from collections.abc import Callable, Iterable, Mapping
from math import inf

from msgspec.structs import replace

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.consolidation import Readers
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.standing import Cursor, Standing
from tidewheel.pubsub.exactly_once.subscription import Subscription, prefix_end
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, ConsolidatedAck, Ranges
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot

MOST_LEFT = 100_000
"""The largest number of remembered readers that have left. They are remembered so that a relay's late message about
them has no effect."""


class Subscriptions:
    """The subscriptions of one pubend.

    Attributes:
        known: the subscriptions and relays by name, without abandoned ones.
        noted: the latest log entries of durable subscriptions.
    """

    def __init__(self, pubend: Pubend, standings: Mapping[str, Standing], where: str) -> None:
        self._pubend = pubend
        self._where = where
        self.known: dict[str, Subscription] = {}
        self._names: dict[str, str] = {}
        self._abandoned = {name: standing for name, standing in standings.items() if standing.is_abandoned}
        self.noted = dict(standings)
        self._on_disk = dict(standings)
        self._moved: set[str] = set()
        self._must_note: set[str] = set()
        self._left: dict[str, None] = {}  # the readers that left last: a relay may still name them
        for name, logged in standings.items():
            if not logged.is_abandoned:
                acknowledged = TickSet(logged.ranges)
                self.known[name] = Subscription(
                    acknowledged, logged.first, None, logged.lost_end, logged.everywhere, is_durable=True
                )
                self._give(name, logged.reader)

    # ------------------------------------------------------------------ readers that come and go

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
        """Begin a subscription, or continue the existing one with this name, for a reader.

        ``start`` is the first tick of a new subscription; by default the tick announced next, 0 for all kept messages.
        ``frontiers_at`` returns both frontiers before a kept tick. If the subscription is ``durable``, `due` returns
        the entries to log. With ``again``, this reader had the subscription already: ``start`` is its first
        unacknowledged tick, and ``acknowledged`` has the ticks that it has acknowledged.

        Raises:
            DeliveryError: the reader cannot have its subscription back.
        """
        if reader in self.known and self.known[reader].is_returning:
            self.end(reader)
        self._check(name, reader, durable=durable, again=again)
        known = self.known.get(name)
        if known is None:
            known = self._begun(name, start, again=again)
        elif again:
            known.acknowledge(acknowledged, ())
        frontiers = frontiers_at(max(known.acknowledged.prefix_end, self._pubend.first_tick))
        known.first = known.first or pickle.dumps((frontiers.lower, frontiers.upper), 5)
        known.is_durable = known.is_durable or durable
        self.known[name] = known
        self._abandoned.pop(name, None)
        self._give(name, reader)
        self._must_note.add(name)
        lower, upper = pickle.loads(known.first)  # noqa: S301 - from this pubend, or from a file of this user
        first = InitialFrontierSnapshot(lower, upper)
        ranges = known.acknowledged.ranges()
        return Begun(ranges, self._pubend.told_end, frontiers, first, known.lost_end, known.everywhere)

    def _check(self, name: str, reader: str, *, durable: bool, again: bool) -> None:
        if self._names.get(reader, name) != name:
            raise DeliveryError(f"{self._where}: reader {reader!r} has subscription {self._names[reader]!r}")
        if not again:
            return
        if name in self.known:
            if self.known[name].reader != reader:
                raise DeliveryError(
                    f"{self._where}: another reader has taken subscription {name!r} over, and this one gets nothing "
                    "more. A subscription has one reader at a time: subscribe under another name to read beside it"
                )
        elif durable and name not in self._abandoned:
            raise DeliveryError(
                f"{self._where}: subscription {name!r} has been ended, or the log was removed that knew of it. "
                "Subscribe again"
            )

    def _begun(self, name: str, start: int | None, *, again: bool) -> Subscription:
        pubend, abandoned = self._pubend, self._abandoned.get(name)
        lost_end = pubend.fanout.lost_end
        if abandoned is not None and lost_end <= prefix_end(abandoned.ranges):
            return Subscription(TickSet(abandoned.ranges), abandoned.first, lost_end=abandoned.lost_end)
        # A returning reader that does not send its position may need every message.
        begin = (0 if again else pubend.told_end) if start is None else start
        has_lost = (start or FOREVER) < lost_end or (abandoned is not None and not (again and start))
        return Subscription(TickSet([(0, max(begin, pubend.first_tick))]), lost_end=lost_end if has_lost else 0)

    def _give(self, name: str, reader: str | None) -> None:
        self._release(name)
        self.known[name].reader = reader
        if reader is not None:
            self._names[reader] = name

    def _release(self, name: str) -> None:
        before = self.reader_of(name)
        if before is not None:
            del self._names[before]

    def leave(self, reader: str, acknowledged: Ranges, everywhere: tuple[Ranges, ...] = ()) -> None:
        """Receive the last message of a reader that leaves; a durable subscription stays."""
        self._left[reader] = None
        if len(self._left) > MOST_LEFT:
            del self._left[next(iter(self._left))]
        name = self.name_of(reader)
        if name is None:
            return
        self.known[name].acknowledge(acknowledged, everywhere)
        if self.known[name].is_durable:
            self.known[name].lost_end = 0
            self._must_note.add(name)
        else:
            self.end(name)

    def end(self, name: str) -> None:
        """End a subscription of any kind; do nothing if there is none with this name."""
        self._release(name)
        self.known.pop(name, None)
        self._abandoned.pop(name, None)
        self._must_note.add(name)

    def abandon(self, name: str) -> None:
        """Stop keeping messages for a durable subscription, but remember its position."""
        standing = replace(self.known[name].standing(), reader=None, is_abandoned=True)
        self.end(name)
        self._abandoned[name] = standing

    def ack(self, ack: Ack | ConsolidatedAck, child: str = "") -> list[str]:
        """Receive acknowledgements of a child; return unknown readers, whose acknowledgements do not count.

        An empty name in the result means that the child, a relay, must name all readers behind it again.
        """
        if isinstance(ack, ConsolidatedAck):
            return self._consolidate(child, ack)
        strangers = []
        for reader, ranges in ack.acks.items():
            name = self.name_of(reader)
            if name is None:
                strangers.append(reader)
                continue
            self._moved.add(name)
            known = self.known[name]
            known.acknowledge(ranges, ack.everywhere.get(reader, ()))
            if known.lost_end:
                known.lost_end = 0  # its reader continues, so it knows of the loss
                self._must_note.add(name)
        return strangers

    # ------------------------------------------------------------------ relays

    def _consolidate(self, relay: str, ack: ConsolidatedAck) -> list[str]:
        known = self.known.get(relay) or Subscription(TickSet(), until_s=inf)
        readers = known.readers = known.readers or Readers()
        end_before = readers.end
        changes = readers.learn(ack)
        if changes is None:
            return [""]
        known.acknowledged, known.progress = TickSet([(0, readers.end)]), readers.progress
        if readers.names and known.reader is None:
            self.known[relay] = known
            self._give(relay, relay)
        elif not readers.names:
            self.end(relay)
        for name in filter(None, map(self.name_of, changes.came)):
            if not self.is_durable(name):
                self.end(name)
        self._keep_for(changes.gone, end_before)
        return []

    def lost(self, child: str) -> None:
        """Record that a child is disconnected; if it is a relay, its readers will connect to another parent."""
        known = self.known.get(child)
        if known is not None and known.readers is not None:
            self.end(child)
            self._keep_for(known.readers.names, known.readers.end)

    def _keep_for(self, readers: Iterable[str], end: int) -> None:
        """Keep messages from a tick on, for one lease, for readers that a relay no longer names."""
        elsewhere = [known.readers.names for known in self.known.values() if known.readers is not None]
        for reader in readers:
            if not (reader in self._left or reader in self._names or any(reader in names for names in elsewhere)):
                self.known[reader] = Subscription(TickSet([(0, end)]), until_s=inf, is_returning=True)
                self._give(reader, reader)

    # ------------------------------------------------------------------ the log

    def due(self) -> list[Cursor]:
        """Return the entries to log now: urgent entries, and acknowledgements of messages.

        Acknowledgements of silence alone wait. The caller logs these entries before the entries of a later call.
        """
        noted = {name: one for name in self._moved - self._must_note if (one := self.noted.get(name)) is not None}
        moved = [name for name, one in noted.items() if prefix_end(one.ranges) < self._pubend.message_end]
        due = [cursor for name in [*self._must_note, *moved] if (cursor := self._note(name)) is not None]
        self._moved.clear()
        self._must_note.clear()
        return due

    def _note(self, name: str) -> Cursor | None:
        standing = self.known[name].standing() if self.is_durable(name) else self._abandoned.get(name)
        if standing == self.noted.get(name):
            return None
        if standing is None:
            del self.noted[name]
        else:
            self.noted[name] = standing
        return Cursor(name, standing)

    def logged(self, cursors: Iterable[Cursor]) -> None:
        for cursor in cursors:
            if cursor.standing is None:
                self._on_disk.pop(cursor.name, None)
            else:
                self._on_disk[cursor.name] = cursor.standing

    def is_logged(self, name: str) -> bool:
        return name not in self._must_note and self.noted.get(name) == self._on_disk.get(name)

    # ------------------------------------------------------------------ questions

    def count(self, names: Iterable[str]) -> int:
        """Return the number of subscriptions with these names; for a relay, each reader behind it counts."""
        behind = [self.known[name].readers for name in names]
        return sum(1 if readers is None else len(readers.names) for readers in behind)

    @property
    def needed_from(self) -> int | None:
        """The first tick that some subscription has not acknowledged; None if there is no subscription."""
        return min((known.acknowledged.prefix_end for known in self.known.values()), default=None)

    @property
    def needed_after_restart(self) -> int:
        """The first tick whose messages a restart would need, according to the durable entries."""
        ends = (prefix_end(standing.ranges) for standing in self._on_disk.values() if not standing.is_abandoned)
        return min((end for end in ends if end < self._pubend.message_end), default=FOREVER)

    def needing(self, tick: int) -> list[str]:
        return [name for name, known in self.known.items() if known.acknowledged.prefix_end < tick]

    def reader_of(self, name: str) -> str | None:
        return self.known[name].reader if name in self.known else None

    def name_of(self, reader: str) -> str | None:
        return self._names.get(reader)

    def is_durable(self, name: str) -> bool:
        """Tell whether a durable subscription with this name exists and is not abandoned."""
        return name in self.known and self.known[name].is_durable

    @property
    def durable_names(self) -> list[str]:
        """The durable subscriptions, including abandoned ones."""
        return [*filter(self.is_durable, self.known), *self._abandoned]
