"""The feed of a job's inputs in a process that has received handles from another."""

import logging
import os
import secrets
import threading
import time as clock
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from tidewheel.host.ray_cluster import NAMESPACE
from tidewheel.host.until import until
from tidewheel.host.worker_names import worker_name
from tidewheel.progress import Antichain, TimeDomain
from tidewheel.runtime.errors import JobError, JobRolledBack, TokenError
from tidewheel.runtime.inputs.asking import ask_workers
from tidewheel.runtime.inputs.fed_inputs import FedInput
from tidewheel.runtime.inputs.feed import WORKER_THREAD, Admission, Feed
from tidewheel.runtime.inputs.feed_link import FeedAddress, FeedLink, link_ends
from tidewheel.runtime.inputs.feeders import Claim
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.messages.feeder_status import FeederName, FeederStatus
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.worker_report import BusyWorker
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.transport.socket_address import DRIVER

_LOGGER = logging.getLogger(__name__)
_ANSWER_S = 60.0
_NUMBER_BITS = 60
_LOOK_S = 1.0
_DEATH_TOLD_WITHIN_S = 5.0
_NOBODY_S = 20.0
_GOES_BACK_WITHIN_S = 300.0

_feeds: "WeakValueDictionary[tuple[str, int], RemoteFeed]" = WeakValueDictionary()
_feeds_lock = threading.Lock()


def take_over(address: FeedAddress, name: str, handle: int, position: InputPosition, snapshot: int) -> InputHandle:
    with _feeds_lock:
        feed = _feeds.get((address.job, address.incarnation))
        if feed is None or feed.has_left:
            feed = _feeds[address.job, address.incarnation] = RemoteFeed(address)
        return feed.take_over(name, handle, position, snapshot)


def ticket(address: FeedAddress, name: str, handle: int, position: InputPosition, snapshot: int) -> tuple[Any, ...]:
    """Return the function, and its arguments, that unpickle a handle."""
    return take_over, (address, name, handle, position, snapshot)


