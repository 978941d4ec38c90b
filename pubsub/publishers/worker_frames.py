"""The frames between a worker and its publisher.

=============  ====================================================  ===============================================
from           what                                                  as
=============  ====================================================  ===============================================
the worker     where it begins to send, once, first                  a frame: a `WorkerPosition`, pickled; no payload
the worker     messages, in order                                    a frame each: head and payload of the message
the pubend     how many more of them are durable                     1 byte, and 8 bytes: the number
the pubend     that it takes nothing more, and why                   1 byte, and 8 bytes: the length of the text; text
=============  ====================================================  ===============================================
"""

import struct
from collections.abc import Iterable
from typing import Any, Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.journal import WorkerPosition
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.payload import pickled
from tidewheel.transport.socket_frames import Payload, frame_of, unpickled

DURABLE: Final = 1
REFUSED: Final = 2

_ANSWER = struct.Struct("<BQ")
_LONGEST_TEXT = 64 * 1024


def position_frame(position: WorkerPosition) -> list[Any]:
    """Return the parts of the first frame."""
    return frame_of(pickled((position.lower, position.sent)), ())


def message_frame(message: EncodedMessage) -> list[Any]:
    """Return the parts of the frame of a message."""
    return frame_of(message.head, (message.payload,))


def decode_frame(head: Payload, payload: Payload) -> EncodedMessage:
    """Return what a frame has; of the first one, `position_of` says what it is."""
    return EncodedMessage(bytes(head), payload)


def position_of(first: EncodedMessage) -> WorkerPosition:
    """Return what the first frame says.

    Raises:
        ProtocolError: it is none.
    """
    match unpickled(first.head):
        case (list(lower), dict(sent)):
            return WorkerPosition(lower, sent)
        case fields:
            raise ProtocolError(f"a worker has to say first where it begins, and not {fields!r:.100}")


def durable_answer(count: int) -> bytes:
    """Return what tells a worker that so many more of its messages are durable."""
    return _ANSWER.pack(DURABLE, count)


def refusal_answer(reason: str) -> bytes:
    """Return what tells a worker that nothing more is taken."""
    text = reason.encode()[:_LONGEST_TEXT]
    return _ANSWER.pack(REFUSED, len(text)) + text


class Answers:
    """Takes answers from bytes, however they come.

    >>> answers = Answers()
    >>> both = durable_answer(3) + refusal_answer("full")
    >>> answers.take(both[:5]), answers.take(both[5:])
    ([], [3, 'full'])
    """

    def __init__(self) -> None:
        self._buffer = b""

    def take(self, content: bytes) -> Iterable[int | str]:
        """Return the answers that are complete: how many more messages are durable, or why nothing more is taken.

        Raises:
            ProtocolError: it is no answer.
        """
        self._buffer += content
        found: list[int | str] = []
        while len(self._buffer) >= _ANSWER.size:
            kind, number = _ANSWER.unpack_from(self._buffer)
            if kind == DURABLE:
                found.append(number)
                self._buffer = self._buffer[_ANSWER.size :]
                continue
            if kind != REFUSED or number > _LONGEST_TEXT:
                raise ProtocolError(f"what came is no answer of a pubend but {self._buffer[:20]!r}")
            end = _ANSWER.size + number
            if len(self._buffer) < end:
                break
            found.append(self._buffer[_ANSWER.size : end].decode(errors="replace"))
            self._buffer = self._buffer[end:]
        return found
