"""The epochs that wait until a frontier has passed them, and their assembly from single batches."""

from bisect import bisect_left
from itertools import chain, count
from typing import Generic, TypeVar

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, Frontier, SubstreamsEnded

T = TypeVar("T")


class WaitingEpochs(Generic[T]):
    """Items by their times, of which a move of the frontier takes the times that it has passed.

    The times form chains, in each of which every time is before the next. A frontier has passed the beginning of each
    chain, so it is not compared with all times. Integers form one chain; a partial order has about as many chains as
    it has unordered times at once.

    >>> from tidewheel.progress import IntegerDomain
    >>> waiting = WaitingEpochs(IntegerDomain())
    >>> for time in (3, 1, 7):
    ...     waiting.at(time).append("data")
    >>> waiting.take_passed(Antichain(IntegerDomain(), [5])), len(waiting)
    ([(1, ['data']), (3, ['data'])], 1)
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._less_equal = domain.comparison()
        self._chains: list[list[Time]] = []
        self._arrivals = count()
        self._items: dict[Time, tuple[int, list[T]]] = {}

    def at(self, time: Time) -> list[T]:
        """Return the items at ``time``, which waits from now on; add items to the list, or clear it.

        Complexity: O(1) for a known time, O(chains) for the latest, O(chains log n) for another.
        """
        if time not in self._items:
            self._items[time] = (next(self._arrivals), [])
            if not any(self._fits(times, time) for times in self._chains):
                self._chains.append([time])
        return self._items[time][1]

    def _fits(self, times: list[Time], time: Time) -> bool:
        """Put ``time`` into a chain, if each time there is before or after it."""
        less_equal = self._less_equal
        place = len(times)
        if not less_equal(times[-1], time):
            place = bisect_left(times, True, key=lambda other: not less_equal(other, time))
            if not less_equal(time, times[place]):
                return False
        times.insert(place, time)
        return True

    def take_passed(self, frontier: Antichain) -> list[tuple[Time, list[T]]]:
        """Remove the times that can no longer occur; return them with their items, none before an earlier one.

        Unordered times come in the order of their first items, where that is possible. Complexity: O(chains log n +
        times that are returned); O(n^2) for n times that are returned together and come from several chains.
        """
        passed = []
        for times in self._chains:
            if place := bisect_left(times, True, key=frontier.less_equal):
                passed.append(times[:place])
                del times[:place]
        self._chains = [times for times in self._chains if times]
        in_order = passed[0] if len(passed) == 1 else self._merged(chain(*passed))
        return [(time, self._items.pop(time)[1]) for time in in_order]

    def _merged(self, times: "chain[Time]") -> list[Time]:
        """Return times in a linear extension of their order: each as late as can be, but before every later time."""
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

    def __len__(self) -> int:
        return len(self._items)


class EpochAssembler:
    """Collects batches by time and returns each epoch once it is complete: no time at or before it can still occur.

    No epoch comes before an earlier one. Unordered epochs come in the order of their first batches where that is
    possible. Epochs without data, or ends of substreams, do not come at all.

    Source: seed "Strymon publish-subscribe", section "Design Goals" (completed epochs).
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._waiting = WaitingEpochs[Batch | SubstreamsEnded](domain)

    def receive(self, event: Event) -> list[Epoch]:
        """Receive one event of a subscriber and return the epochs that it completes.

        Complexity: as of `WaitingEpochs`; in a total order O(log n) for each frontier and O(1) for each batch.
        """
        if isinstance(event, Frontier):
            return [_epoch(time, events) for time, events in self._waiting.take_passed(event.frontier)]
        if isinstance(event, Batch | SubstreamsEnded):
            self._waiting.at(event.time).append(event)
        return []

    def __len__(self) -> int:
        """The number of epochs that wait."""
        return len(self._waiting)


def _epoch(time: Time, events: list[Batch | SubstreamsEnded]) -> Epoch:
    events.sort(key=lambda event: event.partition)
    batches = tuple(event for event in events if isinstance(event, Batch))
    return Epoch(time, batches, tuple(event for event in events if isinstance(event, SubstreamsEnded)))
