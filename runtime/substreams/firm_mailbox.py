"""The mailbox of a firm bound: an input receives each substream in one piece, and right behind its last record its end.

Where nothing comes back round a loop, all of a substream is held here until it has come whole. It waits for nothing
that is behind this input, so it always comes.

On a cycle more may come of what was received. There, substreams take turns, at all such inputs in the one order in
which worker 0 has seen them closed; what is of another than the one whose turn it is waits. The first of those that are
not over has its turn everywhere, and nothing of it is held anywhere: so it ends, and then the next.

Invariants:

- Between the first record of a substream and its end, nothing else is received.
- What is held here is counted as left, for those behind this input: off a cycle as if the operator had kept tokens on
  its outputs, since what has arrived here need not arrive here any more.
- What is held counts as taken: sources that were held back by it could not say that its substream has ended.

Source: seed "Substream Management", section "Firm bound".
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.labelled_message import EndOfPiece, LabelledMessage
from tidewheel.runtime.substreams.labels import Labels, MixedLabel
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.port_host import PortHost

if TYPE_CHECKING:
    from tidewheel.runtime.substreams.substream_input import SubstreamInput

MessageType = TypeVar("MessageType", bound=Message)


class FirmMailbox:
    """What comes to one input on one worker, and waits for its turn.

    Args:
        core: the worker.
        port: the input.
        outputs: the location numbers of the outputs to which the input leads.
        takes_turns: whether the input is on a cycle.
    """

    __slots__ = ("_between", "_core", "_held", "_outputs", "_port", "_turns")

    def __init__(self, core: PortHost, port: "SubstreamInput", outputs: tuple[int, ...], *, takes_turns: bool) -> None:
        self._core = core
        self._port = port
        self._outputs = outputs
        self._held: dict[Key, list[LabelledMessage]] = {}
        self._turns: deque[Key] | None = deque() if takes_turns else None
        self._between: list[Message] = []
        """What is of no substream, and came within a turn."""

    @property
    def takes_turns(self) -> bool:
        """Whether the input is on a cycle."""
        return self._turns is not None

    @property
    def held(self) -> Iterator[Message]:
        """What waits here."""
        yield from self._between
        for entries in self._held.values():
            yield from entries

    def put(self, message: Message) -> None:
        """Receive a message."""
        if not isinstance(message, LabelledMessage):
            if self._turns:
                self._between.append(self._taken(message))
            else:
                self._port.queue.append(message)
            return
        label, time = message.label, message.time
        assert label is not None, "a message of no substream has no label"
        if self._turns is None:
            self._core.books.consume(label, self._port.location, time)
            self._count(label, time, 1)
        if not isinstance(label, MixedLabel):
            self._put_one(label[1], message)
            return
        parts = message.divided()
        for part in parts:
            assert isinstance(part.label, tuple), "each part is of one substream"
            self._put_one(part.label[1], part)
        for _ in parts[1:]:
            self._core.produce(self._port.location, time)

    def _put_one(self, key: Key, message: LabelledMessage) -> None:
        if self._turns and _is_same(self._turns[0], key):
            self._port.queue.append(message)
        else:
            self._held.setdefault(key, []).append(self._taken(message))

    def _taken(self, message: MessageType) -> MessageType:
        """Count a message as taken, and return it as one that does not count."""
        self._core.flow.take(message.sender, message.size)
        return message.taken()

    def receive(self, label: Labels, time: Time) -> None:
        """Count a message as received by the operator."""
        if self._turns is None:
            self._count(label, time, -1)
        else:
            self._core.books.consume(label, self._port.location, time)

    def _count(self, label: Labels, time: Time, difference: int) -> None:
        for output in self._outputs:
            self._core.books.record(label, output, time, difference)

    def close(self, keys: Sequence[Key]) -> None:
        """Take note that substreams come after all of which that was said before, in order; only on a cycle."""
        assert self._turns is not None, "elsewhere nobody takes turns"
        is_first = not self._turns
        self._turns.extend(keys)
        if is_first:
            self._begin_turn()

    def end(self, keys: Iterable[Key]) -> None:
        """Put ends behind all that has come of these substreams."""
        for key in keys:
            self._port.queue.extend(self._held.pop(key, ()))
            self._port.queue.append(EndOfPiece(key))
            if self._turns is not None:
                turn = self._turns.popleft()
                assert _is_same(turn, key), "ends on a cycle are told in the order of closing"
                self._begin_turn()

    def _begin_turn(self) -> None:
        assert self._turns is not None, "elsewhere nobody takes turns"
        self._port.queue.extend(self._between)
        self._between.clear()
        if self._turns:
            self._port.queue.extend(self._held.pop(self._turns[0], ()))


def _is_same(one: Key, other: Key) -> bool:
    """Tell whether keys are one key, as for a dict: NaN, of which there is only one, is not equal to itself."""
    return one is other or one == other
