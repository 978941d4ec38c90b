"""The messages that one subscriber has not yet acknowledged, bounded in bytes.

Where epochs may be dropped, data gives way to data, but notes are always taken: moves of the frontier, and which epochs
were dropped. Those that follow each other are made one, so only the list of dropped epochs can grow: it has a bound of
its own, or else what is told of the past would leave no room for what is new.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby

from tidewheel.progress import Time
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
)

_MESSAGE_BYTES = 128
_TIME_BYTES = 64
_SPARE = 8

DROPPED_BYTES = 64 * 1024
"""So long, in bytes, may the list of dropped epochs be where the capacity is smaller."""


def size_of(message: Message) -> int:
    """Return about how many bytes a message holds in memory; 0 for a last message, for which there is always room."""
    match message:
        case DataMessage():
            return _MESSAGE_BYTES + len(message.payload)
        case LowerFrontierUpdate():
            return _MESSAGE_BYTES + _TIME_BYTES * len(message.updates)
        case InitialFrontierSnapshot():
            return _MESSAGE_BYTES + _TIME_BYTES * (len(message.lower) + len(message.upper))
        case EpochsDropped():
            return _MESSAGE_BYTES + _TIME_BYTES * len(message.times)
        case _:
            return 0


@dataclass(slots=True)
class _Entry:
    numbered: Numbered
    size: int


class OutgoingQueue:
    """Keeps messages until they are acknowledged, so that a reply that gets lost loses nothing.

    An empty queue takes a message of any size: otherwise a batch larger than the capacity could never be delivered.

    Args:
        capacity_bytes: how much may wait.
        options: of the subscriber. Where the capacity is not enough, whole epochs give way of which nothing has left
            yet, if they say so. Or the queue takes everything, and says when it is full, so that no more is offered.

    Attributes:
        where: the condition of the subscriber; None for all records.
        drops_epochs: whether epochs may give way.
        blocks: whether the queue takes everything.
        block_limit_s: for how long a queue that blocks may be full while nothing is taken, in seconds.
        overdue_at_s: when that is over, as of the last `is_overdue`.
        is_full: whether, of one that blocks, the capacity was exceeded, and more than half of it has been so since.
        is_closed: whether the subscriber has been cut off: nothing more is taken.
        bytes: how many bytes wait.
        epochs_dropped: how many epochs gave way.
        last_sent: the number of the last message that `head` has returned; -1 before the first.
        taken: how many messages have been acknowledged.
    """

    def __init__(self, capacity_bytes: int, options: DeliveryOptions = EVERYTHING) -> None:
        self._capacity_bytes = capacity_bytes
        self.where = options.where
        self.drops_epochs = options.slow == "drop_epochs"
        self.blocks = options.slow == "block"
        self.block_limit_s = options.block_limit
        self.overdue_at_s = 0.0
        self._taken_at_last = -1
        self.is_full = self.is_closed = False
        self._sent: deque[_Entry] = deque()
        self._pending: deque[_Entry] = deque()
        self.bytes = self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self.last_sent = -1
        self._waiting: dict[Time, int] = {}
        self._begun: set[Time] = set()
        self._dropped: set[Time] = set()
        self.epochs_dropped = self.taken = 0

    def offer(self, numbered: Numbered, size: int) -> bool:
        """Append a message of ``size`` bytes; return False, and take nothing, if there is no room for it.

        A part of an epoch that was dropped counts as taken.

        Complexity: O(1); where an epoch has to give way, O(messages), but spread over an eighth of the capacity.
        """
        message = numbered.message
        if isinstance(message, DataMessage) and message.time in self._dropped:
            return True
        if not size or not len(self) or self.blocks or self._excess(size) <= 0:
            self._append(_Entry(numbered, size))
        elif not self.drops_epochs:
            return False
        elif not isinstance(message, DataMessage):
            self._note(numbered, size)
        elif self._dropped_bytes > max(self._capacity_bytes, DROPPED_BYTES):
            return False
        elif self._make_room(message.time, size):
            self._append(_Entry(numbered, size))
        else:
            return self._drop_new(numbered, message.time)
        return True

    def _append(self, entry: _Entry) -> None:
        message, size = entry.numbered.message, entry.size
        self._pending.append(entry)
        self.bytes += size
        if self.blocks and self.bytes > self._capacity_bytes:
            self.is_full = True
        if isinstance(message, EpochsDropped):
            self._dropped_bytes += size
        elif self.drops_epochs and isinstance(message, DataMessage):
            self._data_bytes += size
            self._waiting[message.time] = self._waiting.get(message.time, 0) + size
            self._waiting_bytes += size

    def _forget(self, entry: _Entry) -> None:
        self.bytes -= entry.size
        if self.is_full and self.bytes <= self._capacity_bytes // 2:
            self.is_full = False
        if isinstance(entry.numbered.message, EpochsDropped):
            self._dropped_bytes -= entry.size
        elif self.drops_epochs and isinstance(entry.numbered.message, DataMessage):
            self._data_bytes -= entry.size

    def _excess(self, size: int) -> int:
        """Return by how many bytes the capacity would be exceeded with ``size`` more."""
        return self.bytes - self._dropped_bytes + size - self._capacity_bytes

    def _note(self, numbered: Numbered, size: int) -> None:
        """Append a note for which there is no room, made one with those before it."""
        notes = [_Entry(numbered, size)]
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

    def _drop_new(self, numbered: Numbered, time: Time) -> bool:
        """Drop the epoch of a message that there is no room for; return False if some of it has left."""
        if time in self._begun:
            return False
        if time in self._waiting:
            self._drop([time])
            return True
        self._count_dropped([time])
        dropped = EpochsDropped([time])
        self._note(Numbered(numbered.sequence, dropped), size_of(dropped))
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

    def close(self, reason: Numbered) -> None:
        """Free everything; ``reason`` is all that the subscriber will still get."""
        self._sent.clear()
        self._pending.clear()
        self._begun, self._dropped, self._waiting = set(), set(), {}
        self.bytes = self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self.is_full = False
        self._append(_Entry(reason, size_of(reason.message)))
        self.is_closed = True

    def is_overdue(self, now_s: float, taken: int) -> bool:
        """Tell whether this queue, which is full, has been so for too long, and ``taken`` has not grown meanwhile."""
        if taken != self._taken_at_last:
            self._taken_at_last, self.overdue_at_s = taken, now_s + self.block_limit_s
        return self.overdue_at_s <= now_s

    def acknowledge(self, sequence: int) -> None:
        """Forget the messages up to number ``sequence``: they have arrived. Complexity: O(messages forgotten)."""
        while self._pending and self._pending[0].numbered.sequence <= sequence:
            self._leave()
        while self._sent and self._sent[0].numbered.sequence <= sequence:
            self._forget(self._sent.popleft())
            self.taken += 1

    def head(self, max_bytes: int) -> list[Numbered]:
        """Return the oldest messages, up to ``max_bytes`` of them but at least one if there is one. They stay.

        What was returned once has left: its epoch is not dropped any more.
        """
        found: list[Numbered] = []
        taken = 0
        for entry in self._sent:
            taken += entry.size
            if found and taken > max_bytes:
                return found
            found.append(entry.numbered)
        while self._pending:
            taken += self._pending[0].size
            if found and taken > max_bytes:
                break
            found.append(self._leave())
        return found

    def _leave(self) -> Numbered:
        entry = self._pending.popleft()
        sequence, message = entry.numbered.sequence, entry.numbered.message
        skipped = sequence - self.last_sent - 1
        if skipped and self.last_sent >= 0:
            entry.numbered = Numbered(sequence, message, skipped)
        self.last_sent = sequence
        self._sent.append(entry)
        if self.drops_epochs and isinstance(message, DataMessage):
            self._begun.add(message.time)
            self._waiting_bytes -= entry.size
            self._waiting[message.time] -= entry.size
            if not self._waiting[message.time]:
                del self._waiting[message.time]
        return entry.numbered

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._sent) + len(self._pending)


def _without(entries: Iterable[_Entry], times: set[Time]) -> Iterator[_Entry]:
    """Yield messages without the data of some epochs; in place of the first of each stands that it was dropped."""
    left = set(times)
    for entry in entries:
        message = entry.numbered.message
        if not isinstance(message, DataMessage) or message.time not in times:
            yield entry
        elif message.time in left:
            left.remove(message.time)
            yield _entry(entry.numbered.sequence, EpochsDropped([message.time]))


def _merged(entries: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield messages with the notes that follow each other made one."""
    for are_notes, group in groupby(entries, _is_note):
        alike = list(group)
        yield from _made_one(alike) if are_notes else alike


def _is_note(entry: _Entry) -> bool:
    return isinstance(entry.numbered.message, EpochsDropped | LowerFrontierUpdate)


def _made_one(notes: list[_Entry]) -> Iterator[_Entry]:
    """Yield what notes without data between them say: which epochs were dropped, then how the frontier moved.

    That an epoch was dropped may be told earlier than it was, but never after the frontier has passed it.
    """
    if len(notes) < 2:
        yield from notes
        return
    messages = [entry.numbered.message for entry in notes]
    dropped = [message for message in messages if isinstance(message, EpochsDropped)]
    moves = (message.updates for message in messages if isinstance(message, LowerFrontierUpdate))
    changes: ChangeBatch[Time] = ChangeBatch(chain.from_iterable(moves))
    first, last = notes[0].numbered.sequence, notes[-1].numbered.sequence
    if dropped:
        for message in dropped[1:]:
            dropped[0].times.extend(message.times)  # it has not left, so only this queue has it
        yield _entry(first if changes else last, dropped[0])
    if changes:
        yield _entry(last, LowerFrontierUpdate(list(changes)))


def _entry(sequence: int, message: Message) -> _Entry:
    return _Entry(Numbered(sequence, message), size_of(message))
