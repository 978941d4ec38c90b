"""The ports of an operator on one worker, and the channels between them.

An operator uses `InputPort` and `OutputPort`. Behind each `InputPort`, the worker has a `RunningInput`, which lends the
tokens of messages; behind each `OutputPort`, a `RunningOutput`, which makes tokens. A `Channel` is one edge of an
output.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tidewheel.batches.batches import Batch, check_batch, length, size_in_bytes
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.progress import Antichain, PathSummary, Time, TimeDomain
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.credit import OVERHEAD_BYTES
from tidewheel.runtime.messages.envelope import Message
from tidewheel.runtime.messages.labels import Label, Labels
from tidewheel.runtime.messages.statistics import EdgeStatistics
from tidewheel.runtime.tokens.timestamp_token import TOKENS, LentToken, TimestampToken
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.operator_host import OperatorHost


class PortOwner:
    """The owner of some ports: an operator on one worker, with its present call.

    Attributes:
        time: for errors: the time of the last message or notification in this call, or of a token whose ``with`` block
            has raised.
        call: the number of the present call; -1 between two calls.
    """

    def __init__(self, name: str, notify: bool = True) -> None:
        self.name = name
        self.notify = notify
        self.inputs: tuple[RunningInput, ...] = ()
        self.outputs: tuple[RunningOutput, ...] = ()
        self.time: Time | None = None
        self.schedules = 0
        self.call = -1


class RunningInput:
    """An input that operators read through an `InputPort`; it lends the tokens of its messages.

    Attributes:
        put: puts a message into the queue, or into the place where it must wait first.
        looked_at: how many ends of substreams the operator has read.
    """

    __slots__ = ("consumed", "host", "location", "looked_at", "owner", "paths", "port", "put", "queue", "records")

    def __init__(
        self, host: OperatorHost, owner: PortOwner, port: int, location: int, paths: Sequence[tuple[PathSummary, ...]]
    ) -> None:
        self.host = host
        self.paths = paths
        self.owner = owner
        self.port = port
        self.location = location
        self.queue: deque[Any] = deque()
        self.put: Callable[[Message], None] = self.queue.append
        self.consumed = self.looked_at = self.records = 0

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        queue, owner, host = self.queue, self.owner, self.host
        while queue:
            message = queue.popleft()
            time, batch = message.time, message.batch
            host.consume(self.location, time)
            host.flow.take(message.sender, message.size)
            host.received = message
            self.consumed += 1
            self.records += length(batch)
            owner.time = time
            yield LentToken(self, owner.schedules, time), batch

    def whole(self) -> Iterator[tuple[LentToken, Batch]]:
        """Iterate over messages as they arrived. In a divided stream, a message may have several substreams."""
        return iter(self)

    @property
    def is_empty(self) -> bool:
        return not self.queue

    @property
    def held(self) -> Iterator[Message]:
        """The arrived messages that the operator must not receive yet."""
        return iter(())

    def release(self, most: int) -> bool:
        """For flow control, count up to ``most`` unread messages as received, oldest first.

        Return False if there were none.
        """
        released = 0
        for index, message in enumerate(self.queue):
            if message.size:
                self.queue[index] = message.taken()
                self.host.flow.take(message.sender, message.size)
                released += 1
                if released == most:
                    break
        return released > 0

    @property
    def ended(self) -> Iterator[Any]:
        raise TokenError(
            f"operator {self.owner.name!r} was described without bound=, so it is not told when substreams end"
        )


class RunningOutput:
    """An output that operators use through an `OutputPort`; it makes tokens.

    Attributes:
        drops: whether the program could read the output but does not.
        is_aside: whether only operators that are aside read the output; statistics then do not count its records.
    """

    __slots__ = ("channels", "domain", "drops", "is_aside", "ledger", "location", "owner", "port", "records", "sent")

    def __init__(self, host: OperatorHost, owner: PortOwner, port: int, location: int, domain: TimeDomain) -> None:
        self.owner = owner
        self.port = port
        self.location = location
        self.domain = domain
        self.ledger = host.ledger
        self.channels: list[Channel] = []
        self.sent = self.records = 0
        self.drops = self.is_aside = False

    def initial_token(self) -> TimestampToken:
        token = TimestampToken(self.ledger, self.domain, self.location, self.domain.minimum(), self.owner)
        self.ledger.held.update(token._stamp, 1)
        return token

    def new_token(self, time: Time, label: Label | None) -> TimestampToken:
        token = TimestampToken(self.ledger, self.domain, self.location, time, self.owner, label)
        self.ledger.record((token._stamp, 1), label=label)
        return token

    def token_again(self, time: Time, label: Label | None, *, is_live: bool) -> TimestampToken:
        """Make and count a token from a snapshot. Call this while the operator still has its initial token."""
        token = self.new_token(time, label)
        if not is_live:
            token.discard()
        return token

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        if not isinstance(token, TOKENS):
            self._refuse_token(token)
        time = token._time_on(self)
        if self.owner.call < 0:
            self._refuse_now(time)
        if type(batch) is not list:
            check_batch(batch)
        self._push(time, batch)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, but with ``label``, which may differ from the token's label."""
        assert label is None, "nothing in this dataflow declares substreams"
        self.send(token, batch)

    def refuse(self, time: Time | None, why: str) -> NoReturn:
        """Raise TokenError for a wrong use of this output; outside of a step, let the worker fail too."""
        self.ledger.refuse(self.owner.name, time, why)

    def _refuse_token(self, token: object) -> NoReturn:
        why = f"operator {self.owner.name!r} sends with a token, as received with a message or retained, not {token!r}"
        self.refuse(None, why)

    def _refuse_now(self, time: Time) -> NoReturn:
        self.refuse(
            time,
            f"operator {self.owner.name!r} sent on output {self.port} outside its schedule function: keep the "
            "records and the token, and send when the operator is scheduled next",
        )

    def _push(self, time: Time, batch: Batch) -> None:
        count = length(batch)
        if not count:
            return
        self.sent += 1
        self.records += count
        for channel in self.channels:
            channel.push(time, batch, count)


