"""What each subscription of a pubend has acknowledged, by its name, and what nobody needs any more.

Source: seed "Gryphon exactly-once", section 2.1.1 (consolidation of acknowledgements).
"""

from collections.abc import Iterable

from tidewheel.pubsub.exactly_once.curiosity import CuriosityStream
from tidewheel.pubsub.exactly_once.messages import Ranges


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
        self._curiosity: dict[str, CuriosityStream] = {}

    def begin(self, name: str, tick: int) -> Ranges:
        """Take on a subscription that begins at ``tick``, unless there is one; return what it has acknowledged."""
        if name not in self._curiosity:
            self.restore(name, ((0, tick),))
        return self.acknowledged(name)

    def restore(self, name: str, acknowledged: Ranges) -> None:
        """Take on a subscription as it was."""
        stream = self._curiosity[name] = CuriosityStream()
        stream.acknowledge(acknowledged)

    def end(self, name: str) -> None:
        """Forget a subscription; does nothing if there is none."""
        self._curiosity.pop(name, None)

    def acknowledge(self, name: str, ranges: Iterable[tuple[int, int]]) -> bool:
        """Take what a subscription says; tell whether it is new. Of one that is not known nothing is taken."""
        return name in self._curiosity and bool(self._curiosity[name].acknowledge(ranges))

    def acknowledged(self, name: str) -> Ranges:
        """Return what a subscription has acknowledged; nothing of one that is not known."""
        return self._curiosity[name].acknowledged.ranges() if name in self._curiosity else ()

    @property
    def needed_from(self) -> int | None:
        """The first tick that somebody has not acknowledged; None if there are no subscriptions."""
        return min((stream.acknowledged.prefix_end for stream in self._curiosity.values()), default=None)

    def needing(self, tick: int) -> list[str]:
        """Return the subscriptions that have not acknowledged all ticks before ``tick``."""
        return [name for name, stream in self._curiosity.items() if stream.acknowledged.prefix_end < tick]

    def __contains__(self, name: str) -> bool:
        return name in self._curiosity

    def __len__(self) -> int:
        return len(self._curiosity)
