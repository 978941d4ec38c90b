"""The parents of a relay or subscriber: actors that send it messages. A lost parent is searched for again.

A parent on the same node is reached by a socket, other parents by Ray calls. A search may take long, so each search has
a thread of its own, which calls ``ring`` when it ends.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, TypeAlias

from tidewheel.host.ray_cluster import left, lost, membership
from tidewheel.host.retry import Retry
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, where
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage
from tidewheel.transport.call_link import CallParent
from tidewheel.transport.frames import MOST_AT_ONCE
from tidewheel.transport.stream_link import ParentLink

_LOG = logging.getLogger(__name__)

FOUND_WITHIN_S: Final = 30.0
"""The seconds within which an actor must answer."""

RESTARTS_WITHIN_S: Final = 60.0
"""The seconds for which a parent with a log may be away."""

HANGS_S: Final = 5.0
"""The seconds without a sign of life after which a parent counts as hanging; for Ray calls, plus `WAIT_S`."""

_AGAIN_S = 0.2
_LOOK_S = 0.5
_CALLS = Retry(attempts=11, first_pause_s=0.5, factor=1.0)
"""The attempts at a call to a publisher that is unreachable for a moment."""

Parent: TypeAlias = ParentLink | CallParent
"""A link to a parent. One thread at a time uses it, sends a `Join` first, and closes it."""

Find: TypeAlias = Callable[[str], Parent]
"""Returns a link to a parent, and may wait. Its argument is the reason why the last link was lost, at first empty."""


class ParentGone(DeliveryError):  # noqa: N818  it names what happened
    """An actor that should become a parent does not answer."""

    def __init__(self, message: str, *, is_for_good: bool = False) -> None:
        super().__init__(message)
        self.is_for_good = is_for_good


class Refused(DeliveryError):  # noqa: N818  it names what happened
    """An actor that should become a parent has answered with an error that is not a DeliveryError."""


def called(method: Any, *arguments: Any, **named: Any) -> "Future[Any]":
    """Call a method of an actor; return the future of its answer."""
    answer: Future[Any] = method.remote(*arguments, **named).future()
    return answer


def answer_of(call: "Future[Any]", within_s: float = FOUND_WITHIN_S) -> Any:
    """Wait for an actor's answer and return it.

    Raises:
        ParentGone: the actor does not answer; without a cluster, it is gone for good.
        Refused: the answer is an error that is not a DeliveryError.
        DeliveryError: the actor's answer is this error.
    """
    from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

    try:
        deadline_s = time.monotonic() + within_s
        while not wait([call], min(_LOOK_S, max(0.0, deadline_s - time.monotonic()))).done:
            if time.monotonic() >= deadline_s or lost():
                break
        return call.result(0.0)
    except RayTaskError as error:
        if isinstance(error.cause, DeliveryError):
            raise error.cause from None
        reason = error.cause if isinstance(error.cause, TidewheelError) else error
        raise Refused(f"refuses: {reason}") from error
    except DeliveryError:
        raise
    except Exception as error:
        if gone := lost():
            raise ParentGone(gone, is_for_good=True) from None
        if isinstance(error, TimeoutError | CancelledError):
            raise ParentGone(f"it has not answered for {within_s:.3g} s") from error
        is_for_good = isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError)
        raise ParentGone(f"{type(error).__name__}: {error}", is_for_good=is_for_good) from error


def find_parent(
    actor: Any,
    child: str,
    node: str,
    most_at_once: int = MOST_AT_ONCE,
    *,
    registration: str | None = None,
    within_s: float = FOUND_WITHIN_S,
) -> Parent:
    """Return a link to the actor of a pubend or relay, once it answers.

    The link reads about ``most_at_once`` bytes from a socket at a time. A relay must serve the given ``registration``
    of the topic.

    Raises:
        ParentGone: the parent does not answer, or serves another registration.
        DeliveryError: the parent answers with an error.
    """
    life = () if registration is None else (registration,)
    offer = answer_of(called(actor.attach, child, *life), within_s)
    connection = None if offer is None else offer.connect(node)
    if connection is None:
        return CallParent(CODEC, partial(called, actor.talk, child), silent_s=HANGS_S)
    return WatchedParent(connection, most_at_once)


class WatchedParent(ParentLink):
    """The link to a parent on this node; it counts as lost if the parent's process is stopped."""

    def __init__(
        self, connection: socket.socket, most_at_once: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(CODEC, connection, most_at_once)
        self._clock = clock
        self._heard_s = clock()

    def read(self) -> list[Any]:
        """Return the received messages, as `ParentLink.read` does; call this regularly, even without messages."""
        before = self.read_bytes
        told = super().read()
        now_s = self._clock()
        if self.read_bytes > before:
            self._heard_s = now_s
        elif now_s - self._heard_s > HANGS_S:
            self._lose(f"it has shown no sign of life for {HANGS_S:g} s")
        return told


class CalledPublisher(CallParent):
    """The link to a publisher on another node; `close` also tells the publisher to forget the subscriber."""

    def __init__(self, publisher: Any, subscriber: str) -> None:
        super().__init__(CODEC, partial(called, publisher.talk, subscriber), again=_CALLS)
        self._joined = membership()
        self._detach = partial(publisher.detach.options(num_returns=0).remote, subscriber)

    def close(self) -> None:
        super().close()
        if not left(self._joined):
            with suppress(Exception):
                self._detach()


@dataclass(eq=False)
class KeptParent:
    """Keeps one parent: searches for it from the first `look` on, and again after a loss.

    One thread at a time uses it.

    Args:
        partition: the only partition that the parent serves; None for all.
        ring: called, on any thread, when `look` has something to do.
        within_s: how long a parent may be away, in seconds.

    Attributes:
        look_at_s: the time at which to call `look` at the latest; infinite if it need not be called.
    """

    topic: str
    partition: int | None
    find: Find
    greeting: ChildMessage
    ring: Callable[[], None]
    within_s: float = RESTARTS_WITHIN_S
    why_lost: str = ""
    parent: Parent | None = None
    is_needed: bool = True
    look_at_s: float = 0.0
    _lost_s: float = inf
    _search: "Future[Parent] | None" = None
    _is_closed: bool = False

    def say(self, messages: Iterable[ChildMessage]) -> None:
        """Send messages, if there is a parent; the caller repeats lost messages."""
        if self.parent is not None:
            self.parent.say(messages)

    def read(self) -> list[Any]:
        return [] if self.parent is None else self.parent.read()

    def look(self, now_s: float) -> bool:
        """Check for a loss, and search; return whether there is a new parent.

        Raises:
            PublisherLost: no parent can be found any more.
            DeliveryError: the actor has answered with this error.
        """
        if self.parent is not None:
            if not self.parent.is_lost:
                return False
            self._lose(self.parent, now_s)
        search = self._search
        if search is None:
            if self.look_at_s <= now_s:
                self._begin_search(now_s)
            return False
        if not search.done():
            return False
        self._search = None
        try:
            self.parent = search.result()
        except Exception as error:  # noqa: BLE001 - the next method raises it
            self._not_found(error, now_s)
            return False
        self._greet(self.parent)
        return bool(self.why_lost)

    def _lose(self, parent: Parent, now_s: float) -> None:
        _LOG.info("%s: the connection is lost: %s", where(self.topic, self.partition), parent.why_lost)
        self.why_lost = parent.why_lost
        parent.close()
        self.parent = None
        self._lost_s = now_s
        self.look_at_s = now_s if self.is_needed else inf

    def _begin_search(self, now_s: float) -> None:
        self._lost_s = min(self._lost_s, now_s)
        self.look_at_s = inf
        self._search = Future()
        arguments = [self._search, self.why_lost]
        threading.Thread(target=self._search_for, args=arguments, name="tidewheel-parent", daemon=True).start()

    def _search_for(self, search: "Future[Parent]", why_lost: str) -> None:
        try:
            parent = self.find(why_lost)
        except BaseException as error:  # noqa: BLE001 - `look` raises it
            search.set_exception(error)
        else:
            search.set_result(parent)
            if self._is_closed:  # this thread or `close` sees the other's change, or both do
                parent.close()
        self.ring()

    def _not_found(self, error: Exception, now_s: float) -> None:
        if not isinstance(error, ParentGone):
            if isinstance(error, Refused):
                raise PublisherLost.at(self.topic, self.partition, str(error)) from error
            if isinstance(error, DeliveryError):
                raise error
            raise PublisherLost.at(self.topic, self.partition, f"cannot be reached: {error}") from error
        if error.is_for_good or now_s - self._lost_s > self.within_s:
            raise PublisherLost.at(self.topic, self.partition, f"is dead: {error}") from error
        self.why_lost = str(error)
        self.look_at_s = now_s + _AGAIN_S

    def _greet(self, parent: Parent) -> None:
        parent.say([self.greeting])

    def end(self) -> None:
        self.is_needed = False
        if self.parent is not None:
            self.parent.close()
            self.parent = None

    def close(self) -> None:
        self._is_closed = True
        search = self._search
        if search is not None and search.done() and search.exception() is None:
            search.result().close()
        self.end()
