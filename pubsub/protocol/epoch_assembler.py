"""From single batches to whole epochs."""

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.messages.epoch import Epoch
from tidewheel.pubsub.messages.events import Batch, Event, Frontier, SubstreamsEnded


class EpochAssembler:
    """Collects batches by time and gives back each epoch once it is complete: no time at or before it can still occur.

    Epochs come out in a linear extension of their order: none before an earlier one. Unordered ones come in the order
    of their first batches where that is possible. Epochs without data, or ends of substreams, do not come at all.

    Source: seed "Strymon publish-subscribe", section "Design Goals" (completed epochs).
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._domain = domain
        self._order: list[Time] = []
        self._batches: dict[Time, list[Batch]] = {}
        self._ends: dict[Time, list[SubstreamsEnded]] = {}

    def receive(self, event: Event) -> list[Epoch]:
        """Take one event of a subscriber and return the epochs that it completes.

        Complexity: O(1) for a batch of the latest epoch, O(epochs that wait) for one of an earlier epoch and for a
        move of the frontier.
        """
        if isinstance(event, Batch):
            self._batches_of(event.time).append(event)
        elif isinstance(event, Frontier):
            return self._complete(event.frontier)
        elif isinstance(event, SubstreamsEnded):
            self._batches_of(event.time)
            self._ends.setdefault(event.time, []).append(event)
        return []

    def _batches_of(self, time: Time) -> list[Batch]:
        batches = self._batches.get(time)
        if batches is None:
            batches = self._batches[time] = []
            self._order.insert(self._place(time), time)
        return batches

    def _place(self, time: Time) -> int:
        """Return where ``time`` goes: as late as can be, but before every later time.

        In a linear extension whatever is after ``time`` stands behind whatever is before it, so the search from the
        back can stop at the first earlier time.
        """
        place = len(self._order)
        for index in range(len(self._order) - 1, -1, -1):
            if self._domain.less_equal(self._order[index], time):
                break
            if self._domain.less_equal(time, self._order[index]):
                place = index
        return place

    def _complete(self, frontier: Antichain) -> list[Epoch]:
        complete = [time for time in self._order if not frontier.less_equal(time)]
        if complete:
            self._order = [time for time in self._order if frontier.less_equal(time)]
        return [self._take(time) for time in complete]

    def _take(self, time: Time) -> Epoch:
        batches = self._batches.pop(time)
        ends = self._ends.pop(time, ())
        return Epoch(time, tuple(sorted(batches, key=_partition)), tuple(sorted(ends, key=_partition)))

    def __len__(self) -> int:
        """The number of epochs that wait."""
        return len(self._order)


def _partition(event: Batch | SubstreamsEnded) -> int:
    return event.partition
