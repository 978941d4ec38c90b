"""The ports of an operator on one worker: as its schedule function has them, and as the worker and its channels do.

An `InputPort` and an `OutputPort` show the operator no more than it may use. Behind them are a `RunningInput`, which
lends the tokens of its messages, and a `RunningOutput`, which makes tokens.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from tidewheel.progress import Antichain, PathSummary, Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.labels import Label, Labels
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.channel import Channel
from tidewheel.runtime.worker.envelope import Message
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.transport.batches import Batch, check_batch, length

TOKENS = (TimestampToken, LentToken)
"""What operators send with; `isinstance` would make a union of the two for each message."""


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
        queue: the messages that the operator has not received, in order.
        put: receives what arrives: into the queue, or where it waits until it may go there.
        consumed, records: how many messages the operator has received, and how many records in them.
        looked_at: at how many ends of substreams it has looked.
    """

    __slots__ = ("_paths", "consumed", "host", "location", "looked_at", "owner", "port", "put", "queue", "records")

    def __init__(
        self, host: OperatorHost, owner: PortOwner, port: int, location: int, paths: Sequence[tuple[PathSummary, ...]]
    ) -> None:
        self.host = host
        self._paths = paths
        self.owner = owner
        self.port = port
        self.location = location
        self.queue: deque[Any] = deque()
        self.put: Callable[[Message], None] = self.queue.append
        self.consumed = 0
        self.looked_at = 0
        self.records = 0

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

    def only_output(self) -> "RunningOutput":
        """Return the operator's output if it has exactly one; raise TokenError otherwise."""
        outputs = self.owner.outputs
        if len(outputs) != 1:
            raise TokenError(
                f"operator {self.owner.name!r} has {len(outputs)} outputs: say for which one the token is to be kept, "
                "with retain(output), delayed(time, output) or notify_at(token, output)"
            )
        return outputs[0]

    def arrivals(self, output: "RunningOutput", time: Time) -> Antichain:
        """Return the least times at which a message at ``time`` here allows to send on ``output``; none if it does not.

        Raises:
            TokenError: ``output`` belongs to another operator.
        """
        if output not in self.owner.outputs:
            raise TokenError(
                f"operator {output.owner.name!r} used a token lent to operator {self.owner.name!r}: "
                "a token lets its holder send on its own output only"
            )
        arriving = (path.results_in(time) for path in self._paths[output.port])
        return Antichain(output.domain, (arrival for arrival in arriving if arrival is not None))

    def time_on(self, output: "RunningOutput", time: Time) -> Time:
        """Return the least time at which a message at ``time`` here allows to send on ``output``; there must be one."""
        if output in self.owner.outputs:
            paths = self._paths[output.port]
            if len(paths) == 1 and paths[0].is_identity:
                return time
        least = self.arrivals(output, time)
        if len(least) == 1:
            return next(iter(least))
        raise TokenError(
            f"operator {self.owner.name!r}: a message at time {time!r} on input {self.port} lends no one token for "
            f"output {output.port}: {self.say_what_is_lent(output, least)}"
            + (": say which, delayed(time, output)" if len(least) else "")
        )

    def say_what_is_lent(self, output: "RunningOutput", least: Antichain) -> str:
        """Say for people at which times a message lets its receiver send, given the least of them."""
        if len(least):
            return f"it lets its receiver send there from {' or '.join(map(repr, least))} on"
        if self._paths[output.port]:
            return "by the operator's summaries nothing passes at this time, as at the greatest time of a scope"
        return "by the operator's summaries nothing at that input comes out there"


class RunningOutput:
    """An output that operators send on through an `OutputPort`, and for which tokens are made.

    Attributes:
        owner: the operator.
        port: the number of the output, and ``location``, that of its location.
        domain: the times of the output.
        ledger: records the tokens for this output; it belongs to one worker.
        channels: the edges that lead from here.
        sent, records: how many messages it has sent, and how many records in them.
    """

    __slots__ = ("channels", "domain", "ledger", "location", "owner", "port", "records", "sent")

    def __init__(self, host: OperatorHost, owner: PortOwner, port: int, location: int, domain: TimeDomain) -> None:
        self.owner = owner
        self.port = port
        self.location = location
        self.domain = domain
        self.ledger = host.ledger
        self.channels: list[Channel] = []
        self.sent = 0
        self.records = 0

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
        nothing behind an end before it has looked at that.

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
