"""Waiting, in an asyncio actor, for something to become so."""

import asyncio
from collections.abc import Callable


class ChangeSignal:
    """Wakes those who wait for a condition whenever something that it depends on has changed."""

    def __init__(self) -> None:
        self._changed: asyncio.Event | None = None

    def notify(self) -> None:
        """Wake all who wait, so that they look again."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``condition()`` is true, for ``timeout_s`` seconds at most; return what it is in the end."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    if self._changed is None:
                        self._changed = asyncio.Event()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True
