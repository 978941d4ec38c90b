"""A link over Ray actor calls."""

import pickle
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from tidewheel.transport.link import Codec, Item, PeerLost, Receiver, Sender

_CHECK_EVERY = 64
_MOST_OUTSTANDING = 4096
_ANSWER_TIMEOUT_S = 60.0
_FETCH_WAITS_S = 2.0


class RaySender(Sender[Item]):
    """Sends each item by a call of the peer's actor, and checks that the calls succeed.

    Ray runs a call at most once. A call that fails may have run or not, so a failure ends the job.
    """

    def __init__(self, peers: Sequence[Any], job: str, codec: Codec[Item]) -> None:
        self._codec = codec
        self._peers = peers
        self._job = job
        self._outstanding: dict[Any, int] = {}

    def send(self, peer: int, item: Item) -> int:
        frames = self._codec.encode(item)
        # One argument for all frames: of several, Ray would store each large one as a separate object.
        self._outstanding[self._peers[peer].receive.remote(self._job, _picklable(frames))] = peer
        if len(self._outstanding) % _CHECK_EVERY == 0:
            self._settle(0.0)
        if len(self._outstanding) > _MOST_OUTSTANDING:
            self._settle(_ANSWER_TIMEOUT_S)
        return sum(map(len, frames))

    def check(self) -> None:
        if self._outstanding:
            self._settle(0.0)

    def close(self, linger_s: float = 0.0) -> None:
        self._outstanding.clear()

    def _settle(self, timeout_s: float) -> None:
        import ray

        done, late = ray.wait(list(self._outstanding), num_returns=len(self._outstanding), timeout=timeout_s)
        try:
            ray.get(done)
        except ray.exceptions.RayError as error:
            raise self._lost(done) from error
        for call in done:
            del self._outstanding[call]
        if timeout_s and late:
            raise PeerLost(f"a peer has not taken {len(late)} envelopes for {timeout_s:g} s")

    def _lost(self, ended: Sequence[Any]) -> PeerLost:
        import ray

        for call in ended:
            peer = self._outstanding[call]
            try:
                ray.get(call)
            except ray.exceptions.RayTaskError as error:
                return PeerLost(f"worker {peer} could not take what was sent to it: {error}", worker=peer)
            except ray.exceptions.RayError as error:
                return PeerLost(f"worker {peer} cannot be reached, it has probably died: {error}", worker=peer)
        raise AssertionError("a call that failed is among those that have ended")


class Mail(Sender[Item]):
    """Keeps items for peers that are not actors, until they fetch them; see `FetchReceiver`."""

    def __init__(self, codec: Codec[Item]) -> None:
        self._codec = codec
        self._kept: dict[int, list[Sequence[Any]]] = {}
        self._changed = threading.Condition()

    def send(self, peer: int, item: Item) -> int:
        frames = self._codec.encode(item)
        with self._changed:
            self._kept.setdefault(peer, []).append(_picklable(frames))
            self._changed.notify_all()
        return sum(map(len, frames))

    def fetch(self, peer: int, timeout_s: float) -> list[Sequence[Any]]:
        """Return the frames of each item for a peer; wait for an item at most ``timeout_s`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: peer in self._kept, timeout_s)
            return self._kept.pop(peer, [])

    def check(self) -> None:
        """Do nothing: it is unknown whether a peer still fetches."""

    def close(self, linger_s: float = 0.0) -> None: ...


class CallReceiver(Receiver[Item]):
    """Receives only the items that `deliver` adds from calls on other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._woken = threading.Event()

    def receive(self, timeout_s: float) -> list[Item]:
        if self._woken.is_set() or (timeout_s > 0 and self._woken.wait(timeout_s)):
            self._woken.clear()
        return self._take_delivered()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None: ...


class FetchReceiver(CallReceiver[Item]):
    """Fetches items for a member that is not an actor: one call is pending at the actor of each peer."""

    def __init__(self, peers: Sequence[Any], job: str, member: int, codec: Codec[Item]) -> None:
        super().__init__()
        self._codec = codec
        self._fetch = [partial(actor.fetch.remote, job, member, _FETCH_WAITS_S) for actor in peers]
        self._idle = list(range(len(peers)))
        self._answers: deque[tuple[int, Future[list[Sequence[Any]]]]] = deque()

    def receive(self, timeout_s: float) -> list[Item]:
        """Return the fetched items.

        Raises:
            PeerLost: a peer has died, or no longer runs the dataflow.
        """
        while self._idle:
            peer = self._idle.pop()
            self._fetch[peer]().future().add_done_callback(partial(self._take, peer))
        found = super().receive(timeout_s)
        for _ in range(len(self._answers)):
            peer, answer = self._answers.popleft()
            self._idle.append(peer)
            try:
                found += [self._codec.decode(head, buffers) for head, *buffers in answer.result()]
            except Exception as error:
                raise PeerLost(
                    f"worker {peer} cannot be reached: {getattr(error, 'cause', error)}", worker=peer
                ) from error
        return found

    def _take(self, peer: int, answer: "Future[list[Sequence[Any]]]") -> None:
        self._answers.append((peer, answer))
        self.wake()


def _picklable(frames: Sequence[Any]) -> list[Any]:
    head, *buffers = frames
    return [head, *map(pickle.PickleBuffer, buffers)]
