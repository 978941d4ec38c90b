"""A service on this machine that takes its time, for programs that have to wait for one: it knows prices."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


class PriceService:
    """Gives the price of an article over TCP, in a line, for a line with its number; then the connection is closed.

    Attributes:
        asked: how many calls there were.
        most_at_once: how many were under way at once, at most.
    """

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.asked = self.most_at_once = self._now = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a call; hang up on every tenth one."""
        self.asked += 1
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        hangs_up = self.asked % 10 == 0
        article = int(await reader.readline())
        await asyncio.sleep(self.delay_s)
        if not hangs_up:
            writer.write(b"%d\n" % price_of(article))
        self._now -= 1
        writer.close()
        await writer.wait_closed()

    @contextmanager
    def running(self) -> Iterator[int]:
        """Serve in a thread of its own, at the port that this yields."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self.answer, "127.0.0.1", 0))
        thread = Thread(target=loop.run_forever, name="price service")
        thread.start()
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(server.wait_closed())
            loop.close()


def price_of(article: int) -> int:
    """Return a price in cents."""
    return article * 7919 % 9973 + 1


async def ask(port: int, article: int) -> int:
    """Call the service.

    Raises:
        ConnectionError: it has hung up.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"%d\n" % article)
        price = await reader.readline()
    finally:
        writer.close()
    if not price:
        raise ConnectionError(f"no answer for article {article}")
    return int(price)
