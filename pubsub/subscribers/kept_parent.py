"""A subend's way to its parent, for a thread that polls: when the parent is lost another one is looked for.

That takes calls which may wait for long, as for an actor that is being started again, so a thread of their own makes
them, and rings when they are done.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final

from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.frames import ChildMessage
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone

_LOG = logging.getLogger(__name__)

RESTARTS_WITHIN_S: Final = 60.0
"""For so long a parent may be away, in seconds."""

_AGAIN_S = 0.2


class KeptParent:
    """One parent at a time. To be used by one thread at a time, and closed.

    Args:
        where: what it is the parent for, for messages.
        find: returns a way to a parent, and may wait; it is told whether there was one before. Raises `ParentGone`.
        greeting: what a new parent is told first.
        ring: called by any thread when `look` has something to do.

    Attributes:
        is_needed: whether to look for another one when it is lost.
    """

    def __init__(
        self, where: str, find: Callable[[bool], Parent], greeting: ChildMessage, ring: Callable[[], None]
    ) -> None:
        self._where = where
        self._find = find
        self._greeting = greeting
        self._ring = ring
        self._parent: Parent | None = None
        self._search: Future[Parent] | None = None
        self._search_at_s: float | None = None
        self._lost_s = 0.0
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_needed = True

    def connect(self) -> None:
        """Find the first parent, and wait for one that is just being started again.

        Raises:
            DeliveryError: there is none.
        """
        deadline_s = time.monotonic() + RESTARTS_WITHIN_S
        is_again = False
        while self._parent is None:
            try:
                self._greet(self._find(is_again))
            except ParentGone as error:
                if error.is_for_good or time.monotonic() > deadline_s:
                    raise self._lost(error) from error
                is_again = True
                time.sleep(_AGAIN_S)

    def _greet(self, parent: Parent) -> None:
        self._parent = parent
        parent.say([self._greeting])

    @property
    def fileno(self) -> int | None:
        """What to poll for reading; None while there is nothing to poll."""
        return None if self._parent is None else self._parent.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether to poll for writing as well."""
        return self._parent is not None and self._parent.is_waiting

    @property
    def look_at_s(self) -> float | None:
        """When to call `look`, if nothing happens before; None if there is no need."""
        return self._search_at_s

    def say(self, messages: Iterable[ChildMessage]) -> None:
        """Say something, if there is somebody: what gets lost is said again."""
        if self._parent is not None:
            self._parent.say(messages)

    def read(self) -> list[Any]:
        """Return what has come."""
        return [] if self._parent is None else self._parent.read()

    def look(self, now_s: float) -> bool:
        """Look whether the parent is lost, and for another one; tell whether there is a new one.

        Raises:
            PublisherLost: there will be none.
            DeliveryError: what another one has answered.
        """
        if self._parent is not None:
            if not self._parent.is_lost:
                return False
            _LOG.info("%s: the connection is lost: %s", self._where, self._parent.why_lost)
            self._parent.close()
            self._parent = None
            self._lost_s = now_s
            self._search_at_s = now_s if self.is_needed else None
        if self._search is not None:
            return self._search.done() and self._take_found(self._search, now_s)
        if self._search_at_s is not None and self._search_at_s <= now_s:
            self._begin_search()
        return False

    def _begin_search(self) -> None:
        self._search_at_s = None
        self._search = Future()
        threading.Thread(target=self._search_for, args=[self._search], name="tidewheel-parent", daemon=True).start()

    def _search_for(self, search: "Future[Parent]") -> None:
        """Look for a parent, on a thread; one that is found too late is closed."""
        try:
            parent = self._find(True)
        except BaseException as error:  # noqa: BLE001 - whoever looks raises it
            search.set_exception(error)
        else:
            with self._lock:
                search.set_result(parent)
                if self._is_closed:
                    parent.close()
        self._ring()

    def _take_found(self, search: "Future[Parent]", now_s: float) -> bool:
        self._search = None
        try:
            self._greet(search.result())
        except ParentGone as error:
            if error.is_for_good or now_s - self._lost_s > RESTARTS_WITHIN_S:
                raise self._lost(error) from error
            self._search_at_s = now_s + _AGAIN_S
            return False
        except DeliveryError:
            raise
        except Exception as error:
            raise PublisherLost(f"{self._where}: the publisher cannot be reached: {error}") from error
        return True

    def _lost(self, error: ParentGone) -> PublisherLost:
        return PublisherLost(f"{self._where}: the publisher is dead: {error}")

    def close(self) -> None:
        """Let go of the parent; a search that is under way is not waited for."""
        with self._lock:
            self._is_closed = True
            found = self._search is not None and self._search.done() and self._search.exception() is None
        if self._parent is not None:
            self._parent.close()
        elif found and self._search is not None:
            self._search.result().close()
