"""The truth of one simulation, and the promises about substreams that are checked against it.

Records say themselves to which life of which key they belong, and operators show the tokens that they keep; so nothing
here trusts the labels, counts or ends that the runtime keeps.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tests.kit.simulation.violation import ViolationError
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario
from tests.simulation.substreams.record import Life, Record
from tidewheel.progress import CompiledGraph, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.messages.news import Ending
from tidewheel.runtime.substreams.books import SubstreamBooks
from tidewheel.runtime.worker.ports import RunningInput
from tidewheel.runtime.worker.substream_ports import SubstreamInput
from tidewheel.runtime.worker.worker_core import WorkerCore

_MESSAGES = 150


class World:
    """The state that all operators of one simulation see.

    Attributes:
        scenario: decides what happens.
        workers: how many there are.
        network: has the envelopes in flight.
        draining: whether operators are to give up all they hold, because the end is wanted.
        tokens: by identity of each token that is kept, its location and the life that it is of.
        wakers: have the operators scheduled, each on each worker.
        lives: how many lives of each (source, key) there have been or are, as its source has it.
        told: by (worker, location), the lives of which the end was told, in order.
        received: how many messages operators have received.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.workers = scenario.lives[0].workers
        self.network = Network()
        self.draining = False
        self.tokens: dict[int, tuple[int, Life]] = {}
        self.wakers: list[Any] = []
        self.lives: Counter[tuple[int, int]] = Counter()
        self.told: dict[tuple[int, int], list[Life]] = defaultdict(list)
        self.received = 0
        self._count: Counter[tuple[int, int, int, int]] = Counter()
        self._watched: dict[int, int] = {}
        self._before_ends: set[int] = set()
        self._ordered: set[int] = set()
        self._firm: set[int] = set()
        self._inside: dict[tuple[int, int], Life] = {}
        """By (worker, location) with a firm bound, the life of which something was received, and the end was not."""
        self._closed: dict[int, list[Life]] = {}
        self._finished: dict[int, set[int]] = {}
        self._waiting: dict[tuple[int, int], set[Any]] = {}
        """By (worker, source) to which no more comes than what waits there, the keys of that."""
        self._budget = _MESSAGES
        self.cores: list[WorkerCore] = []

    def begin(self, plan: Plan, cores: list[WorkerCore], watchers: set[str]) -> None:
        """Look at workers that run a plan, in which operators of these names are told of ends."""
        self.cores = cores
        self._plan = plan
        self._compiled = CompiledGraph(plan.graph())
        declared = list(plan.declarations.values())
        self.is_shared = [one.is_shared for one in declared]
        for index, operator in enumerate(plan.operators):
            for port in range(len(operator.shape.inputs)) if operator.name in watchers else ():
                target = Target(index, port)
                before = self._compiled.reaching(target)
                (source,) = (n for n, one in enumerate(declared) if Source(one.operator, 0) in before)
                self._watched[self._compiled.index[target]] = source
                self._before_ends.update(self._compiled.index[location] for location in before)
                if operator.ends is not None and operator.ends.ordered:
                    self._ordered.add(self._compiled.index[target])
                if operator.ends is not None and operator.ends.firm:
                    self._firm.add(self._compiled.index[target])
        for core in cores:
            self._follow_closing(core)

    def _follow_closing(self, core: WorkerCore) -> None:
        closed: list[Life] = []
        finished: set[int] = set()
        self._closed[core.worker], self._finished[core.worker] = closed, finished
        self._follow(core.worker, core._substreams.books, closed, finished)

    def _follow(self, worker: int, books: SubstreamBooks, closed: list[Life], finished: set[int]) -> None:
        close, end, finish = books.close, books.end, books.finish

        def closing(declaration: int, keys: Collection[Any]) -> None:
            for key in keys:
                number = sum(life[:2] == (declaration, key) for life in closed) + 1
                closed.append(Life(declaration, key, number))
            close(declaration, keys)

        def at_end(ending: Ending, open_keys: Collection[Any]) -> None:
            waiting = self._waiting.setdefault((worker, ending.declaration), set())
            waiting.update(ending.waiting)
            waiting.difference_update(ending.done)
            end(ending, open_keys)

        def finishing(declaration: int, open_keys: Collection[Any]) -> None:
            finished.add(declaration)
            finish(declaration, open_keys)

        books.close, books.end, books.finish = closing, at_end, finishing  # type: ignore[method-assign]

    def may_send(self) -> bool:
        """Tell whether one more message may be sent, and count it."""
        self._budget -= 1
        return self._budget >= 0

    # ------------------------------------------------------------------ what operators see

    def receive(self, worker: int, location: int, key: object, batch: Sequence[Record]) -> Life:
        """Check a message that an operator has received; return of which life it is."""
        self.received += 1
        lives = {record.life for record in batch}
        # Behind all who are told of ends, nothing tells what had a key from what has it now.
        tells = lives if location in self._before_ends else {life.key for life in lives}
        if len(tells) != 1 or key != batch[0].life.key:
            raise ViolationError("divided", f"{self._where(worker, location)} got a message of {lives} for {key!r}")
        life = batch[0].life
        if location in self._firm:
            self._check_border(worker, location, life)
            self._inside[worker, location] = life
        if location in self._watched:
            # A firm bound off the cycles has it wait on each worker by itself.
            for other in [worker] if self._waits_whole(location) else range(self.workers):
                if self._count[other, location, life.source, life.key] >= life.number:
                    where = self._where(worker, location)
                    raise ViolationError("safety", f"{where} got {life} after worker {other} was told of its end")
            if self._count[worker, location, life.source, life.key] < life.number - 1:
                where = self._where(worker, location)
                raise ViolationError("overtaken", f"{where} got {life} and was not told of the end of that before")
        return life

    def _check_border(self, worker: int, location: int, life: Life) -> None:
        inside = self._inside.get((worker, location), life)
        if inside != life:
            where = self._where(worker, location)
            raise ViolationError("border", f"{where} got something of {life} or its end within {inside}")

    def end(self, worker: int, location: int, key: Any) -> None:
        """Check an end that an operator has been told of."""
        source, where = self._watched[location], self._where(worker, location)
        self._count[worker, location, source, key] += 1
        life = Life(source, key, self._count[worker, location, source, key])
        self.told[worker, location].append(life)
        if life.number > self.lives[source, key]:
            raise ViolationError("once", f"{where} was told of the end of {life}, which never was")
        if location in self._firm:
            self._check_border(worker, location, life)
            self._inside.pop((worker, location), None)
        self._check_all_has_ended(where, location, life)

    def _check_all_has_ended(self, where: str, location: int, life: Life) -> None:
        """Check that nobody lets in anything of a life, and that nothing of it is left before a location."""
        source, key, _ = life
        for other in range(self.workers):
            owned = not self.is_shared[source] and owner_of(key, self.workers) != other
            is_at_end = key not in self._waiting.get((other, source), [key])
            if not owned and not is_at_end and source not in self._finished[other] and life not in self._closed[other]:
                raise ViolationError("safety", f"{where} was told of the end of {life}, open on worker {other}")
        before = self._compiled.reaching(self._compiled.locations[location])
        for live, at in self._live(location if self._waits_whole(location) else None):
            if live == life and self._compiled.locations[at] in before:
                what = self._plan.describe(self._compiled.locations[at])
                raise ViolationError("safety", f"{where} was told of the end of {life}, live at {what}")

    def _where(self, worker: int, location: int) -> str:
        return f"{self._plan.describe(self._compiled.locations[location])} on worker {worker}"

    # ------------------------------------------------------------------ what there is

    def _waits_whole(self, location: int) -> bool:
        """Tell whether all of a substream waits there until it has come."""
        port = self.cores[0]._ports[location]
        return isinstance(port, SubstreamInput) and port.firm is not None and port.firm._turns is None

    def _live(self, but_waiting_at: int | None) -> Iterator[tuple[Life, int]]:
        """Yield the life and location of whatever may become a record: tokens, messages, and what is fed."""
        for location, life in self.tokens.values():
            yield life, location
        for location, batch in self._messages(but_waiting_at):
            for record in batch if isinstance(batch, list) else ():
                if isinstance(record, Record):
                    yield record.life, location

    def _messages(self, but_waiting_at: int | None) -> Iterator[tuple[int, Any]]:
        for link in self.network.waiting():
            yield from self._in(self.network.on(*link))
        for core in self.cores:
            for stream in core._inbox._streams.values():
                yield from self._in(stream.early.values())
            yield from self._in(core._substreams._early)
            for messages in core.outbox._messages:
                yield from ((message.target, message.batch) for message in messages)
            for port in [port for location, port in core._ports.items() if location != but_waiting_at]:
                yield from ((port.location, message.batch) for message in unreceived(port))
            for instance in core._instances:
                location = self._compiled.index.get(Source(instance.number, 0), -1)
                queue = instance.mailbox._queue if instance.mailbox is not None else ()
                yield from ((location, command.batch) for _, command in queue if command.action == "send")

    def _in(self, envelopes: Iterable[Envelope]) -> Iterator[tuple[int, Any]]:
        for envelope in envelopes:
            yield from ((message.target, message.batch) for message in envelope.messages)
            for command in envelope.commands:
                if command.action == "send":
                    yield self._compiled.index[Source(self._plan.inputs[command.input], 0)], command.batch

    # ------------------------------------------------------------------ at the end

    def check_end(self) -> None:
        """Check that everything was told, once and in order, and that nothing is left."""
        workers = range(self.workers)
        for location, source in self._watched.items():
            lives = [
                Life(at, key, number)
                for (at, key), many in self.lives.items()
                if at == source
                for number in range(1, many + 1)
            ]
            for worker in workers:
                if sorted(self.told[worker, location]) != sorted(lives):
                    missing = sorted(set(lives).difference(self.told[worker, location]))
                    raise ViolationError("liveness", f"{self._where(worker, location)} was not told of {missing}")
                if self.told[worker, location] != self.told[0, location]:
                    raise ViolationError("order", f"{self._where(worker, location)} was told in an order of its own")
                if location in self._ordered:
                    self._check_order(worker, location)
        if self.tokens:
            raise ViolationError("left", f"these tokens are left: {self.tokens}")
        for core in self.cores:
            self._check_nothing_left(core)

    def _check_order(self, worker: int, location: int) -> None:
        """Check that what was closed before something else, by all who closed one of both, has ended before."""
        places = [{life: place for place, life in enumerate(closed)} for closed in self._closed.values()]
        told = self.told[worker, location]
        for place, earlier in enumerate(told):
            for later in told[place + 1 :]:
                both = [at for at in places if earlier in at or later in at]
                if all(earlier in at and later in at and at[later] < at[earlier] for at in both) and both:
                    where = self._where(worker, location)
                    raise ViolationError("order", f"{where} was told of {earlier} before {later}, closed before")

    def _check_nothing_left(self, core: WorkerCore) -> None:
        if not core.is_complete:
            raise ViolationError("complete", f"worker {core.worker} does not know that all is over")
        books, gates = core._substreams.books, core._substreams.gates
        left: dict[str, Any] = {
            "counts": [book.counts for book in books._books.values() if book.counts],
            "closing": [book.closing for book in books._books.values() if book.closing],
            "due": [book.due for book in books._books.values() if book.due],
            "early": core._substreams._early,
            "open": [gate._open for gate in gates if gate._open],
            "ended": [gate._ended for gate in gates if gate._ended and core._substreams._declared[gate.number].asked],
            "waiting": [gate._waiting for gate in gates if gate._waiting],
            "reopened": [gate._reopened for gate in gates if gate._reopened],
            "not over": [key for gate in gates for key, closed in gate._closed.items() if not closed.is_over],
            "ends": [port for port in core._ports.values() if not port.is_empty],
            "messages": [message for port in core._ports.values() for message in unreceived(port)],
        }
        if books.view is not None:
            left["lives"] = [len(tracker) for tracker in books.view._trackers.values() if len(tracker)]
        found = {name: what for name, what in left.items() if what}
        if found:
            raise ViolationError("left", f"worker {core.worker} still remembers {found}")


def unreceived(port: RunningInput) -> Iterator[Message]:
    """Yield the messages that have arrived at an input and that its operator has not received."""
    yield from (message for message in port.queue if isinstance(message, Message))
    yield from port.held
