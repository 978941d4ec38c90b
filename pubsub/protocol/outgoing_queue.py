"""The messages that one subscriber has not yet acknowledged, bounded in bytes.

Where epochs may be dropped, data gives way to data, but notes are always taken: moves of the frontier, and which epochs
were dropped. Those that follow each other are made one, so only the list of dropped epochs can grow: it has a bound of
its own, or else what is told of the past would leave no room for what is new.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby

from tidewheel.progress import Time
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage, EpochsDropped, LowerFrontierUpdate
from tidewheel.pubsub.protocol.posted import Posted

_SPARE = 8

DROPPED_BYTES = 64 * 1024
"""So long, in bytes, may the list of dropped epochs be where the capacity is smaller."""


class OutgoingQueue:
    """Keeps messages until they are acknowledged, so that a reply that gets lost loses nothing.

    An empty queue takes a message of any size: otherwise a batch larger than the capacity could never be delivered.

    Args:
        capacity_bytes: how much may wait.
        options: of the subscriber. Where the capacity is not enough, whole epochs give way of which nothing has left
            yet, if they say so. Or the queue takes everything, and says when it is full, so that no more is offered.
        partition: the number of the partition.

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

    def __init__(self, capacity_bytes: int, options: DeliveryOptions = EVERYTHING, partition: int = 0) -> None:
        self._capacity_bytes = capacity_bytes
        self._partition = partition
        self.where = options.where
        self.drops_epochs = options.slow == "drop_epochs"
        self.blocks = options.slow == "block"
        self.block_limit_s = options.block_limit
        self.overdue_at_s = 0.0
        self._taken_at_last = -1
        self.is_full = self.is_closed = False
        self._sent: deque[Posted] = deque()
        self._pending: deque[Posted] = deque()
        self.bytes = self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self.last_sent = -1
        self._waiting: dict[Time, int] = {}
        self._begun: set[Time] = set()
        self._dropped: set[Time] = set()
        self.epochs_dropped = self.taken = 0

    def offer(self, posted: Posted) -> bool:
        """Append a message; return False, and take nothing, if there is no room for it.

        A part of an epoch that was dropped counts as taken.

        Complexity: O(1); where an epoch has to give way, O(messages), but spread over an eighth of the capacity.
        """
        message, size = posted.message, posted.size
        if isinstance(message, DataMessage) and message.time in self._dropped:
            return True
        if not size or not len(self) or self.blocks or self._excess(size) <= 0:
            self._append(posted)
        elif not self.drops_epochs:
            return False
        elif not isinstance(message, DataMessage):
            self._note(posted)
        elif self._dropped_bytes > max(self._capacity_bytes, DROPPED_BYTES):
            return False
        elif self._make_room(message.time, size):
            self._append(posted)
        else:
            return self._drop_new(posted, message.time)
        return True

    def _append(self, entry: Posted) -> None:
        message, size = entry.message, entry.size
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

    def _forget(self, entry: Posted) -> None:
        self.bytes -= entry.size
        if self.is_full and self.bytes <= self._capacity_bytes // 2:
            self.is_full = False
        if isinstance(entry.message, EpochsDropped):
            self._dropped_bytes -= entry.size
        elif self.drops_epochs and isinstance(entry.message, DataMessage):
            self._data_bytes -= entry.size

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
        """Free everything; ``reason`` is all that the subscriber will still get."""
        self._sent.clear()
        self._pending.clear()
        self._begun, self._dropped, self._waiting = set(), set(), {}
        self.bytes = self._dropped_bytes = self._data_bytes = self._waiting_bytes = 0
        self.is_full = False
        self._append(reason)
        self.is_closed = True

    def is_overdue(self, now_s: float, taken: int) -> bool:
        """Tell whether this queue, which is full, has been so for too long, and ``taken`` has not grown meanwhile."""
        if taken != self._taken_at_last:
            self._taken_at_last, self.overdue_at_s = taken, now_s + self.block_limit_s
        return self.overdue_at_s <= now_s

    def acknowledge(self, sequence: int) -> None:
        """Forget the messages up to number ``sequence``: they have arrived. Complexity: O(messages forgotten)."""
        while self._pending and self._pending[0].number <= sequence:
            self._leave()
        while self._sent and self._sent[0].number <= sequence:
            self._forget(self._sent.popleft())
            self.taken += 1

    def head(self, max_bytes: int) -> list[KnowledgeMessage]:
        """Return the oldest messages, up to ``max_bytes`` of them but at least one if there is one. They stay.

        What was returned once has left: its epoch is not dropped any more.
        """
        return [entry.told(self._partition) for entry in self.oldest(max_bytes)]

    def oldest(self, max_bytes: int) -> list[Posted]:
        """Return what `head` returns, as it was posted."""
        found: list[Posted] = []
        taken = 0
        for entry in self._sent:
            taken += entry.size
            if found and taken > max_bytes:
                return found
            found.append(entry)
        while self._pending:
            taken += self._pending[0].size
            if found and taken > max_bytes:
                break
            found.append(self._leave())
        return found

    def _leave(self) -> Posted:
        entry = self._pending.popleft()
        message = entry.message
        skipped = entry.number - self.last_sent - 1
        if skipped and self.last_sent >= 0:
            entry = entry.after(skipped)
        self.last_sent = entry.number
        self._sent.append(entry)
        if self.drops_epochs and isinstance(message, DataMessage):
            self._begun.add(message.time)
            self._waiting_bytes -= entry.size
            self._waiting[message.time] -= entry.size
            if not self._waiting[message.time]:
                del self._waiting[message.time]
        return entry

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._sent) + len(self._pending)


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
