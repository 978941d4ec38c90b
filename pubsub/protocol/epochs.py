"""The epochs of a topic: their states at a publisher, and their assembly at a subscriber.

A publisher sees each epoch as latent, then active, then completed:

=========  ==============  =========  ==================================
state      event           next       meaning
=========  ==============  =========  ==================================
latent     data            active     the first batch of the epoch
latent     passed          completed  the epoch was skipped
active     data            active     another batch of the epoch
active     passed          completed  the last batch came before this
completed  data            refused    its sender had no right to send it
=========  ==============  =========  ==================================

``data`` is a batch of the epoch; ``passed`` is a move of the lower frontier past its time. Epochs begin in any order: a
latent epoch may be earlier than an active one.

Source: seed "Strymon publish-subscribe", section "Design Goals" (its figure of epoch states).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Generic, TypeVar

from tidewheel.progress import Antichain, MutableAntichain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, Frontier, RolledBack, SubstreamsEnded
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, WentBack

T = TypeVar("T")


class EpochStates:
    """The states of all epochs at one publisher, as the lower frontier and the set of active epochs.

    Attributes:
        active: the active epochs, in the order in which they began.
        completed: the epochs that the last move of the lower frontier completed.
        generation: how often the job has gone back.
        complete: the frontier of all logs of the topic when the job last went back; empty without a log.
        passed: the frontier of the worker at that moment; empty if it was before the log's frontier.
        has_all: whether the log has the note that the worker has sent everything.

    >>> from tidewheel.progress import IntegerDomain
    >>> epochs = EpochStates(IntegerDomain())
    >>> epochs.observe(3)
    >>> epochs.advance([(0, -1), (2, 1)])
    [(0, -1), (2, 1)]
    >>> [time for time in range(5) if epochs.is_completed(time)], epochs.upper()
    ([0, 1], [3])
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._domain = domain
        self._lower = MutableAntichain(domain)
        self._lower.update([(domain.minimum(), 1)])
        self.active: dict[Time, None] = {}
        self.completed: list[Time] = []
        self._chains = TimeChains(domain)
        self.generation = 0
        self.complete: tuple[Time, ...] = ()
        self.passed: tuple[Time, ...] = ()
        self.has_all = False

    @classmethod
    def at(cls, domain: TimeDomain, lower: Iterable[Time], active: Iterable[Time]) -> "EpochStates":
        epochs = cls(domain)
        epochs._set(lower, active)
        return epochs

    def go_back(self, message: WentBack) -> None:
        self._set(message.lower, message.standing or ())
        self.generation, self.complete, self.passed = message.generation, message.complete, message.passed
        self.has_all = False

    def _set(self, lower: Iterable[Time], active: Iterable[Time]) -> None:
        self._lower = MutableAntichain(self._domain)
        self._lower.update((time, 1) for time in lower)
        self.active, self.completed, self._chains = {}, [], TimeChains(self._domain)
        for time in active:
            self.observe(time)

    def snapshot(self) -> InitialFrontierSnapshot:
        """Return both frontiers, for a subscription that begins now."""
        return InitialFrontierSnapshot(list(self.lower), self.upper(), self.generation, self.passed)

    @property
    def lower(self) -> Antichain:
        """The lower frontier: every later batch has a time at or after one of its elements."""
        return self._lower.frontier

    @property
    def has_ended(self) -> bool:
        return not self._lower.elements()

    @property
    def has_begun(self) -> bool:
        return bool(self.active) or not self._lower.less_equal(self._domain.minimum())

    def is_completed(self, time: Time) -> bool:
        return not self._lower.less_equal(time)

    def upper(self) -> list[Time]:
        """Return the upper frontier: the maximal active epochs. Complexity: O(active * maximal)."""
        less_equal = self._domain.less_equal
        maximal: list[Time] = []
        for time in self.active:
            if not any(less_equal(time, element) for element in maximal):
                maximal = [element for element in maximal if not less_equal(element, time)]
                maximal.append(time)
        return maximal

    def observe(self, time: Time) -> None:
        """Record a batch of an epoch; O(1) if the epoch is active.

        Raises:
            ProtocolError: the epoch is completed.
        """
        if time in self.active:
            return
        if self.is_completed(time):
            raise ProtocolError(f"a batch came at time {time!r}, which the lower frontier {self.lower!r} has passed")
        self.active[time] = None
        self._chains.add(time)

    def advance(self, updates: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Apply one move of the lower frontier, and return the frontier's changes.

        Raises:
            ProtocolError: the frontier moved back.
        """
        changes = self._lower.update(updates)
        if has_moved_back(self._domain, changes):
            after = list(self.lower)
            came = [time for time, change in changes if change > 0]
            before = [time for time, change in changes if change < 0] + [time for time in after if time not in came]
            raise ProtocolError(f"the lower frontier moved back from {before!r} to {after!r}")
        self.completed = list(chain(*self._chains.take_passed(self.lower))) if changes else []
        for time in self.completed:
            self.active.pop(time, None)
        return changes


def has_moved_back(domain: TimeDomain, changes: Sequence[tuple[Time, int]]) -> bool:
    """Tell whether an element of the changed frontier is not at or after an earlier element."""
    less_equal = domain.less_equal
    if len(changes) == 2 and changes[0][1] < 0 < changes[1][1]:  # the usual case; generators take several times as long
        return not less_equal(changes[0][0], changes[1][0])
    gone = [time for time, change in changes if change < 0]
    came = [time for time, change in changes if change > 0]
    return not all(any(less_equal(element, time) for element in gone) for time in came)


class TimeChains:
    """Distinct times, kept as chains of comparable times, to find quickly which of them a frontier has passed.

    A frontier passes the first times of each chain, so it need not be compared with all times. Integers form one chain.

    >>> from tidewheel.progress import IntegerDomain
    >>> chains = TimeChains(IntegerDomain(), [3, 1, 7])
    >>> chains.take_passed(Antichain(IntegerDomain(), [5])), chains.take_passed(Antichain(IntegerDomain(), [6]))
    ([[1, 3]], [])
    """

    def __init__(self, domain: TimeDomain, times: Iterable[Time] = ()) -> None:
        self._less_equal = domain.comparison()
        self._chains: list[list[Time]] = []
        for time in times:
            self.add(time)

    def add(self, time: Time) -> None:
        """Add a new time. Complexity: O(chains) for the latest time, O(chains log n) for any other."""
        if not any(self._fits(times, time) for times in self._chains):
            self._chains.append([time])

    def _fits(self, times: list[Time], time: Time) -> bool:
        less_equal = self._less_equal
        place = len(times)
        if not less_equal(times[-1], time):
            place = bisect_left(times, True, key=lambda other: not less_equal(other, time))
            if not less_equal(time, times[place]):
                return False
        times.insert(place, time)
        return True

    def take_passed(self, frontier: Antichain) -> list[list[Time]]:
        """Remove the times that can no longer occur, and return them: for each chain, in order.

        Complexity: O(chains log n + times returned).
        """
        passed = []
        for times in self._chains:
            if not frontier.less_equal(times[0]):
                place = bisect_left(times, True, key=frontier.less_equal)
                passed.append(times[:place])
                del times[:place]
        if passed:
            self._chains = [times for times in self._chains if times]
        return passed


class WaitingEpochs(Generic[T]):
    """Items that wait, by time, until the frontier has passed the time.

    >>> from tidewheel.progress import IntegerDomain
    >>> waiting = WaitingEpochs(IntegerDomain())
    >>> for time in (3, 1, 7):
    ...     waiting.at(time).append("data")
    >>> waiting.take_passed(Antichain(IntegerDomain(), [5])), len(waiting)
    ([(1, ['data']), (3, ['data'])], 1)
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._less_equal = domain.comparison()
        self._chains = TimeChains(domain)
        self._arrivals = count()
        self._items: dict[Time, tuple[int, list[T]]] = {}

    def at(self, time: Time) -> list[T]:
        """Return the items at ``time``, which now waits for the frontier; the caller may change the list.

        Complexity: as `TimeChains.add` for a new time.
        """
        if time not in self._items:
            self._items[time] = (next(self._arrivals), [])
            self._chains.add(time)
        return self._items[time][1]

    def take_passed(self, frontier: Antichain) -> list[tuple[Time, list[T]]]:
        """Remove the times that can no longer occur; return them with their items, earlier times first.

        Unordered times are in the order of their first items, where possible. Complexity: as `TimeChains.take_passed`;
        O(n^2) for n times of several chains that are returned together.
        """
        passed = self._chains.take_passed(frontier)
        in_order = passed[0] if len(passed) == 1 else self._merged(chain(*passed))
        return [(time, self._items.pop(time)[1]) for time in in_order]

    def _merged(self, times: "chain[Time]") -> list[Time]:
        """Return times in an order in which each time comes before all later times, but as late as possible."""
        merged: list[Time] = []
        for time in sorted(times, key=lambda time: self._items[time][0]):
            place = len(merged)
            for index in range(len(merged) - 1, -1, -1):
                if self._less_equal(merged[index], time):
                    break
                if self._less_equal(time, merged[index]):
                    place = index
            merged.insert(place, time)
        return merged

    def drop(self, is_void: Callable[[T], bool]) -> int:
        """Remove void items, but keep their times; return how many were removed. Complexity: O(items)."""
        before = sum(1 for _ in self)
        for _, items in self._items.values():
            items[:] = [item for item in items if not is_void(item)]
        return before - sum(1 for _ in self)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(items for _, items in self._items.values())

    def __len__(self) -> int:
        return len(self._items)


class EpochAssembler:
    """Collects batches by time. Returns an epoch as soon as neither its time nor an earlier one can still occur.

    Earlier epochs come first; unordered epochs come in the order of their first batches where possible. Epochs without
    data and without ends of substreams are not returned.

    Source: seed "Strymon publish-subscribe", section "Design Goals" (completed epochs).
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._waiting = WaitingEpochs[Batch | SubstreamsEnded](domain)

    def receive(self, event: Event) -> list[Epoch]:
        """Receive one event of a subscriber and return the epochs that it completes.

        Complexity, if times have a total order and n of them wait: O(log n) for a frontier and each epoch that it
        completes, O(1) for a batch of the latest time.
        """
        if isinstance(event, Frontier):
            return [_epoch(time, events) for time, events in self._waiting.take_passed(event.frontier) if events]
        if isinstance(event, Batch | SubstreamsEnded):
            self._waiting.at(event.time).append(event)
        elif isinstance(event, RolledBack):
            self._waiting.drop(event.voids)
        return []

    @property
    def size_bytes(self) -> int:
        """The published size of the waiting batches. Complexity: O(batches)."""
        return sum(len(event.encoded.payload) for event in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


def _epoch(time: Time, events: list[Batch | SubstreamsEnded]) -> Epoch:
    events.sort(key=lambda event: event.partition)
    batches = tuple(event for event in events if isinstance(event, Batch))
    return Epoch(time, batches, tuple(event for event in events if isinstance(event, SubstreamsEnded)))


class EpochFilter:
    """Selects the epochs that a subscriber receives completely, by the snapshots of all partitions.

    An epoch passes if, in every snapshot, its time is not at or before any element of the upper frontier, and is at or
    after some element of the lower frontier. Then every partition sends the whole epoch after its snapshot.

    >>> from tidewheel.progress import IntegerDomain
    >>> one, other = InitialFrontierSnapshot([3], []), InitialFrontierSnapshot([0], [1])
    >>> epochs = EpochFilter(IntegerDomain(), [one, other])
    >>> [time for time in range(5) if epochs.passes(time)]
    [3, 4]
    """

    def __init__(self, domain: TimeDomain, snapshots: Sequence[InitialFrontierSnapshot]) -> None:
        self._domain = domain
        lowers = [snapshot.lower for snapshot in snapshots]
        lowers += [list(snapshot.passed) for snapshot in snapshots if snapshot.passed]
        self._lowers = list(dict.fromkeys(Antichain(domain, lower) for lower in lowers))
        self._upper = list(dict.fromkeys(time for snapshot in snapshots for time in snapshot.upper))

    def passes(self, time: Time) -> bool:
        """Tell whether the subscriber receives an epoch. Complexity: O(elements of all snapshots)."""
        if any(self._domain.less_equal(time, element) for element in self._upper):
            return False
        return all(lower.less_equal(time) for lower in self._lowers)

    def is_done(self, frontier: Antichain) -> bool:
        """Tell whether every epoch that can still come passes, given the lower frontier of all partitions."""
        return all(self.passes(time) for time in frontier)
