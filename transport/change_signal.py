"""Waiting for a condition in an asyncio actor."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """Checks the conditions of waiting calls after each change, and wakes only the calls whose condition holds.

    An actor with many waiting calls notifies the signal for each message. Waking all calls would cost more than the
    message.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._looks_soon = False

    def notify(self) -> None:
        """Check all conditions soon. Further notifications until then cause no further check."""
        if self._waiting and not self._looks_soon:
            self._looks_soon = True
            next(iter(self._waiting)).get_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        for woken, condition in list(self._waiting.items()):
            if _is_worth_waking(condition) and not woken.done():
                woken.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, or for ``timeout_s``; return its last value."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    woken = asyncio.get_running_loop().create_future()
                    self._waiting[woken] = condition
                    try:
                        await woken
                    finally:
                        del self._waiting[woken]
        except TimeoutError:
            return condition()
        return True


def _is_worth_waking(condition: Callable[[], bool]) -> bool:
    """Tell whether a condition holds or raises; the waiting call raises the error again."""
    try:
        return condition()
    except Exception:  # noqa: BLE001 - the waiting call raises it again
        return True
