"""The parent of a relay, used on the relay's loop, and searched for again after each loss."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from tidewheel.host.retry import Retry
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_messages import Ack, Downstream, Upstream
from tidewheel.pubsub.messages.frames import ChildMessage, Join, Unsaid
from tidewheel.pubsub.subscribers.parents import HANGS_S, KeptParent, Parent, ParentGone, find_parent
from tidewheel.transport.children import SIGN_OF_LIFE_S

_LOG = logging.getLogger(__name__)

AT_ONCE_BYTES: Final = 512 * 1024
"""The approximate number of bytes to read before other connections have their turn."""

AWAY_S: Final = 5.0
"""The seconds for which a parent relay may be away; then another parent may replace it."""

AGAIN = Retry(first_pause_s=0.05, longest_pause_s=2.0, jitter=0.25)
"""The pauses between searches for a parent that was not found, or was lost immediately."""


class RelayParent(KeptParent):
    """A parent that the relay never gives up; call it only on the loop.

    Args:
        told: receives the parent's messages, in order; may raise ProtocolError.
        found: called when the parent has been found; returns the questions to ask it.
        registration: the registration that a parent relay must serve; None for a publisher.

    Attributes:
        is_dead: whether the parent has died for good and no parent has been found since; the search goes on.
    """

    def __init__(
        self,
        actor: Any,
        greeting: Join,
        node: str,
        told: Callable[[list[Downstream]], None],
        found: Callable[[], list[Upstream]],
        registration: str | None = None,
    ) -> None:
        def find(_: str) -> Parent:
            return find_parent(actor, greeting.name, node, AT_ONCE_BYTES, registration=registration, within_s=HANGS_S)

        super().__init__(greeting.name, None, find, greeting, self._ring_loop)
        self._where = greeting.name
        self._told = told
        self._found = found
        self._loop = asyncio.get_running_loop()
        self._unsaid = Unsaid()
        self._losses = 0
        self._found_s = 0.0
        self.is_dead = False
        self._loop.call_soon(self._look_now)
        self._loop.call_later(SIGN_OF_LIFE_S, self._look_for_life)

    def is_away(self, now_s: float) -> bool:
        """Tell whether the parent is away for good, or for longer than `AWAY_S`."""
        return self.parent is None and (self.is_dead or now_s - self._lost_s > AWAY_S)

    def _look_for_life(self) -> None:
        if not self._is_closed:
            self._readable()
            self._loop.call_later(SIGN_OF_LIFE_S, self._look_for_life)

    def _ring_loop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._look_now)

    def _look_now(self) -> None:
        if not self._is_closed:
            self.look(self._loop.time())

    def greet_again(self, greeting: Join) -> None:
        """Send a new greeting to this parent and to each later parent."""
        self.greeting = greeting
        self.say([greeting])

    def say(self, messages: Iterable[ChildMessage]) -> None:
        """Send messages; without a parent, keep only acknowledgements, since questions are repeated."""
        super().say(messages)
        if self.parent is None:
            for message in messages:
                if isinstance(message, Ack):
                    self._unsaid.add(message)
        self._watch()

    # ------------------------------------------------------------------ found and lost

    def _greet(self, parent: Parent) -> None:
        self.is_dead = False
        self._found_s = self._loop.time()
        self._loop.add_reader(parent.fileno(), self._readable)
        parent.say([self.greeting, *self._found(), *self._unsaid.take()])
        self._watch()

    def _lose(self, parent: Parent, now_s: float) -> None:
        self.drop()
        super()._lose(parent, now_s)
        if now_s - self._found_s > AGAIN.longest_pause_s:
            self._losses = 0
        self._pause(now_s)

    def _not_found(self, error: Exception, now_s: float) -> None:
        if isinstance(error, ParentGone):
            self.is_dead = error.is_for_good
            _LOG.debug("%s has no way to its parent: %s", self._where, error)
        else:
            _LOG.warning("%s is not served by its parent: %s", self._where, error)
        self._pause(now_s)

    def _pause(self, now_s: float) -> None:
        self._losses += 1
        self.look_at_s = now_s + (AGAIN.pause_s(self._losses) or 0.0)
        self._loop.call_at(self.look_at_s, self._look_now)

    # ------------------------------------------------------------------ the connection

    def _readable(self) -> None:
        try:
            told = self.read()
            if told:
                self._told(told)
        except ProtocolError as error:
            _LOG.warning("%s does not understand its parent: %s", self._where, error)
            self.drop()
        self._watch()
        self._look_now()

    def _watch(self) -> None:
        if self.parent is None or self.parent.fileno() < 0:
            return
        if self.parent.is_waiting:
            self._loop.add_writer(self.parent.fileno(), self._readable)
        else:
            self._loop.remove_writer(self.parent.fileno())

    def drop(self) -> None:
        if self.parent is not None and self.parent.fileno() >= 0:
            self._loop.remove_reader(self.parent.fileno())
            self._loop.remove_writer(self.parent.fileno())
            self.parent.close()

    def close(self) -> None:
        self.drop()
        super().close()
