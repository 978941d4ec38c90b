"""The inputs of a dataflow as one process feeds them: what it sent to each, and what holds its handles back.

Each process that feeds a dataflow has one `Feed`. It numbers what it sends to each worker without a gap, so that the
workers restore the order.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral
from pickle import PicklingError
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError, TokenError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.asking import Asking
from tidewheel.runtime.inputs.fed_job import EndCall
from tidewheel.runtime.messages.credit import UNTOLD_PARTS
from tidewheel.runtime.messages.envelope import FIRST_HANDLE, Envelope, InputCommand, uncounted_bytes
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.statistics import InputStatistics
from tidewheel.runtime.messages.worker_report import WorkerReport
from tidewheel.transport.frames import unpicklable
from tidewheel.transport.link import Sender

if TYPE_CHECKING:
    from tidewheel.runtime.inputs.input_handle import InputHandle

_LOGGER = logging.getLogger(__name__)

WORKER_THREAD = "tidewheel-worker-"
"""The begin of the names of threads that run operators; workers wait for them, so they must not wait for workers."""

Domains: TypeAlias = Mapping[str, TimeDomain]
"""The times of some inputs or probes, by name."""


class Admission(Enum):
    """How waiting for room ended."""

    ROOM = "there is room"
    LET_IN = "there is none, but the dataflow has nothing left to do and may be waiting for more"
    TIMED_OUT = "there is none, and no time left to wait"


@dataclass(slots=True, eq=False)
class FedInput:
    """An input as one process feeds it: what it sent there in all, and the handles that it has open.

    Attributes:
        name: the input's name.
        domain: its times.
        feed: what carries commands to the workers.
        open: the handles, by number; where it does not keep them, one that is dropped is noticed.
        batches, records, bytes: what was sent.
        waited_s: for how long that waited.
        handed_over: how many handles other processes have.
        sizes: of the records that were sent.
        check: raises TypeError for a batch that is not of the input's type, given how many came before it; None takes
            all.
        closed_at: where its first handle was when that was closed.
        ended: the handles that were closed or handed over, by each number that they had, also in other processes.
    """

    name: str
    domain: TimeDomain
    feed: "Feed"
    open: "MutableMapping[int, InputHandle]" = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    bytes: int = 0
    waited_s: float = 0.0
    handed_over: int = 0
    sizes: RecordSizes = field(default_factory=RecordSizes)
    check: Callable[[Any, int], object] | None = None
    closed_at: InputPosition | None = None
    ended: "WeakValueDictionary[int, InputHandle]" = field(default_factory=WeakValueDictionary)

    @property
    def positions(self) -> Mapping[int, InputPosition]:
        """Where the handles are that are open, and the first one."""
        closed = {} if self.closed_at is None else {FIRST_HANDLE: self.closed_at}
        return closed | {handle.number: handle.position for handle in list(self.open.values())}

    @property
    def times(self) -> tuple[Time, ...]:
        """The times of the handles that are open."""
        return tuple(handle.time for handle in list(self.open.values()))

    def is_at(self, time: Time) -> bool:
        """Tell whether the first handle is open and at a time."""
        first = self.open.get(FIRST_HANDLE)
        return first is not None and first.time == time

    def check_worker(self, worker: object) -> None:
        """Raise TokenError unless this is the number of a worker, or None."""
        is_number = isinstance(worker, Integral) and not isinstance(worker, bool)
        if worker is not None and not (is_number and worker in range(self.feed.workers)):
            raise TokenError(f"input {self.name!r} has no worker {worker!r}: there are {self.feed.workers}, from 0 on")

    @property
    def statistics(self) -> InputStatistics:
        """What was sent, and how long it waited for the dataflow."""
        return InputStatistics(self.batches, self.records, self.bytes, self.waited_s)


class Feed(Asking):
    """Carries what the handles of one process say to the workers, in order, and says when they have to wait.

    Args:
        number: by which envelopes name this process.
        workers: how many workers there are.
        lock: what to hold while an input, or the sender, is used.
        config: the limits.
        probes: the domains of the dataflow's outermost probes, by name.

    Attributes:
        sender: the link to the workers.
        inputs: the inputs that this process feeds, or has fed, by name.
        sequences: how many envelopes were sent to each worker.
        is_carrying: whether a command is being pickled and sent.
        incarnation: that of the workers, for envelopes.
        snapshot: the number of the snapshot that this process is in; see `Cut`.
    """

    sender: Sender[Envelope]

    def __init__(self, number: int, workers: int, lock: RLock, config: RuntimeConfig, probes: Domains) -> None:
        super().__init__()
        self.number = number
        self.workers = workers
        self.lock = lock
        self.epochs_ahead = config.epochs_ahead
        self.inputs: dict[str, FedInput] = {}
        self.sequences = [0] * workers
        self.is_carrying = False
        self.snapshot = self.incarnation = 0
        self._probes = probes
        self._limit = config.bytes_in_flight
        self._submitted = [0] * workers
        self._ending = Lock()
        self._is_over = False
        self._failure: Exception | None = None
        self._end_calls: list[EndCall] = []
        self._take_snapshot: Callable[[float], object] | None = None

    # ------------------------------------------------------------------ for handles

    def submit(self, worker: int, command: InputCommand) -> None:
        """Hand a command to one worker's share of an input.

        Raises:
            JobError: the job has failed or was stopped, or the batch cannot be pickled; nothing was sent.
        """
        self.check_alive()
        self.is_carrying = True
        try:
            envelope = self._envelope(worker, commands=[command])
            sent = self.send(worker, envelope)
        except (TypeError, AttributeError, PicklingError) as error:
            reason = unpicklable(command, error)
            name = command.input
            raise JobError(f"input {name!r}: a batch cannot be pickled, so it was not sent: {reason}") from None
        finally:
            self.is_carrying = False
        self._submitted[worker] += command.size + uncounted_bytes(envelope, sent)

    def begin_snapshot(self, number: int) -> None:
        """Tell all workers that a snapshot begins; what was sent before belongs to it, and what is sent later does not.

        Raises:
            JobError: the job has failed or was stopped.
        """
        with self.lock:
            self.check_alive()
            self.snapshot = number
            positions = {name: fed.positions for name, fed in self.inputs.items()}
            for worker in range(self.workers):
                self.send(worker, self._envelope(worker, marker=() if worker else positions))

    def tell_saved(self, number: int) -> None:
        """Tell the workers that a snapshot is durable. Raises JobError if the job has failed or was stopped."""
        with self.lock:
            self.check_alive()
            for worker in range(self.workers):
                self.send(worker, self._envelope(worker, saved=number))

    def _envelope(self, worker: int, **parts: Any) -> Envelope:
        """Return the next envelope for a worker."""
        return Envelope(self.number, self.incarnation, self.sequences[worker], snapshot=self.snapshot, **parts)

    def send(self, worker: int, envelope: Envelope) -> int:
        """Send a worker an envelope and return its size; the number of one that cannot be pickled is still free."""
        with lost_peers_fail_the_job():
            size = self.sender.send(worker, envelope)
        self.sequences[worker] += 1
        self.note_sent(worker, envelope)
        return size

    def has_room(self, worker: int, size: int) -> bool:
        """Tell whether so many bytes may be sent to a worker now."""
        on_their_way = self._submitted[worker] - self._taken(worker)
        # Workers need not say at once that they have taken a little; and a batch larger than the limit goes alone.
        return on_their_way + size <= self._limit or on_their_way <= self._limit // UNTOLD_PARTS

    def is_past(self, time: Time) -> bool:
        """Tell whether a time is complete at every outermost probe, as far as is known."""
        return not any(self.frontier(name, domain).less_equal(time) for name, domain in self._probes.items())

    @abstractmethod
    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        """Return the frontier at a probe with times of ``domain``, as far as is known."""

    @abstractmethod
    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Wait until ``condition()`` holds, for so many seconds at most; None waits as long as the job lives."""

    @abstractmethod
    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        """Return what a handle is pickled as, once it was handed over: a function and its arguments.

        Raises:
            TokenError: the job runs in this process alone.
        """

    def abandon(self, name: str, reason: str) -> None:
        """Say that a handle of an input was given up before it was closed, where nobody else would notice."""

    @abstractmethod
    def fail(self, error: JobError) -> None:
        """Fail the job with an error, since an input cannot be fed any more; from any thread."""

    def wait_until_usable(self) -> None:
        """Wait while the job goes back to a snapshot; not with the lock."""

    def save(self, timeout: float) -> None:
        """Wait until a snapshot has all that was sent before this call; if the job keeps none, do nothing.

        Raises:
            JobError: the job has failed or was stopped, or this is not its driver; see `check_saves`.
            SnapshotError: the snapshot was not taken.
            TimeoutError: it is not complete within ``timeout`` seconds.
        """
        if self._take_snapshot is not None:
            self._take_snapshot(timeout)

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the job keeps snapshots, which this process can take."""
        return self._take_snapshot is not None

    def check_saves(self) -> None:
        """Raise JobError if the job keeps snapshots, and this process does not know when one is complete."""

    def flush(self) -> None:
        """Wait until the workers have what was submitted, if this process may end before they do."""

    @abstractmethod
    def _taken(self, worker: int) -> int:
        """Return how many of the bytes that were submitted to a worker its inputs have taken, as far as is known."""

    # ------------------------------------------------------------------ the end of the job

    def when_over(self, call: EndCall) -> None:
        """Have ``call(failure)`` called once the job has failed, or with None if it was stopped; at once if it is over.

        It must not wait.
        """
        with self._ending:
            if not self._is_over:
                self._end_calls.append(call)
                return
        _tell(call, self._failure)

    def forget(self, call: EndCall) -> None:
        """Call ``call`` no more when the job is over. Idempotent."""
        with self._ending:
            if call in self._end_calls:
                self._end_calls.remove(call)

    def go_on_from(self, before: "Feed") -> None:
        """Have the inputs of a feed whose workers are gone, and tell those of the end whom that would have told."""
        self.inputs = before.inputs
        with before._ending:
            calls, before._end_calls = before._end_calls, []
        for call in calls:
            self.when_over(call)

    def tell_end(self, failure: Exception | None) -> None:
        """Say, from any thread, that the job has failed or, if that is None, was stopped. Idempotent."""
        with self._ending:
            if self._is_over:
                return
            self._is_over, self._failure = True, failure
            calls, self._end_calls = self._end_calls, []
        for call in calls:
            _tell(call, failure)

    # ------------------------------------------------------------------ for people

    @property
    def left_open(self) -> list[str]:
        """The names of the inputs that this process has open."""
        return [name for name, fed in self.inputs.items() if fed.open]

    @property
    def to_close(self) -> str:
        """The names of the inputs that this process has open, for people, and where the clones are."""
        clones = [name for name, fed in self.inputs.items() if set(fed.open) - {FIRST_HANDLE}]
        names = ", ".join(map(repr, self.left_open))
        return names + "".join(
            f"; job.handles({name!r}) has the clones, also if the program has not" for name in clones
        )

    def describe(self, among: Collection[str] | None = None) -> str:
        """Say for people which inputs are open; ``among`` has the names of those that matter, None if all do."""
        handles = [
            handle
            for name, fed in self.inputs.items()
            if among is None or name in among
            for handle in list(fed.open.values())
        ]
        open_here = ", ".join(f"{handle.name!r} at time {handle.time!r}" for handle in handles)
        handed_over = [f"{fed.handed_over} of {name!r}" for name, fed in self.inputs.items() if fed.handed_over]
        elsewhere = f"; handles that were handed to other processes: {', '.join(handed_over)}" if handed_over else ""
        lost = {f"; job.handles({one.name!r}) has the clones" for one in handles if one.number != FIRST_HANDLE}
        here = f"open inputs: {open_here}{''.join(sorted(lost))}" if handles else "all inputs are closed"
        return here + elsewhere

    def statistics(self, reports: Sequence[WorkerReport] = ()) -> dict[str, InputStatistics]:
        """Return what was sent to each input: by this process and, as workers report it, by others."""
        inputs = {name: fed.statistics for name, fed in list(self.inputs.items())}
        for report in reports:
            inputs.update({name: inputs[name] + one for name, one in report.fed.items()})
        return inputs


def _tell(call: EndCall, failure: Exception | None) -> None:
    """Tell a program that asked that the job is over; what goes wrong there is logged, and the job ends as usual."""
    try:
        call(failure)
    except Exception:
        _LOGGER.exception("the callback for the end of the job has failed")
