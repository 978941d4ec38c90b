"""The queue of a subscriber for which whole epochs give way: the policy ``"drop_epochs"``.

Data gives way to data, but notes are always taken: moves of the frontier, and which epochs were dropped. Those that
follow each other are made one, so only the list of dropped epochs can grow: it has a bound of its own, or else what is
told of the past would leave no room for what is new.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby
from typing import ClassVar, Final

from tests.kit.former_topics.outgoing_queue import OutgoingQueue
from tests.kit.former_topics.posted import Posted
from tidewheel.progress import Time
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage, EpochsDropped, LowerFrontierUpdate

_SPARE = 8

DROPPED_BYTES: Final = 64 * 1024
"""So long, in bytes, may the list of dropped epochs be where the capacity is smaller."""


class DroppingQueue(OutgoingQueue):
    """Drops epochs of which nothing has left yet, the oldest first, where the capacity is not enough.

    Args:
        capacity_bytes, options, partition: as for `OutgoingQueue`.
    """

    advice: ClassVar[str] = ""

    def __init__(self, capacity_bytes: int, options: DeliveryOptions, partition: int = 0) -> None:
        super().__init__(capacity_bytes, options, partition)
        self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self._waiting: dict[Time, int] = {}
        self._begun: set[Time] = set()
        self._dropped: set[Time] = set()

    def offer(self, posted: Posted) -> bool:
        """Append a message; return False, and take nothing, if there is no room for it.

        A part of an epoch that was dropped counts as taken.

        Complexity: O(1); where an epoch has to give way, O(messages), but spread over an eighth of the capacity.
        """
        message = posted.message
        return (isinstance(message, DataMessage) and message.time in self._dropped) or super().offer(posted)

    def _make_room_for(self, posted: Posted) -> bool:
        message = posted.message
        if not isinstance(message, DataMessage):
            self._note(posted)
        elif self._dropped_bytes > max(self._capacity_bytes, DROPPED_BYTES):
            return False
        elif self._make_room(message.time, posted.size):
            self._append(posted)
        else:
            return self._drop_new(posted, message.time)
        return True

    def _append(self, entry: Posted) -> None:
        super()._append(entry)
        message, size = entry.message, entry.size
        if isinstance(message, EpochsDropped):
            self._dropped_bytes += size
        elif isinstance(message, DataMessage):
            self._data_bytes += size
            self._waiting[message.time] = self._waiting.get(message.time, 0) + size
            self._waiting_bytes += size

    def _forget(self, entry: Posted) -> None:
        super()._forget(entry)
        if isinstance(entry.message, EpochsDropped):
            self._dropped_bytes -= entry.size
        elif isinstance(entry.message, DataMessage):
            self._data_bytes -= entry.size

    def _leave(self) -> Posted:
        entry = super()._leave()
        if isinstance(entry.message, DataMessage):
            time = entry.message.time
            self._begun.add(time)
            self._waiting_bytes -= entry.size
            self._waiting[time] -= entry.size
            if not self._waiting[time]:
                del self._waiting[time]
        return entry

    def _has_room(self, size: int) -> bool:
        return self._excess(size) <= 0

    def _excess(self, size: int) -> int:
        """Return by how many bytes the capacity would be exceeded with ``size`` more."""
        return self.bytes - self._dropped_bytes + size - self._capacity_bytes

    def _note(self, posted: Posted) -> None:
        """Append a note for which there is no room, made one with those before it."""
        notes = [posted]
        while self._pending and _is_note(self._pending[-1]):
            notes.insert(0, self._pending.pop())
            self._forget(notes[0])
        for entry in _made_one(notes):
            self._append(entry)

    def _make_room(self, time: Time, size: int) -> bool:
        """Drop epochs other than ``time``, the oldest first, until there is room and some to spare.

        If that cannot be enough none is dropped, and this returns False.
        """
        kept = {time, *self._begun}
        can_go = self._waiting_bytes - sum(self._waiting.get(other, 0) for other in kept)
        if self._data_bytes - can_go + size > self._capacity_bytes:
            return False
        while (excess := self._excess(size)) > 0:
            excess += self._capacity_bytes // _SPARE
            victims: list[Time] = []
            for other, waits in self._waiting.items():
                if excess <= 0:
                    break
                if other not in kept:
                    victims.append(other)
                    excess -= waits
            if not victims:
                return False
            self._drop(victims)
        return True

    def _drop_new(self, posted: Posted, time: Time) -> bool:
        """Drop the epoch of a message that there is no room for; return False if some of it has left."""
        if time in self._begun:
            return False
        if time in self._waiting:
            self._drop([time])
            return True
        self._count_dropped([time])
        self._note(Posted(posted.number, EpochsDropped([time])))
        return True

    def _drop(self, times: Collection[Time]) -> None:
        """Remove the waiting messages of some epochs, and put in their place that they were dropped."""
        self._count_dropped(times)
        pending, self._pending = self._pending, deque()
        self._waiting, self._waiting_bytes = {}, 0
        for entry in pending:
            self._forget(entry)
        for entry in _merged(_without(pending, set(times))):
            self._append(entry)

    def _count_dropped(self, times: Collection[Time]) -> None:
        self._dropped.update(times)
        self.epochs_dropped += len(times)

    def prune(self, is_live: Callable[[Time], bool]) -> None:
        """Forget which epochs have begun or were dropped, but for those of which more waits or can come."""
        self._begun = {time for time in self._begun if time in self._waiting or is_live(time)}
        self._dropped = {time for time in self._dropped if is_live(time)}

    def close(self, reason: Posted) -> None:
        """Free everything, and forget all epochs."""
        self._begun, self._dropped, self._waiting = set(), set(), {}
        self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        super().close(reason)


def _without(entries: Iterable[Posted], times: set[Time]) -> Iterator[Posted]:
    """Yield messages without the data of some epochs; in place of the first of each stands that it was dropped."""
    left = set(times)
    for entry in entries:
        message = entry.message
        if not isinstance(message, DataMessage) or message.time not in times:
            yield entry
        elif message.time in left:
            left.remove(message.time)
            yield Posted(entry.number, EpochsDropped([message.time]))


def _merged(entries: Iterable[Posted]) -> Iterator[Posted]:
    """Yield messages with the notes that follow each other made one."""
    for are_notes, group in groupby(entries, _is_note):
        alike = list(group)
        yield from _made_one(alike) if are_notes else alike


def _is_note(entry: Posted) -> bool:
    return isinstance(entry.message, EpochsDropped | LowerFrontierUpdate)


def _made_one(notes: list[Posted]) -> Iterator[Posted]:
    """Yield what notes without data between them say: which epochs were dropped, then how the frontier moved.

    That an epoch was dropped may be told earlier than it was, but never after the frontier has passed it.
    """
    if len(notes) < 2:
        yield from notes
        return
    messages = [entry.message for entry in notes]
    dropped = [message for message in messages if isinstance(message, EpochsDropped)]
    moves = (message.updates for message in messages if isinstance(message, LowerFrontierUpdate))
    changes: ChangeBatch[Time] = ChangeBatch(chain.from_iterable(moves))
    first, last = notes[0].number, notes[-1].number
    if dropped:
        for message in dropped[1:]:
            dropped[0].times.extend(message.times)  # it has not left, so only this queue has it
        yield Posted(first if changes else last, dropped[0])
    if changes:
        yield Posted(last, LowerFrontierUpdate(list(changes)))
