"""One input of an operator on one worker, as the worker and its channels have it."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidewheel.progress import Antichain, PathSummary, Time
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.tokens.timestamp_token import LentToken, TokenOutput
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.port_host import PortHost, PortOwner
from tidewheel.transport.batches import Batch, length


class RunningInput:
    """An input that operators receive from through an `InputPort`, and the lender of the tokens of its messages.

    Attributes:
        queue: the messages that the operator has not received, in order.
        put: receives what arrives: into the queue, or where it waits until it may go there.
    """

    __slots__ = (
        "_core",
        "_instance",
        "_operator",
        "_paths",
        "consumed",
        "location",
        "looked_at",
        "port",
        "put",
        "queue",
        "records",
    )

    def __init__(
        self,
        core: PortHost,
        instance: PortOwner,
        port: int,
        location: int,
        operator: int,
        paths: Sequence[tuple[PathSummary, ...]],
    ) -> None:
        self._core = core
        self._operator = operator
        self._instance = instance
        self._paths = paths
        self.port = port
        self.location = location
        self.queue: deque[Any] = deque()
        self.put: Callable[[Message], None] = self.queue.append
        self.consumed = 0
        self.looked_at = 0
        self.records = 0

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        queue, instance, core = self.queue, self._instance, self._core
        while queue:
            message = queue.popleft()
            time, batch = message.time, message.batch
            core.consume(self.location, time)
            core.flow.take(message.sender, message.size)
            self.consumed += 1
            self.records += length(batch)
            instance.time = time
            yield LentToken(self, instance.schedules, time), batch

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
                self._core.flow.take(message.sender, message.size)
                released += 1
                if released == most:
                    break
        return released > 0

    @property
    def frontier(self) -> Antichain:
        """See `InputPort.frontier`."""
        if not self._instance.notify:
            raise TokenError(
                f"operator {self.operator!r} was described with notify=False, so no frontier is kept for it"
            )
        return self._core.frontier(self.location)

    @property
    def ended(self) -> Iterator[Any]:
        """See `InputPort.ended`."""
        raise TokenError(
            f"operator {self.operator!r} was described without bound=, so it is not told when substreams end"
        )

    @property
    def worker(self) -> int:
        """The number of the worker that it is on."""
        return self._core.worker

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._instance.name

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, by which lent tokens know that it has returned; -1 between two."""
        return self._instance.call

    def only_output(self) -> TokenOutput:
        """Return the operator's output if it has exactly one; raise TokenError otherwise."""
        outputs = self._instance.outputs
        if len(outputs) != 1:
            raise TokenError(
                f"operator {self.operator!r} has {len(outputs)} outputs: say for which one, retain(output), "
                "the token is to be kept"
            )
        return outputs[0]

    def arrivals(self, output: TokenOutput, time: Time) -> Antichain:
        """Return the least times at which a message at ``time`` here allows to send on ``output``; none if it does not.

        Raises:
            TokenError: ``output`` belongs to another operator.
        """
        if output not in self._instance.outputs:
            raise TokenError(
                f"operator {output.operator!r} used a token lent to operator {self.operator!r}: "
                "a token lets its holder send on its own output only"
            )
        arriving = (path.results_in(time) for path in self._paths[output.port])
        return Antichain(output.domain, (arrival for arrival in arriving if arrival is not None))

    def time_on(self, output: TokenOutput, time: Time) -> Time:
        """Return the least time at which a message at ``time`` here allows to send on ``output``; there must be one."""
        if output in self._instance.outputs:
            paths = self._paths[output.port]
            if len(paths) == 1 and paths[0].is_identity:
                return time
        least = self.arrivals(output, time)
        if len(least) == 1:
            return next(iter(least))
        raise TokenError(
            f"operator {self.operator!r}: a message at time {time!r} on input {self.port} lends no one token for "
            f"output {output.port}: {self.say_what_is_lent(output, least)}"
            + (": say which, delayed(time, output)" if len(least) else "")
        )

    def say_what_is_lent(self, output: TokenOutput, least: Antichain) -> str:
        """Say for people at which times a message lets its receiver send, given the least of them."""
        if len(least):
            return f"it lets its receiver send there from {' or '.join(map(repr, least))} on"
        if self._paths[output.port]:
            return "by the operator's summaries nothing passes at this time, as at the greatest time of a scope"
        return "by the operator's summaries nothing at that input comes out there"
