"""Several pubends as one parent, for who would have a relay and finds none."""

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.subscribers.parents import Parent, find_parent


class ManyParents:
    """Ways to pubends of a topic; lost when one of them is that is needed. A `Parent`.

    Args:
        parents: by the numbers of their pubends; they are closed with this.
        is_needed: tells whether there is more to come from a pubend.

    Attributes:
        why_lost: why one of them is not there any more; empty as long as all are.
    """

    is_waiting = False
    """It never has to be polled for writing: what it polls itself is more than one knows."""

    def __init__(self, parents: Mapping[int, Parent], is_needed: Callable[[int], bool]) -> None:
        self._parents = dict(parents)
        self._is_needed = is_needed
        self._poll = select.epoll()
        self._polled: dict[int, int] = {}
        self.why_lost = ""
        self._watch()

    def fileno(self) -> int:
        """Return what to poll for reading; then call `read`."""
        return self._poll.fileno()

    @property
    def is_lost(self) -> bool:
        """Whether one of them is lost; what came before from it has been returned."""
        return bool(self.why_lost)

    def read(self) -> list[Any]:
        """Return what has come from all of them, without waiting for it."""
        if self.is_lost:
            return []
        told = [message for parent in self._parents.values() for message in parent.read()]
        for number, parent in list(self._parents.items()):
            if parent.is_lost and self._is_needed(number):
                self.why_lost = f"pubend {number}: {parent.why_lost}"
            elif parent.is_lost:
                self._drop(number)
        self._watch()
        return told

    def _drop(self, number: int) -> None:
        """Let go of a pubend that has ended."""
        parent = self._parents.pop(number)
        if self._polled.pop(parent.fileno(), None) is not None:
            self._poll.unregister(parent.fileno())
        parent.close()

    def say(self, messages: Iterable[ChildMessage]) -> None:
        """Say something to the pubend that it is for; a `Join` to all of them."""
        for message in messages:
            for number, parent in self._parents.items():
                if isinstance(message, Join) or message.pubend == number:
                    parent.say([message])
        self._watch()

    def _watch(self) -> None:
        """Poll each for reading, and for writing while it has something to say that was not taken."""
        if self.is_lost:
            return
        for parent in self._parents.values():
            events = select.EPOLLIN | (select.EPOLLOUT if parent.is_waiting else 0)
            descriptor = parent.fileno()
            if descriptor not in self._polled:
                self._poll.register(descriptor, events)
            elif self._polled[descriptor] != events:
                self._poll.modify(descriptor, events)
            self._polled[descriptor] = events

    def close(self) -> None:
        """Let go of all of them."""
        self.why_lost = self.why_lost or "the link is closed"
        self._poll.close()
        for parent in self._parents.values():
            parent.close()


def find_pubends(actors: Sequence[Any], child: str, node: str, is_needed: Callable[[int], bool]) -> Parent:
    """Return a way to the pubends of a topic from which there is more to come.

    Args:
        actors: their handles, by number.
        child: by which name they will know the child.
        node: the node of the cluster that this process is on.
        is_needed: tells whether there is more to come from a pubend; one at least is needed.

    Raises:
        ParentGone: one of them does not answer.
        TidewheelError: one of them answers with this.
    """
    found: dict[int, Parent] = {}
    try:
        for number, actor in enumerate(actors):
            if is_needed(number):
                found[number] = find_parent(actor, child, node)
    except BaseException:
        for parent in found.values():
            parent.close()
        raise
    return ManyParents(found, is_needed)
