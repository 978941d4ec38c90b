"""Waiting, in an asyncio actor, for something to become so."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """Checks what others wait for, whenever something that it depends on has changed.

    A notification wakes only those whose condition holds. An actor with calls that wait for its end notifies for each
    message, and to wake these calls for nothing would cost more than the message.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._looks_soon = False

    def notify(self) -> None:
        """Have all conditions checked soon, once for all notifications until then."""
        if self._waiting and not self._looks_soon:
            self._looks_soon = True
            next(iter(self._waiting)).get_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        for woken, condition in list(self._waiting.items()):
            if _is_worth_waking(condition) and not woken.done():
                woken.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, for ``timeout_s`` seconds at most; return what it is in the end."""
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
    """Tell whether a condition holds, or raises an error, which is for who waits for it."""
    try:
        return condition()
    except Exception:  # noqa: BLE001 - it is raised again where it is waited for
        return True
