"""The subscriptions with a living reader, and those without one for so long that they no longer hold messages.

A connected reader lives. A pubend does not see a reader that is connected to a relay; such a reader lives for one lease
after each of its messages. A subscription that is not durable ends one lease after its reader. A durable one waits for
the retention time of its messages, and the pubend warns after half of it.

The module has no clock; times are seconds of a clock that never goes back.
"""

from collections.abc import Container
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tidewheel.pubsub.publishers.topic_log import RETENTION_S

LEASE_S = 60.0


class Overdue(NamedTuple):
    """The subscriptions without a reader that need an action.

    Attributes:
        to_warn: durable subscriptions whose time is half over.
        over: subscriptions whose time is over; `LivingReaders` has forgotten them.
    """

    to_warn: list[str]
    over: list[str]


@dataclass(slots=True)
class _Seat:
    """One subscription.

    Attributes:
        reader: its reader.
        is_durable: whether it is durable.
        until_s: the end of its reader's life; from then on it has no reader.
        is_warned: whether the pubend has warned that it has no reader.
    """

    reader: str | None
    is_durable: bool
    until_s: float
    is_warned: bool = False


class LivingReaders:
    """The readers of the subscriptions of one pubend.

    Args:
        lease_s: the time that a reader lives after a message, and that a subscription that is not durable waits.
        retention_s: the time that a durable subscription waits.

    >>> readers = LivingReaders(lease_s=60.0, retention_s=600.0)
    >>> readers.seat("live", "reader 1", durable=False, now_s=0.0)
    >>> readers.seat("billing", "reader 2", durable=True, now_s=0.0)
    >>> readers.look({"reader 1"}, now_s=100.0), readers.living(100.0)
    (Overdue(to_warn=[], over=[]), ['live'])
    >>> readers.look((), now_s=400.0), readers.look((), now_s=460.0)
    (Overdue(to_warn=['billing'], over=[]), Overdue(to_warn=[], over=['live']))
    """

    def __init__(self, lease_s: float = LEASE_S, retention_s: float = RETENTION_S) -> None:
        self._lease_s = lease_s
        self._retention_s = retention_s
        self._seats: dict[str, _Seat] = {}

    def seat(self, name: str, reader: str | None, *, durable: bool, now_s: float, is_here: bool = True) -> None:
        """Assign a subscription to a reader that has just come, or that had it before and may come back."""
        self._seats[name] = _Seat(reader, durable, now_s + self._lease_s if is_here else now_s)

    def heard(self, name: str, now_s: float) -> None:
        """Record a message of the reader of a subscription; do nothing if it has left."""
        seat = self._seats.get(name)
        if seat is not None and seat.reader is not None:
            seat.until_s = max(seat.until_s, now_s + self._lease_s)
            seat.is_warned = False

    def leave(self, name: str, now_s: float) -> None:
        """Record that the reader of a subscription has left."""
        seat = self._seats.get(name)
        if seat is not None:
            seat.reader, seat.until_s = None, min(seat.until_s, now_s)

    def forget(self, name: str) -> None:
        """Forget a subscription; do nothing if it is unknown."""
        self._seats.pop(name, None)

    def look(self, connected: Container[str], now_s: float) -> Overdue:
        """Record the connected readers; return the subscriptions without a reader that need an action."""
        to_warn: list[str] = []
        over: list[str] = []
        for name, seat in self._seats.items():
            if seat.reader is not None and seat.reader in connected:
                seat.until_s, seat.is_warned = inf, False
                continue
            if seat.until_s == inf:
                seat.until_s = now_s
            away_s = now_s - seat.until_s
            limit_s = self._retention_s if seat.is_durable else self._lease_s
            if away_s >= limit_s:
                over.append(name)
            elif seat.is_durable and away_s >= limit_s / 2 and not seat.is_warned:
                seat.is_warned = True
                to_warn.append(name)
        for name in over:
            del self._seats[name]
        return Overdue(to_warn, over)

    def has_reader(self, name: str) -> bool:
        """Tell whether a subscription has a reader that has not left, alive or not."""
        seat = self._seats.get(name)
        return seat is not None and seat.reader is not None

    def living(self, now_s: float) -> list[str]:
        """Return the subscriptions with a living reader."""
        return [name for name, seat in self._seats.items() if seat.until_s > now_s]

    def away_s(self, name: str, now_s: float) -> float:
        """Return the time since a subscription had a living reader, in seconds."""
        return max(0.0, now_s - self._seats[name].until_s)
