"""The nacks that a parent has not answered yet. No I/O, no clock.

An answer takes some milliseconds, so the parent answers nacks in turn, when it has time (`host.background_turns`).
Invariants:

- A child waits for at most one answer of each pubend: a new nack replaces the child's earlier one. The nacks of a
  relay, which asks for each tick once, are joined instead.
- The next answer is for the child that has waited longest.
"""

from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX, Nack
from tidewheel.pubsub.messages.tick_set import TickSet


class WaitingNacks:
    """The nacks of all children; it counts as false if there are none.

    >>> waiting = WaitingNacks()
    >>> for child, first in [("a", 3), ("b", 5), ("a", 4)]:
    ...     waiting.add(child, Nack(0, ((first, 9),), 100))
    >>> [(child, nack.ranges) for child, nack in iter(waiting.take, None)]
    [('a', ((4, 9),)), ('b', ((5, 9),))]
    """

    def __init__(self) -> None:
        self._nacks: dict[tuple[str, int], Nack] = {}

    def __bool__(self) -> bool:
        return bool(self._nacks)

    def add(self, child: str, nack: Nack) -> None:
        key = child, nack.pubend
        earlier = self._nacks.get(key)
        if earlier is not None and child.startswith(RELAY_PREFIX):
            nack = Nack(nack.pubend, TickSet([*earlier.ranges, *nack.ranges]).ranges(), nack.room_bytes)
        self._nacks[key] = nack

    def take(self) -> tuple[str, Nack] | None:
        if not self._nacks:
            return None
        key = next(iter(self._nacks))
        return key[0], self._nacks.pop(key)

    def leave(self, child: str) -> None:
        for key in [key for key in self._nacks if key[0] == child]:
            del self._nacks[key]
