"""Feeding the inputs of a job that runs in Ray actors: what the driver and other processes have in common."""

import threading
import time as clock
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.engines.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.worker.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker.worker_status import WorkerStatus
from tidewheel.transport.errors import PeerLost
from tidewheel.transport.link import Sender
from tidewheel.transport.pickling import unpicklable
from tidewheel.transport.socket_address import SocketPeers

_REPORT_TIMEOUT_S = 2.0
_QUIET_S = 0.2


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """Where a dataflow is fed.

    Attributes:
        job: the name of its job.
        actors: the workers.
        sockets: where they listen, None if they take nothing but calls.
        inputs: their domains.
        probes: the domains of its outermost probes.
        config: the limits.
    """

    job: str
    actors: Sequence[Any]
    sockets: SocketPeers | None
    inputs: Mapping[str, TimeDomain]
    probes: Mapping[str, TimeDomain]
    config: RuntimeConfig


class RayFeed(Feed):
    """Sends commands to worker actors, by either link.

    Args:
        address: of the dataflow.
        number: by which envelopes name this feeder.
        sender: carries envelopes to the workers; None as long as there is no connection.
        lock: what to hold while an input, or ``sender``, is used.
    """

    def __init__(
        self, address: FeedAddress, number: int, sender: Sender[Envelope] | None, lock: threading.RLock
    ) -> None:
        config = address.config
        super().__init__(len(address.actors), lock, config.bytes_in_flight, config.epochs_ahead)
        self._address = address
        self._number = number
        self.sender = sender
        self._sequences = [0] * self.workers

    def is_past(self, time: Time) -> bool:
        """Tell whether a time is complete at every outermost probe, as far as is known."""
        return not any(self.frontier(name, domain).less_equal(time) for name, domain in self._address.probes.items())

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        """Return the frontier at a probe, as worker 0 last told it."""
        status = self._status(0)
        if status is None or probe not in status.probes:
            return Antichain(domain, [domain.minimum()])
        return Antichain.from_minimal(domain, status.probes[probe])

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Wait until ``condition()`` holds, or nothing is left for the workers to do."""
        deadline = None if timeout is None else clock.monotonic() + timeout
        before: list[int] | None = None
        while True:
            slice_s = _QUIET_S if deadline is None else min(_QUIET_S, max(0.0, deadline - clock.monotonic()))
            if self._wait_for_news(condition, slice_s):
                return Admission.ROOM
            if deadline is not None and clock.monotonic() >= deadline:
                return Admission.TIMED_OUT
            before, earlier = self._steps_if_idle(), before
            if before is not None and before == earlier:
                return Admission.LET_IN

    def _steps_if_idle(self) -> list[int] | None:
        """Return how many steps each worker has taken, None if some worker has something to do."""
        reports = self.reports()
        if any(isinstance(report, BusyWorker) or report.scheduled for report in reports):
            return None
        return [report.statistics.steps for report in reports if isinstance(report, WorkerReport)]

    def reports(self) -> Sequence[WorkerReport | BusyWorker]:
        """Return what each worker says of itself."""
        import ray

        calls = [actor.report.remote(self._address.job, _REPORT_TIMEOUT_S) for actor in self._address.actors]
        ray.wait(calls, num_returns=len(calls), timeout=2 * _REPORT_TIMEOUT_S)
        return [_report_of(worker, call) for worker, call in enumerate(calls)]

    def ticket(self, name: str, handle: int, time: Time) -> tuple[Any, ...]:
        """Return what a handle is pickled as."""
        from tidewheel.runtime.inputs.remote_feed import take_over

        return take_over, (self._address, name, handle, time)

    def _taken(self, worker: int) -> int:
        status = self._status(worker)
        return 0 if status is None else status.taken.get(self._number, 0)

    def _carry(self, worker: int, command: InputCommand) -> None:
        self._check_alive()
        assert self.sender is not None, "it is there as long as the job is alive"
        envelope = Envelope(self._number, 0, self._sequences[worker], commands=[command])
        try:
            self.sender.send(worker, envelope)
        except (TypeError, AttributeError, PicklingError) as error:
            # Nothing was sent, so the number is still free and the job goes on.
            reason = unpicklable(command, error)
            name = command.input
            raise JobError(f"input {name!r}: a batch cannot be pickled, so it was not sent: {reason}") from None
        except PeerLost as lost:
            raise JobError(str(lost), worker=lost.worker) from lost.__cause__
        self._sequences[worker] += 1

    @abstractmethod
    def _check_alive(self) -> None:
        """Raise JobError if the job has failed or was stopped, as far as is known."""

    @abstractmethod
    def _status(self, worker: int) -> WorkerStatus | None:
        """Return the last status of a worker that is known."""

    @abstractmethod
    def _wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Take in what workers report, until ``condition()`` holds or the job has ended; return whether that is so."""


def _report_of(worker: int, call: Any) -> WorkerReport | BusyWorker:
    import ray

    try:
        report: WorkerReport | BusyWorker = ray.get(call, timeout=0)
    except ray.exceptions.RayError:  # too late, or it has died, of which whoever watches it will tell
        return BusyWorker(worker)
    return report
