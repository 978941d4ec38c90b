"""The world of one simulation: it tells random operators what to do, and they show it their tokens."""

from collections.abc import Callable, Sequence
from random import Random

from tests.kit.simulation.violation import ViolationError
from tests.simulation.scenario import Scenario
from tests.simulation.workers.calls_watch import Performer
from tests.simulation.workers.mail import Mail
from tests.simulation.workers.truth import Shown
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.tokens.token_ledger import Leak
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.worker_core import WorkerCore

_MESSAGES = 150


class World:
    """The state that all operators of one simulation see.

    Every token that outlives the call in which it was made is shown here, so that the observer can count tokens without
    trusting the ledger that the workers keep.

    Attributes:
        quiet: whether operators are to do nothing for a while.
        draining: whether operators are to give up all they hold, because the end is wanted.
        mail: the records on their way.
        tokens: for each worker, the tokens shown, with the number of their location, by identity.
        leaks: for each worker, the tokens that were leaked on purpose.
        performers: for each worker, its operators.
        notifications: how many notifications have been given.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        workers = scenario.lives[0].workers
        self._budget = _MESSAGES
        self._locations: dict[tuple[str, int], int] = {}
        self.quiet = False
        self.draining = False
        self.notifications = 0
        self.tokens: list[Shown] = [{} for _ in range(workers)]
        self.leaks: list[list[Leak]] = [[] for _ in range(workers)]
        self.performers: list[list[Performer]] = [[] for _ in range(workers)]
        self.mail = Mail(workers)
        self._names: set[str] = set()
        self._wakers: list[Callable[[], None]] = []

    def learn_locations(self, plan: Plan) -> None:
        """Take the numbers of locations from the plan that is to run."""
        for number, location in enumerate(plan.graph().locations()):
            if isinstance(location, Source):
                self._locations[plan.operators[location.operator].name, location.port] = number

    def learn_edges(self, plan: Plan) -> None:
        """Take the edges from the plan, once workers have been made of it."""
        inputs = {plan.operators[index].name for index in plan.inputs.values()}
        self.mail.learn(plan, self._names | inputs, self._names)

    def enlist(self, context: OperatorContext, performer: Performer) -> Random:
        """Let an operator on one worker take part; return its own source of random choices."""
        self.performers[context.worker].append(performer)
        self._names.add(context.name)
        self._wakers.append(context.activate)
        return self._scenario.random(f"{context.name} {context.worker}")

    def wake_all(self) -> None:
        """Have every operator scheduled, as after a change of what they are told to do."""
        for wake in self._wakers:
            wake()

    def show(self, context: OperatorContext, output: int, token: TimestampToken) -> TimestampToken:
        """Count a token among those that exist."""
        self.tokens[context.worker][id(token)] = (self._locations[context.name, output], token)
        return token

    def leak(self, context: OperatorContext, token: TimestampToken) -> None:
        """Forget a token that its operator is about to forget too; it has to be reported."""
        del self.tokens[context.worker][id(token)]
        self.leaks[context.worker].append(Leak(context.name, token.time))

    def may_leak(self) -> bool:
        """Tell whether an operator may leak a token now."""
        return self._scenario.lives[0].leaks and sum(map(len, self.leaks)) < 2

    def may_send(self) -> bool:
        """Tell whether one more message may be sent, and count it."""
        self._budget -= 1
        return self._budget >= 0

    def check_end(self, cores: Sequence[WorkerCore]) -> None:
        """Check that all records have come, and that each worker has reported its leaks."""
        self.mail.check_end()
        for worker, core in enumerate(cores):
            if core.leaks != self.leaks[worker]:
                raise ViolationError("leaks", f"worker {worker} reports {core.leaks}, leaked were {self.leaks[worker]}")
