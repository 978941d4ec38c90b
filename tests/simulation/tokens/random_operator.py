"""Operators that do at random whatever the interface of operators allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.kit.simulation.violation import ViolationError
from tests.simulation.tokens.random_misuse import misuse_lent, misuse_outside, misuse_token
from tests.simulation.tokens.random_token_set import RandomTokenSet
from tests.simulation.tokens.world import World
from tidewheel.progress import Antichain, PathSummary, Summary, Time, TimeDomain
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output

_WITH_MESSAGE = (
    *("send",) * 5,
    *("retain",) * 2,
    "delay",
    *("await",) * 3,
    "pass",
    *("gather",) * 2,
    "careless",
    "ignore",
)
_WITH_TOKEN = ("send", "send", "empty", "downgrade", "downgrade", "delay", "clone", "discard", "discard", "leak")
_OUTSIDE = ("downgrade", "delay", "clone", "discard")
_MOST_TOKENS = 5


@dataclass(frozen=True, slots=True)
class Ports:
    """What an operator was described with.

    Attributes:
        domain: the times at all its ports.
        moves: summaries by which it delays tokens.
        inputs: how many inputs it has.
        outputs: how many outputs it has.
        paths: its summaries by (input, output).
        notify: whether it looks at frontiers.
    """

    domain: TimeDomain
    moves: Sequence[Summary]
    inputs: int
    outputs: int
    paths: Mapping[tuple[int, int], tuple[PathSummary, ...]]
    notify: bool


@dataclass(frozen=True, slots=True)
class _Holding:
    output: int
    token: TimestampToken
    since: int


class _Temperament:
    """How likely an operator is to do what, drawn once, so that operators differ."""

    def __init__(self, random: Random) -> None:
        self.keeps_initial = random.choice((0.0, 0.0, 0.2, 1.0))
        self.leaves_unread = random.choice((0.0, 0.0, 0.3))
        self.breaks_off = random.choice((0.0, 0.2, 0.6))
        self.is_restless = random.choice((0.0, 0.4, 0.8))
        self.uses = random.choice((1, 2, 3))


def build_random(world: World, ports: Ports) -> Build:
    """Return the build function of an operator that acts at random."""

    def build(context: OperatorContext) -> "RandomOperator":
        return RandomOperator(world, context, ports)

    return build


class RandomOperator:
    """One such operator on one worker.

    Records are numbers of hops left: what is forwarded has one hop less, and nothing goes on without any, so that what
    goes round a loop ends.
    """

    def __init__(self, world: World, context: OperatorContext, ports: Ports) -> None:
        self._world = world
        self._context = context
        self._ports = ports
        self._random = world.enlist(context, self)
        self._temperament = _Temperament(self._random)
        self._outputs: list[OutputPort] = []
        self._last_lent: LentToken | None = None
        self.calls = 0
        self._held: list[_Holding] = []
        self._sets = [
            RandomTokenSet(world, context, output, ports.domain, self._random, self._later)
            for output in range(ports.outputs)
        ]
        self._awaited: dict[Time, list[_Holding]] = {}
        self._notified: list[Time] = []
        self._frontiers: list[Antichain | None] = [None] * ports.inputs
        for output in range(ports.outputs):
            if self._chance(self._temperament.keeps_initial):
                self._hold(output, context.token(output))

    def __call__(self, *ports: InputPort | OutputPort) -> None:
        """Do something."""
        self.calls += 1
        if self._world.quiet:
            return
        inputs = [port for port in ports if isinstance(port, InputPort)]
        outputs = self._outputs = [port for port in ports if isinstance(port, OutputPort)]
        if self._chance(0.05):
            self._misuse()
        if self._ports.notify:
            self._look(inputs)
        for port in inputs:
            self._read(port, outputs)
        if self._world.draining:
            self._give_up()
        else:
            self._use_tokens(outputs)
            self._use_sets(inputs, outputs)
        if self._ports.notify:
            self._notify(inputs, outputs)
        if not self._world.draining and self._chance(self._temperament.is_restless):
            self._context.activate()

    def use_outside(self, choice: int) -> None:
        """Use a token that is held between two calls."""
        if self._held:
            holding = self._held[choice % len(self._held)]
            if self._outputs:
                misuse_outside(holding.token, self._outputs[holding.output])
            self._use(_OUTSIDE[choice % len(_OUTSIDE)], holding, [])

    # ------------------------------------------------------------------ messages

    def _read(self, port: InputPort, outputs: Sequence[OutputPort]) -> None:
        stay = not self._world.draining
        if stay and self._chance(self._temperament.leaves_unread):
            return
        for lent, batch in port:
            self._check_arrival(port, lent.time, batch)
            self._last_lent = lent
            if stay:
                self._react(running_input(port).port, lent, [hops - 1 for hops in batch if hops > 1], outputs)
            if self._chance(self._temperament.breaks_off):
                return

    def _react(self, port: int, lent: LentToken, records: list[int], outputs: Sequence[OutputPort]) -> None:
        for number, output in enumerate(outputs):
            paths = self._ports.paths.get((port, number), ())
            arriving = [path.results_in(lent.time) for path in paths]
            least = tuple(Antichain(self._ports.domain, (time for time in arriving if time is not None)))
            if not least:
                continue  # no token is lent for this output
            arrival = self._random.choice(least)
            match self._random.choice(_WITH_MESSAGE):
                case "send" if len(least) == 1:
                    self._send(output, lent, arrival, records)
                case "send" | "pass":
                    with lent.delayed(arrival, output) as token:
                        token.downgrade(self._later(arrival))
                        self._send(output, token, token.time, records)
                case "retain":
                    self._hold(number, lent.retain(output) if len(least) == 1 else lent.delayed(arrival, output))
                case "delay":
                    self._hold(number, lent.delayed(self._later(arrival), output))
                case "await":
                    self._await(lent.time, self._holding(number, lent.delayed(arrival, output)))
                case "gather":
                    self._sets[number].take(lent.delayed(self._later(arrival), output))
                case "careless":
                    self._hold(number, lent.delayed(arrival, output))
                    lent.delayed(arrival, output)  # dropped at once, and never the only one for its time

    def _await(self, time: Time, holding: _Holding) -> None:
        if not self._ports.notify:
            self._held.append(holding)
            return
        if self._chance(0.3):
            time = self._later(time)
            if not self._ports.domain.less_equal(time, holding.token.time):
                holding.token.discard()  # a token before the time that it waits for could wait for itself
                return
        self._awaited.setdefault(time, []).append(holding)

    def _send(self, output: OutputPort, token: TimestampToken | LentToken, time: Time, records: list[int]) -> None:
        if records and self._world.may_send():
            output.send(token, records)
            sender = (self._context.name, running_output(output).port)
            self._world.mail.send(sender, self._context.worker, time, records)

    # ------------------------------------------------------------------ tokens

    def _use_tokens(self, outputs: Sequence[OutputPort]) -> None:
        for _ in range(self._random.randint(0, self._temperament.uses)):
            if self._held:
                self._use(self._random.choice(_WITH_TOKEN), self._random.choice(self._held), outputs)
        while len(self._held) > _MOST_TOKENS:
            self._held.pop(0).token.discard()

    def _use_sets(self, inputs: Sequence[InputPort], outputs: Sequence[OutputPort]) -> None:
        frontiers = [port.frontier for port in inputs] if self._ports.notify else []
        for kept, output in zip(self._sets, outputs, strict=True):
            if self._chance(0.3):
                kept.use(frontiers, lambda token, output=output: self._send_some(output, token))  # type: ignore[misc]

    def _send_some(self, output: OutputPort, token: TimestampToken) -> None:
        self._send(output, token, token.time, [self._random.randint(1, 6)])

    def _use(self, action: str, holding: _Holding, outputs: Sequence[OutputPort]) -> None:
        output, token = holding.output, holding.token
        match action:
            case "send":
                self._send_some(outputs[output], token)
            case "empty":
                outputs[output].send(token, [])
            case "downgrade":
                token.downgrade(self._later(token.time))
            case "delay":
                self._hold(output, token.delayed(self._later(token.time)))
            case "clone":
                self._hold(output, token.clone())
            case "discard":
                self._held.remove(holding)
                token.discard()
            case "leak":
                if (
                    self._world.may_leak() and holding.since + 1 < self.calls
                ):  # not just made, by this call or before it
                    self._held.remove(holding)
                    self._world.leak(self._context, token)

    def _misuse(self) -> None:
        """Try what is not allowed."""
        if self._held:
            holding = self._random.choice(self._held)
            output = self._outputs[holding.output]
            misuse_token(self._random, holding.token, output, [other for other in self._outputs if other is not output])
        if self._last_lent is not None and self._outputs:
            misuse_lent(self._last_lent, self._random.choice(self._outputs))

    def _give_up(self) -> None:
        for holding in self._held:
            holding.token.discard()
        self._held.clear()
        for kept in self._sets:
            kept.discard()

    def _holding(self, output: int, token: TimestampToken) -> _Holding:
        return _Holding(output, self._world.show(self._context, output, token), self.calls)

    def _hold(self, output: int, token: TimestampToken) -> None:
        self._held.append(self._holding(output, token))

    # ------------------------------------------------------------------ frontiers

    def _look(self, inputs: Sequence[InputPort]) -> None:
        for number, port in enumerate(inputs):
            last, now = self._frontiers[number], port.frontier
            if last is not None and last is not now and not last.dominates(now):
                raise ViolationError("frontier", f"{self._where(port)}: the frontier went back from {last} to {now}")
            self._frontiers[number] = now

    def _check_arrival(self, port: InputPort, time: Time, batch: list[int]) -> None:
        self._world.mail.receive((self._context.name, running_input(port).port), self._context.worker, time, batch)
        if not self._ports.notify:
            return
        if not port.frontier.less_equal(time):
            raise ViolationError("safety", f"{self._where(port)}: a message at {time!r} came after {port.frontier}")
        for notified in self._notified:
            if self._ports.domain.less_equal(time, notified):
                raise ViolationError(
                    "notification", f"{self._where(port)}: a message at {time!r} came after time {notified!r} was over"
                )

    def _notify(self, inputs: Sequence[InputPort], outputs: Sequence[OutputPort]) -> None:
        for time in [time for time in self._awaited if not any(port.frontier.less_equal(time) for port in inputs)]:
            if time in self._notified:
                raise ViolationError("notification", f"{self._context.name!r} was notified of time {time!r} twice")
            self._notified.append(time)
            self._world.notifications += 1
            for holding in self._awaited.pop(time):
                with holding.token as token:
                    self._send_some(outputs[holding.output], token)

    def _where(self, port: InputPort) -> str:
        return f"input {running_input(port).port} of {self._context.name!r} on worker {self._context.worker}"

    # ------------------------------------------------------------------ chance

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _later(self, time: Time) -> Time:
        result = self._ports.domain.results_in(self._random.choice(self._ports.moves), time)
        return time if result is None else result
