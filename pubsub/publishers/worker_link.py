"""The connection of a worker to its pubend, on an asyncio loop: messages come in, and that they are durable goes out.

While the log has no room nothing is read, so that the worker's own connection fills up and it holds back its sources.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.protocol.socket_frames import FrameReader
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.worker_frames import decode_frame, durable_answer, position_of, refusal_answer
from tidewheel.transport.socket_writer import SocketWriter

TOLD_BYTES: Final = 1024 * 1024
TOLD_EVERY_S: Final = 0.005
"""A worker is told what is durable when it is so much, or so often: its thread that listens holds up the other one."""


class WorkerLink:
    """The pubend's end. To be used on the loop only.

    Args:
        connection: to the worker, which has shown that it may connect; it does not block.
        loop: of all calls.
        pubend: what takes the messages.
        refused: called, once, with why nothing more of this worker is taken, if that is so.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        pubend: DurablePubend,
        refused: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._pubend = pubend
        self._refused = refused
        self._reader: FrameReader[EncodedMessage] = FrameReader(connection, decode_frame)
        self._writer = SocketWriter(connection)
        self._has_begun = False
        self._unsure: deque[tuple[int, int, int]] = deque()
        self._untold = self._untold_bytes = 0
        self._told_s = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._is_paused = True
        self._is_closed = False
        self._resume()

    def settle(self) -> None:
        """Tell the worker soon what has become durable, and go on reading if there is room; to be called after news."""
        if self._is_closed:
            return
        if self._pubend.error is not None:
            self._refuse(str(self._pubend.error))
            return
        while self._unsure and self._unsure[0][0] <= self._pubend.durable_tick:
            _, messages, size_bytes = self._unsure.popleft()
            self._untold += messages
            self._untold_bytes += size_bytes
        wait_s = self._told_s + TOLD_EVERY_S - self._loop.time()
        if self._untold_bytes >= TOLD_BYTES or (self._untold and wait_s <= 0):
            self._tell()
        elif self._untold and self._telling is None:
            self._telling = self._loop.call_later(wait_s, self._tell)
        if self._pubend.has_room:
            self._resume()

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if not self._is_closed:
            self._told_s = self._loop.time()
            durable, self._untold, self._untold_bytes = self._untold, 0, 0
            self._say(durable_answer(durable))

    def _resume(self) -> None:
        if self._is_paused and not self._is_closed:
            self._is_paused = False
            self._loop.add_reader(self._connection, self._readable)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._connection)

    def _readable(self) -> None:
        messages: list[EncodedMessage] = []
        try:
            messages.extend(self._reader.read())
            self._feed(messages)
        except (ProtocolError, LogError) as error:
            self._refuse(str(error))
            return
        if self._reader.is_at_end:
            self.close()
            return
        if not self._pubend.has_room:
            self._pause()
        self.settle()

    def _feed(self, messages: list[EncodedMessage]) -> None:
        if messages and not self._has_begun:
            self._has_begun = True
            self._pubend.begin(position_of(messages.pop(0)))
        if messages:
            before = self._pubend.message_bytes
            self._pubend.feed(messages)
            size_bytes = self._pubend.message_bytes - before
            self._unsure.append((self._pubend.written_tick, len(messages), size_bytes))

    def _refuse(self, reason: str) -> None:
        self.refuse(reason)
        self._refused(reason)

    def refuse(self, reason: str) -> None:
        """Tell the worker that nothing more is taken of it, and why, and let go of the connection."""
        if not self._is_closed:
            self._say(refusal_answer(reason))
            self.close()

    def _say(self, answer: bytes) -> None:
        """Write an answer; a worker that does not read them has more than enough of them waiting, and is not there."""
        self._writer.add([answer])
        with suppress(OSError):
            self._writer.write()

    @property
    def is_closed(self) -> bool:
        """Whether the worker has gone, or was let go of."""
        return self._is_closed

    def close(self) -> None:
        """Let go of the connection."""
        if not self._is_closed:
            self._is_closed = True
            if self._telling is not None:
                self._telling.cancel()
            self._loop.remove_reader(self._connection)
            self._connection.close()
