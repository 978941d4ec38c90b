"""A whole cluster in one process: worker cores, links between them and a driver, moved by one event at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from tests.kit.simulation.violation import TooLargeError, ViolationError
from tests.laws.domains import small_summaries
from tests.simulation.event import Event
from tests.simulation.flow_watch import FlowWatch
from tests.simulation.links import Links
from tests.simulation.observer import Observer
from tests.simulation.random_dataflow import random_dataflow
from tests.simulation.scenario import Scenario
from tests.simulation.world import World
from tidewheel.progress import Time
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Build, Plan, Schedule
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.messages.envelope import Envelope, InputAction, InputCommand
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import OutputPort
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

_MOST_ROUNDS = 20_000
_FLOW_CHECKED_EVERY = 16
_MOST_MESSAGES = 20_000


class Simulation:
    """One dataflow on its workers.

    The same scenario and the same events always do the same. An event that does not apply, because the schedule was
    shortened, does nothing.

    Args:
        scenario: what is simulated.
        books: whether the observer checks what workers report; see `Observer`.

    Raises:
        ViolationError: as every method does when a promise is broken.
    """

    def __init__(self, scenario: Scenario, *, books: bool = True) -> None:
        self.scenario = scenario
        self.world = World(scenario)
        flow = random_dataflow(scenario.random("dataflow"), self.world)
        self.plan = _showing_inputs(description_of(flow).plan(), self.world)
        self.world.learn_locations(self.plan)
        self.domain = description_of(flow).root.nesting.domain
        self.moves = small_summaries(self.domain)
        self.inputs = list(self.plan.inputs)
        self.links = Links()
        self.handles = {
            (number, worker): [_Handle(DRIVER, self.domain.minimum())]
            for number in range(len(self.inputs))
            for worker in range(scenario.workers)
        }
        self._commands: dict[tuple[int, int], Iterator[int]] = {}
        self._woken = [False] * scenario.workers
        self.cores = [
            WorkerCore(
                self.plan,
                worker,
                scenario.workers,
                wake=partial(self._wake, worker),
                progress=scenario.progress,
                hold_back=scenario.hold_back,
                bytes_in_flight=scenario.bytes_in_flight,
                on_leak="warn",
            )
            for worker in range(scenario.workers)
        ]
        self.world.learn_edges(self.plan)
        self._observer = Observer(scenario, self.plan, self.cores, self.world, books=books)
        self._flow = FlowWatch(self.cores, self.links) if books else None
        self._steps = 0
        self._actions: dict[str, Callable[..., None]] = {
            "step": self._step,
            "deliver": self._deliver,
            "send": self._send,
            "advance": self._advance,
            "close": self._close,
            "clone": self._clone,
            "outside": self._use_outside,
            "quiet": self._rest,
        }

    # ------------------------------------------------------------------ events

    def apply(self, event: Event) -> None:
        """Let one event happen, and check what came of it."""
        self._actions[event.kind](*event.arguments)

    def finish(self) -> None:
        """Close the inputs, let operators give up what they hold, and check that all comes to its end."""
        self.world.draining = True
        for (number, worker), handles in self.handles.items():
            for handle in range(len(handles)):
                self._close(number, worker, handle)
        self._wake_operators()
        self._settle()
        self._observer.check_end()
        if self._flow is not None:
            self._flow.check_end()

    def _step(self, worker: int) -> None:
        core = self.cores[worker]
        was_idle = core.is_idle
        calls = [performer.calls for performer in self.world.performers[worker]]
        try:
            sent = core.step()
        except JobError as error:
            if isinstance(error.__cause__, ViolationError):
                raise error.__cause__ from None
            raise
        if was_idle and sent:
            raise ViolationError("idle", f"worker {worker} said that a step would do nothing, and sent {sent}")
        self._check_calls(worker, calls)
        self._observer.stepped(worker, sent)
        for receiver, envelope in sent:
            self.links.post(worker, receiver, envelope)
        self._steps += 1
        self._check_size()
        if self._flow is not None and self._steps % _FLOW_CHECKED_EVERY == 0:
            self._flow.check()

    def _check_size(self) -> None:
        """Give up where loops double what comes to them, again and again: that says nothing about the runtime."""
        messages = sum(len(port.queue) for core in self.cores for port in core._ports.values())
        if messages > _MOST_MESSAGES:
            raise TooLargeError(f"{messages} messages wait at once")

    def _check_calls(self, worker: int, before: list[int]) -> None:
        core = self.cores[worker]
        for performer, calls in zip(self.world.performers[worker], before, strict=True):
            if not calls and not performer.calls and core.is_idle and not core.flow.is_held:
                raise ViolationError("schedule", f"an operator of worker {worker} was left out of its first step")
            if performer.calls > calls + 1:
                raise ViolationError("schedule", f"worker {worker} scheduled an operator twice in one step")

    def _deliver(self, sender: int, receiver: int) -> None:
        envelope = self.links.take(sender, receiver)
        if envelope is not None:
            self.cores[receiver].receive(envelope)
            self._observer.delivered(sender, receiver)

    def _use_outside(self, worker: int, choice: int) -> None:
        performers = self.world.performers[worker]
        if performers:
            self._woken[worker] = False
            performers[choice % len(performers)].use_outside(choice // len(performers))
            self._observer.used_outside(worker, woken=self._woken[worker])

    def _wake_operators(self) -> None:
        """Have every operator scheduled, as if another thread asked for it, and check that each worker knows."""
        self._woken = [False] * len(self.cores)
        self.world.wake_all()
        for worker, core in enumerate(self.cores):
            if self.world.performers[worker] and (core.is_idle or not self._woken[worker]):
                raise ViolationError("idle", f"operators of worker {worker} are to be scheduled, and it sleeps on")

    def _wake(self, worker: int) -> None:
        self._woken[worker] = True

    def _rest(self) -> None:
        self.world.quiet = True
        self._settle()
        self._observer.check_quiet()
        self.world.quiet = False
        self._wake_operators()

    def _settle(self) -> None:
        """Deliver and step, in turn, until there is nothing to deliver and no step to take."""
        for _ in range(_MOST_ROUNDS):
            for sender, receiver in self.links.waiting():
                for _ in range(self.links.size((sender, receiver))):
                    self._deliver(sender, receiver)
            busy = [worker for worker, core in enumerate(self.cores) if not core.is_idle]
            for worker in busy:
                self._step(worker)
            if not busy and not self.links.waiting() and not self._release():
                return
        raise ViolationError("liveness", f"there is no end after {_MOST_ROUNDS} rounds")

    def _release(self) -> bool:
        """Where sources are held back and nothing else happens, let them go on, as a shell does."""
        released = [core.release() for core in self.cores if core.flow.is_held]
        return any(released)

    # ------------------------------------------------------------------ the driver and other feeders

    def _send(self, number: int, worker: int, handle: int, *records: int) -> None:
        state = self._open_handle(number, worker, handle)
        if state is not None:
            self._command(number, worker, handle, "send", state.time, list(records))
            name = self.plan.operators[self.plan.inputs[self.inputs[number]]].name
            self.world.mail.send((name, 0), worker, state.time, records)

    def _advance(self, number: int, worker: int, handle: int, move: int) -> None:
        state = self._open_handle(number, worker, handle)
        if state is not None:
            time = self.domain.results_in(self.moves[move], state.time)
            if time is not None:
                state.time = time
                self._command(number, worker, handle, "advance", time)

    def _close(self, number: int, worker: int, handle: int) -> None:
        state = self._open_handle(number, worker, handle)
        if state is not None:
            state.is_open = False
            self._command(number, worker, handle, "close")

    def _clone(self, number: int, worker: int, handle: int, move: int, feeder: int) -> None:
        state = self._open_handle(number, worker, handle)
        if state is not None:
            time = self.domain.results_in(self.moves[move], state.time)
            if time is not None:
                handles = self.handles[number, worker]
                self._post(
                    state.feeder,
                    worker,
                    InputCommand(self.inputs[number], "clone", time, handle=len(handles), origin=handle),
                )
                handles.append(_Handle(DRIVER - feeder, time))

    def _open_handle(self, number: int, worker: int, handle: int) -> "_Handle | None":
        handles = self.handles[number, worker]
        return handles[handle] if handle < len(handles) and handles[handle].is_open else None

    def _command(
        self, number: int, worker: int, handle: int, action: InputAction, time: Time = None, batch: Any = None
    ) -> None:
        command = InputCommand(self.inputs[number], action, time, batch, handle=handle)
        self._post(self.handles[number, worker][handle].feeder, worker, command)

    def _post(self, feeder: int, worker: int, command: InputCommand) -> None:
        sequence = next(self._commands.setdefault((feeder, worker), count()))
        self.links.post(feeder, worker, Envelope(feeder, 0, sequence, commands=[command]))


@dataclass(slots=True)
class _Handle:
    """One worker's share of a handle of an input: which feeder has it, and its time."""

    feeder: int
    time: Time
    is_open: bool = True


def _showing_inputs(plan: Plan, world: World) -> Plan:
    """Return a plan whose input operators show the tokens that they take, as the random operators do."""
    operators = list(plan.operators)
    for index in plan.inputs.values():
        operators[index] = replace(operators[index], build=_showing(operators[index].build, world))
    return replace(plan, operators=tuple(operators))


def _showing(build: Build, world: World) -> Build:
    def showing(context: OperatorContext) -> Schedule:
        take = context.token

        def token(output: int = 0) -> TimestampToken:
            return world.show(context, output, take(output))

        context.token = token  # type: ignore[method-assign]
        schedule = build(context)
        mailbox = instance_of(context).mailbox
        assert mailbox is not None, "inputs have one"
        tokens = mailbox.tokens

        def shown(output: OutputPort) -> None:
            before = set(tokens)
            schedule(output)
            for handle in set(tokens) - before:
                world.show(context, 0, tokens[handle])

        return shown

    return showing
