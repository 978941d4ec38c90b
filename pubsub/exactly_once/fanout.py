"""The fanout of a pubend or relay: its children, and the messages for each of them.

A message that a child's filter rejects is silence for the child. Silence alone waits for the next message or for a
flush. Some children await silence, since they cannot go on without it, and get it with every flush. The others get
silence only with every `PATIENT`th flush, so an idle topic costs almost nothing.

Source: seed "Gryphon exactly-once", section 2.4.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX, Downstream, KnowledgeMessage, Ranges
from tidewheel.pubsub.messages.filters import Filter, Filters, digest_of, has_all, part_of
from tidewheel.pubsub.messages.tick_set import TickRange, TickSet
from tidewheel.pubsub.messages.wire import Rejected

PATIENT: Final = 20
"""Children that do not await silence get it with every flush of this number."""


class Outgoing(NamedTuple):
    """A message on its way to a child."""

    child: str
    message: Downstream


class _Group:
    """Children with the same filter, which either all await silence or all do not."""

    def __init__(self, where: Filter | None, *, awaits_silence: bool) -> None:
        self.where = where
        self.awaits_silence = awaits_silence
        self.union = digest_of(where)
        self.children: dict[str, None] = {}
        self.silence = TickSet()


class Fanout:
    """The children of a pubend or relay, and the messages of one pubend for them.

    Attributes:
        lost_end: needed messages before this tick are forgotten; every child is told.
        behind: the children that get only answers, since they have asked for all later ticks.
    """

    def __init__(self, pubend: int) -> None:
        self._pubend = pubend
        self.lost_end = 0
        self.children: dict[str, _Group] = {}
        self.behind: set[str] = set()
        self._groups: dict[tuple[Filter | None, bool], _Group] = {}
        self._flushes = 0

    def join(self, child: str, where: Filter | None = None, *, awaits_silence: bool = True) -> None:
        """Add a child, or replace its filter; if it ``awaits_silence``, each flush sends it silence."""
        group = self._groups.setdefault((where, awaits_silence), _Group(where, awaits_silence=awaits_silence))
        if child in group.children:
            return
        self.leave(child)
        self.children[child] = group
        group.children[child] = None

    def take_back_loss(self, lost_end: int) -> None:
        """Move ``lost_end`` back, since the pubend has forgotten less.

        Drop unsent silence before the old ``lost_end``.
        """
        for group in self._groups.values():
            group.silence.remove(0, self.lost_end)
        self.lost_end = lost_end

    def leave(self, child: str) -> None:
        self.behind.discard(child)
        if child not in self.children:
            return
        group = self.children.pop(child)
        del group.children[child]
        if not group.children:
            del self._groups[group.where, group.awaits_silence]

    def reaching(self, reader: str) -> list[str]:
        """Return the children to tell about a reader: the reader itself if it is a child, otherwise all relays."""
        if reader in self.children:
            return [reader]
        return [child for child in self.children if child.startswith(RELAY_PREFIX)]

    def forward(self, final: Ranges, data: Iterable[tuple[int, Any]], among: Filters = None) -> list[Outgoing]:
        """Return messages with new knowledge for all children, or for children whose filter is in ``among``.

        Complexity: O(children + filters * messages).
        """
        messages = tuple(data)
        outgoing: list[Outgoing] = []
        for group in list(self._groups.values()):
            if not has_all(among, group.where):
                continue
            try:
                passing, silence = select(group.where, messages)
            except DeliveryError as error:
                for child in list(group.children):
                    outgoing += self._reject(child, error)
                continue
            if passing and not (silence or group.silence):
                outgoing += self._tell(group, final, passing)
                continue
            group.silence.update(final)
            group.silence.update(silence)
            if passing:
                outgoing += self._tell_all(group, passing)
        return outgoing

    def flush(self) -> list[Outgoing]:
        """Return messages with the waiting silence.

        Only each ``PATIENT``-th flush is also for children that do not await it.
        """
        self._flushes += 1
        is_for_all = self._flushes % PATIENT == 0
        groups = (group for group in self._groups.values() if group.silence and (group.awaits_silence or is_for_all))
        return [told for group in groups for told in self._tell_all(group, ())]

    def _tell_all(self, group: _Group, data: tuple[tuple[int, Any], ...]) -> list[Outgoing]:
        final = group.silence.ranges()
        group.silence = TickSet()
        return self._tell(group, final, data)

    def _tell(self, group: _Group, final: Ranges, data: tuple[tuple[int, Any], ...]) -> list[Outgoing]:
        message = KnowledgeMessage(self._pubend, final, data, lost_end=self.lost_end, union=group.union)
        return [Outgoing(child, message) for child in group.children if child not in self.behind]

    def _reject(self, child: str, error: DeliveryError) -> list[Outgoing]:
        self.leave(child)
        return [Outgoing(child, Rejected(self._pubend, str(error)))]

    def answer(self, child: str, final: Ranges, data: Iterable[tuple[int, Any]], *, more: bool) -> list[Outgoing]:
        if child not in self.children:
            return []
        where = self.children[child].where
        try:
            passing, silence = select(where, tuple(data))
        except DeliveryError as error:
            return self._reject(child, error)
        if silence:
            together = TickSet(final)
            together.update(silence)
            final = together.ranges()
        if not (final or passing or more):
            return []
        union = digest_of(where)
        return [Outgoing(child, KnowledgeMessage(self._pubend, final, passing, more, True, self.lost_end, union))]


def select(
    where: Filter | None, data: tuple[tuple[int, Any], ...]
) -> tuple[tuple[tuple[int, Any], ...], list[TickRange]]:
    """Return the messages that pass a filter, and the ticks of the other messages.

    Raises:
        DeliveryError: the filter raises.
    """
    if where is None:
        return data, []
    passing: list[tuple[int, Any]] = []
    silence: list[TickRange] = []
    for tick, message in data:
        wanted = part_of(where, tick, message)
        if wanted is None:
            silence.append((tick, tick + 1))
        else:
            passing.append((tick, wanted))
    return tuple(passing), silence
