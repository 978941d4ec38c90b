"""One worker's part in the snapshots of its job."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from tidewheel.progress import CompiledGraph
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.errors import JobError, SnapshotError
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.messages.input_position import InputPosition, Positions
from tidewheel.runtime.messages.unread import Unread
from tidewheel.runtime.state.cut import Cut
from tidewheel.runtime.state.operator_state import OperatorState
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.state.state_pickling import Stamp
from tidewheel.runtime.state.state_sizes import StateSizes
from tidewheel.runtime.state.worker_part import MailboxPart, OperatorPart, UndoneCommand, WorkerPart, positions_of
from tidewheel.runtime.substreams.substream_part import SubstreamPart
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.ports import RunningInput
from tidewheel.runtime.worker.worker_substreams import WorkerSubstreams
from tidewheel.transport.socket_address import DRIVER


class WorkerMemory:
    """Restores the state of one worker, and takes its parts of snapshots.

    Attributes:
        feeders_in: on worker 0, returns the feeders when a snapshot begins.
    """

    def __init__(
        self,
        host: OperatorHost,
        plan: Plan,
        compiled: CompiledGraph,
        instances: Sequence[OperatorInstance],
        substreams: WorkerSubstreams,
        beginning: WorkerBeginning | None,
        *,
        is_tracked: bool,
    ) -> None:
        self._host = host
        self._plan = plan
        self._compiled = compiled
        self._instances = instances
        self._substreams = substreams
        self._beginning = beginning or WorkerBeginning()
        self._is_tracked = is_tracked
        self._part: WorkerPart | None = None
        self.cut = Cut(self._beginning.number)
        self.parts: deque[WorkerPart] = deque()
        self.marker: tuple[int, ...] | None = None
        self.feeders_in: Callable[[int], tuple[int, ...]] = lambda number: ()
        self.sizes = StateSizes()

    # ------------------------------------------------------------------ the beginning

    def prepare(self, instance: OperatorInstance) -> None:
        saved = self._beginning.operators.get(instance.name)
        instance.kept = OperatorState(
            instance.name,
            saved,
            is_tracked=self._is_tracked,
            make_token=lambda at: instance.outputs[at.output].token_again(at.time, at.label, is_live=at.is_live),
        )
        if instance.mailbox is not None:
            instance.mailbox.begins_with(self._beginning.mailboxes.get(instance.name))

    def built(self, instance: OperatorInstance) -> None:
        """Put the saved unread messages into the inputs of an operator that was just built and has its initial tokens.

        Raises:
            SnapshotError: the operator has not asked for all its saved state.
        """
        instance.kept.check_all_taken()
        for number, unread in self._beginning.unread.get(instance.name, {}).items():
            port = instance.inputs[number]
            for message in unread:
                self._host.produce(port.location, message.time)
                if message.label is not None:
                    self._host.books.record(message.label, port.location, message.time, 1)
                port.put(Message(port.location, message.time, message.batch, 0, self._host.worker, message.label))

    # ------------------------------------------------------------------ snapshots

    def mark(self) -> tuple[int, tuple[int, ...] | None]:
        """Return the number of the snapshot, for envelopes; and its marker for the peers, if it has just begun."""
        marker, self.marker = self.marker, None
        return self.cut.number, marker

    def arrives(self, envelope: Envelope) -> None:
        """Record an envelope before it is applied.

        Raise JobError if that begins a snapshot whose part cannot be taken.
        """
        cut, number = self.cut, envelope.snapshot
        if cut.begins(number):
            if self._part is not None:
                self.write_all_next()
            self._part = self._taken(number)
            peers = [peer for peer in range(self._host.workers) if peer != self._host.worker]
            cut.begin(number, [*peers, DRIVER])
            self._host.saving.number = number
            self.marker = ()
            if self._host.worker == 0:
                self.marker = self.feeders_in(number)
                cut.wait_for(self.marker)
        elif self._part is not None and cut.is_late(number):
            self._add_late(self._part, envelope)
        if self._part is not None and envelope.marker is not None and number == cut.number:
            if not isinstance(envelope.marker, tuple):
                self._part.positions[envelope.sender] = envelope.marker
            elif envelope.sender == 0:
                cut.wait_for(envelope.marker)
        if cut.arrived(envelope.sender, number):
            self._complete()

    def feeder_leaves(self, feeder: int, number: int) -> None:
        if self._is_tracked and self.cut.gone(feeder, number):
            self._complete()

    def _complete(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        if part.worker == 0:
            told = part.positions.values()
            part.positions = {DRIVER: {name: self._positions(part, name, told) for name in self._plan.inputs}}
        self.parts.append(part)

    def _positions(self, part: WorkerPart, name: str, told: Iterable[Positions]) -> Mapping[int, InputPosition]:
        mailbox = part.operators[self._instances[self._plan.inputs[name]].name].mailbox
        assert mailbox is not None, "each input has one"
        return positions_of(mailbox, [positions.get(name, {}) for positions in told])

    def write_all_next(self) -> None:
        for instance in self._instances:
            instance.kept.write_all_next()

    def _add_late(self, part: WorkerPart, envelope: Envelope) -> None:
        for message in envelope.messages:
            at = self._compiled.locations[message.target]
            unread = part.operators[self._instances[at.operator].name].unread[at.port]
            unread.append(Unread(message.time, message.batch, message.label))
        for command in envelope.commands:
            mailbox = part.operators[self._instances[self._plan.inputs[command.input]].name].mailbox
            assert mailbox is not None, "each input has one"
            mailbox.commands.append(UndoneCommand(envelope.sender, command))
        if envelope.substreams is not None:
            self._substreams.add_late(envelope.substreams, lambda number: self._substreams_in(part, number))

    def _substreams_in(self, part: WorkerPart, operator: int) -> SubstreamPart:
        found = part.operators[self._instances[operator].name].substreams
        assert found is not None, "the operator knows of substreams"
        return found

    def _taken(self, number: int) -> WorkerPart:
        part = WorkerPart(number, self._host.worker, self._host.workers)
        stamps: list[Stamp] = []
        for instance in self._instances:
            try:
                kept = instance.kept.cut()
            except SnapshotError as error:
                raise JobError(str(error), operator=instance.name, worker=self._host.worker) from error
            stamps += kept.stamps
            substreams = self._substreams.part_of(instance)
            unread = [_unread(substreams, port) for port in instance.inputs]
            mailbox = _mailbox_part(instance.mailbox, stamps)
            part.operators[instance.name] = OperatorPart(kept, unread, mailbox, substreams)
        self._check_tokens(stamps)
        return part

    def _check_tokens(self, found: Sequence[Stamp]) -> None:
        missing = Counter(self._host.ledger.tokens())
        missing.subtract(found)
        for (location, time), count in missing.items():
            if count:
                operator = self._plan.name_at(self._compiled.locations[location])
                where = "in no state" if count > 0 else "in several states"
                raise JobError(
                    f"no snapshot can be taken: operator {operator!r} has a token for time {time!r} on worker "
                    f"{self._host.worker} {where} that the runtime knows. Keep a token in a notificator, or once in "
                    "what context.state() or context.keyed_state() return, and take the initial one where that is "
                    "made: context.state('token', context.token)",
                    operator=operator,
                    worker=self._host.worker,
                    time=time,
                )


def _unread(substreams: SubstreamPart | None, port: RunningInput) -> list[Unread]:
    """Return the messages in the queue of an input; none for a firm bound, since ``substreams`` then has them."""
    is_plain = substreams is None or port.port not in substreams.firm
    return [Unread(one.time, one.batch, one.label) for one in port.queue] if is_plain else []


def _mailbox_part(mailbox: Mailbox | None, stamps: list[Stamp]) -> MailboxPart | None:
    if mailbox is None:
        return None
    stamps += [token._stamp for token in mailbox.tokens.values()]
    times = {handle: token.time for handle, token in mailbox.tokens.items()}
    return MailboxPart(times, [UndoneCommand(*undone) for undone in mailbox.undone()], dict(mailbox.begun))
