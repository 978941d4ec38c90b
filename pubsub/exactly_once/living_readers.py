"""The readers of subscriptions: which are alive, and which subscriptions have had no reader for too long.

A connected reader is alive. A relay that hangs stays connected, so a relay counts as alive for one lease after each of
its messages. A reader behind a relay counts as alive for one lease after its last message, and for one lease after its
relay has lost it. A subscription that is not durable ends one lease after its reader. A durable subscription keeps its
messages for the retention time; the pubend warns after half of that time.

No clock: times are monotonic seconds.
"""

from collections.abc import Container, Mapping
from math import inf
from typing import NamedTuple

from tidewheel.pubsub.exactly_once.subscription import Subscription

LEASE_S = 60.0
RETENTION_S = 7 * 24 * 3600.0


class Overdue(NamedTuple):
    """The subscriptions without a reader that need a warning or an end.

    Attributes:
        to_warn: durable subscriptions that have waited for half of their time.
        over: subscriptions that have waited for all of their time.
    """

    to_warn: list[str]
    over: list[str]


class LivingReaders:
    """The readers of the subscriptions of one pubend.

    Args:
        known: the subscriptions by name; their owner removes subscriptions whose time is over.

    >>> from tidewheel.pubsub.messages.tick_set import TickSet
    >>> known = {"live": Subscription(TickSet(), reader="reader 1")}
    >>> known["billing"] = Subscription(TickSet(), reader="reader 2", is_durable=True)
    >>> readers = LivingReaders(known, lease_s=60.0, retention_s=600.0)
    >>> readers.seat("live", now_s=0.0)
    >>> readers.seat("billing", now_s=0.0)
    >>> readers.look({"reader 1"}, now_s=100.0), readers.living(100.0)
    (Overdue(to_warn=[], over=[]), ['live'])
    >>> readers.look((), now_s=400.0), readers.look((), now_s=460.0)
    (Overdue(to_warn=['billing'], over=[]), Overdue(to_warn=[], over=['live']))
    """

    def __init__(
        self, known: Mapping[str, Subscription], lease_s: float = LEASE_S, retention_s: float = RETENTION_S
    ) -> None:
        self._known = known
        self._lease_s = lease_s
        self._retention_s = retention_s

    def seat(self, name: str, now_s: float) -> None:
        one = self._known[name]
        one.has_left, one.until_s, one.is_warned = False, now_s + self._lease_s, False

    def heard(self, name: str, now_s: float) -> None:
        if self.has_reader(name):
            one = self._known[name]
            one.until_s, one.is_warned = max(one.until_s, now_s + self._lease_s), False
            one.heard_s = now_s

    def leave(self, name: str, now_s: float) -> None:
        if name in self._known:
            one = self._known[name]
            one.has_left, one.until_s = True, min(one.until_s, now_s)

    def look(self, connected: Container[str | None], now_s: float) -> Overdue:
        """Record which readers are connected; return the subscriptions that need a warning or an end."""
        to_warn: list[str] = []
        over: list[str] = []
        for name, one in self._known.items():
            hangs = one.readers is not None and now_s >= one.heard_s + self._lease_s
            if not one.has_left and one.reader in connected and not hangs:
                one.until_s, one.is_warned = inf, False
                continue
            if one.until_s == inf:
                one.until_s = now_s + (self._lease_s if one.is_returning else 0.0)
            away_s = now_s - one.until_s
            limit_s = self._retention_s if one.is_durable else self._lease_s
            if away_s >= limit_s:
                over.append(name)
            elif one.is_durable and away_s >= limit_s / 2 and not one.is_warned:
                one.is_warned = True
                to_warn.append(name)
        return Overdue(to_warn, over)

    def has_reader(self, name: str) -> bool:
        """Tell whether a subscription has a reader that has not left, alive or dead."""
        return name in self._known and not self._known[name].has_left

    def living(self, now_s: float) -> list[str]:
        return [name for name, one in self._known.items() if one.until_s > now_s]

    def away_s(self, name: str, now_s: float) -> float:
        """Return the seconds for which a subscription has had no living reader."""
        return max(0.0, now_s - self._known[name].until_s)
