"""Feeding the inputs of a job from another process than its driver, with handles that were handed over."""

import logging
import os
import secrets
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from tidewheel.progress import Time
from tidewheel.runtime.envelope import DRIVER, InputCommand
from tidewheel.runtime.errors import JobError, TokenError
from tidewheel.runtime.inputs.feeders import FeederName
from tidewheel.runtime.inputs.input_handle import FedInput, InputHandle
from tidewheel.runtime.inputs.ray_feed import FeedAddress, RayFeed
from tidewheel.runtime.links.link import Sender
from tidewheel.runtime.links.ray_link import RaySender
from tidewheel.runtime.links.socket_link import SocketSender
from tidewheel.runtime.worker_status import WorkerStatus

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
        return InputHandle(feed.input(name), time, handle)


class RemoteFeed(RayFeed):
    """One process's end of the inputs of a dataflow whose driver is another process.

    It connects when a handle is first used, and takes leave once all are closed. In between worker 0 hears from it
    every second: if its process ends without closing its handles, the dataflow fails, for what it had to send is
    missing.
    """

    def __init__(self, address: FeedAddress) -> None:
        number = DRIVER - 1 - secrets.randbits(_NUMBER_BITS)
        super().__init__(address, number, None, threading.RLock())
        self._inputs: dict[str, FedInput] = {}
        self._claimed: set[int] = set()
        self._statuses: dict[int, WorkerStatus] = {}
        self._asked: dict[Any, int] = {}
        self._asking = threading.Lock()
        self._end: Exception | None = None
        self._beating: threading.Thread | None = None
        self._leaving = threading.Event()

    @property
    def has_left(self) -> bool:
        """Whether all handles were closed, or the job has ended."""
        return self._leaving.is_set()

    def input(self, name: str) -> FedInput:
        """Return this process's account of an input."""
        if name not in self._inputs:
            self._inputs[name] = FedInput(name, self._address.inputs[name], self)
        return self._inputs[name]

    # ------------------------------------------------------------------ sending

    def _carry(self, worker: int, command: InputCommand) -> None:
        user = command.origin if command.action == "clone" else command.handle
        if user not in self._claimed:
            self._claim(user, command.input)
        super()._carry(worker, command)
        if command.action == "clone":
            self._claimed.add(command.handle)

    def _claim(self, handle: int, name: str) -> None:
        """Make sure that no other process uses a handle, and that this one is known."""
        self._check_alive()
        me = FeederName(self._number, _process(), _own_actor())
        owner: str | None = self._ask("claim", handle, me)
        if owner is not None:
            raise TokenError(
                f"this handle of input {name!r} was pickled once and unpickled twice: {owner} uses it already. Give "
                "each process a clone() of its own"
            )
        self._claimed.add(handle)
        if self._beating is None:
            self.sender = _connect(self._address, self._number)
            self._beating = threading.Thread(target=self._beat, name=f"tidewheel-feed-{self._address.job}", daemon=True)
            self._beating.start()

    def flush(self) -> None:
        """Wait until the workers have all that was sent, once no handle is open; then take leave."""
        if not self._is_used:
            self._confirm()
            self._leave_if_unused()

    @property
    def _is_used(self) -> bool:
        return any(fed.open for fed in list(self._inputs.values()))

    def _confirm(self) -> None:
        """Wait until the workers have all that was sent; if they end meanwhile, the driver says whether all is well."""
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
                _LOGGER.debug("job %r has ended: %s", self._address.job, error)
                return
            waiting = [one for one, has_all in zip(waiting, answers, strict=True) if not has_all]

    def _leave_if_unused(self) -> None:
        with _feeds_lock:
            if self._is_used or self.has_left:
                return
            self._leaving.set()
        try:
            self._ask("leave", self._number, self._statistics())
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
        while not self._leaving.wait(_BEAT_S):
            try:
                failure: Exception | None = self._ask("beat", self._number, self._statistics())
                with self.lock:
                    if self.sender is not None and not self.has_left:
                        self.sender.check()
            except JobError as error:
                failure = error
            if failure is not None:
                self._end = self._end or failure
                self._leaving.set()
                self._disconnect()
            elif not self._is_used:  # all were handed on
                self.flush()

    def _statistics(self) -> dict[str, Any]:
        return {name: fed.statistics for name, fed in list(self._inputs.items())}


def _connect(address: FeedAddress, number: int) -> Sender:
    import ray

    node, sockets = ray.get_runtime_context().get_node_id(), address.sockets
    if sockets is None or not sockets.reachable_from(node):
        return RaySender(address.actors, address.job)
    return SocketSender(number, node, dict(enumerate(sockets.addresses)), sockets.keys, 0, by_value=True)


def _process() -> str:
    import ray

    return f"process {os.getpid()} on node {ray.util.get_node_ip_address()}"


def _own_actor() -> Any:
    import ray

    context = ray.get_runtime_context()
    return None if context.get_actor_id() is None else context.current_actor
