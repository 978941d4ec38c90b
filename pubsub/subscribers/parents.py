"""The ways of a relay or subend to its parent: the actor of a pubend, or of a relay.

Over a socket where the actor is on the same node, otherwise by calls. Actors are Ray's handles; this module only wants
of them that a call can be made and its answer awaited.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Final, Protocol

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.frames import ChildMessage
from tidewheel.transport.call_link import CallParent
from tidewheel.transport.frames import MOST_AT_ONCE
from tidewheel.transport.stream_link import ParentLink
from tidewheel.transport.tickets import SocketOffer

FOUND_WITHIN_S: Final = 30.0
"""So long an actor may take to answer."""


class Parent(Protocol):
    """A way to a parent; to be used by one thread at a time, and closed."""

    why_lost: str
    """Why the parent is not there any more; empty as long as it is."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing more will come; what came before has been returned."""

    @property
    def is_waiting(self) -> bool:
        """Whether to poll for writing as well."""

    def fileno(self) -> int:
        """Return what to poll for reading, before each call of `read`."""

    def read(self) -> list[Any]:
        """Return what has come, without waiting for it, and say what waits."""

    def say(self, messages: Iterable[ChildMessage]) -> None:
        """Say something, a `Join` first, without waiting for the parent to take it."""

    def close(self) -> None:
        """Let go of it."""


class ParentGone(DeliveryError):  # noqa: N818  it names what happened
    """An actor that was to be a parent does not answer.

    Args:
        message: why.
        is_for_good: whether it will never do so again.
    """

    def __init__(self, message: str, *, is_for_good: bool = False) -> None:
        super().__init__(message)
        self.is_for_good = is_for_good


def find_parent(actor: Any, child: str, node: str) -> Parent:
    """Return a way to an actor, for a thread, which waits for the actor to answer. The child has to say `Join` then.

    Args:
        actor: the handle of a pubend's or relay's actor.
        child: by which name it will know the child.
        node: the node of the cluster that this process is on.

    Raises:
        ParentGone: it does not answer.
        TidewheelError: it answers with this.
    """
    try:
        return _way(actor, child, node, _called(actor.attach, child).result(FOUND_WITHIN_S))
    except Exception as error:
        raise _why(error) from error


async def await_parent(actor: Any, child: str, node: str, most_at_once: int = MOST_AT_ONCE) -> Parent:
    """Do as `find_parent` does, on an asyncio loop, which goes on meanwhile.

    About ``most_at_once`` bytes are read from a socket at a time.
    """
    try:
        async with asyncio.timeout(FOUND_WITHIN_S):
            offer = await asyncio.wrap_future(_called(actor.attach, child))
        way = asyncio.ensure_future(asyncio.to_thread(_way, actor, child, node, offer, most_at_once))
        try:
            return await asyncio.shield(way)
        except asyncio.CancelledError:
            way.add_done_callback(_close)
            raise
    except Exception as error:
        raise _why(error) from error


def _close(way: "asyncio.Future[Parent]") -> None:
    """Let go of a parent that nobody waits for any more."""
    if not way.cancelled() and way.exception() is None:
        way.result().close()


def _way(actor: Any, child: str, node: str, offer: SocketOffer | None, most_at_once: int = MOST_AT_ONCE) -> Parent:
    connection = None if offer is None else offer.connect(node)
    if connection is None:
        return CallParent(CODEC, called(actor, child))
    return ParentLink(CODEC, connection, most_at_once)


def called(actor: Any, child: str) -> "Callable[..., Future[list[Any]]]":
    """Return what calls an actor as a child of it, and returns what will have the answer."""
    return partial(_called, actor.talk, child)


def _called(method: Any, *arguments: Any) -> "Future[Any]":
    """Call a method of an actor; return what will have its answer."""
    answer: Future[Any] = method.remote(*arguments).future()
    return answer


def _why(error: Exception) -> Exception:
    """Return what to raise when an actor has not answered as it should."""
    from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        if isinstance(cause, TidewheelError):
            return cause
        return DeliveryError(f"it cannot be connected to: {error}")
    if isinstance(error, TimeoutError | CancelledError):
        return ParentGone(f"it has not answered for {FOUND_WITHIN_S:g} s")
    if isinstance(error, TidewheelError):
        return error
    is_for_good = isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError)
    return ParentGone(f"{type(error).__name__}: {error}", is_for_good=is_for_good)
