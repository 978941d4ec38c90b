"""The commands of one process that feeds a dataflow, and the limits on its handles.

Each such process has one `Feed`. It numbers the envelopes to each worker without gaps, so that the worker can restore
their order.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from pickle import PicklingError
from threading import RLock
from typing import Any, TypeAlias

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.asking import Asking
from tidewheel.runtime.inputs.end_calls import EndCalls
from tidewheel.runtime.inputs.fed_inputs import FedInputs
from tidewheel.runtime.messages.credit import UNTOLD_PARTS
from tidewheel.runtime.messages.envelope import Envelope, InputCommand, uncounted_bytes
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.transport.frames import unpicklable

WORKER_THREAD = "tidewheel-worker-"
"""The prefix of the names of threads that run operators.

Workers wait for these threads, which must not wait for workers.
"""

Domains: TypeAlias = Mapping[str, TimeDomain]
"""The domains of the times of inputs or probes, by name."""


class Admission(Enum):
    ROOM = "there is room"
    LET_IN = "there is none, but the dataflow has nothing left to do and may be waiting for more"
    TIMED_OUT = "there is none, and no time left to wait"


class Feed(ABC):
    """Carries the commands of one process's handles to the workers, in order, and lets handles wait at their limits.

    Args:
        lock: callers hold the lock while they use an input or the sender.

    Attributes:
        told: how many envelopes were sent to each worker, not counting questions.
        is_carrying: whether a command is being pickled and sent.
    """

    def __init__(self, number: int, workers: int, lock: RLock, config: RuntimeConfig, probes: Domains) -> None:
        self.number = number
        self.workers = workers
        self.lock = lock
        self.epochs_ahead = config.epochs_ahead
        self.inputs = FedInputs()
        self.questions = Asking(self)
        self.end_calls = EndCalls()
        self.sequences = [0] * workers
        self.told = Counter[int]()
        self.is_carrying = False
        self.incarnation = 0
        self.snapshot = 0
        self._probes = probes
        self._limit = config.bytes_in_flight
        self._submitted = [0] * workers
        self._take_snapshot: Callable[[float], object] | None = None

    # ------------------------------------------------------------------ for handles

    def submit(self, worker: int, command: InputCommand) -> None:
        """Send a command to one worker's part of an input.

        Raises:
            JobError: the job has failed or was stopped, or the batch cannot be pickled; nothing was sent.
        """
        self.check_alive()
        self.is_carrying = True
        try:
            envelope = self.envelope(worker, commands=[command])
            sent = self.send(worker, envelope)
        except (TypeError, AttributeError, PicklingError) as error:
            reason = unpicklable(command, error)
            name = command.input
            raise JobError(f"input {name!r}: a batch cannot be pickled, so it was not sent: {reason}") from None
        finally:
            self.is_carrying = False
        self._submitted[worker] += command.size + uncounted_bytes(envelope, sent)

    def begin_snapshot(self, number: int) -> None:
        """Tell all workers that a snapshot begins.

        The snapshot has all batches sent before this call, and none sent later.

        Raises:
            JobError: the job has failed or was stopped.
        """
        with self.lock:
            self.check_alive()
            self.snapshot = number
            positions = {name: fed.positions for name, fed in self.inputs.items()}
            for worker in range(self.workers):
                self.send(worker, self.envelope(worker, marker=() if worker else positions))

    def tell_saved(self, number: int) -> None:
        """Tell the workers that a snapshot is durable; raise JobError if the job has ended."""
        with self.lock:
            self.check_alive()
            for worker in range(self.workers):
                self.send(worker, self.envelope(worker, saved=number))

    def envelope(self, worker: int, **parts: Any) -> Envelope:
        return Envelope(self.number, self.incarnation, self.sequences[worker], snapshot=self.snapshot, **parts)

    @abstractmethod
    def send(self, worker: int, envelope: Envelope) -> int:
        """Send a worker an envelope; return its size in bytes.

        If pickling fails, the next envelope gets the same number.
        """

    def note_sent(self, worker: int, envelope: Envelope) -> None:
        self.sequences[worker] += 1
        if envelope.question is None:
            self.told[worker] = self.sequences[worker]

    @abstractmethod
    def check_alive(self) -> None:
        """Raise JobError if this process knows that the job has failed or was stopped."""

    def receive_answers(self) -> None:  # noqa: B027 - only a local job has to
        ...

    def has_room(self, worker: int, size: int) -> bool:
        on_their_way = self._submitted[worker] - self._taken(worker)
        # Workers need not report small amounts at once. A batch above the limit is sent alone.
        return on_their_way + size <= self._limit or on_their_way <= self._limit // UNTOLD_PARTS

    def is_past(self, time: Time) -> bool:
        """Tell whether a time is known to be complete at every outermost probe."""
        return not any(self.frontier(name, domain).less_equal(time) for name, domain in self._probes.items())

    @abstractmethod
    def frontier(self, probe: str, domain: TimeDomain) -> Antichain: ...

    @abstractmethod
    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        """Wait until ``condition()`` is true, at most ``timeout_s`` seconds; with None, as long as the job lives."""

    @abstractmethod
    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        """Return the function, and its arguments, that unpickle a handle in another process.

        Raises:
            TokenError: the job runs in this process alone.
        """

    def abandon(self, name: str, reason: str) -> None:  # noqa: B027 - the driver notices itself
        """Report a handle that was dropped before it was closed, unless its process has another way to notice that."""

    @abstractmethod
    def fail(self, error: JobError) -> None:
        """Fail the job, since an input can no longer be fed; thread-safe."""

    def wait_until_usable(self) -> None:  # noqa: B027 - only the driver on Ray has to
        """Wait while the job returns to a snapshot. The caller must not hold the lock."""

    def save(self, timeout_s: float) -> None:
        """Wait until a snapshot has all batches sent before this call; return at once in a job without snapshots.

        Raises:
            JobError: the job has failed or was stopped, or this process is not its driver.
            SnapshotError: the snapshot was not taken.
            TimeoutError: the snapshot is not complete within ``timeout_s`` seconds.
        """
        if self._take_snapshot is not None:
            self._take_snapshot(timeout_s)

    @property
    def keeps_snapshots(self) -> bool:
        return self._take_snapshot is not None

    def check_saves(self) -> None:  # noqa: B027 - only another process has to
        """Raise JobError if the job keeps snapshots that this process cannot know about."""

    def flush(self) -> None:  # noqa: B027 - only another process has to
        """Wait until the workers have all commands, if this process may end before the job."""

    @abstractmethod
    def _taken(self, worker: int) -> int:
        """Return how many of the bytes sent to a worker are known to have reached its inputs."""
