"""The subscriptions of a pubend: their acknowledged ticks, their readers, and the ticks that none of them needs.

A subscription has one reader at a time, the newest. Only the newest reader's messages count: an earlier reader does not
know where the newest one began.

Source: seed "Gryphon exactly-once", section 2.1.1 (consolidation of acknowledgements).
"""

from collections.abc import Iterable
from itertools import zip_longest

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
    >>> subscriptions.give("a", "reader 1"), subscriptions.give("a", "reader 2"), subscriptions.name_of("reader 1")
    (None, 'reader 1', None)
    """

    def __init__(self) -> None:
        self._acknowledged: dict[str, TickSet] = {}
        self._readers: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def begin(self, name: str, tick: int) -> Ranges:
        """Begin a subscription at ``tick``, unless it exists; return its acknowledged ticks."""
        if name not in self._acknowledged:
            self.restore(name, ((0, tick),))
        return self.acknowledged(name)

    def restore(self, name: str, acknowledged: Ranges, reader: str | None = None) -> None:
        """Restore a subscription."""
        self._acknowledged[name] = TickSet(acknowledged)
        if reader is not None:
            self.give(name, reader)

    def end(self, name: str) -> None:
        """Remove a subscription; do nothing if it is unknown."""
        self._acknowledged.pop(name, None)
        reader = self._readers.pop(name, None)
        if reader is not None:
            del self._names[reader]

    # Readers

    def give(self, name: str, reader: str) -> str | None:
        """Assign a subscription to a reader, which has no other; return the reader before it."""
        before = self._readers.get(name)
        if before is not None:
            del self._names[before]
        self._readers[name] = reader
        self._names[reader] = name
        return before

    def reader_of(self, name: str) -> str | None:
        """Return the id of a subscription's reader; None without a reader, or for an unknown subscription."""
        return self._readers.get(name)

    def name_of(self, reader: str) -> str | None:
        """Return the subscription of a reader; None if it has none, or no longer."""
        return self._names.get(reader)

    # Acknowledgements

    def acknowledge(self, name: str, ranges: Iterable[tuple[int, int]]) -> bool:
        """Add acknowledgements of a subscription; tell whether they are new. Ignore an unknown subscription."""
        known = self._acknowledged.get(name)
        new = [part for first, end in ranges for part in known.missing(first, end)] if known is not None else []
        if new and known is not None:
            known.update(new)
        return bool(new)

    def acknowledged(self, name: str) -> Ranges:
        """Return the acknowledged ticks of a subscription; none for an unknown one."""
        return self._acknowledged[name].ranges() if name in self._acknowledged else ()

    @property
    def needed_from(self) -> int | None:
        """The first tick that some subscription has not acknowledged; None without subscriptions."""
        return min((ticks.prefix_end for ticks in self._acknowledged.values()), default=None)

    def needing(self, tick: int) -> list[str]:
        """Return the subscriptions that have not acknowledged all ticks before ``tick``."""
        return [name for name, ticks in self._acknowledged.items() if ticks.prefix_end < tick]

    @property
    def names(self) -> list[str]:
        """All subscriptions."""
        return list(self._acknowledged)

    def __contains__(self, name: str) -> bool:
        return name in self._acknowledged

    def __len__(self) -> int:
        return len(self._acknowledged)


def merged(one: tuple[Ranges, ...], other: tuple[Ranges, ...]) -> tuple[Ranges, ...]:
    """Return the union of two sets of ticks for each pubend.

    >>> merged((((0, 5),), ()), (((3, 8),), ((1, 2),)))
    (((0, 8),), ((1, 2),))
    """
    return tuple(TickSet((*first, *second)).ranges() for first, second in zip_longest(one, other, fillvalue=()))
