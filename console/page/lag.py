"""The lag of operators, probes and subscribers.

Operators and probes lag behind the inputs of their job, in epochs. A subscriber lags behind its topic, in messages.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidewheel.display.figures import epoch_of

_MOST_STEPS = 3600


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a frontier behind the inputs: in epochs, and in seconds since it fell behind."""

    epochs: int
    seconds: float


def outer_epoch(frontier: Iterable[str]) -> int | None:
    """Return the earliest epoch of a frontier, from the outermost part of its times; None if it is not a whole number.

    >>> outer_epoch(["(4, 2)", "(3, 7)"]), outer_epoch(["12"]), outer_epoch([]), outer_epoch(["2024-01-01"])
    (3, 12, None, None)
    """
    found = list(map(epoch_of, frontier))
    epochs = [epoch for epoch in found if epoch is not None]
    return min(epochs) if epochs and len(epochs) == len(found) else None


class Front:
    """The latest epoch of a job's inputs, and the last 3,600 moments at which it rose.

    >>> front = Front()
    >>> for epoch, at in [(0, 10.0), (3, 11.0), (5, 12.5)]:
    ...     front.reach(epoch, at)
    >>> front.lag_of(3, at=13.0)
    Lag(epochs=2, seconds=0.5)
    """

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._since: list[float] = []

    def reach(self, epoch: int, at: float) -> None:
        """Record that the inputs are at an epoch; ``at`` is in seconds since 1970."""
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._since.append(at)
            del self._epochs[:-_MOST_STEPS], self._since[:-_MOST_STEPS]

    def lag_of(self, epoch: int, at: float) -> Lag:
        """Return the lag of a frontier at an epoch; O(log n), with n moments."""
        passed = bisect_right(self._epochs, epoch)
        if passed == len(self._epochs):
            return Lag(0, 0.0)
        return Lag(self._epochs[-1] - epoch, max(0.0, at - self._since[passed]))

    @property
    def latest(self) -> int:
        """The latest epoch; -1 before the first."""
        return self._epochs[-1] if self._epochs else -1


@dataclass(slots=True)
class Fronts:
    """The fronts of one job, kept from document to document.

    Attributes:
        published: the fronts of partitions, by topic and number; they count messages.
    """

    inputs: Front = field(default_factory=Front)
    published: dict[tuple[str, str], Front] = field(default_factory=lambda: defaultdict(Front))

    def lag_of_subscribers(self, partition: tuple[str, str], published: int, waiting: int, at: float) -> float:
        """Return the seconds for which the slowest subscriber has had unread messages; 0 if it has none.

        Args:
            partition: the topic and the number of the partition.
            published: how many messages the partition has published; after a restart, fewer than before.
            waiting: how many of them the slowest subscriber has not received.
            at: the time, in seconds since 1970.
        """
        if published < self.published[partition].latest:
            del self.published[partition]
        self.published[partition].reach(published, at)
        return self.published[partition].lag_of(published - waiting, at).seconds
