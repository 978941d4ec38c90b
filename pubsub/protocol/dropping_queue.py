"""The queue of a subscriber that drops whole epochs: the policy ``"drop_epochs"``.

Notes (moves of the frontier, and lists of dropped epochs) are always accepted. Consecutive notes are joined, so only
the list of dropped epochs can grow; it has its own limit.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby
from typing import ClassVar, Final

from tidewheel.progress import Time
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage, EpochsDropped, LowerFrontierUpdate
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import Posted

_SPARE = 8

DROPPED_BYTES: Final = 64 * 1024
"""The minimum of the limit, in bytes, of the list of dropped epochs, for queues with less capacity."""


class DroppingQueue(OutgoingQueue):
    """When it exceeds its capacity, drops epochs of which nothing was sent yet, the oldest first."""

    advice: ClassVar[str] = ""

    def __init__(self, capacity_bytes: int, options: DeliveryOptions, partition: int = 0) -> None:
        super().__init__(capacity_bytes, options, partition)
        self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self._waiting: dict[Time, int] = {}
        self._begun: set[Time] = set()
        self._dropped: set[Time] = set()

    def offer(self, posted: Posted) -> bool:
        """Append a message; return False if there is no room for it.

        A message of a dropped epoch counts as accepted. Complexity: O(1), amortised.
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
        return self.bytes - self._dropped_bytes + size - self._capacity_bytes

    def _note(self, posted: Posted) -> None:
        notes = [posted]
        while self._pending and _is_note(self._pending[-1]):
            notes.insert(0, self._pending.pop())
            self._forget(notes[0])
        for entry in _made_one(notes):
            self._append(entry)

    def _make_room(self, time: Time, size: int) -> bool:
        """Drop epochs other than ``time``, the oldest first, until there is more than enough room.

        If dropping all of them would not make enough room, drop none and return False.
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
        if time in self._begun:
            return False
        if time in self._waiting:
            self._drop([time])
            return True
        self._count_dropped([time])
        self._note(Posted(posted.number, EpochsDropped([time])))
        return True

    def _drop(self, times: Collection[Time]) -> None:
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
        """Forget which epochs were begun or dropped, except for epochs whose messages wait or may still arrive."""
        self._begun = {time for time in self._begun if time in self._waiting or is_live(time)}
        self._dropped = {time for time in self._dropped if is_live(time)}

    def close(self, number: int, reason: str) -> None:
        self._begun, self._dropped, self._waiting = set(), set(), {}
        self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        super().close(number, reason)


def _without(entries: Iterable[Posted], times: set[Time]) -> Iterator[Posted]:
    """Yield messages without the data of the epochs ``times``; a note replaces each epoch's first batch."""
    left = set(times)
    for entry in entries:
        message = entry.message
        if not isinstance(message, DataMessage) or message.time not in times:
            yield entry
        elif message.time in left:
            left.remove(message.time)
            yield Posted(entry.number, EpochsDropped([message.time]))


def _merged(entries: Iterable[Posted]) -> Iterator[Posted]:
    for are_notes, group in groupby(entries, _is_note):
        alike = list(group)
        yield from _made_one(alike) if are_notes else alike


def _is_note(entry: Posted) -> bool:
    return isinstance(entry.message, EpochsDropped | LowerFrontierUpdate)


def _made_one(notes: list[Posted]) -> Iterator[Posted]:
    """Yield consecutive notes as one note of dropped epochs and one move of the frontier.

    So the queue may report a drop early, but never after the frontier has passed the epoch.
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
