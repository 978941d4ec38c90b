"""Operators that do at random what the interface of operators allows with substreams."""

from dataclasses import dataclass

from tests.laws.graphs import later
from tests.simulation.substreams.record import Record
from tests.simulation.substreams.world import World
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output

_WITH_MESSAGE = ("forward", "forward", "forward", "multiply", "drop", "retain", "delay", "careless")
_WITH_TOKEN = ("send", "send and discard", "send and discard", "discard", "downgrade", "delay", "clone")


@dataclass(slots=True)
class _Holding:
    """A token that is kept, and what to send with it."""

    output: int
    token: TimestampToken
    records: list[Record]


def build_random(world: World, inputs: int, *, is_watching: bool) -> Build:
    """Return the build function of an operator with so many inputs; ``is_watching`` has it look at ends."""

    def build(context: OperatorContext) -> Schedule:
        return _RandomOperator(world, context, inputs, is_watching).schedule

    return build


class _RandomOperator:
    def __init__(self, world: World, context: OperatorContext, inputs: int, is_watching: bool) -> None:
        self._world = world
        self._context = context
        self._inputs = inputs
        self._is_watching = is_watching
        self._random = world.scenario.random(f"{context.name} {context.worker}")
        self._keeps = self._chance(0.4)
        self._is_lazy = self._chance(0.4)
        self._held: list[_Holding] = []
        world.wakers.append(context.activate)

    def schedule(self, *ports: InputPort | OutputPort) -> None:
        """Receive, send, use what is kept, and look at ends, in any order; or leave some of that for later."""
        inputs = [port for port in ports if isinstance(port, InputPort)]
        outputs = [port for port in ports if isinstance(port, OutputPort)]
        looks_first = self._chance(0.5)
        if looks_first:
            self._look(inputs)
        for port in inputs:
            self._read(port, outputs)
        self._use(outputs)
        if not looks_first:
            self._look(inputs)

    def _look(self, inputs: list[InputPort]) -> None:
        if not self._is_watching:
            return
        if self._is_lazy and self._chance(0.4) and not self._world.draining:
            self._leave()
            return
        for port in inputs:
            for key in port.ended:
                self._world.end(self._context.worker, running_input(port).location, key)

    def _read(self, port: InputPort, outputs: list[OutputPort]) -> None:
        is_lazy = self._is_lazy and not self._world.draining
        if is_lazy and self._chance(0.3):
            self._leave()
            return
        for lent, batch in port:
            assert isinstance(batch, list)
            self._world.receive(self._context.worker, running_input(port).location, lent.key, batch)
            self._take(lent, batch, outputs)
            if is_lazy and self._chance(0.2):
                self._leave()
                return

    def _leave(self) -> None:
        """Leave something for later: for the next step, or for when somebody wakes this operator."""
        if self._chance(0.5):
            self._context.activate()

    def _take(self, lent: LentToken, batch: list[Record], outputs: list[OutputPort]) -> None:
        for number, output in enumerate(outputs):
            action = self._random.choice(_WITH_MESSAGE)
            if action in {"retain", "delay"} and (not self._keeps or self._world.draining):
                action = "forward"
            match action:
                case "forward":
                    self._send(output, lent, batch)
                case "multiply":
                    self._send(output, lent, self._changed(batch))
                    self._send(output, lent, self._changed(batch))
                case "retain":
                    self._hold(number, output, lent.retain(output), batch)
                case "delay":
                    time = later(self._random, running_output(output).domain, lent.time)
                    self._hold(number, output, lent.delayed(time, output), batch)
                case "careless":
                    with lent.retain(output):
                        lent.retain(output)  # dropped at once, and never the only one for its time

    def _use(self, outputs: list[OutputPort]) -> None:
        if self._world.draining:
            while self._held:
                self._act(self._held[-1], "send and discard", outputs)
        for _ in range(self._random.randint(0, 2)):
            if self._held:
                self._act(self._random.choice(self._held), self._random.choice(_WITH_TOKEN), outputs)

    def _act(self, holding: _Holding, action: str, outputs: list[OutputPort]) -> None:
        output, token = outputs[holding.output], holding.token
        if action.startswith("send"):
            self._send(output, token, self._changed(holding.records))
        if action.endswith("discard"):
            self._held.remove(holding)
            del self._world.tokens[id(token)]
            token.discard()
        elif action == "downgrade":
            token.downgrade(later(self._random, running_output(output).domain, token.time))
        elif action == "delay" and len(self._held) < 6:
            time = later(self._random, running_output(output).domain, token.time)
            self._hold(holding.output, output, token.delayed(time), holding.records)
        elif action == "clone" and len(self._held) < 6:
            self._hold(holding.output, output, token.clone(), holding.records)

    def _hold(self, number: int, output: OutputPort, token: TimestampToken, records: list[Record]) -> None:
        self._held.append(_Holding(number, token, records))
        self._world.tokens[id(token)] = running_output(output).location, records[0].life

    def _send(self, output: OutputPort, token: TimestampToken | LentToken, records: list[Record]) -> None:
        if self._world.may_send():
            output.send(token, records)

    def _changed(self, records: list[Record]) -> list[Record]:
        return [record._replace(number=self._random.randint(0, 20)) for record in records]

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability
