"""A publisher's confirmations to its worker that messages are passed on or, with a log, durable."""

from collections import deque
from typing import NamedTuple


class Confirmed(NamedTuple):
    """The number of further messages that the worker may forget, their bytes, and the last one's number in the log."""

    messages: int
    size_bytes: int
    number: int = -1


class Unconfirmed:
    """A worker's messages that may not be durable yet, by their ticks in the log."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Confirmed]] = deque()
        self._unsure = Confirmed(0, 0)

    def add(self, tick: int, confirmed: Confirmed, *, is_sure: bool = True) -> None:
        """Add messages, to be confirmed once the log is durable up to a tick.

        If their number in the log is not certain, they wait for the next messages with a certain number.
        """
        before = self._unsure
        size_bytes = before.size_bytes + confirmed.size_bytes
        both = Confirmed(before.messages + confirmed.messages, size_bytes, confirmed.number)
        self._unsure = Confirmed(0, 0) if is_sure else both
        if is_sure:
            self._waiting.append((tick, both))

    def take(self, durable_tick: int) -> Confirmed:
        messages, size_bytes, number = 0, 0, -1
        while self._waiting and self._waiting[0][0] <= durable_tick:
            confirmed = self._waiting.popleft()[1]
            messages += confirmed.messages
            size_bytes += confirmed.size_bytes
            number = confirmed.number
        return Confirmed(messages, size_bytes, number)
