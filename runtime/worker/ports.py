"""The ports of an operator on one worker, as its schedule function has them and as the worker does, and the channels.

An `InputPort` and an `OutputPort` show the operator no more than it may use. Behind them are a `RunningInput`, which
lends the tokens of its messages, and a `RunningOutput`, which makes tokens. A `Channel` is one edge behind an output.
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
    """The operator of some ports, on one worker, and the call of it that is under way.

    Attributes:
        name: its name.
        notify: whether it looks at frontiers.
        inputs, outputs: its ports.
        time: the time of the message last received, of the last notification, or of the token whose ``with`` block has
            raised; None before the first of a call. Errors name it.
        schedules: how often it was scheduled.
        call: the number of the call that is under way, -1 between two.
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
    """An input that operators receive from through an `InputPort`, and the lender of the tokens of its messages.

    Attributes:
        host: the worker, and ``owner``, the operator.
        port: the number of the input, and ``location``, that of its location.
        paths: the summaries of the ways through the operator, for each of its outputs.
        queue: the messages that the operator has not received, in order.
        put: receives what arrives: into the queue, or where it waits until it may go there.
        consumed, records: how many messages the operator has received, and how many records in them.
        looked_at: at how many ends of substreams it has looked.
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
        """Receive messages as they came: of a divided stream, one message may belong to several substreams."""
        return iter(self)

    @property
    def is_empty(self) -> bool:
        """Whether the operator has received all that has arrived here."""
        return not self.queue

    @property
    def held(self) -> Iterator[Message]:
        """The messages that have arrived and that the operator may not receive yet."""
        return iter(())

    def release(self, most: int) -> bool:
        """Count the oldest unread messages as taken, at most ``most``; return whether there were any."""
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
        """See `InputPort.ended`."""
        raise TokenError(
            f"operator {self.owner.name!r} was described without bound=, so it is not told when substreams end"
        )


class RunningOutput:
    """An output that operators send on through an `OutputPort`, and for which tokens are made.

    Attributes:
        owner: the operator.
        port: the number of the output, and ``location``, that of its location.
        domain: the times of the output.
        ledger: records the tokens for this output; it belongs to one worker.
        channels: the edges that lead from here.
        sent, records: how many messages it has sent, and how many records in them.
        drops: whether these are records that the user could read and does not.
    """

    __slots__ = ("channels", "domain", "drops", "ledger", "location", "owner", "port", "records", "sent")

    def __init__(self, host: OperatorHost, owner: PortOwner, port: int, location: int, domain: TimeDomain) -> None:
        self.owner = owner
        self.port = port
        self.location = location
        self.domain = domain
        self.ledger = host.ledger
        self.channels: list[Channel] = []
        self.sent = self.records = 0
        self.drops = False

    def initial_token(self) -> TimestampToken:
        """Make the token with which the operator begins, and count it as held."""
        token = TimestampToken(self.ledger, self.domain, self.location, self.domain.minimum(), self.owner)
        self.ledger.held.update(token._stamp, 1)
        return token

    def new_token(self, time: Time, label: Label | None) -> TimestampToken:
        """Make a token from one that a message has lent for ``time``, and count it."""
        token = TimestampToken(self.ledger, self.domain, self.location, time, self.owner, label)
        self.ledger.record((token._stamp, 1), label=label)
        return token

    def token_again(self, time: Time, label: Label | None, *, is_live: bool) -> TimestampToken:
        """Make a token that a snapshot has, and count it; the operator still has its initial token."""
        token = self.new_token(time, label)
        if not is_live:
            token.discard()
        return token

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """See `OutputPort.send`."""
        if not isinstance(token, TOKENS):
            self._refuse_token(token)
        time = token._time_on(self)
        if self.owner.call < 0:
            self._refuse_now(time)
        if type(batch) is not list:
            check_batch(batch)
        self._push(time, batch)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, as records of other substreams than the token's, or of none."""
        assert label is None, "nothing in this dataflow declares substreams"
        self.send(token, batch)

    def refuse(self, time: Time | None, why: str) -> NoReturn:
        """Raise TokenError for a use of this output; the worker fails with it if that was outside of a step."""
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
    """One edge as one worker sees it: its end on this worker, and the pact by which records are spread.

    Args:
        host: the worker.
        locations: the number of the input port to which it leads, on each worker.
        put: receives a message at that port on this worker.
        operator: the number of the operator of that port, and ``name``, its name.
        sender: the name of the operator whose records come over the edge.
        pact: spreads records over the workers; None keeps them on this one.

    Attributes:
        takes_marks: whether marks of the ends of substreams go over the edge, among the records.
        messages, records, bytes: what this worker has sent over it, to itself and to others.
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
        """Carry a batch of ``count`` records over the edge."""
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
        """Return what was sent, over an edge between ports of these names."""
        return EdgeStatistics(source, target, self.messages, self.records, self.bytes)

    def _count(self, batch: Batch, count: int) -> int:
        """Count a message; return what it counts for among the bytes in flight."""
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

    Receiving a message consumes it. Each message lends a token, which is valid until the operator returns.
    """

    __slots__ = ("_running",)

    def __init__(self, running: RunningInput) -> None:
        self._running = running

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return iter(self._running)

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still arrive here, from any worker.

        Raises:
            TokenError: the operator said, by ``notify=False``, that it does not look at frontiers.
        """
        running = self._running
        if not running.owner.notify:
            raise TokenError(
                f"operator {running.owner.name!r} was described with notify=False, so no frontier is kept for it"
            )
        return running.host.frontier(running.location)

    @property
    def ended(self) -> Iterator[Any]:
        """The keys of the substreams that have ended here since it was last looked at, once for each substream.

        The operator has received all records of them that came here. On any worker, no more come to this operator; a
        firm bound outside of loops ends a substream on each worker by itself. Where a key is used again, the operator
        receives its records after it has looked at the end of the earlier substream. With a firm bound, it receives
        nothing behind an end before it has looked at that. On another number of workers, ends may be told again.

        Raises:
            TokenError: the operator did not say, by ``bound="soft"`` or ``bound="firm"``, that it wants to know.
        """
        return self._running.ended


class OutputPort:
    """One output of an operator on one worker."""

    __slots__ = ("_running",)

    def __init__(self, running: RunningOutput) -> None:
        self._running = running

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time to everything connected; an empty batch is not sent.

        The batch must not be changed afterwards: receivers on the same worker get the same object.

        Raises:
            TokenError: the token does not allow it, or the operator is not being scheduled.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
        """
        self._running.send(token, batch)


def running_input(port: InputPort) -> RunningInput:
    """Return the input behind a port, for operators of this package and tests."""
    return port._running


def running_output(port: OutputPort) -> RunningOutput:
    """Return the output behind a port, for operators of this package and tests."""
    return port._running


def waiting_at(ports: Iterable[RunningInput], together: Sequence[int]) -> dict[str, Any]:
    """Return what a report says of the messages that wait at some inputs: those in queues, and those that are held."""
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
