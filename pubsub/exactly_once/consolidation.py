"""The consolidation of acknowledgements: a relay acknowledges once for all readers behind it.

A relay names a reader to its parent only when the reader comes or goes. Such a message may be lost. So each
acknowledgement has a digest of the set of readers. If the parent has another digest, it ignores the acknowledgement and
asks for all names. Invariants:

- "All readers of this set have acknowledged all ticks before this one" stays true forever, whatever messages are lost.
- A reader joins the set with its first acknowledgement to the relay. While it is not in the set, the pubend keeps
  messages for it.

Durable subscriptions are not consolidated, since a later reader continues at the position of the earlier one.

Source: seed "Gryphon exactly-once", section 2.1.1 (consolidation of acknowledgements).
"""

from hashlib import blake2b
from typing import NamedTuple

from tidewheel.pubsub.messages.delivery_messages import ConsolidatedAck

_DIGEST_BYTES = 7


class Changes(NamedTuple):
    """The readers added to a set, and the readers removed from it."""

    came: set[str]
    gone: set[str]


class Readers:
    """A parent's knowledge of the readers behind one relay.

    Attributes:
        end: all readers have acknowledged all ticks before this one.

    >>> readers = Readers()
    >>> readers.learn(of_one(0, "a", 7)), readers.end
    (Changes(came={'a'}, gone=set()), 7)
    >>> readers.learn(ConsolidatedAck(0, 9, digest_of("a") ^ digest_of("b"), 0)) is None, readers.end
    (True, 7)
    """

    __slots__ = ("digest", "end", "names", "progress")

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.digest = self.end = self.progress = 0

    def learn(self, ack: ConsolidatedAck) -> Changes | None:
        """Receive an acknowledgement; return the changes of the set, or None if it is for another set of readers."""
        came = {name for name, is_here in ack.readers.items() if is_here}
        gone = (self.names if ack.is_all else self.names.intersection(ack.readers)) - came
        came -= self.names
        digest = self.digest
        for name in (*came, *gone):
            digest ^= digest_of(name)
        if digest != ack.digest:
            return None
        self.names -= gone
        self.names |= came
        self.digest, self.progress = digest, ack.progress
        # A new reader may be behind the others.
        self.end = ack.end if came else max(self.end, ack.end)
        return Changes(came, gone)


class Consolidation:
    """Acknowledges one pubend's messages for all readers behind the children of a relay.

    Attributes:
        is_due: whether to send an acknowledgement; set it to repeat the last acknowledgement, which may have been lost.
    """

    def __init__(self, pubend: int) -> None:
        self._pubend = pubend
        self._children: dict[str, Readers] = {}
        self._named: set[str] = set()
        self._digest = self._progress = 0
        self._has_changed = self._names_all = self.is_due = False

    def __contains__(self, child: str) -> bool:
        return child in self._children

    def hear(self, child: str, ack: ConsolidatedAck) -> bool:
        """Receive the acknowledgement of a child; return False if the child must name its readers again."""
        readers = self._children.setdefault(child, Readers())
        before = readers.end, readers.progress
        changes = readers.learn(ack)
        if changes is None:
            return False
        self._has_changed |= any(changes)
        self._progress += before != (readers.end, readers.progress)
        self.is_due = True
        return True

    def leave(self, child: str) -> None:
        """Forget a child and the readers behind it; do nothing if it is unknown."""
        if self._children.pop(child, None) is not None:
            self._has_changed = self.is_due = True

    def name_all(self) -> None:
        """Name all readers in the next acknowledgement, since the parent is new or has another set."""
        self._names_all = self.is_due = True

    def take(self) -> list[ConsolidatedAck]:
        """Return the acknowledgement to send, if there is one. Complexity: O(children + changed readers)."""
        if not self.is_due:
            return []
        changed = set[str]()
        if self._has_changed:
            # A reader that has moved to another relay may be behind two children for a while.
            names = set[str]().union(*(child.names for child in self._children.values()))
            changed, self._named = names ^ self._named, names
        for name in changed:
            self._digest ^= digest_of(name)
        readers = {name: name in self._named for name in (self._named if self._names_all else changed)}
        end = min((child.end for child in self._children.values() if child.names), default=0)
        ack = ConsolidatedAck(self._pubend, end, self._digest, self._progress, readers, self._names_all)
        self._has_changed = self._names_all = self.is_due = False
        return [ack]


def of_one(pubend: int, reader: str, end: int) -> ConsolidatedAck:
    return ConsolidatedAck(pubend, end, digest_of(reader), 0, {reader: True}, is_all=True)


def digest_of(reader: str) -> int:
    """Return the digest of one reader; the digest of a set is the exclusive or of its readers' digests."""
    return int.from_bytes(blake2b(reader.encode(), digest_size=_DIGEST_BYTES).digest())
