"""The relays that the catalog knows, and the choice of a relay for a new subscriber. No I/O, no clock.

Relays announce themselves repeatedly, and the catalog forgets a relay that does not. So no relay has to be stored.
"""

from dataclasses import dataclass
from typing import Any, Final

KNOWN_S: Final = 10.0
"""The catalog forgets a relay so many seconds after its last announcement."""


@dataclass(frozen=True, slots=True)
class RelayInfo:
    """One relay.

    Args:
        name: its unique name.
        topic: the topic that it serves.
        registration: the life of the topic.
        node: its node of the cluster.
        actor: its address; the catalog does not use it.
        children: the number of subscribers and relays that are connected to it.
    """

    name: str
    topic: str
    registration: str
    node: str
    actor: Any
    children: int


@dataclass(slots=True)
class _Known:
    info: RelayInfo
    heard_s: float
    sent: int = 0

    @property
    def load(self) -> int:
        return self.info.children + self.sent


class CatalogRelays:
    """The relays with a recent announcement.

    >>> relays = CatalogRelays()
    >>> relays.announce(RelayInfo("one", "ranks", "first", "here", "actor 1", 0), now_s=0.0)
    >>> relays.announce(RelayInfo("two", "ranks", "first", "there", "actor 2", 0), now_s=5.0)
    >>> relays.parent("ranks", "first", "here", now_s=6.0), relays.parent("ranks", "first", "elsewhere", now_s=6.0)
    ('actor 1', 'actor 2')
    >>> relays.parent("ranks", "first", "here", now_s=12.0)
    'actor 2'
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def announce(self, relay: RelayInfo, now_s: float) -> None:
        """Record the announcement of a relay."""
        self._known[relay.name] = _Known(relay, now_s)

    def parent(self, topic: str, registration: str, node: str, now_s: float, avoid: Any = None) -> Any:
        """Return the address of the relay for a new subscriber; None if there is none.

        It is the relay with the fewest children on the subscriber's node, or without any there, of all.

        Args:
            topic: the topic of the subscription.
            registration: the life of the topic.
            node: the node of the subscriber.
            now_s: the time, in seconds.
            avoid: the address of a relay that was found dead; it is forgotten until its next announcement.
        """
        for name in [name for name, known in self._known.items() if self._is_over(known, now_s, avoid)]:
            self.forget(name)
        found = [
            known
            for known in self._known.values()
            if known.info.topic == topic and known.info.registration == registration
        ]
        near = [known for known in found if known.info.node == node]
        if not found:
            return None
        chosen = min(near or found, key=lambda known: known.load)
        chosen.sent += 1
        return chosen.info.actor

    @staticmethod
    def _is_over(known: _Known, now_s: float, avoid: Any) -> bool:
        return now_s - known.heard_s > KNOWN_S or (avoid is not None and known.info.actor == avoid)

    def forget(self, name: str) -> None:
        """Forget a relay, if it is known."""
        self._known.pop(name, None)

    def forget_topic(self, registration: str) -> None:
        """Forget the relays of one life of a topic, which has ended."""
        for name in [name for name, known in self._known.items() if known.info.registration == registration]:
            self.forget(name)

    def __len__(self) -> int:
        return len(self._known)
