"""One operator on one worker, while it runs."""

from collections.abc import Callable

from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.inputs.mailbox import Mailbox
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.worker.input_port import InputPort
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.output_port import OutputPort


class OperatorInstance:
    """An operator's ports and schedule function, and what is known of the call that is under way.

    Attributes:
        time: the time of the message last received, or of the last notification, None before the first of a call;
            errors name it.
        schedules: how often the operator has been scheduled.
        is_scheduled: whether a call is under way.
        seconds: how long all calls together took that have ended.
        started: when the last call began, as ``clock`` has it.
    """

    __slots__ = (
        "clock",
        "context",
        "inputs",
        "is_scheduled",
        "name",
        "notify",
        "outputs",
        "schedule",
        "schedules",
        "seconds",
        "started",
        "time",
    )

    def __init__(self, name: str, notify: bool, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = 0.0
        self.started = 0.0
        self.name = name
        self.notify = notify
        self.inputs: tuple[InputPort, ...] = ()
        self.outputs: tuple[OutputPort, ...] = ()
        self.context: OperatorContext
        self.schedule: Schedule
        self.schedules = 0
        self.is_scheduled = False
        self.time: Time | None = None

    @property
    def call(self) -> int:
        """The number of the call that is under way, -1 between two."""
        return self.schedules if self.is_scheduled else -1

    def run(self) -> bool:
        """Schedule the operator once; return whether it left messages behind after it took some."""
        waiting = [(port, port.consumed + port.looked_at) for port in self.inputs if port.queue]
        self.schedules += 1
        self.time = None
        self.is_scheduled = True
        self.started = self.clock()
        try:
            returned = self._call()
        finally:
            self.is_scheduled = False
            self.seconds += self.clock() - self.started
        if returned is not None:
            raise TypeError(
                f"schedule returned {returned!r}: it sends with output.send(token, batch) and returns nothing; "
                "a function with yield in it does not even run"
            )
        left = any(port.queue for port, _ in waiting)
        return left and any(port.consumed + port.looked_at > before for port, before in waiting)

    def _call(self) -> object:
        """Call the schedule function; return what it returns, which should be nothing."""
        returned: object = self.schedule(*self.inputs, *self.outputs)
        return returned

    def take(self, context: OperatorContext, mailbox: Mailbox | None, gate: SubstreamGate | None) -> None:
        """Take the context that the operator is built with."""
        self.context = context
        context.mailbox = mailbox
        context.gate = gate
        context.working_at = self._working_at

    def _working_at(self, time: Time) -> None:
        self.time = time
