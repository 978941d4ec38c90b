"""What an operator's build function gets to know and to use on its worker."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.progress import Time
from tidewheel.runtime.activator import Activator
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.flow_control import FlowControl
from tidewheel.runtime.inputs.mailbox import Mailbox
from tidewheel.runtime.notificator import Notificator
from tidewheel.runtime.tokens import TimestampToken

if TYPE_CHECKING:
    from tidewheel.runtime.stage import RunningStage

State = TypeVar("State")


class OperatorContext:
    """One operator on one worker, as its build function sees it.

    Attributes:
        name: the operator's name.
        worker: the number of this worker, from 0.
        workers: how many workers there are.
        activator: has this operator scheduled from any thread, now or after some time; may be handed on.
        mailbox: what feeders sent to this operator, oldest first; only inputs have a mailbox.
        stages: what it is made of, if it is oblivious.
        clock: returns seconds, from any start; for statistics.
        states: what the operator keeps from one call to the next, by name.
        notificators: which times it waits for.
        working_at: says for errors at which time the operator is at work.
    """

    def __init__(
        self,
        name: str,
        worker: int,
        workers: int,
        initial: list[TimestampToken | None],
        activator: Activator,
        flow: FlowControl,
        attachments: Mapping[str, Any],
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.name = name
        self.worker = worker
        self.workers = workers
        self.mailbox: Mailbox | None = None
        self.captured: list[tuple[Any, Any]] = []
        self.states: dict[str, Any] = {}
        self.notificators: list[Notificator] = []
        self.working_at: Callable[[Time], None] = lambda time: None
        self.stages: list[RunningStage] = []
        self.clock = clock
        self._initial = initial
        self.activator = activator
        self._flow = flow
        self._attachments = attachments

    def token(self, output: int = 0) -> TimestampToken:
        """Take the initial token of an output, at the minimum time; it is discarded if build returns without it.

        Raises:
            TokenError: there is no such output, or its token was taken already or is gone.
        """
        if not 0 <= output < len(self._initial):
            raise TokenError(f"operator {self.name!r} has {len(self._initial)} outputs, there is no output {output}")
        token = self._initial[output]
        if token is None:
            raise TokenError(
                f"operator {self.name!r}: the initial token of output {output} was taken already, or build has returned"
            )
        self._initial[output] = None
        return token

    def state(self, name: str, make: Callable[[], State]) -> State:
        """Return what this operator keeps under ``name`` on this worker; ``make()`` if there is nothing yet.

        State that is kept here, and not in variables of the build function, is found by the runtime. It is changed in
        place, can be pickled and holds no tokens; those are a `Notificator`'s, which the runtime finds too.

        >>> from tidewheel import Dataflow, run
        >>> def build(context):
        ...     counts = context.state("counts", dict)
        ...
        ...     def schedule(input, output):
        ...         for token, batch in input:
        ...             for word in batch:
        ...                 counts[word] = counts.get(word, 0) + 1
        ...             output.send(token, [dict(counts)])
        ...
        ...     return schedule
        >>> flow = Dataflow("counting")
        >>> _ = flow.input("words").unary("count", build).capture("counts")
        >>> with run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["a", "b", "a"])
        ...     job.wait()
        ...     job.captured("counts")
        [Captured(time=0, batch=[{'a': 2, 'b': 1}])]
        """
        if name not in self.states:
            self.states[name] = make()
        found: State = self.states[name]
        return found

    def notificator(self) -> Notificator:
        """Return a new `Notificator`, which tells the operator when times are complete."""
        made = Notificator(self.working_at)
        self.notificators.append(made)
        return made

    def discard_initial_tokens(self) -> None:
        """Discard the initial tokens that build did not take."""
        for output, token in enumerate(self._initial):
            if token is not None:
                token.discard()
                self._initial[output] = None

    def activate(self) -> None:
        """Ask, from any thread, to be scheduled in the worker's next step, though nothing new may have arrived."""
        self.activator()

    @property
    def is_held(self) -> bool:
        """Whether a source is not to send now, because too much is in flight."""
        return self._flow.is_held

    def attachment(self, name: str) -> Any:
        """Return this worker's handle of an attachment of the dataflow."""
        return self._attachments[name]
