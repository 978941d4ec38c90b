"""Feeding the inputs of a job from another process than its driver, with handles that were handed over."""

import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from tidewheel.progress import Time
from tidewheel.runtime.errors import JobError, TokenError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.feed import WORKER_THREAD
from tidewheel.runtime.inputs.feeders import FeederName
from tidewheel.runtime.inputs.input_handle import FedInput, InputHandle
from tidewheel.runtime.inputs.ray_feed import FeedAddress, RayFeed
from tidewheel.runtime.worker.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.envelope_codec import ENVELOPES
from tidewheel.runtime.worker.worker_status import WorkerStatus
from tidewheel.transport.link import Sender
from tidewheel.transport.ray_link import RaySender
from tidewheel.transport.socket_address import DRIVER
from tidewheel.transport.socket_link import SocketSender

_LOGGER = logging.getLogger(__name__)
_BEAT_S = 1.0
_ANSWER_S = 60.0
_CONFIRM_S = 2.0
_NUMBER_BITS = 60

_feeds: "WeakValueDictionary[str, RemoteFeed]" = WeakValueDictionary()
_feeds_lock = threading.Lock()


def take_over(address: FeedAddress, name: str, handle: int, time: Time) -> InputHandle:
    """Return, in the process to which it was handed over, a handle of an input."""
    with _feeds_lock:
        feed = _feeds.get(address.job)
        if feed is None or feed.has_left:
            feed = _feeds[address.job] = RemoteFeed(address)
        return feed.take_over(name, handle, time)


