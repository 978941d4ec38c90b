"""A feed whose commands go into a list."""

import threading
from collections.abc import Callable
from typing import Any

from tidewheel.progress import Antichain, IntegerDomain, TimeDomain
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.fed_inputs import FedInput
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.transport.socket_address import DRIVER


class ListFeed(Feed):
    """Feeds workers that do nothing.

    Attributes:
        submitted: the commands, each with the number of the worker that it is for.
        abandoned: why handles were given up.
        failures: how the job was to fail.
        flushed: how often a handle waited for what it had sent to arrive.
        has_taken: whether the workers have taken all that was sent.
        last_timeout: what `wait` was told, which never finds room.
    """

    def __init__(self, workers: int, bytes_in_flight: int = 1 << 30) -> None:
        super().__init__(DRIVER, workers, threading.RLock(), RuntimeConfig(bytes_in_flight=bytes_in_flight), {})
        self.submitted: list[tuple[int, InputCommand]] = []
        self.flushed = 0
        self.abandoned: list[str] = []
        self.failures: list[JobError] = []
        self.has_taken = True
        self.last_timeout: float | None = -1.0

    def handle(self, name: str = "numbers") -> InputHandle:
        """Return the first handle of an input."""
        domain = IntegerDomain()
        return InputHandle(FedInput(name, domain, self), domain.minimum())

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        raise NotImplementedError

    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        self.last_timeout = timeout_s
        return Admission.TIMED_OUT

    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        return tuple, ([name, handle, position.time],)

    def abandon(self, name: str, reason: str) -> None:
        self.abandoned.append(reason)

    def fail(self, error: JobError) -> None:
        self.failures.append(error)

    def flush(self) -> None:
        self.flushed += 1

    def check_alive(self) -> None:
        """The job never ends."""

    def send(self, worker: int, envelope: Envelope) -> int:
        self.submitted += [(worker, command) for command in envelope.commands]
        return 0

    def _taken(self, worker: int) -> int:
        return self._submitted[worker] if self.has_taken else 0
