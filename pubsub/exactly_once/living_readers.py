"""The subscriptions that have a reader, and those that have had none for so long that they hold nothing any more.

A reader that is connected lives. One that is connected to a relay is not seen here: it lives for a while whenever
something was heard of it. A subscription that is not durable ends when its reader has not lived for that long; a
durable one waits for as long as its messages are to be kept, and half way through that somebody should be warned.

No clock of its own; times are seconds of a clock that never goes back.
"""

from collections.abc import Container
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tidewheel.pubsub.publishers.topic_log import RETENTION_S

LEASE_S = 60.0


class Overdue(NamedTuple):
    """What is to be done about subscriptions that nobody reads.

    Attributes:
        to_warn: durable ones of which half the time is over.
        over: those whose time is over; they are forgotten here.
    """

    to_warn: list[str]
    over: list[str]


@dataclass(slots=True)
class _Seat:
    """One subscription.

    Attributes:
        reader: who has it.
        is_durable: whether it is.
        until_s: its reader lives until then; where that is over, nobody has read it since.
        is_warned: whether somebody was warned that nobody reads it.
    """

    reader: str | None
    is_durable: bool
    until_s: float
    is_warned: bool = False


class LivingReaders:
    """The readers of the subscriptions of one pubend.

    Args:
        lease_s: how long a reader lives when it was heard of, and how long a subscription that is not durable waits.
        retention_s: how long a durable one waits.

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
        """Give a subscription to a reader, who has come just now, or had it before and may come back."""
        self._seats[name] = _Seat(reader, durable, now_s + self._lease_s if is_here else now_s)

    def heard(self, name: str, now_s: float) -> None:
        """Take note that something was heard of the reader of a subscription; does nothing if it has left."""
        seat = self._seats.get(name)
        if seat is not None and seat.reader is not None:
            seat.until_s = max(seat.until_s, now_s + self._lease_s)
            seat.is_warned = False

    def leave(self, name: str, now_s: float) -> None:
        """Take note that the reader of a subscription has gone."""
        seat = self._seats.get(name)
        if seat is not None:
            seat.reader, seat.until_s = None, min(seat.until_s, now_s)

    def forget(self, name: str) -> None:
        """Forget a subscription; does nothing if there is none."""
        self._seats.pop(name, None)

    def look(self, connected: Container[str], now_s: float) -> Overdue:
        """Take note of which readers are connected now; return what is to be done about others."""
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
        """Return the subscriptions that somebody reads."""
        return [name for name, seat in self._seats.items() if seat.until_s > now_s]

    def away_s(self, name: str, now_s: float) -> float:
        """Return for how long nobody has read a subscription, in seconds."""
        return max(0.0, now_s - self._seats[name].until_s)
