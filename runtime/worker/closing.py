"""The functions that operators of one worker have called when their dataflow ends there."""

import logging
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)


class Closing:
    """Callbacks for the end, however that comes: the last that was added goes first, each is called once.

    >>> closing = Closing()
    >>> closing.add("map", lambda: print("the end"))
    >>> closing.close()
    the end
    >>> closing.close()
    """

    def __init__(self) -> None:
        self._callbacks: list[tuple[str, Callable[[], object]]] = []

    def add(self, operator: str, callback: Callable[[], object]) -> None:
        """Have ``callback`` called in the end, on behalf of an operator."""
        self._callbacks.append((operator, callback))

    def close(self) -> None:
        """Call what was added. An exception is logged, and the rest goes on."""
        while self._callbacks:
            operator, callback = self._callbacks.pop()
            try:
                callback()
            except Exception:
                _LOGGER.exception("operator %r could not end in good order", operator)
