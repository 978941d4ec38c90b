"""One operator on one worker, while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidewheel.progress import Antichain, Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.inputs.mailbox import Mailbox
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.activator import Activator
from tidewheel.runtime.worker.flow_control import FlowControl
from tidewheel.runtime.worker.input_port import InputPort
from tidewheel.runtime.worker.output_port import OutputPort
from tidewheel.runtime.worker.running_input import RunningInput
from tidewheel.runtime.worker.running_output import RunningOutput
from tidewheel.runtime.worker.running_stage import RunningStage


@dataclass(frozen=True, slots=True)
class WorkerHooks:
    """What a worker does for an operator: by default nothing.

    Attributes:
        activator: has the operator scheduled.
        on_close: keeps a function that is called in the end.
        expect: takes note that another thread is going to activate the operator.
        follow: returns the frontier at a probe, and has the operator scheduled whenever that of a probe moves.
        end_substream: sends marks to where the operator's streams are divided.
    """

    activator: Activator
    on_close: Callable[[Callable[[], object]], None]
    expect: Callable[[], None]
    follow: Callable[[str], Antichain]
    end_substream: Callable[[TimestampToken | LentToken, list[EndOfSubstream]], None]


class OperatorInstance:
    """An operator's ports and schedule function, and what is known of the call that is under way.

    Attributes:
        time: the time of the message last received, or of the last notification, None before the first of a call;
            errors name it.
        schedules: how often the operator has been scheduled.
        is_scheduled: whether a call is under way.
        seconds: how long all calls together took that have ended.
        started: when the last call began, as ``clock`` has it.
        clock: returns seconds, from any start; for statistics.
        flow: counts the bytes in flight on its worker.
        hooks: what the worker does for it.
        attachments: the worker's handles of the attachments of the dataflow.
        initial: the tokens with which it begins, one for each output; None for those that it has taken.
        mailbox: what feeders sent to it, oldest first; only inputs have a mailbox.
        gate: which keys it may let in; only operators that declare substreams have one.
        stages: what it is made of, if it is stateless.
        states: what it keeps from one call to the next, by name.
        notificators: which times it waits for.
        captured: what it keeps for `Job.captured`, as (time, batch).
    """

    def __init__(self, name: str, notify: bool, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = 0.0
        self.started = 0.0
        self.name = name
        self.notify = notify
        self.inputs: tuple[RunningInput, ...] = ()
        self.outputs: tuple[RunningOutput, ...] = ()
        self.schedule: Schedule
        self.schedules = 0
        self.is_scheduled = False
        self.time: Time | None = None
        self.flow: FlowControl
        self.hooks: WorkerHooks
        self.attachments: Mapping[str, Any] = {}
        self.initial: list[TimestampToken | None] = []
        self.mailbox: Mailbox | None = None
        self.gate: SubstreamGate | None = None
        self.stages: list[RunningStage] = []
        self.states: dict[str, Any] = {}
        self.notificators: list[Notificator] = []
        self.captured: list[tuple[Any, Any]] = []
        self._ports: list[InputPort | OutputPort] = []

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
        returned: object = self.schedule(*self._ports)
        return returned

    def begin(self) -> None:
        """Get ready to be built: the ports are there."""
        self._ports = [*map(InputPort, self.inputs), *map(OutputPort, self.outputs)]
        self.initial = [port.initial_token() for port in self.outputs]

    def discard_initial_tokens(self) -> None:
        """Discard the initial tokens that build did not take."""
        for output, token in enumerate(self.initial):
            if token is not None:
                token.discard()
                self.initial[output] = None

    def work_at(self, time: Time) -> None:
        """Take note that the operator is at work at a time; errors name it."""
        self.time = time
