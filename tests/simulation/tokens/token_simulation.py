"""A whole cluster in one process: worker cores, links between them and a driver, moved by one event at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from tests.kit.simulation.violation import ViolationError
from tests.laws.domains import small_summaries
from tests.simulation.event import Event
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario
from tests.simulation.tokens.random_dataflow import random_dataflow
from tests.simulation.tokens.random_schedule import RandomSchedule
from tests.simulation.tokens.world import World
from tests.simulation.workers.calls_watch import CallsWatch
from tests.simulation.workers.cluster import Cluster, make_cores
from tests.simulation.workers.flow_watch import FlowWatch
from tests.simulation.workers.observer import Observer
from tidewheel.progress import Time
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.plan import Build, Plan, Schedule
from tidewheel.runtime.messages.envelope import Envelope, InputAction, InputCommand
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import OutputPort
from tidewheel.transport.socket_address import DRIVER


class TokenSimulation:
    """One dataflow on its workers.

    The same scenario and the same events always do the same. An event that does not apply, because the schedule was
    shortened, does nothing.

    Args:
        scenario: what is simulated.

    Raises:
        ViolationError: as every method does when a promise is broken.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.life = life = scenario.lives[0]
        has_books = "books" in scenario.has
        self.world = World(scenario)
        flow = random_dataflow(scenario.random("dataflow"), self.world)
        self.plan = _showing_inputs(description_of(flow).plan(), self.world)
        self.world.learn_locations(self.plan)
        self.domain = description_of(flow).root.nesting.domain
        self.moves = small_summaries(self.domain)
        self.inputs = list(self.plan.inputs)
        self.network = Network()
        self.handles = {
            (number, worker): [_Handle(DRIVER, self.domain.minimum())]
            for number in range(len(self.inputs))
            for worker in range(life.workers)
        }
        self._commands: dict[tuple[int, int], Iterator[int]] = {}
        self._woken = [False] * life.workers
        self.cores = make_cores(
            life, self.plan, lambda worker: {"wake": partial(self._wake, worker), "on_leak": "warn"}
        )
        self.world.learn_edges(self.plan)
        self._observer = Observer(life, self.plan, self.cores, self.world.tokens, books=has_books)
        self._flow = FlowWatch(self.cores, self.network) if has_books else None
        self._cluster = Cluster(self.network, self.cores)
        self._cluster.watches = [CallsWatch(self.cores, self.world.performers), self._observer]
        if self._flow is not None:
            self._cluster.watches.append(self._flow)
        self._actions: dict[str, Callable[..., None]] = {
            "step": self._cluster.step,
            "deliver": self._cluster.deliver,
            "send": self._send,
            "advance": self._advance,
            "close": self._close,
            "clone": self._clone,
            "outside": self._use_outside,
            "quiet": self._rest,
        }

    # ------------------------------------------------------------------ events

    def schedule(self) -> Iterator[Event]:
        """Return the schedule of the seed, an event at a time: each must have happened before the next is drawn."""
        return RandomSchedule(self, self.scenario.random("schedule")).events()

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
        self._cluster.settle()
        self._observer.check_end()
        self.world.check_end(self.cores)
        if self._flow is not None:
            self._flow.check_end()

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
        self._cluster.settle()
        self._observer.check_quiet()
        self.world.quiet = False
        self._wake_operators()

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
        self.network.post(feeder, worker, Envelope(feeder, 0, sequence, commands=[command]))


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
