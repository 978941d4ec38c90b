"""The topics of a catalog, and of the catalogs that replace it, as a watch knows them; no I/O, no clock.

Invariant: the reported events of each topic alternate between ``published`` and ``retracted``. They begin with
``published`` and end in the state of the catalog.

A new catalog learns the topics within seconds. Until then, topics missing in it still count as published.
"""

from dataclasses import replace

from tidewheel.pubsub.catalog.catalog import Listing, TopicEvent

RELEARN_S = 10.0
"""The seconds after which a new catalog knows all topics."""

_UNSEEN = "it went while the catalog was out of reach"


class KnownTopics:
    """The topics that a watch has reported as published.

    >>> def event(what, version):
    ...     return TopicEvent(what, "ranks", "job", 1, "IntegerDomain()", "any", "", version, "first")
    >>> known = KnownTopics()
    >>> [told.topic for told in known.listed(Listing("one", 1, (event("published", 1),)), now_s=0.0)]
    ['ranks']
    >>> known.changed(event("published", 1))
    []
    >>> [told.event for told in known.changed(event("retracted", 2))]
    ['retracted']
    """

    def __init__(self) -> None:
        self._known: dict[str, TopicEvent] = {}
        self._missing: dict[str, float] = {}
        self._incarnation: str | None = None
        self._version = 0

    def listed(self, listing: Listing, now_s: float) -> list[TopicEvent]:
        is_new = self._incarnation is not None and listing.incarnation != self._incarnation
        self._incarnation, self._version = listing.incarnation, listing.version
        told = [one for event in listing.published for one in self._published(event)]
        listed = {event.topic for event in listing.published}
        gone = [event for name, event in self._known.items() if name not in listed]
        if is_new:
            self._missing = {event.topic: now_s + RELEARN_S for event in gone}
            return told
        self._missing.clear()
        return [*told, *(self._gone(event) for event in gone)]

    def changed(self, event: TopicEvent) -> list[TopicEvent]:
        if event.version <= self._version:
            return []
        self._version = event.version
        if event.event == "published":
            return self._published(event)
        known = self._known.get(event.topic)
        if known is None or known.registration != event.registration:
            return []
        self._forget(event.topic)
        return [event]

    def expire(self, now_s: float) -> list[TopicEvent]:
        """Return retractions of the topics that a new catalog has not learned in time."""
        late = [name for name, until_s in self._missing.items() if until_s <= now_s]
        return [self._gone(self._known[name]) for name in late]

    @property
    def deadline_s(self) -> float | None:
        """The time at which to call `expire` next; None if it need not be called."""
        return min(self._missing.values(), default=None)

    def _published(self, event: TopicEvent) -> list[TopicEvent]:
        known = self._known.get(event.topic)
        self._missing.pop(event.topic, None)
        if known is not None and known.registration == event.registration:
            return []
        told = [] if known is None else [self._gone(known)]
        self._known[event.topic] = event
        return [*told, event]

    def _gone(self, known: TopicEvent) -> TopicEvent:
        self._forget(known.topic)
        return replace(known, event="retracted", reason=_UNSEEN, version=self._version)

    def _forget(self, topic: str) -> None:
        del self._known[topic]
        self._missing.pop(topic, None)
