"""What each subscription of a pubend has acknowledged, by its name, and what nobody needs any more.

Source: seed "Gryphon exactly-once", section 2.1.1 (consolidation of acknowledgements).
"""

from collections.abc import Iterable

from tidewheel.pubsub.exactly_once.messages import Ranges
from tidewheel.pubsub.exactly_once.tick_set import TickSet


class Subscriptions:
    """The subscriptions of one pubend.

    >>> subscriptions = Subscriptions()
    >>> subscriptions.begin("a", 10), subscriptions.begin("b", 20)
    (((0, 10),), ((0, 20),))
    >>> subscriptions.acknowledge("a", [(0, 30), (40, 50)]), subscriptions.needed_from
    (True, 20)
    >>> subscriptions.begin("a", 60)
    ((0, 30), (40, 50))
    """

    def __init__(self) -> None:
        self._acknowledged: dict[str, TickSet] = {}

    def begin(self, name: str, tick: int) -> Ranges:
        """Take on a subscription that begins at ``tick``, unless there is one; return what it has acknowledged."""
        return self._acknowledged.setdefault(name, TickSet([(0, tick)] if tick else ())).ranges()

    def restore(self, name: str, acknowledged: Ranges) -> None:
        """Take on a subscription as it was."""
        self._acknowledged[name] = TickSet(acknowledged)

    def end(self, name: str) -> None:
        """Forget a subscription; does nothing if there is none."""
        self._acknowledged.pop(name, None)

    def acknowledge(self, name: str, ranges: Iterable[tuple[int, int]]) -> bool:
        """Take what a subscription says; tell whether it is new. Of one that is not known nothing is taken."""
        acknowledged = self._acknowledged.get(name)
        if acknowledged is None:
            return False
        new = [part for first, end in ranges for part in acknowledged.missing(first, end)]
        acknowledged.update(new)
        return bool(new)

    def acknowledged(self, name: str) -> Ranges:
        """Return what a subscription has acknowledged; nothing of one that is not known."""
        found = self._acknowledged.get(name)
        return () if found is None else found.ranges()

    @property
    def needed_from(self) -> int | None:
        """The first tick that somebody has not acknowledged; None if there are no subscriptions."""
        return min((acknowledged.prefix_end for acknowledged in self._acknowledged.values()), default=None)

    def needing(self, tick: int) -> list[str]:
        """Return the subscriptions that have not acknowledged all ticks before ``tick``."""
        return [name for name, acknowledged in self._acknowledged.items() if acknowledged.prefix_end < tick]

    def __contains__(self, name: str) -> bool:
        return name in self._acknowledged

    def __len__(self) -> int:
        return len(self._acknowledged)
