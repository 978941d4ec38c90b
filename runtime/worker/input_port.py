"""What an operator's schedule function reads from."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, PathSummary, Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.labels import Labels, MixedLabel
from tidewheel.runtime.substreams.markers import EndsHere, Entry, Markers, divided
from tidewheel.runtime.substreams.waiting_ends import WaitingEnds
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.transport.batches import Batch, length

if TYPE_CHECKING:
    from tidewheel.runtime.substreams.alignment import AlignedInput
    from tidewheel.runtime.substreams.firm_mailbox import FirmMailbox
    from tidewheel.runtime.worker.operator_instance import OperatorInstance
    from tidewheel.runtime.worker.output_port import OutputPort
    from tidewheel.runtime.worker.worker_core import WorkerCore


class InputPort:
    """One input of an operator on one worker: iterate over it to receive ``(token, batch)`` pairs.

    Receiving a message consumes it. Each comes with the token that it lends, good until the operator returns.

    Attributes:
        queue: what is to be received, in order.
        put: takes what comes: into the queue, or where it waits until it may go there.
        ends: the ends that a soft bound has not looked at.
        firm: where what comes waits for a firm bound.
        aligned: where markers are taken in.
        reach: where markers end substreams, takes keys of which all was received, and whether they were the last.
    """

    __slots__ = (
        "_core",
        "_instance",
        "_operator",
        "_paths",
        "aligned",
        "consumed",
        "ends",
        "firm",
        "location",
        "looked_at",
        "port",
        "put",
        "queue",
        "reach",
        "records",
    )

    def __init__(
        self,
        core: "WorkerCore",
        instance: "OperatorInstance",
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
        self.queue: deque[Entry] = deque()
        self.put: Callable[[Entry], None] = self.queue.append
        self.ends: WaitingEnds | None = None
        self.firm: FirmMailbox | None = None
        self.aligned: AlignedInput | None = None
        self.reach: Callable[[Iterable[Key], bool], None] | None = None
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
                if isinstance(label, EndsHere):
                    if self.firm is not None and label.keys:
                        return
                    self._pass(label)
                    continue
                assert not isinstance(label, Markers), "markers are aligned before"
                if divided and isinstance(label, MixedLabel):
                    self._divide_first(label)
                    continue
                if self.ends and self._is_used_again(label):
                    return
            time, batch, size, sender, _ = queue.popleft()
            if self.firm is None or label is None:
                core.consume(self.location, time, label)
            else:
                core.consume(self.location, time)
                self.firm.receive(label, time)
            core.flow.take(sender, size)
            self.consumed += 1
            self.records += length(batch)
            instance.time = time
            yield LentToken(self, instance.schedules, time, label), batch

    def _is_used_again(self, label: Labels) -> bool:
        """Tell whether a key is used again whose end the operator has not looked at; it has to, first."""
        assert self.ends is not None, "it was asked before"
        keys = label.distinct if isinstance(label, MixedLabel) else label[1:]
        return any(key in self.ends for key in keys)

    def _pass(self, ends: EndsHere) -> None:
        """Receive ends, which are the first in the queue, and keep them for a soft bound to be looked at."""
        self.queue.popleft()
        self.looked_at += 1
        if self.ends is not None:
            self.ends.add(ends.keys)
            self.ends.are_all = self.ends.are_all or ends.is_last
            self._core.activate(self._operator)
        if self.reach is not None:
            self.reach(ends.keys, ends.is_last)

    def _divide_first(self, label: MixedLabel) -> None:
        """Make of the first message one for each of its substreams."""
        parts = divided(self.queue.popleft(), label)
        self.queue.extendleft(reversed(parts))
        for time, *_ in parts[1:]:
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

        Nothing of them comes to this operator any more, and it has received all that has come: on any worker, but for a
        firm bound off the loops and for punctuations, which end a substream on each worker by itself. Where a key is
        used again, its records are not received before the end of what had it before was looked at; with a firm bound,
        nothing is received behind an end before that was looked at.

        Raises:
            TokenError: the operator did not say, by ``bound="soft"`` or ``bound="firm"``, that it wants to know.
        """
        if self.firm is not None:
            return self._drain_firm()
        if self.ends is None:
            raise TokenError(
                f"operator {self.operator!r} was described without bound=, so it is not told when substreams end"
            )
        return self._drain(self.ends)

    def pass_ends(self) -> None:
        """Receive ends before which nothing is left, where the operator does not read on; not with a firm bound."""
        while self.firm is None and self.queue and isinstance(self.queue[0][4], EndsHere):
            self._pass(self.queue[0][4])

    def _drain(self, ends: WaitingEnds) -> Iterator[Any]:
        while ends:
            self.looked_at += 1
            yield ends.take()

    def _drain_firm(self) -> Iterator[Any]:
        queue = self.queue
        while queue and isinstance(queue[0][4], EndsHere):
            ends = queue[0][4]
            self._pass(ends)
            yield from ends.keys

    @property
    def waiting(self) -> Iterator[Entry]:
        """What has come and was not received, wherever it waits."""
        yield from self.queue
        yield from self.held

    @property
    def held(self) -> Iterator[Entry]:
        """What has come and may not be received yet."""
        for place in (self.firm, self.aligned):
            yield from () if place is None else place.held

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
