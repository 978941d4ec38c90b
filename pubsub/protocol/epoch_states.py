"""The life of an epoch as a publisher sees it: latent, then active, then completed.

=========  ==============  =========  ==================================
state      event           next       meaning
=========  ==============  =========  ==================================
latent     data            active     the first batch of the epoch
latent     passed          completed  the epoch was skipped
active     data            active     another batch of the epoch
active     passed          completed  the last batch came before this
completed  data            refused    its sender had no right to send it
=========  ==============  =========  ==================================

``data`` is a batch at that time; ``passed`` is the lower frontier moving so that no element of it is at or before the
time. A latent epoch may well be earlier than an active one: epochs begin in any order.

Source: seed "Strymon publish-subscribe", section "Design Goals" (its figure of epoch states).
"""

from collections.abc import Iterable, Sequence

from tidewheel.progress import Antichain, MutableAntichain, ProtocolError, Time, TimeDomain


class EpochStates:
    """The states of all epochs at one publisher, kept as the lower frontier and the set of active epochs.

    Attributes:
        active: the active epochs, in the order in which they began.

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

    @property
    def lower(self) -> Antichain:
        """The lower frontier: no batch will come at a time that is not at or after some element."""
        return self._lower.frontier

    @property
    def has_ended(self) -> bool:
        """Whether the lower frontier is empty: no batch will come at all."""
        return not self._lower.elements()

    @property
    def has_begun(self) -> bool:
        """Whether there was a batch, or a move of the lower frontier."""
        return bool(self.active) or not self._lower.less_equal(self._domain.minimum())

    def is_completed(self, time: Time) -> bool:
        """Tell whether the lower frontier has passed the epoch ``time``."""
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
        """Record a batch at ``time``. Complexity: O(elements of the lower frontier), O(1) if it is active.

        Raises:
            ProtocolError: the epoch is completed.
        """
        if time in self.active:
            return
        if self.is_completed(time):
            raise ProtocolError(f"a batch came at time {time!r}, which the lower frontier {self.lower!r} has passed")
        self.active[time] = None

    def advance(self, updates: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Apply the changes of one move of the lower frontier, and return how it changed.

        Complexity: O(active epochs * elements of the lower frontier).

        Raises:
            ProtocolError: the frontier moved back.
        """
        changes = self._lower.update(updates)
        if has_moved_back(self._domain, changes):
            after = list(self.lower)
            came = [time for time, change in changes if change > 0]
            before = [time for time, change in changes if change < 0] + [time for time in after if time not in came]
            raise ProtocolError(f"the lower frontier moved back from {before!r} to {after!r}")
        if changes:
            self.active = {time: None for time in self.active if self._lower.less_equal(time)}
        return changes


def has_moved_back(domain: TimeDomain, changes: Sequence[tuple[Time, int]]) -> bool:
    """Tell whether a frontier that has changed so has an element that is not at or after one that it had before."""
    less_equal = domain.less_equal
    if len(changes) == 2 and changes[0][1] < 0 < changes[1][1]:  # as nearly always; generators cost several times that
        return not less_equal(changes[0][0], changes[1][0])
    gone = [time for time, change in changes if change < 0]
    came = [time for time, change in changes if change > 0]
    return not all(any(less_equal(element, time) for element in gone) for time in came)
