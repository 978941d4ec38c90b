"""The joining of many small knowledge messages into few: every message costs a relay and its children about as much."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from tidewheel.pubsub.exactly_once.messages import Downstream, KnowledgeMessage
from tidewheel.pubsub.exactly_once.tick_set import TickRange

JOINED_BYTES: Final = 64 * 1024
"""A message of this size stays alone, or ends a joined one: joining it to more would save nothing noticeable."""


def joined(told: Iterable[Downstream]) -> Iterator[Downstream]:
    """Yield consecutive knowledge messages that are no answers as one message, and all others unchanged, in order.

    Complexity: O(messages).

    >>> told = [KnowledgeMessage(0, ((0, 5),)), KnowledgeMessage(0, ((5, 7),)), KnowledgeMessage(1, ((0, 7),))]
    >>> [(message.pubend, message.final) for message in joined(told)]
    [(0, ((0, 5), (5, 7))), (1, ((0, 7),))]
    """
    run: _Run | None = None
    for message in told:
        if run is not None:
            if isinstance(message, KnowledgeMessage) and run.take(message):
                continue
            yield run.message()
            run = None
        if isinstance(message, KnowledgeMessage) and not (message.is_answer or message.more):
            run = _Run(message)
        else:
            yield message
    if run is not None:
        yield run.message()


class _Run:
    """Messages that follow each other."""

    def __init__(self, first: KnowledgeMessage) -> None:
        self._first = first
        self._final: list[TickRange] | None = None
        self._data: list[tuple[int, Any]] = []
        self._bytes = _size(first)
        self._end = _end(first)

    def take(self, message: KnowledgeMessage) -> bool:
        """Add a message if it can be joined to the others; tell whether it was added."""
        first = self._first
        if (
            self._bytes >= JOINED_BYTES
            or message.is_answer
            or message.more
            or message.pubend != first.pubend
            or message.lost_end != first.lost_end
            or _begin(message) < self._end
        ):
            return False
        if self._final is None:
            self._final, self._data = list(first.final), list(first.data)
        self._final += message.final
        self._data += message.data
        self._bytes += _size(message)
        self._end = _end(message)
        return True

    def message(self) -> KnowledgeMessage:
        """Return one message that says the same as all of them."""
        first = self._first
        if self._final is None:
            return first
        return KnowledgeMessage(first.pubend, tuple(self._final), tuple(self._data), lost_end=first.lost_end)


def _size(message: KnowledgeMessage) -> int:
    return sum([len(one.payload) for _, one in message.data])


def _begin(message: KnowledgeMessage) -> int:
    """Return the first tick that a message covers; 0 if it covers none."""
    final, data = message.final, message.data
    if not final:
        return data[0][0] if data else 0
    return min(final[0][0], data[0][0]) if data else final[0][0]


def _end(message: KnowledgeMessage) -> int:
    """Return one after the last tick that a message covers; 0 if it covers none."""
    final, data = message.final, message.data
    if not data:
        return final[-1][1] if final else 0
    return max(final[-1][1], data[-1][0] + 1) if final else data[-1][0] + 1
