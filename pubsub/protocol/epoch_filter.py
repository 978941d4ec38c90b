"""The filter of epochs: a subscriber sees all of an epoch or nothing of it, over all partitions.

A time passes if, at every partition's snapshot, it was latent and not below the upper frontier: no element of the upper
frontier is at or after it, and some element of the lower frontier is at or before it. Then no partition had sent any of
it before its snapshot, and every partition has sent, or will send, all of it after.

The second half matters as soon as there are two partitions: an epoch that one had completed, and another had not begun,
is below neither upper frontier; the seed's rule alone would let through the second partition's part of it.

The times that pass are closed upwards: with a time, all later ones pass. So in a total order there are no holes, and
the filter has done its work once every element of the merged lower frontier passes.

Source: seed "Strymon publish-subscribe", sections "Design Goals" and "Subscriber Logic".
"""

from collections.abc import Sequence

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot


class EpochFilter:
    """The filter made from the snapshots of all partitions.

    >>> from tidewheel.progress import IntegerDomain
    >>> one, other = InitialFrontierSnapshot([3], []), InitialFrontierSnapshot([0], [1])
    >>> epochs = EpochFilter(IntegerDomain(), [one, other])
    >>> [time for time in range(5) if epochs.passes(time)]
    [3, 4]
    """

    def __init__(self, domain: TimeDomain, snapshots: Sequence[InitialFrontierSnapshot]) -> None:
        self._domain = domain
        self._lowers = list(dict.fromkeys(Antichain(domain, snapshot.lower) for snapshot in snapshots))
        self._upper = list(dict.fromkeys(time for snapshot in snapshots for time in snapshot.upper))

    def passes(self, time: Time) -> bool:
        """Tell whether the subscriber sees the epoch ``time``. Complexity: O(elements of all snapshots)."""
        if any(self._domain.less_equal(time, element) for element in self._upper):
            return False
        return all(lower.less_equal(time) for lower in self._lowers)

    def is_done(self, frontier: Antichain) -> bool:
        """Tell whether every time that can still come passes, given the merged lower frontier."""
        return all(self.passes(time) for time in frontier)
