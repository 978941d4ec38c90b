"""What an operator's schedule function reads from and sends to."""

from collections import deque
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, PathSummary, Time, TimeDomain
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.batches import Batch, check_batch, length
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.labels import Label, Labels, MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.substreams.waiting_ends import WaitingEnds
from tidewheel.runtime.token_ledger import TokenLedger
from tidewheel.runtime.tokens import LentToken, TimestampToken

if TYPE_CHECKING:
    from tidewheel.runtime.channel import Channel
    from tidewheel.runtime.operator_instance import OperatorInstance
    from tidewheel.runtime.worker_core import WorkerCore

_MOST_GATHERED = 4096
"""How many records of small substreams go in one message."""


class InputPort:
    """One input of an operator on one worker: iterate over it to receive ``(token, batch)`` pairs.

    Receiving a message consumes it. Each comes with the token that it lends, good until the operator returns.
    """

    __slots__ = (
        "_core",
        "_instance",
        "_paths",
        "consumed",
        "ends",
        "location",
        "looked_at",
        "port",
        "queue",
        "records",
    )

    def __init__(
        self,
        core: "WorkerCore",
        instance: "OperatorInstance",
        port: int,
        location: int,
        paths: Sequence[tuple[PathSummary, ...]],
    ) -> None:
        self._core = core
        self._instance = instance
        self._paths = paths
        self.port = port
        self.location = location
        self.queue: deque[tuple[Time, Batch, int, int, Labels | None]] = deque()
        self.ends: WaitingEnds | None = None
        self.consumed = 0
        self.looked_at = 0
        self.records = 0

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return self._receive(divided=True)

    def whole(self) -> Iterator[tuple[LentToken, Batch]]:
        """Receive messages as they came, which may be of several substreams; for those who can do with that."""
        return self._receive(divided=False)

    def _receive(self, *, divided: bool) -> Iterator[tuple[LentToken, Batch]]:
        queue, instance, core = self.queue, self._instance, self._core
        while queue:
            label = queue[0][4]
            if label is not None:
                if divided and isinstance(label, MixedLabel):
                    self._divide_first(label)
                    label = queue[0][4]
                if self.ends and self._is_used_again(label):
                    return
            time, batch, size, sender, _ = queue.popleft()
            core.consume(self.location, time, label)
            core.flow.take(sender, size)
            self.consumed += 1
            self.records += length(batch)
            instance.time = time
            yield LentToken(self, instance.schedules, time, label), batch

    def _is_used_again(self, label: Labels | None) -> bool:
        """Tell whether a key is used again whose end the operator has not looked at; it has to, first."""
        assert self.ends is not None, "it was asked before"
        keys = label.distinct if isinstance(label, MixedLabel) else (label or ())[1:]
        return any(key in self.ends for key in keys)

    def _divide_first(self, label: MixedLabel) -> None:
        """Make of the first message one for each of its substreams."""
        time, batch, size, sender, _ = self.queue.popleft()
        parts = [(time, part, 0, sender, (label.declaration, key)) for key, part in parts_by_key(batch, label.keys)]
        *_, (_, last, *_, last_label) = parts
        parts[-1] = (time, last, size, sender, last_label)
        self.queue.extendleft(reversed(parts))
        for _ in parts[1:]:
            self._core.produce(self.location, time)

    def release(self, most: int) -> bool:
        """Count the oldest messages that wait as taken, of those that do not yet; return whether there were any."""
        released = 0
        for index, (time, batch, size, sender, label) in enumerate(self.queue):
            if size:
                self.queue[index] = (time, batch, 0, sender, label)
                self._core.flow.take(sender, size)
                released += 1
                if released == most:
                    break
        return released > 0

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still arrive here, from any worker.

        Raises:
            TokenError: the operator said, by ``notify=False``, that it does not look at frontiers.
        """
        if not self._instance.notify:
            raise TokenError(
                f"operator {self.operator!r} was described with notify=False, so no frontier is kept for it"
            )
        return self._core.frontier(self.location)

    @property
    def ended(self) -> Iterator[Any]:
        """The keys of the substreams that have ended here since it was last looked at, once for each substream.

        Nothing of them comes to this operator any more, on any worker, and it has received all that has come. Where a
        key is used again, its records are not received before the end of what had it before was looked at.

        Raises:
            TokenError: the operator did not say, by ``bound="soft"``, that it wants to know.
        """
        if self.ends is None:
            raise TokenError(
                f"operator {self.operator!r} was described without bound=, so it is not told when substreams end"
            )
        return self._drain(self.ends)

    def _drain(self, ends: WaitingEnds) -> Iterator[Any]:
        while ends:
            self.looked_at += 1
            yield ends.take()

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

    def only_output(self) -> "OutputPort":
        """Return the operator's output if it has exactly one; raise TokenError otherwise."""
        outputs = self._instance.outputs
        if len(outputs) != 1:
            raise TokenError(
                f"operator {self.operator!r} has {len(outputs)} outputs: say for which one, retain(output), "
                "the token is to be kept"
            )
        return outputs[0]

    def arrivals(self, output: "OutputPort", time: Time) -> Antichain:
        """Return the least times at which a message at ``time`` here allows to send on ``output``; none if it does not.

        Raises:
            TokenError: ``output`` belongs to another operator.
        """
        if not output.belongs_to(self._instance):
            raise TokenError(
                f"operator {output.operator!r} used a token lent to operator {self.operator!r}: "
                "a token lets its holder send on its own output only"
            )
        arriving = (path.results_in(time) for path in self._paths[output.port])
        return Antichain(output.domain, (arrival for arrival in arriving if arrival is not None))

    def time_on(self, output: "OutputPort", time: Time) -> Time:
        """Return the least time at which a message at ``time`` here allows to send on ``output``; there must be one."""
        if output.belongs_to(self._instance):
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

    def say_what_is_lent(self, output: "OutputPort", least: Antichain) -> str:
        """Say for people at which times a message lets its receiver send, given the least of them."""
        if len(least):
            return f"it lets its receiver send there from {' or '.join(map(repr, least))} on"
        if self._paths[output.port]:
            return "by the operator's summaries nothing passes at this time, as at the greatest time of a scope"
        return "by the operator's summaries nothing at that input comes out there"