@dataclass(slots=True, eq=False)
class Channel:
    """One edge with its pact, on the sending worker.

    Args:
        locations: for each receiving worker, the number of the target port's location.
        put: receives messages for the target port on this worker.
        pact: spreads records over the workers; None keeps them on this worker.

    Attributes:
        takes_marks: whether marks of the ends of substreams are sent over the edge.
    """

    host: OperatorHost
    locations: Sequence[int]
    put: Callable[[Message], None]
    operator: int
    name: str
    sender: str
    pact: Pact | None
    takes_marks: bool = False
    messages: int = 0
    records: int = 0
    bytes: int = 0
    _sizes: RecordSizes = field(default_factory=RecordSizes)

    def __post_init__(self) -> None:
        if self.pact is not None:
            self.takes_marks = self.pact.takes_marks
            self.pact = self.pact.for_worker(self.host.worker)

    def push(self, time: Time, batch: Batch, count: int) -> None:
        here = self.host.worker
        if self.pact is None:
            self._deliver(here, Message(self.locations[here], time, batch, self._count(batch, count), here))
            return
        try:
            parts = self.pact.split(batch, self.host.workers)
        except Exception as error:
            raise PartError(self.name, time, f"could not exchange a record of {self.sender!r}") from error
        for worker, (location, part) in enumerate(zip(self.locations, parts, strict=True)):
            if part is not None:
                self._deliver(worker, Message(location, time, part, self._count(part, length(part)), here))

    def _deliver(self, worker: int, message: Message) -> None:
        host = self.host
        host.produce(message.target, message.time)
        host.flow.add(message.size)
        if worker == host.worker:
            self.put(message)
            host.activate(self.operator)
        else:
            host.outbox.put(worker, message)

    def statistics(self, source: str, target: str) -> EdgeStatistics:
        return EdgeStatistics(source, target, self.messages, self.records, self.bytes)

    def _count(self, batch: Batch, count: int) -> int:
        received = self.host.received
        if received is not None and received.batch is batch and received.size:
            size = received.size
        else:
            size = size_in_bytes(batch, self._sizes) + OVERHEAD_BYTES
        self.messages += 1
        self.records += count
        self.bytes += size - OVERHEAD_BYTES
        return size


class InputPort:
    """One input of an operator on one worker: iterate over it to receive ``(token, batch)`` pairs.

    Each message lends a token, which is valid until the operator's call returns.
    """

    __slots__ = ("_running",)

    def __init__(self, running: RunningInput) -> None:
        self._running = running

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return iter(self._running)

    @property
    def frontier(self) -> Antichain:
        """The lower bound on times that can still arrive here from any worker.

        Raises:
            TokenError: the operator has declared ``notify=False``.
        """
        running = self._running
        if not running.owner.notify:
            raise TokenError(
                f"operator {running.owner.name!r} was described with notify=False, so no frontier is kept for it"
            )
        return running.host.frontier(running.location)

    @property
    def ended(self) -> Iterator[Any]:
        """The keys of substreams that have ended here since the last read, once for each substream.

        The operator has received all records of these substreams, and no worker will receive more at this operator.
        (With a firm bound outside of loops, a substream ends on each worker separately.) If a key is reused, the
        operator receives the new records only after it has read the earlier end. With a firm bound, the operator
        receives no records that come after an end before it has read the end. After a change of the number of workers,
        ends may be repeated.

        Raises:
            TokenError: the operator has declared neither ``bound="soft"`` nor ``bound="firm"``.
        """
        return self._running.ended


class OutputPort:
    """One output of an operator on one worker."""

    __slots__ = ("_running",)

    def __init__(self, running: RunningOutput) -> None:
        self._running = running

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time to all readers. An empty batch is not sent.

        Do not change the batch afterwards: readers on the same worker receive the same object.

        Raises:
            TokenError: the token cannot send here, or the operator is not running.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
        """
        self._running.send(token, batch)


def running_input(port: InputPort) -> RunningInput:
    return port._running


def running_output(port: OutputPort) -> RunningOutput:
    return port._running


def waiting_at(ports: Iterable[RunningInput], together: Sequence[int]) -> dict[str, Any]:
    queued: Counter[tuple[int, Time]] = Counter()
    held: Counter[tuple[int, Time]] = Counter()
    sizes: Counter[int] = Counter()
    for port in ports:
        location = together[port.location]
        for message in port.queue:
            if isinstance(message, Message):
                queued[location, message.time] += 1
                sizes[location] += message.size
        held.update((location, message.time) for message in port.held)
    return {"queued": queued, "held": held, "queued_bytes": sizes}
