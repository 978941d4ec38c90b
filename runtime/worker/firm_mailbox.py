"""The mailbox of a firm bound: an input receives each substream in one piece, followed by its end.

Off cycles, the mailbox holds all records of a substream until the substream has ended. That end does not depend on
operators behind this input.

On a cycle, received records may cause more records. There substreams take turns, at all such inputs in the order in
which worker 0 saw them closed. Records of other substreams wait. The first substream that is not over has its turn at
all inputs, and none of them holds its records. So it ends, and the next substream has its turn.

Invariants:

- Between the first record of a substream and its end, the input receives nothing else.
- Held records are counted for the operators behind this input. Off a cycle they count as tokens on the operator's
  outputs, since they never arrive at this input again.
- For flow control, held records count as received. Otherwise they would hold back the sources that must end the
  substream.

Source: seed "Substream Management", section "Firm bound".
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.messages.labels import Labels, MixedLabel
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.substreams.substream_part import EndOfPiece, FirmPart
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.ports import RunningInput


class WaitingEnds:
    """Keys in the order in which their ends were reported.

    A reused key occurs several times if several of its substreams ended without records here.
    """

    __slots__ = ("_counts", "_queue", "are_all")

    def __init__(self) -> None:
        self._queue: deque[Key] = deque()
        self._counts: dict[Key, int] = {}
        self.are_all = False

    def add(self, keys: Sequence[Key]) -> None:
        """Add ends, in O(1) each."""
        self._queue.extend(keys)
        counts = self._counts
        for key in keys:
            counts[key] = counts.get(key, 0) + 1

    def take(self) -> Key:
        """Remove and return the oldest end, in O(1)."""
        key = self._queue.popleft()
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left
        return key

    def __iter__(self) -> Iterator[Key]:
        return iter(self._queue)

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def __len__(self) -> int:
        return len(self._queue)


class FirmMailbox:
    """The messages that have arrived at one input on one worker and wait for their turn."""

    __slots__ = ("_between", "_held", "_host", "_outputs", "_port", "_turns")

    def __init__(self, host: OperatorHost, port: RunningInput, outputs: tuple[int, ...], *, takes_turns: bool) -> None:
        self._host = host
        self._port = port
        self._outputs = outputs
        self._held: dict[Key, list[Message]] = {}
        self._turns: deque[Key] | None = deque() if takes_turns else None
        self._between: list[Message] = []
        """Messages without substream that arrived within a turn."""

    @property
    def held(self) -> Iterator[Message]:
        yield from self._between
        for entries in self._held.values():
            yield from entries

    def put(self, message: Message) -> None:
        label, time = message.label, message.time
        if label is None:
            if self._turns:
                self._between.append(self._taken(message))
            else:
                self._port.queue.append(message)
            return
        if self._turns is None:
            self._host.books.consume(label, self._port.location, time)
            self._count(label, time, 1)
        if not isinstance(label, MixedLabel):
            self._put_one(label[1], message)
            return
        parts = message.divided()
        for part in parts:
            assert isinstance(part.label, tuple), "each part is of one substream"
            self._put_one(part.label[1], part)
        for _ in parts[1:]:
            self._host.produce(self._port.location, time)

    def _put_one(self, key: Key, message: Message) -> None:
        if self._turns and _is_same(self._turns[0], key):
            self._port.queue.append(message)
        else:
            self._held.setdefault(key, []).append(self._taken(message))

    def _taken(self, message: Message) -> Message:
        self._host.flow.take(message.sender, message.size)
        return message.taken()

    def receive(self, label: Labels, time: Time) -> None:
        if self._turns is None:
            self._count(label, time, -1)
        else:
            self._host.books.consume(label, self._port.location, time)

    def _count(self, label: Labels, time: Time, difference: int) -> None:
        for output in self._outputs:
            self._host.books.record(label, output, time, difference)

    def close(self, keys: Sequence[Key]) -> None:
        """Add the substreams that get the next turns, in order; only on a cycle."""
        assert self._turns is not None, "only on a cycle are there turns"
        is_first = not self._turns
        self._turns.extend(keys)
        if is_first:
            self._begin_turn()

    def end(self, keys: Iterable[Key]) -> None:
        """Put into the queue the held records of each substream, followed by its end."""
        for key in keys:
            self._port.queue.extend(self._held.pop(key, ()))
            self._port.queue.append(EndOfPiece(key))
            if self._turns is not None:
                turn = self._turns.popleft()
                assert _is_same(turn, key), "ends on a cycle are told in the order of closing"
                self._begin_turn()

    def part(self) -> FirmPart:
        queue = [one if isinstance(one, EndOfPiece) else _unread(one) for one in self._port.queue]
        held = [_unread(message) for messages in self._held.values() for message in messages]
        return FirmPart(queue, held, list(map(_unread, self._between)), list(self._turns or ()))

    def begin_with(self, part: FirmPart) -> None:
        if self._turns is not None:
            self._turns.extend(part.turns)
        for one in part.queue:
            self._port.queue.append(one if isinstance(one, EndOfPiece) else self._again(one))
        for unread in part.held:
            assert isinstance(unread.label, tuple), "each message is of one substream"
            self._held.setdefault(unread.label[1], []).append(self._again(unread))
        self._between += map(self._again, part.between)
        if part.closed:
            self.close(part.closed)
        self.end(part.ends)

    def _again(self, unread: Unread) -> Message:
        time, batch, label = unread
        self._host.produce(self._port.location, time)
        if label is not None and self._turns is None:
            self._count(label, time, 1)
        elif label is not None:
            self._host.books.record(label, self._port.location, time, 1)
        return Message(self._port.location, time, batch, 0, self._host.worker, label)

    def _begin_turn(self) -> None:
        assert self._turns is not None, "only on a cycle are there turns"
        self._port.queue.extend(self._between)
        self._between.clear()
        if self._turns:
            self._port.queue.extend(self._held.pop(self._turns[0], ()))


def _unread(message: Message) -> Unread:
    return Unread(message.time, message.batch, message.label)


def _is_same(one: Key, other: Key) -> bool:
    return one is other or one == other