class RemoteFeed(RayFeed):
    """One process's end of the inputs of a dataflow whose driver is another process.

    It takes leave once all handles are closed. Until then worker 0 hears from it every second: if its process ends
    without closing its handles, or drops one, the dataflow fails, for what it had to send is missing.
    """

    def __init__(self, address: FeedAddress) -> None:
        number = DRIVER - 1 - secrets.randbits(_NUMBER_BITS)
        super().__init__(address, number, None, threading.RLock())
        self._inputs: dict[str, FedInput] = {}
        self._claimed: set[int] = set()
        self._taken_over: set[int] = set()
        self._handed_on: set[int] = set()
        self._unclaimed: deque[tuple[int, str]] = deque()
        self._abandoned: deque[str] = deque()
        self._has_given_up = False
        self._statuses: dict[int, WorkerStatus] = {}
        self._asked: dict[Any, int] = {}
        self._asking = threading.Lock()
        self._end: Exception | None = None
        self._beating: threading.Thread | None = None
        self._leaving = threading.Event()
        self._poke = threading.Event()

    @property
    def has_left(self) -> bool:
        """Whether all handles were closed, or the job has ended."""
        return self._leaving.is_set()

    def input(self, name: str) -> FedInput:
        """Return this process's account of an input."""
        if name not in self._inputs:
            self._inputs[name] = FedInput(name, self._address.inputs[name], self, is_owner=False)
        return self._inputs[name]

    def take_over(self, name: str, handle: int, time: Time) -> InputHandle:
        """Return a handle that was handed over to this process; it is claimed soon, also if nobody uses it."""
        fed = self.input(name)
        if handle in self._taken_over:
            why = f"was unpickled twice in this process ({_process()}): use what was unpickled first"
            return InputHandle(fed, time, handle, useless_because=why)
        self._taken_over.add(handle)
        self._unclaimed.append((handle, name))
        if self._beating is None:
            self._beating = threading.Thread(target=self._beat, name=f"tidewheel-feed-{self._address.job}", daemon=True)
            self._beating.start()
        self._poke.set()
        return InputHandle(fed, time, handle)

    def ticket(self, name: str, handle: int, time: Time) -> tuple[Any, ...]:
        """Return what a handle is pickled as; it is not this process's."""
        self._handed_on.add(handle)
        return super().ticket(name, handle, time)

    def abandon(self, name: str, reason: str) -> None:
        """Fail the dataflow: what was to be sent by this handle is missing.

        The garbage collector calls it, too, so it takes no lock.
        """
        self._has_given_up = True
        self._abandoned.append(f"input {name!r}: {reason}")

    def fail(self, name: str, error: JobError) -> None:
        """Fail the dataflow, within the next second."""
        self._has_given_up = True
        self._abandoned.append(str(error))
        self._poke.set()

    # ------------------------------------------------------------------ sending

    def _carry(self, worker: int, command: InputCommand) -> None:
        user = command.origin if command.action == "clone" else command.handle
        if user not in self._claimed:
            self._claim(user, command.input)
        super()._carry(worker, command)
        if command.action == "clone" and command.handle not in self._handed_on:
            self._claimed.add(command.handle)
        elif command.action == "close" and worker == self.workers - 1:
            self._claimed.discard(command.handle)

    def _claim(self, handle: int, name: str) -> None:
        """Make sure that no other process uses a handle, and that this one is known."""
        self._check_alive()
        me = FeederName(self._number, _process(), _own_actor())
        owner: str | None = self._ask("claim", handle, me)
        if owner is not None:
            why = (
                f"was pickled once and unpickled twice: {owner} uses it already. Give each process a clone() of its "
                "own; what the function of an operator holds is unpickled on every worker"
            )
            self._inputs[name].refuse(handle, why)
            raise TokenError(f"this handle of input {name!r} {why}")
        self._claimed.add(handle)
        if self.sender is None:
            self.sender = _connect(self._address, self._number)

    def flush(self) -> None:
        """Wait until the workers have all that was sent, once no handle is open; then take leave.

        An operator does not wait, since it may be its own worker that has to come to what was sent; nor does anybody
        before the dataflow is started. Then the thread that gives signs of life does, while the process lives.
        """
        if threading.current_thread().name.startswith(WORKER_THREAD):
            self._poke.set()
        elif not self._is_used:
            self._settle()

    @property
    def _is_used(self) -> bool:
        # Who has given a handle up does not take leave: it stays until the dataflow has failed.
        return self._has_given_up or any(fed.open for fed in list(self._inputs.values()))

    def _settle(self) -> None:
        """Take leave once the workers have all that was sent; wait for that, unless it may take for ever."""
        if self._has_arrived():
            self._leave_if_unused()

    def _has_arrived(self) -> bool:
        import ray

        waiting = list(enumerate(self._sequences))
        while waiting and self._end is None:
            calls = [
                self._address.actors[worker].confirm.remote(self._address.job, self._number, count, _CONFIRM_S)
                for worker, count in waiting
            ]
            try:
                answers = ray.get(calls, timeout=_ANSWER_S)
            except ray.exceptions.RayError as error:
                # They have ended meanwhile, and it is the driver that says whether all was well.
                _LOGGER.debug("job %r has ended: %s", self._address.job, error)
                return True
            if None in answers:
                return False
            waiting = [one for one, has_all in zip(waiting, answers, strict=True) if not has_all]
        return True

    def _leave_if_unused(self) -> None:
        with _feeds_lock:
            if self._is_used or self.has_left:
                return
            self._leaving.set()
        self._poke.set()
        try:
            self._ask("leave", self._number, self._statistics())
            for actor in self._address.actors[1:]:
                actor.leave.options(num_returns=0).remote(self._address.job, self._number, {})
        except JobError as error:
            _LOGGER.debug("%s", error)
        self._disconnect()

    def _disconnect(self) -> None:
        with self.lock:
            if self.sender is not None:
                self.sender.close()

    # ------------------------------------------------------------------ what the workers say

    def _check_alive(self) -> None:
        if self._end is not None:
            raise self._end
        if self.has_left:
            raise JobError(f"the feeder of job {self._address.job!r} in this process has closed all its handles")

    def _status(self, worker: int) -> WorkerStatus | None:
        return self._statuses.get(worker)

    def _wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        import ray

        if not condition():
            with self._asking:
                waiting = set(self._asked.values())
                for worker, actor in enumerate(self._address.actors):
                    if worker not in waiting:
                        status = self._statuses.get(worker)
                        seen = -1 if status is None else status.version
                        self._asked[actor.status.remote(self._address.job, seen, seconds)] = worker
                done, _ = ray.wait(list(self._asked), num_returns=1, timeout=seconds)
                for call in done:
                    self._take(self._asked.pop(call), call)
        self._check_alive()
        return condition()

    def _take(self, worker: int, call: Any) -> None:
        import ray

        try:
            status: WorkerStatus = ray.get(call)
        except ray.exceptions.RayError as error:
            self._lose(error)
            return
        self._statuses[worker] = status
        if status.failure is not None:
            self._end = status.failure

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call worker 0; raise JobError if it has gone."""
        import ray

        try:
            call = getattr(self._address.actors[0], method).remote(self._address.job, *arguments)
            return ray.get(call, timeout=_ANSWER_S)
        except ray.exceptions.RayError as error:
            raise self._lose(error) from None

    def _lose(self, error: Exception) -> JobError:
        cause = getattr(error, "cause", None) or error
        lost = JobError(f"job {self._address.job!r}, which this process feeds, has ended: {cause}")
        self._end = self._end or lost
        return lost

    # ------------------------------------------------------------------ signs of life, on a thread of their own

    def _beat(self) -> None:
        while not self.has_left:
            self._poke.clear()
            try:
                failure = self._speak()
            except JobError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - Ray was shut down
                failure = JobError(f"this process has lost job {self._address.job!r}, which it feeds: {error!r}")
            if failure is not None:
                self._end = self._end or failure
                self._leaving.set()
                self._disconnect()
                self.tell_end(self._end)
            elif not self._is_used:
                self._settle()
            if not self.has_left:
                self._poke.wait(_BEAT_S)

    def _speak(self) -> Exception | None:
        """Claim what was handed over, give a sign of life, tell what was given up; return why the job has failed."""
        while self._unclaimed:
            handle, name = self._unclaimed.popleft()
            with self.lock:
                if handle not in self._claimed and not self.has_left:
                    try:
                        self._claim(handle, name)
                    except TokenError as error:  # whoever uses the handle is told
                        _LOGGER.debug("%s", error)
        failure: Exception | None = self._ask("beat", self._number, self._statistics())
        while self._abandoned:
            self._ask("abandon", self._number, self._abandoned[0])
            self._abandoned.popleft()
        with self.lock:
            if self.sender is not None and not self.has_left:
                with lost_peers_fail_the_job():
                    self.sender.check()
        return failure

    def _statistics(self) -> dict[str, Any]:
        return {name: fed.statistics for name, fed in list(self._inputs.items())}


def _connect(address: FeedAddress, number: int) -> Sender[Envelope]:
    import ray

    node, sockets = ray.get_runtime_context().get_node_id(), address.sockets
    if sockets is None or not sockets.reachable_from(node):
        return RaySender(address.actors, address.job, ENVELOPES)
    return SocketSender(number, node, dict(enumerate(sockets.addresses)), sockets.keys, 0, ENVELOPES, copies=True)


def _process() -> str:
    import ray

    return f"process {os.getpid()} on node {ray.util.get_node_ip_address()}"


def _own_actor() -> Any:
    import ray

    context = ray.get_runtime_context()
    return None if context.get_actor_id() is None else context.current_actor