class RemoteFeed(Feed):
    """Feeds a dataflow whose driver is another process.

    The feed leaves the job once all its handles are closed. Until then it reports to worker 0 every second: if its
    process ends or drops a handle, records are missing and the dataflow fails.

    The feed takes part in snapshots once worker 0 knows it. A worker's status announces a new snapshot. When the job
    returns to a snapshot, the driver has the handles again, and the handles in this process are useless.
    """

    def __init__(self, address: FeedAddress) -> None:
        number = DRIVER - 1 - secrets.randbits(_NUMBER_BITS)
        super().__init__(number, len(address.actors), threading.RLock(), address.config, address.probes)
        self.incarnation = address.incarnation
        self._address = address
        self._changed = threading.Condition()
        self._link = FeedLink(self, address, link_ends(address, number), self._changed)
        self._given_up: str | None = None
        self._claimed: set[int] = set()
        self._taken_over: set[int] = set()
        self._unclaimed: deque[tuple[int, str]] = deque()
        self._told_to_leave: set[int] = set()
        self._is_member = False
        self._end: Exception | None = None
        self._deciding = threading.Lock()
        self._is_decided = False
        self.has_left = False

    def take_over(self, name: str, handle: int, position: InputPosition, snapshot: int) -> InputHandle:
        """Return a handle that was passed to this process. The feed soon claims the handle, even if it is not used."""
        self.snapshot_begun(snapshot)
        fed = self.inputs.get(name)
        if fed is None:
            fed = self.inputs[name] = FedInput(name, self._address.inputs[name], self, WeakValueDictionary())
        if handle in self._taken_over:
            why = f"was unpickled twice in this process ({_process()}): use what was unpickled first"
            return InputHandle(fed, position.time, handle, useless_because=why)
        found = InputHandle(fed, position.time, handle)
        found._begin_at(position)
        self._taken_over.add(handle)
        self._claimed.discard(handle)  # the handle may be claimed if this process has made it, and handed it over
        self._unclaimed.append((handle, name))
        if not self._link.has_joined:
            self._link.join()
        self._link.wake()
        return found

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        return self._link.frontier(probe, domain)

    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        return self._link.wait(condition, timeout_s)

    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        return ticket(self._address, name, handle, position, self.snapshot)

    def _taken(self, worker: int) -> int:
        return self._link.statuses[worker].taken

    def abandon(self, name: str, reason: str) -> None:
        """Fail the dataflow: records of this handle are missing.

        This takes no lock, since the garbage collector may call it.
        """
        self._given_up = self._given_up or f"input {name!r}: {reason}"

    def fail(self, error: JobError) -> None:
        """Fail the dataflow, within the next second."""
        self._given_up = self._given_up or str(error)

    def flush(self) -> None:
        """Once no handle is open, wait until the workers have all commands.

        On an operator's thread this does not wait, since the operator's worker may have to receive the commands.

        Raises:
            JobError: no worker has answered for ``hang_timeout_s`` seconds, although no worker runs an operator.
        """
        self._link.wake()
        if threading.current_thread().name.startswith(WORKER_THREAD):
            return
        patience_s = self._address.config.hang_timeout_s
        while not self._is_flushed(patience_s):
            reports = ask_workers(self._address.actors, self._address.job)
            if not any(isinstance(report, BusyWorker) and report.operator is not None for report in reports):
                missing = [
                    worker for worker, sent in enumerate(self.sequences) if self._link.statuses[worker].heard != sent
                ]
                raise JobError(
                    f"job {self._address.job!r}: for {patience_s:g} s, worker {', '.join(map(str, missing))} has not "
                    "confirmed what this process has sent (RuntimeConfig.hang_timeout_s), so some may be lost"
                )
        if self._end is not None:
            self.check_alive()

    def _is_flushed(self, patience_s: float) -> bool:
        with self._changed:
            while not (self._is_used or self._link.is_closed):
                if not self._changed.wait(patience_s):
                    return self._is_used or self._link.is_closed
        return True

    @property
    def _is_used(self) -> bool:
        # A feeder that has given up a handle stays until the dataflow has failed.
        return self._given_up is not None or any(fed.open for fed in list(self.inputs.values()))

    def submit(self, worker: int, command: InputCommand) -> None:
        user = command.origin if command.action == "clone" else command.handle
        if user not in self._claimed:
            self._claim(user, command.input)
        super().submit(worker, command)
        if command.action == "clone":
            self._claimed.add(command.handle)
        elif command.action == "close" and worker == self.workers - 1:
            self._claimed.discard(command.handle)

    def send(self, worker: int, envelope: Envelope) -> int:
        """Send a worker an envelope. If that fails because the job has ended, raise as `check_alive`."""
        try:
            size = self._link.send(worker, envelope)
        except JobError as error:
            self.lose(error)
            self.check_alive()
            raise
        self.note_sent(worker, envelope)
        return size

    def _claim(self, handle: int, name: str) -> None:
        """Make sure that no other process uses a handle, and that worker 0 knows this process.

        If a process dies, Ray may repeat its call, with the same handle, in another process. So before a refusal, this
        waits a while for the job to return to a snapshot, and then raises JobRolledBack instead.
        """
        import ray

        self.check_alive()
        context = ray.get_runtime_context()
        actor = None if context.get_actor_id() is None else context.current_actor
        me = FeederName(self.number, _process(), actor)
        claims: list[Claim] = []

        def is_own() -> bool:
            call = self._address.actors[0].claim.remote(self._address.job, self.incarnation, handle, me)
            claims[:] = [ray.get(call, timeout=_ANSWER_S)]
            return claims[0].owner is None

        try:
            until(is_own, within_s=_DEATH_TOLD_WITHIN_S if self._address.goes_back else 0.0)
        except ray.exceptions.RayError as error:
            self.lose(self._link.why_ended(error))
            self.check_alive()
            raise
        [claim] = claims
        if claim.owner is not None:
            why = (
                f"was pickled once and unpickled twice: {claim.owner} was the first to use it. Give each process a "
                "clone() of its own; what the function of an operator holds is unpickled on every worker"
            )
            refused = self.inputs[name].open.pop(handle, None)
            if refused is not None:
                refused._ended = why
            raise TokenError(f"this handle of input {name!r} {why}")
        if not self._is_member:
            self._is_member = True
            if self.snapshot > claim.snapshot:  # worker 0 has not begun this snapshot, and will wait for this feeder
                self.begin_snapshot(self.snapshot)
            self.snapshot = max(self.snapshot, claim.snapshot)
        self._claimed.add(handle)

    def check_alive(self) -> None:
        """Raise JobError if the job has ended or this feed has left it, JobRolledBack if the job has gone back."""
        if self._end is not None:
            raise self._decided_end(self._end)
        if self.has_left:
            raise JobError(f"the feeder of job {self._address.job!r} in this process has closed all its handles")

    def begin_snapshot(self, number: int) -> None:
        with self.lock:
            if not self.has_left:
                super().begin_snapshot(number)

    def save(self, timeout_s: float) -> None:
        self.check_saves()

    def check_saves(self) -> None:
        if self._address.keeps_snapshots:
            raise JobError(
                f"job {self._address.job!r} keeps snapshots, and only its driver knows when one is complete: do this "
                "in the process that has called run()"
            )

    def _decided_end(self, end: Exception) -> Exception:
        with self._deciding:
            if not self._is_decided:
                is_final = not self._address.goes_back or getattr(end, "operator", None) is not None
                if not is_final and has_gone_back(self._address):
                    self._end = JobRolledBack(
                        f"job {self._address.job!r} has gone back to a snapshot, as a worker or feeder has died. Its "
                        "driver has the handles of this process again, where the snapshot has them: job.input(name), "
                        "job.handles(name). Hand them over again, and send what comes after their positions"
                    )
                self._is_decided = True
            return self._end or end

    # ------------------------------------------------------------------ for the link

    def tell(self, worker: int, *, is_leaving: bool = False) -> None:
        with self.lock:
            if worker in self._told_to_leave:
                return
            if is_leaving:
                self._told_to_leave.add(worker)
            if not self._link.is_closed:
                status = FeederStatus(self._link.listens_at, self.inputs.statistics(), self._given_up, is_leaving)
                self.send(worker, self.envelope(worker, status=status))

    def written(self, part: WrittenPart) -> None: ...

    def snapshot_begun(self, number: int) -> None:
        if number <= self.snapshot:
            return
        with self.lock:
            if number > self.snapshot:
                if self._is_member:
                    self.begin_snapshot(number)
                else:
                    self.snapshot = number

    def look(self) -> None:
        self.tell(0)

    def go_on(self) -> None:
        while self._unclaimed:
            handle, name = self._unclaimed.popleft()
            with self.lock:
                if handle not in self._claimed and not self.has_left:
                    try:
                        self._claim(handle, name)
                    except TokenError as error:  # the handle's user receives the error
                        _LOGGER.debug("%s", error)
        if not self.has_left and not self._is_used:
            with _feeds_lock, self.lock:  # a closing handle has this lock until it has reported its end
                self.has_left = not self._is_used
        if self.has_left:
            self._leave()

    def _leave(self) -> None:
        """Leave the job: worker 0 last, after the other workers have all commands.

        Until then, worker 0 notices if this process dies.
        """
        for workers in (range(1, self.workers), range(1)):
            for worker in workers:
                self.tell(worker, is_leaving=True)
            if any(self._link.statuses[worker].heard != self.sequences[worker] for worker in workers):
                return
        self._link.is_closed = True

    def lose(self, error: Exception) -> None:
        self._end = self._end or error
        self.has_left = True
        self._link.end()

    def disconnected(self) -> None:
        if self._end is not None:
            self.end_calls.tell(self._decided_end(self._end))


def has_gone_back(address: FeedAddress) -> bool:
    """Tell whether a job has continued from a snapshot with other workers; wait while that is undecided.

    If the job has had no workers for a while, not even workers that have left it, it has ended.
    """
    import ray

    gives_up_at = clock.monotonic() + _NOBODY_S
    has_others = False

    def is_decided() -> bool:
        nonlocal gives_up_at, has_others
        for worker in range(len(address.actors)):
            try:
                actor: Any = ray.get_actor(worker_name(address.job, worker), namespace=NAMESPACE)
                incarnation: int = ray.get(actor.incarnation.remote(address.job), timeout=_LOOK_S)
            except (ray.exceptions.RayTaskError, ray.exceptions.GetTimeoutError):
                gives_up_at = clock.monotonic() + _NOBODY_S
            except (ValueError, ray.exceptions.RayError):
                continue
            else:
                if incarnation != address.incarnation:
                    has_others = True
                    return True
                gives_up_at = clock.monotonic() + _NOBODY_S
        return clock.monotonic() >= gives_up_at

    until(is_decided, within_s=_GOES_BACK_WITHIN_S)
    return has_others


def _process() -> str:
    import ray

    return f"process {os.getpid()} on node {ray.util.get_node_ip_address()}"
