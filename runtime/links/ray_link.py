"""A link over Ray actor calls."""

import threading
from collections import deque
from collections.abc import Sequence
from pickle import PicklingError
from typing import Any

from tidewheel.runtime.errors import JobError
from tidewheel.runtime.links.link import Receiver, Sender
from tidewheel.runtime.worker.envelope import Envelope

_CHECK_EVERY = 64
_MOST_OUTSTANDING = 4096
_ANSWER_TIMEOUT_S = 60.0


class RaySender(Sender):
    """Sends each envelope as one call of the peer's actor, and watches that the calls succeed.

    Ray runs a call at most once and does not retry it. One that failed may or may not have run, so it ends the job.

    Args:
        peers: the actors.
        job: the dataflow, one of those that they host.
    """

    def __init__(self, peers: Sequence[Any], job: str) -> None:
        self._peers = peers
        self._job = job
        self._outstanding: deque[tuple[int, Any]] = deque()

    def send(self, peer: int, envelope: Envelope) -> None:
        """Call the peer's actor; look at earlier calls every now and then."""
        self._outstanding.append((peer, self._call(peer, envelope)))
        if len(self._outstanding) % _CHECK_EVERY == 0:
            self._settle(0.0, 1)
        if len(self._outstanding) > _MOST_OUTSTANDING:
            self._settle(_ANSWER_TIMEOUT_S, len(self._outstanding))

    def _call(self, peer: int, envelope: Envelope) -> Any:
        import ray

        try:
            return self._peers[peer].receive.remote(self._job, envelope)
        except (TypeError, AttributeError, PicklingError, ray.exceptions.RayError):
            raise
        except Exception as error:  # what a user's object raises when it is pickled
            raise PicklingError(f"{type(error).__name__}: {error}") from error

    def check(self) -> None:
        """Look at all calls that have ended."""
        if self._outstanding:
            self._settle(0.0, 1)

    def close(self) -> None:
        """Forget the calls that have not ended."""
        self._outstanding.clear()

    def _settle(self, timeout_s: float, count: int) -> None:
        import ray

        calls = [call for _, call in self._outstanding]
        done, _ = ray.wait(calls, num_returns=count if timeout_s else len(calls), timeout=timeout_s)
        ended = set(done)
        try:
            ray.get(done)
        except ray.exceptions.RayError as error:
            raise self._lost(ended) from error
        self._outstanding = deque(entry for entry in self._outstanding if entry[1] not in ended)
        if timeout_s and len(done) < count:
            raise JobError(f"a peer has not taken {count - len(done)} envelopes for {timeout_s:g} s")

    def _lost(self, ended: set[Any]) -> JobError:
        """Find the peer that one of the calls that have ended did not reach."""
        import ray

        for peer, call in self._outstanding:
            if call in ended:
                try:
                    ray.get(call)
                except ray.exceptions.RayTaskError as error:
                    return JobError(f"worker {peer} could not take what was sent to it: {error}", worker=peer)
                except ray.exceptions.RayError as error:
                    return JobError(f"worker {peer} cannot be reached, it has probably died: {error}", worker=peer)
        raise AssertionError("a call that failed is among those that have ended")


class CallReceiver(Receiver):
    """Takes what is delivered by calls from other threads, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._woken = threading.Event()

    def receive(self, timeout_s: float) -> list[Envelope]:
        """Return what was delivered."""
        if self._woken.is_set() or (timeout_s > 0 and self._woken.wait(timeout_s)):
            self._woken.clear()
        return self._take_delivered()

    def wake(self) -> None:
        """Have `receive` return."""
        self._woken.set()

    def close(self) -> None:
        """Nothing is held open."""
