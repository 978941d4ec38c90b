"""Waiting, in an asyncio actor, for something to become so."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """Tests the conditions of those who wait, soon after something that they depend on has changed.

    Whoever waits runs only once its condition is true, as waking many coroutines at each change takes long.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._will_look = False

    def notify(self) -> None:
        """Have all conditions tested soon."""
        if self._waiting and not self._will_look:
            self._will_look = True
            next(iter(self._waiting)).get_loop().call_soon(self._look)

    def _look(self) -> None:
        self._will_look = False
        for waiting, condition in tuple(self._waiting.items()):
            try:
                if not waiting.done() and condition():
                    waiting.set_result(None)
            except Exception as error:  # noqa: BLE001 - for the one who waits
                waiting.set_exception(error)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, for ``timeout_s`` seconds at most; return what it is in the end."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    waiting = asyncio.get_running_loop().create_future()
                    self._waiting[waiting] = condition
                    try:
                        await waiting
                    finally:
                        del self._waiting[waiting]
        except TimeoutError:
            return condition()
        return True