class OutputPort:
    """One output of an operator on one worker."""

    __slots__ = ("_channels", "_core", "_instance", "domain", "gathered", "location", "port", "records", "sent")

    def __init__(
        self, core: "WorkerCore", instance: "OperatorInstance", port: int, location: int, domain: TimeDomain
    ) -> None:
        self._core = core
        self._instance = instance
        self._channels: list[Channel] = []
        self.gathered: tuple[Time, int, list[Key], list[Any]] | None = None
        self.port = port
        self.location = location
        self.domain = domain
        self.sent = 0
        self.records = 0

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._instance.name

    def belongs_to(self, instance: "OperatorInstance") -> bool:
        """Tell whether this is an output of ``instance``."""
        return self._instance is instance

    @property
    def ledger(self) -> TokenLedger:
        """Where tokens for this output are recorded; it belongs to one worker."""
        return self._core.ledger

    def initial_token(self) -> TimestampToken:
        """Make the token with which the operator begins, and count it as held."""
        minimum = self.domain.minimum()
        self.ledger.held.update((self.location, minimum), 1)
        return TimestampToken(self.ledger, self.domain, self.location, minimum, self.operator, self)

    def connect(self, channel: "Channel") -> None:
        """Add an edge that leads from here."""
        self._channels.append(channel)

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time to everything connected; an empty batch is not sent.

        The batch must not be changed afterwards: receivers on the same worker get the same object.

        Raises:
            TokenError: the token does not allow it, or the operator is not being scheduled.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
        """
        if not isinstance(token, TimestampToken | LentToken):
            raise TokenError(
                f"operator {self.operator!r} sends with a token, as received with a message or retained, not {token!r}"
            )
        time, label = token.time_on(self), token.label
        if not self._instance.is_scheduled:
            self._refuse()
        if label is not None and type(batch) is list and type(label) is tuple:
            self._gather(time, batch, label)
            return
        if self.gathered is not None:
            self.flush()
        if type(batch) is not list:
            check_batch(batch)
        self._push(time, batch, label)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, but as of other substreams than the token's: where these are declared, kept, or left."""
        time = token.time_on(self)
        if not self._instance.is_scheduled:
            self._refuse()
        self.flush()
        self._push(time, batch, label)

    def send_marks(
        self, token: TimestampToken | LentToken, marks: list[EndOfSubstream], dividers: Container[int]
    ) -> bool:
        """Send marks to those operators right behind this output that are among ``dividers``; return if there are any.

        Raises:
            TokenError: as `send`.
        """
        channels = [channel for channel in self._channels if channel.operator in dividers]
        if channels:
            time = token.time_on(self)
            if not self._instance.is_scheduled:
                self._refuse()
            self.flush()
            for channel in channels:
                channel.push(self._core, time, marks, len(marks), None)
        return bool(channels)

    def _refuse(self) -> None:
        raise TokenError(
            f"operator {self.operator!r} sent on output {self.port} outside its schedule function: keep the "
            "records and the token, and send when the operator is scheduled next"
        )

    def _gather(self, time: Time, batch: list[Any], label: Label) -> None:
        """Keep records of a substream for a message with others', which leaves when the operator has returned."""
        declaration, key = label
        gathered = self.gathered
        if gathered is None or gathered[0] != time or gathered[1] != declaration:
            self.flush()
            gathered = self.gathered = (time, declaration, [], [])
        gathered[2].extend([key] * len(batch))
        gathered[3].extend(batch)
        if len(gathered[3]) >= _MOST_GATHERED:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        if self.gathered is not None:
            time, declaration, keys, batch = self.gathered
            self.gathered = None
            if keys:
                self._push(time, batch, labels_of(declaration, keys))

    def _push(self, time: Time, batch: Batch, label: Labels | None) -> None:
        count = length(batch)
        if not count:
            return
        self.sent += 1
        self.records += count
        for channel in self._channels:
            channel.push(self._core, time, batch, count, label)

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, -1 between two."""
        return self._instance.call

    def new_token(self, time: Time, lender: InputPort, label: Label | None) -> TimestampToken:
        """Make a token of one that ``lender`` has lent for ``time``; it is counted from now on."""
        return self._core.new_token(self._instance, self, time, lender, label)
