"""A subscriber's search for a relay, for another one when that dies, and for the pubends without any relay."""

import logging
from collections.abc import Callable
from typing import Any

from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import ask_catalog
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.many_parents import find_pubends
from tidewheel.pubsub.subscribers.parents import Parent, find_parent

_LOG = logging.getLogger(__name__)

_MOST_RELAYS = 5
"""After so many dead relays, the search returns the pubends."""


class RelaySearch:
    """Finds a parent for all partitions of a topic. One thread may use it at a time.

    Args:
        info: the topic.
        reader: the id of the reader.
        node: the node of the cluster that this process is on.
        is_needed: tells whether a partition has not ended for the reader.
    """

    def __init__(self, info: TopicInfo, reader: str, node: str, is_needed: Callable[[int], bool]) -> None:
        self._info = info
        self._reader = reader
        self._node = node
        self._is_needed = is_needed
        self._relay: Any = None

    def begin(self) -> bool:
        """Ask for a first relay; return whether there is one."""
        self._relay = self._ask(None)
        return self._relay is not None

    def find(self, is_again: bool) -> Parent:
        """Return a connection to a relay, or without any relay to all pubends that are needed.

        Args:
            is_again: whether the last connection is lost.

        Raises:
            ParentGone: there is no relay, and a pubend does not answer.
            TidewheelError: the answer of a pubend.
        """
        if is_again:
            self._relay = self._ask(self._relay)
        for _ in range(_MOST_RELAYS):
            if self._relay is None:
                break
            try:
                return find_parent(self._relay, self._reader, self._node)
            except TidewheelError as error:
                _LOG.info("topic %r: a relay does not answer: %s", self._info.name, error)
                self._relay = self._ask(self._relay)
        self._relay = None
        return find_pubends(self._info.partitions, self._reader, self._node, self._is_needed)

    def _ask(self, dead: Any) -> Any:
        """Ask the catalog for a relay, other than one that is dead."""
        try:
            return ask_catalog("parent", self._info.name, self._info.registration, self._node, dead)
        except DeliveryError as error:
            _LOG.info("topic %r: no relay is known: %s", self._info.name, error)
            return None
