"""Reading a topic on a thread, for tasks of asyncio that wait for what comes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from tidewheel.pubsub.subscribers.topic_reader import Fetched


class ReadingThread:
    """Has at most one read under way, which goes on though the task is cancelled that waits for it.

    What it has read is kept until somebody takes it; so nothing is lost, and only its taker changes anything.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._reading: Future[list[Fetched]] | None = None

    @property
    def is_reading(self) -> bool:
        """Whether a read is under way, or what it has found was not taken yet."""
        return self._reading is not None

    async def read(self, read: Callable[[], list[Fetched]]) -> Callable[[], list[Fetched]] | None:
        """Begin to read, unless that is under way, and wait for the end of it.

        Returns a function that returns what was found, or raises; None if another task has got that.
        """
        if self._reading is None:
            try:
                self._reading = self._executor.submit(read)
            except RuntimeError:  # it has been closed
                return None
        reading = self._reading
        await _done(reading)
        return self._take() if self._reading is reading else None

    def wait(self, timeout_s: float) -> Callable[[], list[Fetched]] | None:
        """Wait for the read that is under way; None if it takes longer than so many seconds."""
        assert self._reading is not None
        return self._take() if wait([self._reading], timeout_s).done else None

    def close(self) -> None:
        """Let the thread end once the read that is under way has."""
        self._executor.shutdown(wait=False)

    def _take(self) -> Callable[[], list[Fetched]]:
        reading, self._reading = self._reading, None
        assert reading is not None
        return reading.result


async def _done(reading: "Future[list[Fetched]]") -> None:
    """Wait until a thread has done with something; who is cancelled meanwhile does not disturb it."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop has been closed, so nobody waits
            loop.call_soon_threadsafe(done.set)

    reading.add_done_callback(tell)
    await done.wait()
