"""A relay's way to one of its parents, on an asyncio loop: found, used, and found again whenever it is lost."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from tidewheel.progress import ProtocolError, TidewheelError
from tidewheel.pubsub.exactly_once.frames import Join, Unsaid
from tidewheel.pubsub.exactly_once.messages import Ack, Downstream, Upstream
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone, await_parent

_LOG = logging.getLogger(__name__)

AT_ONCE_BYTES: Final = 512 * 1024
"""About so many bytes are read before others have their turn."""

LEAST_PAUSE_S: Final = 0.05
MOST_PAUSE_S: Final = 2.0
"""So long it is not looked for again after it was lost at once, time and again."""


class RelayParent:
    """Keeps a way to one parent. To be used on the loop only.

    Args:
        actor: the handle of the parent's actor.
        child: by which name it knows this child.
        node: the node of the cluster that this process is on.
        told: is given what the parent tells, in order; may raise ProtocolError.
        found: called whenever the parent has been found; returns what to ask it.

    Attributes:
        is_dead: whether the parent was found dead for good, and not been found since. It is looked for all the same.
    """

    def __init__(
        self,
        actor: Any,
        child: str,
        node: str,
        told: Callable[[list[Downstream]], None],
        found: Callable[[], list[Upstream]],
    ) -> None:
        self._actor = actor
        self._child = child
        self._node = node
        self._told = told
        self._found = found
        self._loop = asyncio.get_running_loop()
        self._parent: Parent | None = None
        self._lost = asyncio.Event()
        self._writes = False
        self._unsaid = Unsaid()
        self._pause_s = LEAST_PAUSE_S
        self.is_dead = False
        self._keeping = self._loop.create_task(self._keep())

    @property
    def is_connected(self) -> bool:
        """Whether there is a way now."""
        return self._parent is not None

    def say(self, messages: Iterable[Upstream]) -> None:
        """Say something. While there is no way only acknowledgements are kept: what is asked is asked again then."""
        if self._parent is not None:
            self._parent.say(messages)
            self._watch()
            return
        for message in messages:
            if isinstance(message, Ack):
                self._unsaid.add(message)

    async def _keep(self) -> None:
        while True:
            try:
                parent = await await_parent(self._actor, self._child, self._node, AT_ONCE_BYTES)
            except ParentGone as error:
                self.is_dead = error.is_for_good
                _LOG.debug("%s has no way to its parent: %s", self._child, error)
            except TidewheelError as error:
                _LOG.warning("%s is not served by its parent: %s", self._child, error)
            else:
                found_s = self._loop.time()
                await self._use(parent)
                if self._loop.time() - found_s > MOST_PAUSE_S:
                    self._pause_s = LEAST_PAUSE_S
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(MOST_PAUSE_S, 2 * self._pause_s)

    async def _use(self, parent: Parent) -> None:
        """Use a way until it is lost."""
        self.is_dead = False
        self._lost.clear()
        self._parent = parent
        self._loop.add_reader(parent.fileno(), self._readable)
        try:
            parent.say([Join(self._child, None), *self._found(), *self._unsaid.take()])
            self._watch()
            await self._lost.wait()
            _LOG.debug("%s has lost its parent: %s", self._child, parent.why_lost)
        finally:
            self._parent = None
            self._loop.remove_reader(parent.fileno())
            self._loop.remove_writer(parent.fileno())
            self._writes = False
            parent.close()

    def _readable(self) -> None:
        parent = self._parent
        if parent is None:
            return
        told = parent.read()
        try:
            if told:
                self._told(told)
        except ProtocolError as error:
            _LOG.warning("%s does not understand its parent: %s", self._child, error)
            self.drop()
        self._watch()
        if parent.is_lost:
            self.drop()

    def _watch(self) -> None:
        """Have the loop look whether the parent takes more, while there is something that it has not taken."""
        parent = self._parent
        if parent is None or parent.is_waiting == self._writes:
            return
        self._writes = parent.is_waiting
        if self._writes:
            self._loop.add_writer(parent.fileno(), self._readable)
        else:
            self._loop.remove_writer(parent.fileno())

    def drop(self) -> None:
        """Let go of the parent, and look for it again after a while."""
        self._lost.set()

    async def close(self) -> None:
        """Let go of the parent for good."""
        self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping
