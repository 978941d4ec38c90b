"""The memory of a subscriber across its lives, compared with what a job publishes that nothing disturbs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tests.kit.simulation.violation import ViolationError
from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.messages.delivery_messages import Ranges
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, Frontier, RolledBack
from tidewheel.pubsub.messages.tick_set import TickSet

Records: TypeAlias = Counter[str]
Place: TypeAlias = tuple[int, int]
"""The partition of a batch and its number."""


class Store:
    """Keeps batches until their epoch is complete, and then its records. Whatever is kept survives the reader.

    Args:
        owner: whose it is, for messages.
        domain: the times of the topic.
        expected: the records of each epoch.
        is_first: whether the subscription begins before anything is published.

    Attributes:
        complete: the epochs that were complete, in order.
        orders: for each life the batches that came, in order.
        rollbacks: how many events said that batches are void.
    """

    def __init__(self, owner: str, domain: TimeDomain, expected: Mapping[Time, Records], *, is_first: bool) -> None:
        self._owner = owner
        self._domain = domain
        self._expected = expected
        self._has_all = is_first
        self._waiting: dict[Place, tuple[Time, Records]] = {}
        self._places: dict[Time, set[Place]] = {}
        self._void: set[Place] = set()
        self._in_this_life: set[Time] = set()
        self._may_not_come: set[Place] = set()
        self.complete: list[Time] = []
        self.orders: list[list[Place]] = []
        self.rollbacks = 0

    def begin(self, acknowledged: Sequence[Ranges], *, is_new: bool) -> None:
        """Begin another life: what is acknowledged may not come again; if it is new, nothing has come before."""
        if is_new:
            self._has_all = self._has_all and not self.orders
            self._waiting.clear()
            self._places.clear()
            self._void.clear()
            self.complete.clear()
        self._in_this_life.clear()
        ticks = [TickSet(ranges) for ranges in acknowledged]
        known = [*self._waiting, *(place for places in self._places.values() for place in places)]
        self._may_not_come = {place for place in known if place[1] in ticks[place[0]]}
        self.orders.append([])

    # ------------------------------------------------------------------ reading

    def check_order(self, batch: Batch) -> None:
        """Record that a batch comes."""
        place = batch.partition, batch.number
        if place in self._may_not_come:
            self._fail("doubled", f"batch {place} of epoch {batch.time!r} is acknowledged, and comes again")
        if self.orders[-1].count(place):
            self._fail("doubled", f"batch {place} of epoch {batch.time!r} comes twice")
        self.orders[-1].append(place)

    def see(self, event: Event) -> None:
        """Receive an event: keep a batch, forget void ones, or check the epochs that are complete now."""
        match event:
            case Batch():
                self.check_order(event)
                self._keep(event)
            case RolledBack():
                self._forget(event)
            case Frontier(frontier):
                done = {time for time, _ in self._waiting.values() if not frontier.less_equal(time)}
                for time in sorted(done, key=lambda time: sum(self._domain.less_equal(one, time) for one in done)):
                    places = [place for place, (at, _) in self._waiting.items() if at == time]
                    self._finish(time, sum((self._waiting.pop(place)[1] for place in places), Counter()), places)

    def see_epoch(self, epoch: Epoch) -> None:
        """Receive a whole epoch."""
        places = [(batch.partition, batch.number) for batch in epoch.batches]
        self._finish(epoch.time, Counter(map(repr, epoch.records)), places)

    def _keep(self, batch: Batch) -> None:
        place, records = (batch.partition, batch.number), Counter(map(repr, batch.records))
        if batch.time in self._places:
            if place not in self._places[batch.time] | self._void:
                self._fail("doubled", f"batch {place} comes, and epoch {batch.time!r} is complete")
            return
        self._void.discard(place)
        if self._waiting.setdefault(place, (batch.time, records)) != (batch.time, records):
            self._fail("doubled", f"batch {place} comes again with other records")

    def _forget(self, event: RolledBack) -> None:
        def is_void(place: Place, time: Time) -> bool:
            is_late = place[0] == event.partition and place[1] > event.number
            return is_late and event.frontier.less_equal(time)

        self.rollbacks += 1
        void = {place for place, (time, _) in self._waiting.items() if is_void(place, time)}
        for place in void:
            del self._waiting[place]
        self._void |= void
        for time in self._in_this_life:
            if any(is_void(place, time) for place in self._places[time]):
                self._fail("void", f"batches of epoch {time!r} are said to be void, and it was complete")

    def _finish(self, time: Time, records: Records, places: Sequence[Place]) -> None:
        if time in self._in_this_life:
            self._fail("doubled", f"epoch {time!r} is complete twice")
        self._in_this_life.add(time)
        if records != self._expected.get(time, Counter()):
            more, less = records - self._expected.get(time, Counter()), self._expected.get(time, Counter()) - records
            self._fail("records", f"epoch {time!r} has too much {dict(more)}, and lacks {dict(less)}")
        late = [other for other in self.complete if other != time and self._domain.less_equal(time, other)]
        if late and time not in self._places:
            self._fail("order", f"epoch {time!r} comes after {late}")
        if time not in self._places:
            self.complete.append(time)
        self._places[time] = set(places)

    # ------------------------------------------------------------------ the end

    def missing(self) -> list[Time]:
        """Return the epochs that have not come: all of them have to, or all after the first that has."""
        less_equal = self._domain.less_equal
        return [
            time
            for time in self._expected
            if time not in self._places and (self._has_all or any(less_equal(one, time) for one in self.complete))
        ]

    def check_end(self) -> None:
        """Check that nothing is missing at the end of the topic."""
        if self._waiting:
            self._fail("records", f"at the end there are still {self._waiting}")
        if missing := self.missing():
            self._fail("lost", f"at the end epochs {missing} have not come")

    def _fail(self, check: str, text: str) -> None:
        raise ViolationError(check, f"{self._owner}: {text}")
