"""The input of an operator in a dataflow that declares substreams."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Time
from tidewheel.runtime.substreams.labelled_message import EndOfPiece, LabelledMessage
from tidewheel.runtime.substreams.labels import Labels, MixedLabel
from tidewheel.runtime.substreams.waiting_ends import WaitingEnds
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.running_input import RunningInput
from tidewheel.transport.batches import Batch, length

if TYPE_CHECKING:
    from tidewheel.runtime.substreams.firm_mailbox import FirmMailbox


class SubstreamInput(RunningInput):
    """An input that knows the substreams of its messages, and their ends.

    Attributes:
        ends: the ends that an operator with a soft bound has not looked at; None with another bound or without one.
        firm: the mailbox of a firm bound, in which messages wait; None without one.
    """

    __slots__ = ("ends", "firm")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ends: WaitingEnds | None = None
        self.firm: FirmMailbox | None = None

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return self._receive(divided=True)

    def whole(self) -> Iterator[tuple[LentToken, Batch]]:
        """Receive messages as they came: one message may belong to several substreams."""
        return self._receive(divided=False)

    def _receive(self, *, divided: bool) -> Iterator[tuple[LentToken, Batch]]:
        queue, instance, core = self.queue, self._instance, self._core
        while queue:
            message = queue[0]
            label: Labels | None = None
            if type(message) is LabelledMessage:
                label = message.label
                assert label is not None, "a message of no substream has no label"
                if divided and isinstance(label, MixedLabel):
                    self._divide_first()
                    continue
                if self.ends and self._is_used_again(label):
                    return
            elif type(message) is EndOfPiece:
                return
            queue.popleft()
            time, batch = message.time, message.batch
            core.consume(self.location, time)
            if label is not None:
                self._count_received(label, time)
            core.flow.take(message.sender, message.size)
            self.consumed += 1
            self.records += length(batch)
            instance.time = time
            yield LentToken(self, instance.schedules, time, label), batch

    def _count_received(self, label: Labels, time: Time) -> None:
        if self.firm is None:
            self._core.books.consume(label, self.location, time)
        else:
            self.firm.receive(label, time)

    def _is_used_again(self, label: Labels) -> bool:
        """Tell whether a key is used again whose end the operator has not looked at; it has to, first."""
        assert self.ends is not None, "the caller has looked"
        keys = label.distinct if isinstance(label, MixedLabel) else label[1:]
        return any(key in self.ends for key in keys)

    def _divide_first(self) -> None:
        """Replace the first message by one for each of its substreams."""
        parts = self.queue.popleft().divided()
        self.queue.extendleft(reversed(parts))
        for part in parts[1:]:
            self._core.produce(self.location, part.time)

    @property
    def ended(self) -> Iterator[Any]:
        """The keys of the substreams that have ended here; see `InputPort.ended`."""
        if self.firm is not None:
            return self._drain_firm()
        if self.ends is None:
            return super().ended
        return self._drain(self.ends)

    def _drain(self, ends: WaitingEnds) -> Iterator[Any]:
        while ends:
            self.looked_at += 1
            yield ends.take()

    def _drain_firm(self) -> Iterator[Any]:
        queue = self.queue
        while queue and type(queue[0]) is EndOfPiece:
            self.looked_at += 1
            yield queue.popleft().key

    @property
    def is_empty(self) -> bool:
        """Whether the operator has received all that has arrived here, and has looked at all ends."""
        return not self.queue and not self.ends

    @property
    def held(self) -> Iterator[Message]:
        """The messages that wait in the mailbox of a firm bound."""
        return iter(()) if self.firm is None else self.firm.held
