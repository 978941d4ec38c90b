"""The ports, channels and operators of a dataflow that declares substreams.

Records of many small substreams share a message, which has the key of each record. An operator that is not made for
that receives one substream at a time.
"""

from collections.abc import Iterator
from typing import Any

from tidewheel.batches.batches import Batch, check_batch, length
from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.messages.labels import EndOfSubstream, Label, Labels, MixedLabel, labels_of
from tidewheel.runtime.substreams.substream_part import EndOfPiece
from tidewheel.runtime.tokens.timestamp_token import TOKENS, LentToken, TimestampToken
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.firm_mailbox import FirmMailbox, WaitingEnds
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.ports import Channel, RunningInput, RunningOutput


class SubstreamChannel(Channel):
    """A channel that also sends the labels of records, and counts substreams in the worker's books."""

    __slots__ = ()

    def push_labelled(self, time: Time, batch: Batch, count: int, label: Labels) -> None:
        here, books = self.host.worker, self.host.books
        if self.pact is None:
            books.produce_here(label, self.locations[here], time)
            self._deliver(here, Message(self.locations[here], time, batch, self._count(batch, count), here, label))
            return
        try:
            parts = list(self.pact.labelled_parts(batch, self.host.workers, label))
        except Exception as error:
            raise PartError(self.name, time, f"could not exchange a record of {self.sender!r}") from error
        for worker, part, of_part in parts:
            assert of_part is not None, "a part of labelled records is labelled"
            location = self.locations[worker]
            if worker == here:
                books.produce_here(of_part, location, time)
            else:
                books.record(of_part, location, time, 1)
            self._deliver(worker, Message(location, time, part, self._count(part, length(part)), here, of_part))


_MOST_GATHERED = 4096
"""The greatest number of records of small substreams that are sent in one message."""


class SubstreamOutput(RunningOutput):
    """An output that knows the substreams of its records.

    It sends small substreams together, after the operator's call.
    """

    __slots__ = ("_gathered",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._gathered: tuple[Time, int, list[Key], list[Any]] | None = None
        """The gathered records: (time, declaration, keys, records)."""

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        if not isinstance(token, TOKENS):
            self._refuse_token(token)
        time, label = token._time_on(self), token.label
        if self.owner.call < 0:
            self._refuse_now(time)
        if type(label) is tuple and type(batch) is list:
            self._gather(time, batch, label)
            return
        self.flush()
        if type(batch) is not list:
            check_batch(batch)
        self._push_labelled(time, batch, label)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        time = token._time_on(self)
        if self.owner.call < 0:
            self._refuse_now(time)
        self.flush()
        self._push_labelled(time, batch, label)

    def send_marks(self, token: TimestampToken | LentToken, marks: list[EndOfSubstream]) -> bool:
        """Send marks to the next operators that divide this stream; return whether there are any."""
        channels = [channel for channel in self.channels if channel.takes_marks]
        if channels:
            time = token._time_on(self)
            if self.owner.call < 0:
                self._refuse_now(time)
            self.flush()
            for channel in channels:
                channel.push(time, marks, len(marks))
        return bool(channels)

    def _gather(self, time: Time, batch: list[Any], label: Label) -> None:
        declaration, key = label
        gathered = self._gathered
        if gathered is None or gathered[0] != time or gathered[1] != declaration:
            self.flush()
            gathered = self._gathered = (time, declaration, [], [])
        gathered[2].extend([key] * len(batch))
        gathered[3].extend(batch)
        if len(gathered[3]) >= _MOST_GATHERED:
            self.flush()

    def flush(self) -> None:
        if self._gathered is not None:
            time, declaration, keys, batch = self._gathered
            self._gathered = None
            if keys:
                self._push_labelled(time, batch, labels_of(declaration, keys))

    def _push_labelled(self, time: Time, batch: Batch, label: Labels | None) -> None:
        if label is None:
            self._push(time, batch)
            return
        count = length(batch)
        if not count:
            return
        self.sent += 1
        self.records += count
        for channel in self.channels:
            assert isinstance(channel, SubstreamChannel), "all channels of this dataflow are"
            channel.push_labelled(time, batch, count, label)


class SubstreamInput(RunningInput):
    """An input that knows the substreams of its messages, and their ends."""

    __slots__ = ("ends", "firm")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ends: WaitingEnds | None = None
        self.firm: FirmMailbox | None = None

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return self._receive(divided=True)

    def whole(self) -> Iterator[tuple[LentToken, Batch]]:
        return self._receive(divided=False)

    def _receive(self, *, divided: bool) -> Iterator[tuple[LentToken, Batch]]:
        queue, owner, host = self.queue, self.owner, self.host
        while queue:
            message = queue[0]
            if type(message) is EndOfPiece:
                return
            label: Labels | None = message.label
            if label is not None:
                if divided and isinstance(label, MixedLabel):
                    self._divide_first()
                    continue
                if self.ends and self._is_used_again(label):
                    return
            queue.popleft()
            time, batch = message.time, message.batch
            host.consume(self.location, time)
            if label is not None:
                self._count_received(label, time)
            host.flow.take(message.sender, message.size)
            self.consumed += 1
            self.records += length(batch)
            owner.time = time
            yield LentToken(self, owner.schedules, time, label), batch

    def _count_received(self, label: Labels, time: Time) -> None:
        if self.firm is None:
            self.host.books.consume(label, self.location, time)
        else:
            self.firm.receive(label, time)

    def _is_used_again(self, label: Labels) -> bool:
        assert self.ends is not None, "the caller has looked"
        keys = label.distinct if isinstance(label, MixedLabel) else label[1:]
        return any(key in self.ends for key in keys)

    def _divide_first(self) -> None:
        parts = self.queue.popleft().divided()
        self.queue.extendleft(reversed(parts))
        for part in parts[1:]:
            self.host.produce(self.location, part.time)

    @property
    def ended(self) -> Iterator[Any]:
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
        return not self.queue and not self.ends

    @property
    def held(self) -> Iterator[Message]:
        return iter(()) if self.firm is None else self.firm.held


_MOST_SUBSTREAMS = 256
"""The greatest number of substreams that an operator with a firm bound receives in a step."""


class SubstreamInstance(OperatorInstance):
    """An operator whose ports know substreams. ``firm`` has the inputs that receive each substream in one piece."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.firm: tuple[SubstreamInput, ...] = ()

    def _call(self) -> object:
        returned = super()._call()
        if self.firm:
            returned = self._go_on(returned)
        for output in self.outputs:
            assert isinstance(output, SubstreamOutput), "all outputs of this dataflow are"
            output.flush()
        return returned

    def _go_on(self, returned: object) -> object:
        for _ in range(_MOST_SUBSTREAMS):
            passed = [port.looked_at for port in self.firm]
            if returned is not None or not any(port.queue for port in self.firm):
                break
            returned = super()._call()
            if passed == [port.looked_at for port in self.firm]:
                break
        return returned
